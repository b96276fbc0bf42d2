"""Runs of the server: who may start one, one at a time, what is told of it, and how it is cancelled.

What runs here stands in for Spark, so that a test says when each thing happens; test_run_pages has the real one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from threading import Event, Thread, Timer
from typing import Any

import pytest
from starlette.testclient import TestClient

from partita.assets.progress import PartitionFailure, RunListener, RunProgress, RunResult
from partita.assets.run_plan import RunPlan
from partita.errors import PlanOutdated
from partita.lake import Lake
from partita.web.access_control import CSRF_HEADER, AccessPolicy
from partita.web.app import make_app
from partita.web.openapi import SCHEMAS
from partita.web.plan_preview import PlanPreviewQuery
from partita.web.server_runs import MAX_BUFFERED_EVENTS, MAX_SHOWN_FAILURES, ServerRun, ServerRunner
from partita.web.site import Site
from tests.web.conftest import BASE_URL, TOKEN
from tests.web.json_schema import schema_violations
from tests.web.lakes import ERROR_TEXT, HOSTILE_ASSET, HOSTILE_TEXT


class Stage:
    """What the runs of a test do: it makes each partition of the plan, and fails or waits where it is told to."""

    def __init__(self) -> None:
        self.go = Event()
        self.go.set()
        self.error: Exception | None = None
        self.failing: str | None = None
        self.runs = 0

    def run(self, plan: RunPlan, listener: RunListener, stop: Event) -> RunResult:
        """Stands in for `lake.run`."""
        self.runs += 1
        if self.error is not None:
            raise self.error
        progress = RunProgress("01RUN", len(plan), listener)
        progress.notify_listener("begun", assets=list(plan.assets))
        for batch in plan.batches:
            while not self.go.wait(0.01) and not stop.is_set():
                pass
            if stop.is_set():
                break
            said: dict[str, Any] = {"asset": batch.asset, "partitions": len(batch.keys), "keys": list(batch.keys[:10])}
            progress.notify_listener("started", **said, attempt=1)
            if self.failing == batch.asset:
                progress.failed += len(batch.keys)
                progress.failures += [PartitionFailure(batch.asset, key, ERROR_TEXT) for key in batch.keys]
                progress.notify_listener("failed", **said, error=ERROR_TEXT)
            else:
                progress.succeeded += len(batch.keys)
                progress.notify_listener("succeeded", **said, rows=5, version=1)
        result = progress.run_result()
        progress.notify_listener("ended", ok=result.ok, left=result.left)
        return result


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def running(sample_lake: Lake, site: Site, stage: Stage) -> Iterator[Site]:
    """A site that may run."""
    found = Site.of(sample_lake, AccessPolicy(TOKEN, port=8765), ServerRunner(stage.run))
    found.snapshots._latest = site.snapshots.latest
    yield found
    found.runs.close()
    found.runs.join()


@pytest.fixture
def runner(running: Site) -> Iterator[TestClient]:
    client = TestClient(make_app(running), base_url=BASE_URL, headers={"Authorization": f"Bearer {TOKEN}"})
    yield client
    client.close()


def begin(client: TestClient, **query: str) -> Any:
    number = client.get("/api/plan", params=query or {"select": "raw_orders"}).json()["plan"]
    return client.post("/api/run", params={"plan": number})


def over(client: TestClient) -> dict[str, Any]:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        found = dict(client.get("/api/run").json())
        if found["state"] in {"ended", "refused"}:
            return found
        time.sleep(0.02)
    raise AssertionError("the run doesn't end")


def events(client: TestClient, **headers: str) -> list[tuple[str | None, Any]]:
    """The id and data of every event of a stream, which ends by itself."""
    answer = client.get("/api/run/events", headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in answer.text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if lines:
            found.append((lines.get("id"), json.loads(lines["data"])))
    return found


# --- who may


def test_without_allow_run_nothing_runs(client: TestClient) -> None:
    number = client.get("/api/plan", params={"select": "raw_orders"}).json()["plan"]
    for answer in (client.post("/api/run", params={"plan": number}), client.post("/api/run/cancel")):
        assert answer.status_code == 403
        assert "partita ui --allow-run" in answer.json()["error"]["message"]
    assert client.post("/run", params={"plan": number}).status_code == 403
    assert client.get("/api/run").status_code == 404
    assert client.get("/api/run/events").status_code == 404
    assert client.get("/api/version").json()["may_run"] is False
    assert "No plan has been run" in client.get("/run").text


@pytest.mark.slow(reason="runs in a server")
@pytest.mark.parametrize("path", ["/api/run", "/run", "/api/run/cancel"])
def test_by_cookie_a_change_needs_its_token(running: Site, stage: Stage, path: str) -> None:
    number, _ = _make_plan(running)
    client = TestClient(
        make_app(running), base_url=BASE_URL, cookies={"partita_8765": running.access_policy.cookie_value}
    )
    assert client.post(path, params={"plan": number}).status_code == 403
    assert client.post(path, params={"plan": number}, headers={CSRF_HEADER: "wrong"}).status_code == 403
    assert client.get(path, params={"plan": number}).status_code in {200, 404, 405}, "and never by GET"
    assert stage.runs == 0
    assert (
        client.post(
            "/run", params={"plan": number}, headers={CSRF_HEADER: running.access_policy.csrf_token}
        ).status_code
        == 204
    )
    running.runs.join()
    assert stage.runs == 1


def _make_plan(site: Site) -> tuple[str, RunPlan]:
    return site.plans.make_plan(PlanPreviewQuery(("raw_orders",)))


@pytest.mark.slow(reason="runs in a server")
def test_a_request_without_a_token_starts_no_run(running: Site, stage: Stage) -> None:
    client = TestClient(make_app(running), base_url=BASE_URL)
    assert client.post("/api/run", params={"plan": _make_plan(running)[0]}).status_code == 401
    assert client.get("/api/run/events").status_code == 401
    assert stage.runs == 0


# --- a run


@pytest.mark.slow(reason="runs in a server")
def test_a_run_streams_its_events_from_start_to_end(runner: TestClient) -> None:
    begun = begin(runner).json()
    assert list(schema_violations(begun, SCHEMAS["Run"], SCHEMAS)) == []
    ended = over(runner)
    assert list(schema_violations(ended, SCHEMAS["Run"], SCHEMAS)) == []
    assert (ended["state"], ended["ok"], ended["total"], ended["succeeded"]) == ("ended", True, 5, 5)
    told = events(runner)
    assert [event["event"] for _, event in told[:-1]] == [
        "starting",
        "begun",
        "started",
        "succeeded",
        "ended",
        "result",
    ]
    assert [number for number, _ in told] == [*(f"1-{n}" for n in range(6)), None]
    assert told[-1][1] == ended
    assert told[3][1]["text"] == "raw_orders: 5 partitions made, 5 rows"
    assert told[5][1]["text"].startswith("5 partitions made, in ")
    for _, event in told[:-1]:
        assert list(schema_violations(event, SCHEMAS["Event"], SCHEMAS)) == []


@pytest.mark.slow(reason="runs in a server")
def test_a_reconnected_stream_continues_after_its_last_event(runner: TestClient) -> None:
    begin(runner)
    over(runner)
    assert [number for number, _ in events(runner, **{"Last-Event-ID": "1-3"})] == ["1-4", "1-5", None]
    for other in ("7-3", "nonsense", "1-"):
        assert len(events(runner, **{"Last-Event-ID": other})) == 7, "that was another run"
    assert len(events(runner, **{"Last-Event-ID": "1-99"})) == 1


@pytest.mark.slow(reason="runs in a server")
def test_events_are_streamed_as_they_happen(runner: TestClient, stage: Stage) -> None:
    stage.go.clear()
    begin(runner)
    heard: list[Any] = []
    listener = Thread(target=lambda: heard.extend(events(runner)))
    listener.start()
    time.sleep(0.5)
    assert runner.get("/api/run").json()["state"] == "running"
    assert listener.is_alive()
    stage.go.set()
    listener.join(20)
    assert heard[-1][1]["state"] == "ended"


@pytest.mark.slow(reason="runs in a server")
def test_a_line_that_is_quiet_is_kept_open(runner: TestClient, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partita.web.run_stream.KEEP_ALIVE_SECONDS", 0.1)
    stage.go.clear()
    begin(runner)
    opener = Timer(1.0, stage.go.set)
    opener.start()
    assert ": at work\n\n" in runner.get("/api/run/events").text
    opener.join()


@pytest.mark.slow(reason="runs in a server")
def test_one_run_at_a_time(runner: TestClient, stage: Stage) -> None:
    stage.go.clear()
    begin(runner)
    second = begin(runner)
    assert second.status_code == 409
    assert "another run is in progress" in second.json()["error"]["message"]
    stage.go.set()
    assert over(runner)["number"] == 1
    assert begin(runner).status_code == 200
    assert over(runner)["number"] == 2
    assert {number for number, _ in events(runner)} >= {"2-0"}


@pytest.mark.slow(reason="runs in a server")
def test_a_cancelled_run_ends_with_an_event(runner: TestClient, stage: Stage) -> None:
    stage.go.clear()
    begin(runner)
    assert runner.post("/api/run/cancel").json()["state"] in {"stopping", "ended"}
    assert runner.post("/api/run/cancel").status_code == 200, "twice is the same"
    ended = over(runner)
    assert (ended["ok"], ended["left"]) == (False, 5)
    assert [event["event"] for _, event in events(runner)[:-1]].count("stopping") == 1
    assert "The run was cancelled." in runner.get("/run").text


@pytest.mark.slow(reason="several status queries")
def test_the_end_of_the_server_cancels_the_run(running: Site, stage: Stage) -> None:
    stage.go.clear()
    with TestClient(make_app(running), base_url=BASE_URL, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        begin(client)
        at_work = running.runs.latest
        assert at_work is not None
        assert not at_work.end_event.is_set()
    running.runs.join()
    assert at_work.stop_requested.is_set()
    assert running.runs.is_running is False
    again = TestClient(make_app(running), base_url=BASE_URL, headers={"Authorization": f"Bearer {TOKEN}"})
    assert begin(again).status_code == 409


@pytest.mark.slow(reason="several status queries")
def test_failures_are_shown_as_text(runner: TestClient, stage: Stage) -> None:
    stage.failing = "daily_sales"
    begin(runner, select="+daily_sales", need="missing")
    ended = over(runner)
    assert ended["failed"] > 0
    assert ended["failures"][0]["error"] == ERROR_TEXT
    page = runner.get("/run").text
    assert "Not all partitions succeeded." in page
    assert "<img" not in page
    assert "<b>bold" not in page
    assert 'data-state="ended"' in page


@pytest.mark.slow(reason="several status queries")
def test_hostile_names_are_sent_as_one_line(runner: TestClient, stage: Stage) -> None:
    stage.failing = HOSTILE_ASSET
    begin(runner, select=f"+{HOSTILE_ASSET}")
    over(runner)
    body = runner.get("/api/run/events").text
    assert all(line.startswith(("id: ", "data: ", "event: ")) for line in body.split("\n") if line)
    failed = next(event for _, event in events(runner) if event["event"] == "failed")
    assert "\n" not in failed["text"]
    assert HOSTILE_ASSET in failed["text"]
    assert "<script>" not in runner.get("/run").text.replace("<script src=", "")


@pytest.mark.slow(reason="several status queries")
@pytest.mark.parametrize(
    ("error_type", "argument", "kind"),
    [(PlanOutdated, ("raw_orders",), "PlanOutdated"), (RuntimeError, HOSTILE_TEXT, "RuntimeError")],
)
def test_the_reason_of_a_refused_run_is_shown(
    runner: TestClient, stage: Stage, error_type: type[Exception], argument: object, kind: str
) -> None:
    # An error that pytest holds as a parameter would keep the site, and its connections, until the process ends.
    error = stage.error = error_type(argument)
    begin(runner)
    ended = over(runner)
    assert ended["state"] == "refused"
    assert ended["error"] == {"type": kind, "message": str(error)}
    assert events(runner)[-1][1]["error"] == ended["error"]
    page = runner.get("/run").text
    assert kind in page
    assert "<img" not in page
    drawn = json.loads(runner.get("/run/events").text.rpartition("data: ")[2])
    assert (drawn["state"], kind in drawn["html"], "<img" in drawn["html"]) == ("refused", True, False)
    stage.error = None
    assert begin(runner).status_code == 200, "the next one may"


@pytest.mark.slow(reason="runs in a server")
def test_a_plan_that_is_gone_or_empty_does_not_run(runner: TestClient, stage: Stage) -> None:
    gone = runner.post("/api/run", params={"plan": "01GONE"})
    assert gone.status_code == 404
    assert "make a new one" in gone.json()["error"]["message"]
    assert begin(runner, asset="raw_orders", state="current").status_code == 400
    assert runner.post("/api/run").status_code == 400
    assert stage.runs == 0


@pytest.mark.slow(reason="runs in a server")
def test_a_page_that_may_run_has_the_button(runner: TestClient) -> None:
    assert "Run this plan" in runner.get("/plan/preview").text
    assert runner.get("/api/version").json()["may_run"] is True


@pytest.mark.slow(reason="runs in a server")
def test_a_long_run_keeps_its_last_events(sample_lake: Lake) -> None:
    run = ServerRun(1, sample_lake.plan(select="raw_orders"))
    for _ in range(MAX_BUFFERED_EVENTS + 10):
        run.record_event({"event": "other"})
    first, found = run.events_since(3)
    assert (first, len(found)) == (10, MAX_BUFFERED_EVENTS)
    assert run.events_since(MAX_BUFFERED_EVENTS + 9)[1] == [{"event": "other", "text": None}]


@pytest.mark.slow(reason="runs in a server")
def test_many_failures_are_counted(sample_lake: Lake) -> None:
    run = ServerRun(1, sample_lake.plan(select="raw_orders"))
    run.result = RunResult(
        "r", failed=MAX_SHOWN_FAILURES + 3, failures=(PartitionFailure("a", "", "x"),) * (MAX_SHOWN_FAILURES + 3)
    )
    said = run.document()
    assert (len(said["failures"]), said["failures_more"]) == (MAX_SHOWN_FAILURES, 3)
    assert said["failures"][0]["label"] == "the whole asset"
