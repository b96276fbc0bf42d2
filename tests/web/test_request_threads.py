"""Every answer has a time limit, and a slow question holds up no other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from starlette.testclient import TestClient

import partita as pt
from partita.errors import StatusError
from partita.web import request_threads
from partita.web.access_control import AccessPolicy
from partita.web.app import make_app
from partita.web.site import Site
from partita.web.table_facts import TableFactsCache
from tests.web.conftest import BASE_URL, TOKEN


class SlowTables(TableFactsCache):
    """Tables of which those called `slow` take until `over` is set."""

    def __init__(self, lake: pt.Lake, over: Event) -> None:
        super().__init__(lake)
        self.over = over

    def facts(self, name: str) -> object:  # type: ignore[override] # never gets there
        """Wait for the end of the test."""
        if name == "slow":
            self.over.wait(60)
            raise StatusError("the slow table was answered after all")
        return super().facts(name)


@pytest.fixture
def over() -> Iterator[Event]:
    """Set at the end of a test: what still waits ends then."""
    event = Event()
    yield event
    event.set()


@pytest.fixture
def slow(site: Site, over: Event) -> Iterator[TestClient]:
    """A client of a site with a slow table, whose answers may take half a second."""
    own = replace(site, tables=SlowTables(site.lake, over), request_timeout_seconds=0.5)
    client = TestClient(make_app(own), base_url=BASE_URL, headers={"Authorization": f"Bearer {TOKEN}"})
    yield client
    client.close()


@pytest.mark.slow(reason="waits for a server")
def test_an_answer_that_takes_too_long_is_given_up(slow: TestClient) -> None:
    answer = slow.get("/api/table?name=slow")
    assert answer.status_code == 504
    assert "longer than 0.5 s" in answer.json()["error"]["message"]
    assert "restrict it to fewer partitions" in answer.json()["error"]["message"]
    assert slow.get("/table/facts?name=slow").status_code == 504


@pytest.mark.slow(reason="questions that wait")
def test_slow_questions_do_not_hold_up_others(site: Site, over: Event) -> None:
    own = replace(site, tables=SlowTables(site.lake, over), request_timeout_seconds=60.0)
    client = TestClient(make_app(own), base_url=BASE_URL, headers={"Authorization": f"Bearer {TOKEN}"})
    with ThreadPoolExecutor(request_threads.MAX_CONCURRENT_REQUESTS + 1) as pool:
        asked = [
            pool.submit(client.get, "/api/table?name=slow") for _ in range(request_threads.MAX_CONCURRENT_REQUESTS + 1)
        ]
        for path in ("/", "/api/overview", "/api/plan", "/api/why?asset=daily_sales&key=odd", "/static/partita.css"):
            assert client.get(path).status_code in {200, 400}
        assert not any(future.done() for future in asked)
        over.set()
        assert {future.result().status_code for future in asked} == {400}
    client.close()


@pytest.mark.slow(reason="waits for a server")
def test_a_question_of_a_kind_that_is_busy_is_refused(slow: TestClient) -> None:
    with ThreadPoolExecutor(request_threads.MAX_CONCURRENT_REQUESTS) as pool:
        asked = [pool.submit(slow.get, "/api/table?name=slow") for _ in range(request_threads.MAX_CONCURRENT_REQUESTS)]
        assert {future.result().status_code for future in asked} == {504}
    busy = slow.get("/api/table?name=slow")
    assert busy.status_code == 503
    assert int(busy.headers["retry-after"]) >= 1


@pytest.mark.slow(reason="waits for a server")
def test_threads_are_released_after_their_responses(slow: TestClient, over: Event) -> None:
    assert slow.get("/api/table?name=slow").status_code == 504
    over.set()
    assert "after all" in slow.get("/api/table?name=slow").json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/", "GET, HEAD"),
        ("DELETE", "/api/run", "GET, HEAD, POST"),
        ("PUT", "/run", "GET, HEAD, POST"),
        ("GET", "/api/refresh", "POST"),
        ("POST", "/api/openapi.json", "GET, HEAD"),
        ("DELETE", "/static/partita.css", "GET, HEAD"),
    ],
)
def test_a_method_that_a_path_does_not_have(client: TestClient, method: str, path: str, allowed: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed


@pytest.mark.slow(reason="a table for each broken file")
@pytest.mark.parametrize("content", [b"", b"5", b"{]", b"[" * 100_000, b'{"uri": 5}', b'{"uri": "\\ud800"}', b"\xff\0"])
def test_a_broken_file_of_an_adopted_table(tmp_path: Path, content: bytes) -> None:
    lake = pt.Lake(str(tmp_path))
    (tmp_path / "_partita/adopted").mkdir(parents=True)
    (tmp_path / "_partita/adopted/odd.json").write_bytes(content)
    site = Site.of(lake, AccessPolicy(TOKEN, port=8765))
    client = TestClient(make_app(site), base_url=BASE_URL, headers={"Authorization": f"Bearer {TOKEN}"})
    for path in ("/table?name=odd", "/table/facts?name=odd", "/api/table?name=odd", "/api/overview"):
        answer = client.get(path)
        assert answer.status_code in {200, 400}
        assert answer.status_code == 200 or "adopted/odd.json" in answer.text
    client.close()
