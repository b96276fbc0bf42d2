"""A run on a terminal: a bar, the rate, failures, the time left, and which assets are at work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid
from rich.text import Text

from partita.cli.run_display import duration, line_of, summary_of
from partita.status.shown import counted, one_line

if TYPE_CHECKING:
    from partita.assets.progress import RunResult


class LiveState:
    """What the events so far say of a run; `clock` tells seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = self.done = self.failed = self.skipped = 0
        self._clock = clock
        self._before = 0
        self._start: float | None = None
        self._at_work: dict[str, int] = {}
        self._lock = Lock()

    def hear(self, event: Mapping[str, Any]) -> None:
        """Count what happened."""
        with self._lock:
            what = event["event"]
            if what == "begun":
                self._start, self._before = self._clock(), event["done"]
            if "total" in event:
                self.total, self.done = event["total"], event["done"]
                self.failed, self.skipped = event["failed"], event["skipped"]
            change = {"started": 1, "succeeded": -1, "failed": -1}.get(what)
            if change is not None:
                asset = event["asset"]
                left = self._at_work.get(asset, 0) + change * event["partitions"]
                self._at_work = {name: n for name, n in {**self._at_work, asset: left}.items() if n > 0}

    @property
    def at_work(self) -> dict[str, int]:
        """How many partitions of which assets are being made."""
        return self._at_work

    @property
    def rate(self) -> float | None:
        """Partitions in a second; None while nothing is done. What an earlier run had done doesn't count."""
        if self._start is None or self.done <= self._before:
            return None
        return (self.done - self._before) / max(self._clock() - self._start, 1e-3)

    @property
    def seconds_left(self) -> float | None:
        """How long it takes at that rate."""
        rate = self.rate
        return None if rate is None else (self.total - self.done) / rate

    def __rich__(self) -> RenderableType:
        with self._lock:
            return Group(self._bar(), Text(self._words(), no_wrap=True, overflow="ellipsis"))

    def _bar(self) -> Grid:
        row = Grid.grid(padding=(0, 1))
        bar = ProgressBar(total=max(self.total, 1), completed=self.done, width=40)
        row.add_row(bar, Text(f"{self.done:,}/{self.total:,}"), Text(self._speed(), style="dim"), self._bad())
        return row

    def _speed(self) -> str:
        rate, left = self.rate, self.seconds_left
        return "" if rate is None or left is None else f"{rate:,.1f} partitions/s, {duration(left)} left"

    def _bad(self) -> Text:
        counts = {"failed": self.failed, "skipped": self.skipped}
        return Text(", ".join(f"{count:,} {name}" for name, count in counts.items() if count), style="red")

    def _words(self) -> str:
        working = (f"{one_line(asset)}: {counted(n, 'partition')}" for asset, n in self._at_work.items())
        return "at work on " + ", ".join(working) if self._at_work else ""


class LiveDisplay:
    """The live display; what failed is said above it."""

    def __init__(self, live: Live, state: LiveState) -> None:
        self._live = live
        self._state = state

    def hear(self, event: Mapping[str, Any]) -> None:
        """Show what changed."""
        self._state.hear(event)
        text = line_of(event) if event["event"] in _SAID else None
        if text is not None:
            self._live.console.print(Text(text, style=_SAID[event["event"]]))

    def show(self, result: RunResult) -> None:
        """The sum, in place of the bar."""
        self._live.stop()
        for text in summary_of(result):
            self._live.console.print(Text(text))


_SAID = {"begun": "bold", "waiting": "yellow", "failed": "red", "skipped": "yellow"}


@contextmanager
def live_display(out: TextIO, console: Console | None = None) -> Iterator[LiveDisplay]:
    """A live display on a terminal, which is left as it was."""
    state = LiveState()
    shown = Console(file=out, highlight=False) if console is None else console
    with Live(state, console=shown, refresh_per_second=8, transient=True) as live:
        yield LiveDisplay(live, state)
