"""The pages as HTML: what they show, and that hostile text stays text."""

from __future__ import annotations

import re
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import QueryParams
from starlette.testclient import TestClient

import partita as pt
import partita.web
from partita.algebra.key import PartitionKey
from partita.lake import Lake
from partita.status.states import MARKS
from partita.web.access_control import AccessPolicy
from partita.web.app import make_app
from partita.web.plan_preview import read_plan_query
from partita.web.site import Site
from tests.web.conftest import BASE_URL, TOKEN
from tests.web.lakes import ERROR_TEXT, HOSTILE_ASSET, HOSTILE_TEXT

HOSTILE_KEY = str(PartitionKey.of(date=date(2026, 7, 22), region=HOSTILE_TEXT))
PAGES: list[tuple[str, dict[str, Any]]] = [
    ("/", {}),
    ("/", {"q": HOSTILE_TEXT}),
    ("/", {"part": "board"}),
    ("/asof", {}),
    ("/asset", {"asset": "daily_sales"}),
    ("/asset", {"asset": HOSTILE_ASSET}),
    ("/asset", {"asset": "daily_sales", "where": "region <> '<script>'", "state": ["failed", "stale"]}),
    ("/asset/partitions", {"asset": "daily_sales", "state": "failed"}),
    ("/asset/summary", {"asset": "daily_sales"}),
    ("/partition", {"asset": "daily_sales", "key": HOSTILE_KEY}),
    ("/partition/why", {"asset": "daily_sales", "key": HOSTILE_KEY}),
    ("/partition/history", {"asset": "daily_sales", "key": HOSTILE_KEY}),
    ("/partition/files", {"asset": "daily_sales", "key": "date=d:2026-06-06,region=s:dXM"}),
    ("/partition", {"asset": HOSTILE_ASSET, "key": ""}),
    ("/partition/history", {"asset": HOSTILE_ASSET, "key": ""}),
    ("/table", {"name": "web.sales"}),
    ("/table/facts", {"name": "web.sales"}),
    ("/table/facts", {"name": "web.orders"}),
]
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("/asset", {"asset": HOSTILE_TEXT}),
    ("/partition", {"asset": "daily_sales", "key": HOSTILE_TEXT}),
    ("/table", {"name": HOSTILE_TEXT}),
    ("/asset", {"asset": "daily_sales", "where": HOSTILE_TEXT}),
    ("/asset", {"asset": "daily_sales", "state": HOSTILE_TEXT}),
    ("/nothing", {}),
]


