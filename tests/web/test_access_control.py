"""Who may ask: without a token, with a wrong one, from another host or origin, or out of the lake, nobody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from partita.errors import StatusError
from partita.lake import Lake
from partita.web.access_control import (
    CONTENT_SECURITY_POLICY,
    CSRF_HEADER,
    AccessMiddleware,
    AccessPolicy,
    is_loopback,
    origin_from_url,
)
from partita.web.app import make_app
from partita.web.server import ServerAddress, serve_lake, site_url
from partita.web.site import Site
from tests.web.conftest import TOKEN

PATHS = (
    "/",
    "/asset?asset=daily_sales",
    "/api/overview",
    "/api/openapi.json",
    "/static/partita.css",
    "/static/states.css",
    "/nothing",
)


@pytest.mark.parametrize("path", PATHS)
def test_without_a_token_nothing_is_answered(stranger: TestClient, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 401
    assert "daily_sales" not in answer.text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("given", ["", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "tökén"])
def test_with_a_wrong_token_nothing_is_answered(stranger: TestClient, path: str, given: str) -> None:
    assert stranger.get(path, headers={b"Authorization": f"Bearer {given}".encode()}).status_code == 401
    joined = "&" if "?" in path else "?"
    answer = stranger.get(f"{path}{joined}token={given}")
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_the_token_becomes_a_cookie_and_leaves_the_url(stranger: TestClient, site: Site) -> None:
    answer = stranger.get(f"/asset?asset=daily_sales&token={TOKEN}&state=stale")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/asset?asset=daily_sales&state=stale"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"partita_8765={site.access_policy.cookie_value}; ")
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {"httponly", "samesite=strict", "path=/"}
    assert TOKEN not in cookie
    assert stranger.get(answer.headers["location"]).status_code == 200


def test_a_redirect_never_leaves_the_server(stranger: TestClient) -> None:
    for path in ("//elsewhere.example/", "/\\elsewhere.example"):
        answer = stranger.get(f"http://127.0.0.1:8765{path}?token={TOKEN}")
        assert answer.headers["location"].startswith("/")
        assert not answer.headers["location"].startswith(("//", "/\\"))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1:1", "127.0.0.1.evil.example:8765", ""]
)
def test_another_host_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"])
def test_this_machine_has_several_names(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://[abc]:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_another_origin_is_refused(client: TestClient, headers: dict[str, str]) -> None:
    refused = client.get("/api/overview", headers=headers)
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "Refused")
    assert refused.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY


def test_our_own_origin_is_not(client: TestClient) -> None:
    own = {"Origin": "http://127.0.0.1:8765", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    assert client.get("/api/overview", headers=own).status_code == 200
    behind_tls = {**own, "Origin": "https://127.0.0.1:8765"}
    assert client.get("/api/overview", headers=behind_tls).status_code == 200


def test_how_bearer_is_spelled_does_not_matter(stranger: TestClient) -> None:
    assert stranger.get("/api/version", headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200
    assert stranger.get("/api/version", headers={"Authorization": f"Basic {TOKEN}"}).status_code == 401


def test_a_change_by_cookie_needs_the_csrf_token(stranger: TestClient, site: Site) -> None:
    stranger.get(f"/?token={TOKEN}")
    assert stranger.get("/api/version").status_code == 200
    assert stranger.post("/api/refresh").status_code == 403
    assert stranger.post("/api/refresh", headers={CSRF_HEADER: "wrong"}).status_code == 403
    assert stranger.post("/api/refresh", headers={CSRF_HEADER: site.access_policy.csrf_token}).status_code == 200
    foreign = {CSRF_HEADER: site.access_policy.csrf_token, "Origin": "http://evil.example"}
    assert stranger.post("/api/refresh", headers=foreign).status_code == 403


def test_a_change_with_the_token_itself_needs_no_other(client: TestClient) -> None:
    assert client.post("/api/refresh").status_code == 200
    assert client.get("/api/refresh").status_code == 405


def test_a_page_has_the_csrf_token_and_not_the_token(client: TestClient, site: Site) -> None:
    page = client.get("/").text
    assert site.access_policy.csrf_token in page
    assert TOKEN not in page
    assert site.access_policy.cookie_value not in page


@pytest.mark.parametrize("path", [*PATHS, "/api/asset?asset=nothing", "/table?name=.."])
def test_every_answer_has_the_headers(client: TestClient, stranger: TestClient, path: str) -> None:
    for answer in (client.get(path), stranger.get(path)):
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        kept = "no-cache" if path.startswith("/static") and answer.status_code == 200 else "no-store"
        assert answer.headers["cache-control"] == kept


def test_the_policy_allows_our_own_files_and_nothing_inline() -> None:
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in CONTENT_SECURITY_POLICY


@pytest.mark.parametrize(
    "name", ["../../etc", "..", "/etc/passwd", "a/../../b", "_partita.default", "a..b", "", "a\x00b"]
)
@pytest.mark.parametrize("path", ["/table", "/table/facts", "/api/table"])
def test_a_table_out_of_the_lake_is_refused(client: TestClient, path: str, name: str) -> None:
    answer = client.get(path, params={"name": name})
    assert answer.status_code == 400
    assert "not a table name" in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
    ],
)
def test_a_file_out_of_the_static_folder_is_refused(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "make_app" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    ("host", "given", "known"),
    [
        ("127.0.0.1", "localhost:80", True),
        ("localhost", "127.0.0.1:80", True),
        ("10.0.0.5", "10.0.0.5:80", True),
        ("10.0.0.5", "localhost:80", False),
        ("lake.example", "LAKE.example:80", True),
        ("lake.example", "other.example:80", False),
        ("0.0.0.0", "10.1.2.3:80", True),  # noqa: S104
        ("0.0.0.0", "[fe80::1]:80", True),  # noqa: S104
        ("0.0.0.0", "rebound.example:80", False),  # noqa: S104
        ("::", "localhost:80", True),
        ("127.0.0.1", "127.0.0.1", True),
    ],
)
def test_host_headers_of_this_server_are_accepted(host: str, given: str, *, known: bool) -> None:
    assert AccessPolicy(TOKEN, host, 80).is_own_host(given) is known


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_addresses(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "example.com", ""])  # noqa: S104
def test_other_hosts_need_a_token(lake: Lake, host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(StatusError, match="--token"):
        serve_lake(lake, ServerAddress(host, 0), on_ready=print)


def test_a_short_token_is_refused(lake: Lake) -> None:
    with pytest.raises(StatusError, match="16 characters"):
        serve_lake(lake, ServerAddress(token="short"), on_ready=print)  # noqa: S106 - that is the test


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "http://127.0.0.1:1/?token=t"),
        ("::1", "http://[::1]:1/?token=t"),
        ("0.0.0.0", "http://127.0.0.1:1/?token=t"),  # noqa: S104 - shown as what reaches it from here
    ],
)
def test_the_address_to_open(host: str, expected: str) -> None:
    assert site_url(host, 1, "t") == expected


def test_a_token_may_have_any_signs() -> None:
    assert site_url("127.0.0.1", 1, "a b&c=d#/") == "http://127.0.0.1:1/?token=a%20b%26c%3Dd%23%2F"


@pytest.fixture
def proxy_client(site: Site) -> Iterator[TestClient]:
    """Who asks by a proxy that speaks TLS."""
    keeper = AccessPolicy(TOKEN, port=8765, public_origin=origin_from_url("https://Lake.Example.com:443/"))
    client = TestClient(
        AccessMiddleware(make_app(site).app, keeper), base_url="https://lake.example.com", follow_redirects=False
    )
    yield client
    client.close()


@pytest.mark.parametrize("host", ["lake.example.com", "127.0.0.1:8765"])
def test_a_proxy_passes_on_its_host_or_sends_ours(proxy_client: TestClient, site: Site, host: str) -> None:
    entered = proxy_client.get(f"/?token={TOKEN}", headers={"Host": host})
    assert "secure" in {part.strip().lower() for part in entered.headers["set-cookie"].split(";")}
    own = {
        "Host": host, "Origin": "https://lake.example.com", "Sec-Fetch-Site": "same-origin",
        "Cookie": f"partita_8765={site.access_policy.cookie_value}",
    }  # fmt: skip
    assert proxy_client.get("/api/version", headers=own).status_code == 200
    assert proxy_client.post("/api/refresh", headers=own).status_code == 403
    assert (
        proxy_client.post("/api/refresh", headers={**own, CSRF_HEADER: site.access_policy.csrf_token}).status_code
        == 200
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "lake.example.com:8765"},
        {"Host": "lake.example.com.evil.example"},
        {"Origin": "http://lake.example.com.evil.example"},
        {"Host": "127.0.0.1:8765", "Origin": "http://lake.example.com"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://lake.example.com"},
        {"Origin": "https://lake.example.com", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_a_proxy_opens_the_gate_to_nobody_else(proxy_client: TestClient, headers: dict[str, str]) -> None:
    answer = proxy_client.get("/api/version", headers={"Authorization": f"Bearer {TOKEN}", **headers})
    assert answer.status_code == 403


def test_without_a_public_url_its_host_is_another(client: TestClient) -> None:
    assert client.get("/", headers={"Host": "lake.example.com"}).status_code == 403


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ("https://lake.example.com", "https://lake.example.com"),
        ("https://LAKE.example.com:8443/", "https://lake.example.com:8443"),
        ("http://[::1]:80", "http://[::1]"),
    ],
)
def test_the_origin_of_a_public_url(given: str, origin: str) -> None:
    assert origin_from_url(given) == origin
    assert site_url("127.0.0.1", 1, "t", origin) == f"{origin}/?token=t"


@pytest.mark.parametrize(
    "given",
    ["", "lake.example.com", "ftp://lake", "https://", "https://a/b", "https://a?b", "https://u:p@a", "https://a:x"],
)
def test_an_invalid_public_url_is_refused(lake: Lake, given: str) -> None:
    with pytest.raises(StatusError, match="not a public URL"):
        serve_lake(lake, ServerAddress(token=TOKEN, public_url=given), on_ready=print)


def test_a_public_url_needs_a_token(lake: Lake) -> None:
    with pytest.raises(StatusError, match="--token"):
        serve_lake(lake, ServerAddress(public_url="https://lake.example.com"), on_ready=print)
