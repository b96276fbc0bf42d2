"""A run as it goes: a live display on a terminal, plain lines elsewhere, or JSON lines."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from partita.assets.plan import key_words
from partita.assets.progress import event_text
from partita.status.shown import counted, one_line

if TYPE_CHECKING:
    from partita.assets.progress import RunResult

_SHOWN = 20
"""So many failures are shown in full."""


class Display(Protocol):
    """Shows a run."""

    def hear(self, event: Mapping[str, Any]) -> None:
        """Something happened; a listener of `lake.run`."""

    def show(self, result: RunResult) -> None:
        """It ended."""


@contextmanager
def display_on(out: TextIO, *, as_json: bool) -> Iterator[Display]:
    """The display that fits: JSON where it is asked for, and live where a person looks on."""
    with _logs():
        if as_json:
            yield JsonLines(out)
        elif out.isatty():
            from partita.cli.run_live import live_display

            with live_display(out) as live:
                yield live
        else:
            yield PlainLines(out)


class JsonLines:
    """The events as they are, and the result at the end."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def hear(self, event: Mapping[str, Any]) -> None:
        """One line."""
        self._write(event)

    def show(self, result: RunResult) -> None:
        """One line, whose `event` is `result`."""
        self._write({"event": "result", **result.document()})

    def _write(self, document: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(document, ensure_ascii=False, default=str) + "\n")
        self._out.flush()


class PlainLines:
    """A line for each thing that people want to know."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def hear(self, event: Mapping[str, Any]) -> None:
        """At most one line."""
        text = line_of(event)
        if text is not None:
            self._write(text)

    def show(self, result: RunResult) -> None:
        """The failures, and the sum."""
        for text in summary_of(result):
            self._write(text)

    def _write(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()


def line_of(event: Mapping[str, Any]) -> str | None:
    """An event in words, with how far the run is; None where it says nothing new."""
    text = event_text(event, key_words)
    if event["event"] in ("succeeded", "failed", "skipped"):
        return f"{text}  [{event['done']:,}/{event['total']:,}]"
    return text


def summary_of(result: RunResult) -> Iterator[str]:
    """The failures and the counts of a run, in words."""
    for failure in result.failures[:_SHOWN]:
        yield f"failed: {one_line(failure.asset)} {key_words(failure.key)}"
        yield from (f"  {one_line(line)}" for line in failure.error.splitlines())
    if len(result.failures) > _SHOWN:
        yield f"and {len(result.failures) - _SHOWN:,} more failures; `partita status --failed` lists them"
    counts = {"failed": result.failed, "skipped": result.skipped, "cancelled": result.cancelled, "left": result.left}
    said = "".join(f", {count:,} {name}" for name, count in counts.items() if count)
    yield f"run {result.run_id}: {counted(result.succeeded, 'partition')} made{said}, in {duration(result.seconds)}"
    if result.left or result.cancelled:
        yield f"`partita run --resume {result.run_id}` goes on"


def duration(seconds: float) -> str:
    """So much time, in words."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


@contextmanager
def _logs() -> Iterator[None]:
    """What assets log is shown on stderr, whatever that is at the time."""
    log = logging.getLogger("partita")
    handler, before = _ToStderr(), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


class _ToStderr(logging.Handler):
    """A live display takes stderr over while it is there."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"{record.name.removeprefix('partita.asset.')}: {record.getMessage()}", file=sys.stderr)  # noqa: T201
