"""The live display of a run on a terminal: progress bar, rate, remaining time, failures and running assets."""

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

from partita.assets.progress import duration_text
from partita.cli.run_display import progress_line, summary_lines
from partita.status.text import count_text, one_line

if TYPE_CHECKING:
    from partita.assets.progress import RunResult


class LiveProgress:
    """The progress of a run, computed from its events; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = self.done_count = self.failed_count = self.skipped_count = 0
        self._clock = clock
        self._done_before = 0
        self._started_at: float | None = None
        self._running_partitions: dict[str, int] = {}
        self._lock = Lock()

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Update the counts."""
        with self._lock:
            kind = event["event"]
            if kind == "begun":
                self._started_at, self._done_before = self._clock(), event["done"]
            if "total" in event:
                self.total, self.done_count = event["total"], event["done"]
                self.failed_count, self.skipped_count = event["failed"], event["skipped"]
            change = {"started": 1, "succeeded": -1, "failed": -1}.get(kind)
            if change is not None:
                asset = event["asset"]
                partition_count = self._running_partitions.get(asset, 0) + change * event["partitions"]
                self._running_partitions = {
                    name: n for name, n in {**self._running_partitions, asset: partition_count}.items() if n > 0
                }

    @property
    def running_partitions(self) -> dict[str, int]:
        """The number of partitions of each asset that are running."""
        return self._running_partitions

    @property
    def rate(self) -> float | None:
        """Partitions per second, without those of an earlier run that is resumed; None while none is done."""
        if self._started_at is None or self.done_count <= self._done_before:
            return None
        return (self.done_count - self._done_before) / max(self._clock() - self._started_at, 1e-3)

    @property
    def seconds_left(self) -> float | None:
        """The remaining time at the current rate."""
        rate = self.rate
        return None if rate is None else (self.total - self.done_count) / rate

    def __rich__(self) -> RenderableType:
        with self._lock:
            return Group(self._progress_bar(), Text(self._running_text(), no_wrap=True, overflow="ellipsis"))

    def _progress_bar(self) -> Grid:
        row = Grid.grid(padding=(0, 1))
        bar = ProgressBar(total=max(self.total, 1), completed=self.done_count, width=40)
        row.add_row(
            bar, Text(f"{self.done_count:,}/{self.total:,}"), Text(self._rate_text(), style="dim"), self._failure_text()
        )
        return row

    def _rate_text(self) -> str:
        rate, seconds_left = self.rate, self.seconds_left
        return (
            ""
            if rate is None or seconds_left is None
            else f"{rate:,.1f} partitions/s, {duration_text(seconds_left)} left"
        )

    def _failure_text(self) -> Text:
        counts = {"failed": self.failed_count, "skipped": self.skipped_count}
        return Text(", ".join(f"{count:,} {name}" for name, count in counts.items() if count), style="red")

    def _running_text(self) -> str:
        texts = (f"{one_line(asset)}: {count_text(n, 'partition')}" for asset, n in self._running_partitions.items())
        return "running " + ", ".join(texts) if self._running_partitions else ""


class LiveRunDisplay:
    """Shows live progress; lines about failures are printed above it."""

    def __init__(self, live: Live, progress: LiveProgress) -> None:
        self._live = live
        self._progress = progress

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Update the progress and print the line of an event that users should see."""
        self._progress.on_event(event)
        text = progress_line(event) if event["event"] in _EVENT_STYLES else None
        if text is not None:
            self._live.console.print(Text(text, style=_EVENT_STYLES[event["event"]]))

    def on_result(self, result: RunResult) -> None:
        """Replace the progress bar by the result."""
        self._live.stop()
        for text in summary_lines(result):
            self._live.console.print(Text(text))


_EVENT_STYLES = {"begun": "bold", "waiting": "yellow", "failed": "red", "skipped": "yellow"}


@contextmanager
def open_live_display(out: TextIO, console: Console | None = None) -> Iterator[LiveRunDisplay]:
    """Open a live display on a terminal, and restore the terminal afterwards."""
    progress = LiveProgress()
    console = Console(file=out, highlight=False) if console is None else console
    with Live(progress, console=console, refresh_per_second=8, transient=True) as live:
        yield LiveRunDisplay(live, progress)