class Page(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize(("path", "query"), PAGES + REFUSED)
def test_no_page_has_what_the_policy_forbids_or_what_values_say(
    client: TestClient, path: str, query: dict[str, Any]
) -> None:
    answer = client.get(path, params=query)
    assert answer.status_code == (200 if (path, query) in PAGES else 404 if answer.status_code == 404 else 400)
    page = Page(answer.text)
    assert not [attrs for tag, attrs in page.tags if tag == "script" and "src" not in attrs]
    assert not [tag for tag, _ in page.tags if tag in {"img", "b", "style", "iframe"}]
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on") or name == "style"]
    for _, attrs in page.tags:
        for name in ("src", "href", "action", "hx-get", "hx-post"):
            target = attrs.get(name)
            assert target is None or target.startswith(("/", "#", "?")), f"{name}={target!r}"
            assert target is None or not target.startswith("//")


def test_hostile_values_are_shown(client: TestClient) -> None:
    shown = client.get("/partition", params={"asset": "daily_sales", "key": HOSTILE_KEY}).text
    assert "&lt;img src=x onerror=" in shown
    history = client.get("/partition/history", params={"asset": HOSTILE_ASSET, "key": ""}).text
    assert "&lt;/pre&gt;&lt;/table&gt;&lt;b&gt;bold&lt;/b&gt;" in history
    assert ERROR_TEXT not in history
    assert HOSTILE_TEXT not in history


def test_the_overview_has_each_asset_and_its_upstreams(client: TestClient) -> None:
    page = Page(client.get("/").text)
    linked = {attrs["href"] for tag, attrs in page.tags if tag == "a"}
    assert {"/asset?asset=daily_sales", "/asset?asset=unregistered", "/table?name=web.sales"} <= linked
    assert "/asset?asset=daily_sales&mark=failed" in linked
    assert len([1 for tag, attrs in page.tags if tag == "path" and attrs.get("class") == "edge"]) == 3


def test_banner_row_filters_and_list_count_the_same(client: TestClient) -> None:
    row = next(one for one in client.get("/api/overview").json()["assets"] if one["asset"] == "daily_sales")
    counts = {name: n for name, n in row["marks"].items() if n}
    assert {"stale": 30, "retry-failed": 3, "missing": 34, "failed": 4, "running": 2}.items() <= counts.items()
    banner = client.get("/", params={"part": "board"}).text
    filters = client.get("/asset", params={"asset": "daily_sales"}).text
    for name, count in counts.items():
        word = next(mark.label for mark in MARKS if mark.name == name)
        if name not in {"current", "unexpected"}:
            assert f'mark={name}">{count} {word}</a>' in banner
        assert f'value="{name}"> {word} <span class="quiet">{count}</span>' in filters
        found = client.get("/api/partitions", params={"asset": "daily_sales", "mark": name, "limit": 1000}).json()
        assert (found["total"], {one["mark"] for one in found["rows"]}) == (count, {name})


def test_a_box_of_the_graph_names_its_states_without_colour(client: TestClient) -> None:
    page = client.get("/").text
    assert re.search(r'aria-label="daily_sales: [^"]*30 stale, 3 last attempt failed, 34 missing, 4 failed', page)
    assert re.search(r'class="node-glyph"[^>]*>✗</text>', page)


@pytest.mark.slow(reason="several status queries")
def test_an_error_is_shown_by_its_message_line(lake: Lake) -> None:
    long = "\n".join(f'  File "step_{n}.py", line {n}, in step' for n in range(100))
    lake.register(pt.asset(name="broken")(print))
    lake.record("broken", outcome="failed", error=f"Traceback (most recent call last):\n{long}\nKeyError: 'price'\n")
    client = TestClient(make_app(Site.of(lake, AccessPolicy(TOKEN, port=8765))), base_url=BASE_URL)
    for path in ("/asset/partitions", "/partition/why"):
        page = client.get(
            path, params={"asset": "broken", "key": ""}, headers={"Authorization": f"Bearer {TOKEN}"}
        ).text
        assert "KeyError: &#39;price&#39;" in page
        assert "Traceback" not in page
    client.close()


def test_the_form_of_a_plan_asks_again_for_what_it_shows(client: TestClient) -> None:
    page = Page(client.get("/plan", params={"select": ["my asset", "+it's"]}).text)
    inputs = [attrs for tag, attrs in page.tags if tag == "input"]
    assert {i["value"] for i in inputs if "checked" in i} == {"missing", "stale", "failed"}
    (words,) = (i["value"] for i in inputs if i["name"] == "words")
    assert read_plan_query(QueryParams({"words": words})).select == ("my asset", "+it's")
    assert read_plan_query(QueryParams({"words": "a  it's tag:b"})).select == ("a", "it's", "tag:b")


@pytest.mark.slow(reason="several status queries")
def test_tenant_and_workspace_are_those_of_the_start(lake: Lake) -> None:
    other = Lake(lake.uri, workspace="other")
    lake.register(pt.asset(name="ours")(print))
    other.register(pt.asset(name="theirs")(print))
    client = TestClient(make_app(Site.of(lake, AccessPolicy(TOKEN, port=8765))), base_url=BASE_URL)
    client.headers["Authorization"] = f"Bearer {TOKEN}"
    elsewhere = {"workspace": "other", "tenant": "other"}
    assert client.get("/api/version", params=elsewhere).json()["workspace"] == "default"
    assert [one["asset"] for one in client.get("/api/overview", params=elsewhere).json()["assets"]] == ["ours"]
    for path in ("/asset", "/api/asset", "/api/heatmap", "/api/partitions", "/api/why", "/api/history", "/api/plan"):
        answer = client.get(path, params={**elsewhere, "asset": "theirs", "key": ""})
        assert answer.status_code == 404, path
    client.close()


def test_a_view_comes_back_from_the_url(client: TestClient) -> None:
    query = {"asset": "daily_sales", "mark": ["stale"], "where": "region = 'eu'", "view": "1,2,3,4"}
    page = Page(client.get("/asset", params=query).text)
    inputs = [attrs for tag, attrs in page.tags if tag == "input"]
    assert {i["value"] for i in inputs if "checked" in i} == {"stale"}
    assert {i["name"]: i["value"] for i in inputs if i["name"] in {"where", "view"}} == {
        "where": "region = 'eu'",
        "view": "1,2,3,4",
    }


@pytest.mark.slow(reason="several status queries")
def test_an_empty_lake_shows_the_first_steps(lake: Lake) -> None:
    client = TestClient(make_app(Site.of(lake, AccessPolicy(TOKEN, port=8765))), base_url=BASE_URL)
    page = client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).text
    client.close()
    assert "No asset is registered or recorded in default/default" in page


def test_an_internal_error_reveals_only_its_type(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError(HOSTILE_TEXT)

    monkeypatch.setattr(type(site.lake), "history", broken)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    client = TestClient(make_app(site), base_url=BASE_URL, headers=headers, raise_server_exceptions=False)
    for path in ("/partition/history", "/api/history"):
        answer = client.get(path, params={"asset": "report", "key": ""})
        assert answer.status_code == 500
        assert "owned" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
    client.close()


def test_files_name_no_other_host() -> None:
    folder = Path(partita.web.__file__).parent
    ours = [path for path in folder.rglob("*") if path.suffix in {".html", ".js", ".css", ".svg"}]
    assert len(ours) > 15
    for path in ours:
        if path.parent.name != "vendor":
            found = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", path.read_text(encoding="utf-8")))
            assert found <= {"http://www.w3.org"}, path
