"""Refreshing of the status snapshot in a background thread, so that requests do not wait for it."""

from __future__ import annotations

import time
from importlib import import_module
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from partita.display.status_snapshot import StatusSnapshot, take_snapshot
from partita.errors import PartitaError, StatusError
from partita.web.lake_queries import LakeQueries

if TYPE_CHECKING:
    from partita.lake import Lake

POLL_SECONDS = 2.0
"""The interval between two checks of the ledger's version."""
MAX_SNAPSHOT_AGE_SECONDS = 60.0
"""The age at which a snapshot is refreshed even without new events, because deadlines pass."""
MIN_AGE_FACTOR = 4.0
"""A snapshot is kept for at least this multiple of the time that it took, which limits the load of a busy ledger."""


class SnapshotRefresher:
    """The latest snapshot of a lake, and `lake_queries`, which query the lake itself.

    `problem` is the error of the last refresh, or None if it succeeded.
    """

    def __init__(
        self, lake: Lake, *, poll_seconds: float = POLL_SECONDS, max_age_seconds: float = MAX_SNAPSHOT_AGE_SECONDS
    ) -> None:
        self.lake = lake
        self.lake_queries = LakeQueries(lake)
        self.problem: str | None = None
        self._poll_seconds = poll_seconds
        self._max_age_seconds = max_age_seconds
        self._latest: StatusSnapshot | None = None
        self._refreshed_at = 0.0
        self._refresh_lock = Lock()
        self._refresh_requested = Event()
        self._stop_requested = Event()
        self._thread: Thread | None = None

    @property
    def latest(self) -> StatusSnapshot:
        """The latest snapshot; the first call before `start` waits for one."""
        return self._latest or self.refresh()

    def refresh(self) -> StatusSnapshot:
        """Take a snapshot now. An error is raised if there is no snapshot yet, and stored in `problem` otherwise."""
        with self._refresh_lock:
            previous = self._latest
            try:
                self._latest, self.problem = _check_version_order(take_snapshot(self.lake), previous), None
                self.lake_queries.refresh()
            except Exception as error:
                if previous is None:
                    raise
                # Any error is shown, because otherwise the page would silently show old data.
                self.problem = _error_text(error)
            self._refreshed_at = time.monotonic()
            assert self._latest is not None  # noqa: S101 - there was one, or one was taken
            return self._latest

    def request_refresh(self) -> None:
        """Let the background thread take a snapshot soon."""
        self._refresh_requested.set()

    def start(self) -> None:
        """Take the first snapshot, if there is none, and start the background thread."""
        if self._latest is None:
            self.refresh()
        self._thread = Thread(target=self._refresh_loop, name="partita-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the background thread, after the snapshot that it may be taking."""
        self._stop_requested.set()
        self._refresh_requested.set()
        if self._thread is not None:
            self._thread.join()
        self.lake_queries.close()

    def _refresh_loop(self) -> None:
        # Predicates need modules that are slow to import; importing them here keeps the first request fast.
        import_module("partita.web.snapshot_predicates")
        import_module("partita.formats.file_plan")
        import_module("sqlglot")
        while not self._stop_requested.is_set():
            is_requested = self._refresh_requested.wait(self._poll_seconds)
            self._refresh_requested.clear()
            if not self._stop_requested.is_set() and (is_requested or self._is_due()):
                self.refresh()

    def _is_due(self) -> bool:
        age = time.monotonic() - self._refreshed_at
        if age < MIN_AGE_FACTOR * self.latest.build_seconds:
            return False
        return age >= self._max_age_seconds or self._ledger_version() != self.latest.ledger_version

    def _ledger_version(self) -> int:
        try:
            return self.lake.status_version
        except Exception as error:  # noqa: BLE001 - the refresher goes on, and the page shows the error
            self.problem = _error_text(error)
            return self.latest.ledger_version


def _check_version_order(snapshot: StatusSnapshot, previous: StatusSnapshot | None) -> StatusSnapshot:
    """Return the snapshot. Raises `StatusError` if its ledger is older than that of the previous one."""
    if previous is not None and snapshot.ledger_version < previous.ledger_version:
        raise StatusError(
            "the lake has fewer events than before: it was removed or replaced; if this is intended, restart the server"
        )
    return snapshot


def _error_text(error: Exception) -> str:
    return str(error) if isinstance(error, PartitaError) else f"{type(error).__name__}: {error}"
