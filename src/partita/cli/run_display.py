"""Displays of the progress of a run: live on a terminal, plain lines elsewhere, or JSON lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from partita.algebra.key_label import partition_label
from partita.assets.progress import event_text
from partita.cli.output import print_stderr
from partita.status.text import one_line

if TYPE_CHECKING:
    from partita.assets.progress import RunResult

_MAX_SHOWN_FAILURES = 20
"""The number of failures whose errors are printed."""


class RunDisplay(Protocol):
    """Shows the progress and the result of a run."""

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Show an event of `lake.run`."""

    def on_result(self, result: RunResult) -> None:
        """Show the result of the run."""


@contextmanager
def open_display(out: TextIO, *, as_json: bool) -> Iterator[RunDisplay]:
    """Open a display that writes to `out`: JSON if requested, live if `out` is a terminal, else plain lines."""
    with _show_asset_logs():
        if as_json:
            yield JsonRunDisplay(out)
        elif out.isatty():
            from partita.cli.run_live_display import open_live_display

            with open_live_display(out) as live:
                yield live
        else:
            yield TextRunDisplay(out)


class JsonRunDisplay:
    """Writes events and the result as JSON lines."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Write the event."""
        self._write(event)

    def on_result(self, result: RunResult) -> None:
        """Write the result as an object whose `event` is `result`."""
        self._write({"event": "result", **result.document()})

    def _write(self, document: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(document, ensure_ascii=False, default=str) + "\n")
        self._out.flush()


class TextRunDisplay:
    """Writes a line for each event that users should see."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Write at most one line."""
        text = progress_line(event)
        if text is not None:
            self._write(text)

    def on_result(self, result: RunResult) -> None:
        """Write the failures and the counts of the run."""
        for text in summary_lines(result):
            self._write(text)

    def _write(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()


def progress_line(event: Mapping[str, Any]) -> str | None:
    """Describe an event in one line with the progress of the run, or return None if users need not see it."""
    text = event_text(event)
    if event["event"] in ("succeeded", "failed", "skipped"):
        return f"{text}  [{event['done']:,}/{event['total']:,}]"
    return text


def summary_lines(result: RunResult) -> Iterator[str]:
    """Return the lines that describe the result of a run: its failures, its counts and how to resume it."""
    for failure in result.failures[:_MAX_SHOWN_FAILURES]:
        yield f"failed: {partition_label(failure.asset, failure.key)}"
        yield from (f"  {one_line(line)}" for line in failure.error.splitlines())
    if len(result.failures) > _MAX_SHOWN_FAILURES:
        yield f"and {len(result.failures) - _MAX_SHOWN_FAILURES:,} more failures; `partita status --failed` lists them"
    yield f"run {result.run_id}: {event_text({'event': 'result', **result.document()})}"
    if result.left or result.cancelled:
        yield f"resume the run with `partita run --resume {result.run_id}`"


@contextmanager
def _show_asset_logs() -> Iterator[None]:
    """Print log records of assets to stderr while the block runs."""
    logger = logging.getLogger("partita")
    handler, previous_level = _StderrHandler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(previous_level)


class _StderrHandler(logging.Handler):
    """Writes to the current `sys.stderr`, which a live display replaces while it is open."""

    def emit(self, record: logging.LogRecord) -> None:
        print_stderr(f"{record.name.removeprefix('partita.asset.')}: {record.getMessage()}")
