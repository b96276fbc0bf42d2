"""Leases: which run is at work on which partitions, so that two runs don't make the same ones at once.

```text
leases/00000000000000000041.json   all leases after change 41: run, holder, until when, and which assets
runs/<run>/plan.jsonl              which partitions of them
```

A change is a new file with the next number, written if it isn't there yet; who comes second reads and tries again. A
lease that isn't renewed runs out, and one whose process is known to be dead is as good as gone. Clocks of different
machines may differ by a fraction of `TERM`.
"""

from __future__ import annotations

import getpass
import json
import re
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any, Self
from uuid import uuid4

from partita.errors import Conflict, Held, PartitaError, PlanError
from partita.process import may_live, this_process
from partita.storage import Storage
from partita.untrusted import parse_json, reading

TERM = 120.0
"""For how many seconds a lease lasts unless it is renewed."""
_KEPT = 50
"""So many changes stay, for those who are slow to read them."""
_TRIES = 100
_NAME = re.compile(r"(\d{20})\.json$")


@dataclass(frozen=True, slots=True)
class Lease:
    """A run's hold on the partitions of its plan; `until` is in seconds from 1970. `token` is of this hold alone."""

    run_id: str
    holder: str
    until: float
    assets: tuple[str, ...]
    process: Mapping[str, Any]
    token: str

    @property
    def is_live(self) -> bool:
        """Whether it still holds."""
        return self.until > time.time() and may_live(self.process)


@dataclass(frozen=True, slots=True, eq=False)
class Leases:
    """The leases of a workspace; `planned` gives the partitions of an asset that a run's plan has."""

    storage: Storage
    folder: str
    planned: Callable[[str, str], frozenset[str]]

    def take(self, run_id: str, wanted: Mapping[str, frozenset[str]], term: float = TERM) -> Lease:
        """Hold partitions by asset; where another run holds some of them, that is `Held`."""
        mine = Lease(run_id, holder(), time.time() + term, tuple(sorted(wanted)), this_process(), uuid4().hex)

        def taken(live: list[Lease]) -> list[Lease]:
            for other in live:
                self._check_apart(other, run_id, wanted)
            return [*(lease for lease in live if lease.run_id != run_id), mine]

        self._change(taken)
        return mine

    def _check_apart(self, other: Lease, run_id: str, wanted: Mapping[str, frozenset[str]]) -> None:
        until = datetime.fromtimestamp(other.until, UTC).isoformat(timespec="seconds")
        if other.run_id == run_id:
            raise Held(run_id, other.holder, until, sum(map(len, wanted.values())))
        shared = sum(len(wanted[a] & self.planned(other.run_id, a)) for a in other.assets if a in wanted)
        if shared:
            raise Held(other.run_id, other.holder, until, shared)

    def renew(self, lease: Lease, term: float = TERM) -> bool:
        """Hold on; False where the lease is lost."""
        until = time.time() + term
        held = [True]

        def renewed(live: list[Lease]) -> list[Lease]:
            held[0] = any(one.token == lease.token for one in live)
            return [replace(one, until=until) if one.token == lease.token else one for one in live]

        self._change(renewed)
        return held[0]

    def release(self, lease: Lease) -> None:
        """Let go."""
        self._change(lambda live: [one for one in live if one.token != lease.token])

    def all(self) -> list[Lease]:
        """The leases that hold now."""
        return [lease for lease in self._read()[1] if lease.is_live]

    def _change(self, changed: Callable[[list[Lease]], list[Lease]]) -> None:
        for _ in range(_TRIES):
            number, leases = self._read()
            new = changed([lease for lease in leases if lease.is_live])
            data = json.dumps([asdict(lease) for lease in new], ensure_ascii=False).encode()
            # A number so old that it was removed meanwhile is free again: what counts is the newest.
            if self.storage.put_new(self._path(number + 1), data):
                there = self._numbers()
                if max(there, default=-1) <= number + 1 + _KEPT // 2:
                    self.storage.delete(self._path(old) for old in there if old < number + 1 - _KEPT)
                    return
            time.sleep(0.01)
        raise Conflict("take a lease", f"was first {_TRIES} times")

    def _read(self) -> tuple[int, list[Lease]]:
        while True:
            number = max(self._numbers(), default=-1)
            data = b"[]" if number < 0 else self.storage.get(self._path(number))
            if data is not None:
                with reading(self._path(number), PlanError):
                    return number, [_lease(document) for document in parse_json(data)]

    def _numbers(self) -> list[int]:
        found = (_NAME.search(path) for path, _ in self.storage.list(f"{self.folder}/leases"))
        return [int(match[1]) for match in found if match is not None]

    def _path(self, number: int) -> str:
        return f"{self.folder}/leases/{number:020}.json"


class Heart:
    """Renews a lease for as long as it beats."""

    def __init__(self, leases: Leases, lease: Lease, term: float = TERM) -> None:
        self._leases, self._lease, self._term = leases, lease, term
        self._stop = Event()
        self._held_until = lease.until
        self._thread = Thread(target=self._beat, name=f"partita-lease-{lease.run_id}", daemon=True)

    @property
    def is_held(self) -> bool:
        """Whether the lease is held for sure."""
        return time.time() < self._held_until

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        with suppress(PartitaError):
            self._leases.release(self._lease)

    def _beat(self) -> None:
        while not self._stop.wait(self._term / 4):
            until = time.time() + self._term
            try:
                held = self._leases.renew(self._lease, self._term)
            except PartitaError:
                # The store may be back before the lease runs out.
                continue
            self._held_until = until if held else 0.0
            if not held:
                return


def holder() -> str:
    """Who this is, for people."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}, process {this_process()['pid']}"


def _lease(document: Mapping[str, Any]) -> Lease:
    lease = Lease(**{**document, "assets": tuple(document["assets"])})
    texts = (lease.run_id, lease.holder, lease.token, *lease.assets)
    if not all(isinstance(text, str) for text in texts) or not isinstance(lease.process, dict):
        raise TypeError("a lease has texts and a process")
    # A moment that no calendar has would fail where it is shown.
    datetime.fromtimestamp(lease.until, UTC)
    return lease
