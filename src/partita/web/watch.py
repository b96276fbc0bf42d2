"""Keeps a snapshot fresh, in a thread of its own: nobody who asks waits for one to be taken."""

from __future__ import annotations

import time
from importlib import import_module
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from partita.errors import PartitaError, StatusError
from partita.picture.snapshot import Snapshot, take_snapshot
from partita.web.asking import Asking

if TYPE_CHECKING:
    from partita.lake import Lake

LOOK_EVERY = 2.0
"""Seconds between two looks at the ledger's version."""
TAKE_EVERY = 60.0
"""Seconds after which a snapshot is taken anew although nothing was recorded: deadlines pass."""
SHARE = 4.0
"""How long a snapshot is left to stand at least, in multiples of what it took: a busy ledger doesn't keep it busy."""


class Watch:
    """The newest snapshot of a lake, and `asking`, which asks the lake itself.

    `problem` says why the last try to take a snapshot failed, where it did.
    """

    def __init__(self, lake: Lake, *, look_every: float = LOOK_EVERY, take_every: float = TAKE_EVERY) -> None:
        self.lake = lake
        self.asking = Asking(lake)
        self.problem: str | None = None
        self._look_every = look_every
        self._take_every = take_every
        self._newest: Snapshot | None = None
        self._taken = 0.0
        self._taking = Lock()
        self._asked = Event()
        self._ended = Event()
        self._thread: Thread | None = None

    @property
    def newest(self) -> Snapshot:
        """The newest snapshot; only the first who asks, before `start`, waits for it."""
        return self._newest or self.take()

    def take(self) -> Snapshot:
        """Take a snapshot now; what hinders that is raised where there is none yet, and kept as `problem` otherwise."""
        with self._taking:
            before = self._newest
            try:
                self._newest, self.problem = _checked(take_snapshot(self.lake), before), None
                self.asking.renew()
            except Exception as error:
                if before is None:
                    raise
                # Whatever it was: a page that stands still has to say so.
                self.problem = _said(error)
            self._taken = time.monotonic()
            assert self._newest is not None  # noqa: S101 - there was one, or one was taken
            return self._newest

    def ask(self) -> None:
        """Have a snapshot taken soon, without waiting for it."""
        self._asked.set()

    def start(self) -> None:
        """Take the first snapshot, where there is none, and look for changes from then on."""
        if self._newest is None:
            self.take()
        self._thread = Thread(target=self._run, name="partita-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more; a snapshot that is being taken is finished."""
        self._ended.set()
        self._asked.set()
        if self._thread is not None:
            self._thread.join()
        self.asking.close()

    def _run(self) -> None:
        # Predicates need the pruning that tables have, which takes a while to load; no one who asks waits for that.
        import_module("partita.web.predicates")
        import_module("partita.formats.plan")
        import_module("sqlglot")
        while not self._ended.is_set():
            asked = self._asked.wait(self._look_every)
            self._asked.clear()
            if not self._ended.is_set() and (asked or self._is_due()):
                self.take()

    def _is_due(self) -> bool:
        age = time.monotonic() - self._taken
        if age < SHARE * self.newest.seconds:
            return False
        return age >= self._take_every or self._version() != self.newest.version

    def _version(self) -> int:
        try:
            return self.lake.status_version
        except Exception as error:  # noqa: BLE001 - whatever it was: the watch goes on, and says so
            self.problem = _said(error)
            return self.newest.version


def _checked(taken: Snapshot, before: Snapshot | None) -> Snapshot:
    if before is not None and taken.version < before.version:
        raise StatusError(
            "the lake has fewer events than before: it is gone, or another one is in its place; start the server anew "
            "if that is so"
        )
    return taken


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, PartitaError) else f"{type(error).__name__}: {error}"
