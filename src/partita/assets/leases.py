"""Leases: which run works on which partitions, so that two runs don't make the same partitions at once.

```text
leases/00000000000000000041.json   all leases after change 41: run, holder, expiry and assets
runs/<run>/plan.jsonl              the partitions of these assets
```

A change writes a new file with the next number, if absent; a writer that comes second reads again and retries. A lease
that isn't renewed expires, and a lease whose process is known to be dead doesn't count. The clocks of different
machines may differ by a fraction of `LEASE_SECONDS`.
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

from partita.errors import CommitConflict, PartitaError, PartitionsLeased, PlanError
from partita.process import may_be_alive, this_process
from partita.storage import Storage
from partita.untrusted_input import parse_json, translate_read_errors

LEASE_SECONDS = 120.0
"""How many seconds a lease lasts unless it is renewed."""
_RETAINED_CHANGES = 50
"""How many changes are kept for slow readers."""
_MAX_TRIES = 100
_CHANGE_FILE_NAME = re.compile(r"(\d{20})\.json$")


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one run to work on the partitions of its plan.

    `holder` names user and machine for people, `until` is the expiry in seconds since 1970, `process` identifies the
    process, and `token` this very lease: a run that is resumed gets a new one.
    """

    run_id: str
    holder: str
    until: float
    assets: tuple[str, ...]
    process: Mapping[str, Any]
    token: str

    @property
    def is_live(self) -> bool:
        """Whether the lease has not expired, and its process may be alive."""
        return self.until > time.time() and may_be_alive(self.process)


@dataclass(frozen=True, slots=True, eq=False)
class LeaseStore:
    """The leases of a workspace. `planned_keys(run_id, asset)` returns the partitions of an asset in a run's plan."""

    storage: Storage
    folder: str
    planned_keys: Callable[[str, str], frozenset[str]]

    def acquire(
        self, run_id: str, keys_by_asset: Mapping[str, frozenset[str]], lease_seconds: float = LEASE_SECONDS
    ) -> Lease:
        """Lease partitions, given by asset. Raise `PartitionsLeased` if another run leases some of them."""
        expiry, assets = time.time() + lease_seconds, tuple(sorted(keys_by_asset))
        new_lease = Lease(run_id, lease_holder(), expiry, assets, this_process(), uuid4().hex)

        def add_lease(live: list[Lease]) -> list[Lease]:
            for other in live:
                self._check_no_overlap(other, run_id, keys_by_asset)
            return [*(lease for lease in live if lease.run_id != run_id), new_lease]

        self._update_leases(add_lease)
        return new_lease

    def _check_no_overlap(self, other: Lease, run_id: str, keys_by_asset: Mapping[str, frozenset[str]]) -> None:
        until = datetime.fromtimestamp(other.until, UTC).isoformat(timespec="seconds")
        if other.run_id == run_id:
            raise PartitionsLeased(run_id, other.holder, until, sum(map(len, keys_by_asset.values())))
        assets = [asset for asset in other.assets if asset in keys_by_asset]
        shared_count = sum(len(keys_by_asset[asset] & self.planned_keys(other.run_id, asset)) for asset in assets)
        if shared_count:
            raise PartitionsLeased(other.run_id, other.holder, until, shared_count)

    def renew(self, lease: Lease, lease_seconds: float = LEASE_SECONDS) -> bool:
        """Extend a lease. Return False if it is lost."""
        until = time.time() + lease_seconds
        is_held = False

        def extend_lease(live: list[Lease]) -> list[Lease]:
            nonlocal is_held
            is_held = any(other.token == lease.token for other in live)
            return [replace(other, until=until) if other.token == lease.token else other for other in live]

        self._update_leases(extend_lease)
        return is_held

    def release(self, lease: Lease) -> None:
        """Give a lease up; a lease that is lost already is left alone."""
        self._update_leases(lambda live: [other for other in live if other.token != lease.token])

    def live_leases(self) -> list[Lease]:
        """Return the leases that have not expired and whose processes may be alive."""
        return [lease for lease in self._read_leases()[1] if lease.is_live]

    def _update_leases(self, update: Callable[[list[Lease]], list[Lease]]) -> None:
        """Write the live leases as `update` returns them; after a concurrent change, read them again and retry."""
        for _ in range(_MAX_TRIES):
            number, leases = self._read_leases()
            next_number = number + 1
            new_leases = update([lease for lease in leases if lease.is_live])
            data = json.dumps([asdict(lease) for lease in new_leases], ensure_ascii=False).encode()
            # A slow writer may find a number free that was removed meanwhile; its file is not the newest: retry.
            if self.storage.put_if_absent(self._change_path(next_number), data):
                numbers = self._change_numbers()
                if max(numbers, default=-1) <= next_number + _RETAINED_CHANGES // 2:
                    old_numbers = [old for old in numbers if old < next_number - _RETAINED_CHANGES]
                    self.storage.delete(map(self._change_path, old_numbers))
                    return
            time.sleep(0.01)
        raise CommitConflict("take a lease", f"was first {_MAX_TRIES} times")

    def _read_leases(self) -> tuple[int, list[Lease]]:
        """Return the number of the last change, or -1, and the leases after it."""
        while True:
            number = max(self._change_numbers(), default=-1)
            data = b"[]" if number < 0 else self.storage.get(self._change_path(number))
            if data is not None:
                with translate_read_errors(self._change_path(number), PlanError):
                    return number, [_lease_from_json(document) for document in parse_json(data)]

    def _change_numbers(self) -> list[int]:
        matches = (_CHANGE_FILE_NAME.search(path) for path, _ in self.storage.list_paths(f"{self.folder}/leases"))
        return [int(match[1]) for match in matches if match is not None]

    def _change_path(self, number: int) -> str:
        return f"{self.folder}/leases/{number:020}.json"


class LeaseHeartbeat:
    """A background thread that renews a lease until the block ends, and then releases it."""

    def __init__(self, lease_store: LeaseStore, lease: Lease, lease_seconds: float = LEASE_SECONDS) -> None:
        self._lease_store, self._lease, self._lease_seconds = lease_store, lease, lease_seconds
        self._stop_event = Event()
        self._held_until = lease.until
        self._thread = Thread(target=self._renew_lease, name=f"partita-lease-{lease.run_id}", daemon=True)

    @property
    def is_lease_held(self) -> bool:
        """Whether the lease is held for certain: it was renewed and has not expired since."""
        return time.time() < self._held_until

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_event.set()
        self._thread.join()
        with suppress(PartitaError):
            self._lease_store.release(self._lease)

    def _renew_lease(self) -> None:
        while not self._stop_event.wait(self._lease_seconds / 4):
            until = time.time() + self._lease_seconds
            try:
                is_held = self._lease_store.renew(self._lease, self._lease_seconds)
            except PartitaError:
                # The store may be back before the lease expires.
                continue
            self._held_until = until if is_held else 0.0
            if not is_held:
                return


def lease_holder() -> str:
    """Return user, machine and process for people."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}, process {this_process()['pid']}"


def _lease_from_json(document: Mapping[str, Any]) -> Lease:
    lease = Lease(**{**document, "assets": tuple(document["assets"])})
    strings = (lease.run_id, lease.holder, lease.token, *lease.assets)
    if not all(isinstance(value, str) for value in strings) or not isinstance(lease.process, dict):
        raise TypeError(
            "a lease must have strings for its run, holder, token and assets, and an object for its process"
        )
    # Raises for a time outside of the calendar, which would fail when it is shown.
    datetime.fromtimestamp(lease.until, UTC)
    return lease
