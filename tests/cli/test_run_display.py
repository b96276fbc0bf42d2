"""What a run shows: lines, JSON, and a live display whose numbers are right."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest
from rich.console import Console

from partita.assets.progress import PartitionFailure, RunResult, duration_text
from partita.cli.run_display import JsonRunDisplay, TextRunDisplay, open_display, progress_line
from partita.cli.run_live_display import LiveProgress, open_live_display

HOSTILE = "\x1b[31mred\nfake: line"
COUNTS = {"total": 10, "done": 0, "succeeded": 0, "failed": 0, "skipped": 0, "cancelled": 0, "seconds_so_far": 0.0}
BEGUN = {"event": "begun", "run_id": "R", "assets": ["a", "b"], **COUNTS}


def event(what: str, asset: str = "a", partitions: int = 4, **more: Any) -> dict[str, Any]:
    return {**COUNTS, "event": what, "run_id": "R", "asset": asset, "partitions": partitions, **more}


EVENTS = [
    (BEGUN, "run R: 10 partitions of a, b"),
    (event("started", attempt=1), "a: 4 partitions started"),
    (event("succeeded", keys=["k=i:1"], rows=7, version=3, done=4), "a: 4 partitions made, 7 rows  [4/10]"),
    (event("succeeded", partitions=1, keys=["k=i:1"], rows=None), "a: k=1 made  [0/10]"),
    (event("failed", keys=[], error=HOSTILE), "a: 4 partitions could not be made: "),
    (event("skipped", "b", 2, keys=[], done=6), "b: 2 partitions skipped  [6/10]"),
    ({"event": "waiting", "run_id": "R", "for": "Q", "holder": "me"}, "run R waits for run Q of me"),
    ({**COUNTS, "event": "ended", "run_id": "R", "ok": True, "left": 0}, None),
    ({"event": "something new", "run_id": "R"}, None),
]
RESULT = RunResult("R", 7, 1, 1, 0, 1, 61.0, (PartitionFailure("a", "k=i:1", f"ValueError: {HOSTILE}"),))


@pytest.mark.parametrize(("said", "line"), EVENTS)
def test_an_event_is_a_line(said: dict[str, Any], line: str | None) -> None:
    found = progress_line(said)
    if line is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(line)
        assert found.isprintable()


def test_plain_lines_end_with_what_failed_and_how_to_go_on() -> None:
    out = io.StringIO()
    display = TextRunDisplay(out)
    for said, _ in EVENTS:
        display.on_event(said)
    display.on_result(RESULT)
    lines = out.getvalue().splitlines()
    assert lines[-5] == "failed: a[k=1]"
    assert lines[-2:] == [
        "run R: 7 partitions made, 1 failed, 1 skipped, 1 left, in 1:01 min",
        "resume the run with `partita run --resume R`",
    ]
    assert "\x1b" not in out.getvalue()
    assert not [line for line in lines if line.startswith("fake")]


def test_many_failures_are_counted() -> None:
    out = io.StringIO()
    failures = tuple(PartitionFailure("a", f"k=i:{n}", "boom") for n in range(25))
    TextRunDisplay(out).on_result(RunResult("R", 0, 25, failures=failures))
    assert out.getvalue().count("failed: a") == 20
    assert "and 5 more failures; `partita status --failed` lists them" in out.getvalue()


def test_json_lines_are_the_events_and_then_the_result() -> None:
    out = io.StringIO()
    display = JsonRunDisplay(out)
    for said, _ in EVENTS:
        display.on_event(said)
    display.on_result(RESULT)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines[:-1] == [said for said, _ in EVENTS]
    assert (lines[-1]["event"], lines[-1]["ok"], lines[-1]["left"]) == ("result", False, 1)


def test_the_rate_counts_what_this_run_did() -> None:
    now = 100.0
    state = LiveProgress(lambda: now)
    state.on_event({**BEGUN, "total": 100, "done": 20})
    now = 110.0
    state.on_event(event("succeeded", total=100, done=40))
    assert (state.rate, state.seconds_left) == (2.0, 30.0)
    now = 120.0
    assert state.rate == 1.0


def test_there_is_no_rate_while_nothing_is_done() -> None:
    state = LiveProgress()
    assert (state.rate, state.seconds_left) == (None, None)
    state.on_event({**BEGUN, "done": 4})
    assert state.seconds_left is None


def test_assets_are_at_work_from_their_start_to_their_end() -> None:
    state = LiveProgress()
    for said in (BEGUN, event("started", "a", 4), event("started", "b", 2), event("started", "a", 1)):
        state.on_event(said)
    assert state.running_partitions == {"a": 5, "b": 2}
    state.on_event(event("failed", "a", 4))
    state.on_event(event("succeeded", "b", 2))
    assert state.running_partitions == {"a": 1}


def test_a_live_display_has_it_all() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, highlight=False, color_system=None)
    with open_live_display(out, console) as display:
        for said, _ in EVENTS:
            display.on_event(said)
        display.on_event(event("started", HOSTILE, 3, done=6, failed=1, attempt=1))
        display._live.refresh()
        shown = out.getvalue()
        display.on_result(RESULT)
    for text in ("6/10", "partitions/s", "left", "1 failed", "running ", "could not be made", "waits for run Q"):
        assert text in shown, text
    assert "\x1b[31m" not in shown
    assert "run R: 7 partitions made" in out.getvalue()


def test_log_lines_of_assets_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    log = logging.getLogger("partita.asset.orders")
    with open_display(out, as_json=True) as display:
        assert isinstance(display, JsonRunDisplay)
        log.info("half %s", "done")
    log.info("after")
    assert capsys.readouterr().err == "orders: half done\n"
    with open_display(out, as_json=False) as plain:
        assert isinstance(plain, TextRunDisplay)
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "1:00 min"), (3599, "59:59 min"), (7260, "2:01 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
