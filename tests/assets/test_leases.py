"""Leases: which run holds which partitions, for how long, and who is refused."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import partita as pt
from partita.assets import leases as leases_module
from partita.assets.leases import Lease, LeaseHeartbeat, LeaseStore
from partita.process import this_process
from partita.storage import Storage

Plans = dict[str, dict[str, frozenset[str]]]


@pytest.fixture
def plans() -> Plans:
    return {}


@pytest.fixture
def leases(tmp_path: Path, plans: Plans) -> LeaseStore:
    return LeaseStore(
        Storage.from_uri(str(tmp_path)), "w", lambda run, asset: plans.get(run, {}).get(asset, frozenset())
    )


@pytest.fixture
def take(leases: LeaseStore, plans: Plans) -> Callable[..., Lease]:
    def acquire(run: str, *keys: str, asset: str = "sales", seconds: float = 60.0) -> Lease:
        plans[run] = {asset: frozenset(keys)}
        return leases.acquire(run, plans[run], seconds)

    return acquire


def test_a_partition_is_leased_to_one_run_at_a_time(leases: LeaseStore, take: Callable[..., Lease]) -> None:
    take("a", "1", "2")
    take("b", "3")
    take("c", "1", asset="orders")
    with pytest.raises(
        pt.PartitionsLeased, match=r"run a of .*, process \d+ is at work on 1 of these partitions"
    ) as caught:
        take("d", "2", "4")
    assert (caught.value.run_id, caught.value.partitions) == ("a", 1)
    assert [lease.run_id for lease in leases.live_leases()] == ["a", "b", "c"]


@pytest.mark.slow(reason="waits for a lease to expire")
def test_a_lease_ends_when_it_is_released_or_expires(leases: LeaseStore, take: Callable[..., Lease]) -> None:
    leases.release(take("a", "1"))
    take("b", "1", seconds=0.2)
    with pytest.raises(pt.PartitionsLeased):
        take("c", "1")
    time.sleep(0.3)
    take("c", "1")


def test_a_lease_of_a_dead_process_does_not_count(
    leases: LeaseStore, take: Callable[..., Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = this_process()
    monkeypatch.setattr(leases_module, "this_process", lambda: {**identity, "start_time": "long ago"})
    take("a", "1")
    monkeypatch.setattr(leases_module, "this_process", lambda: {**identity, "host": "another machine"})
    take("b", "1")
    with pytest.raises(pt.PartitionsLeased):
        take("c", "1")
    assert [lease.run_id for lease in leases.live_leases()] == ["b"]
    assert identity["pid"] == os.getpid()


def test_a_live_process_that_recorded_no_start_time_keeps_its_lease(
    take: Callable[..., Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = {"host": this_process()["host"], "pid": os.getpid(), "born": "as earlier versions called it"}
    monkeypatch.setattr(leases_module, "this_process", lambda: identity)
    take("a", "1")
    with pytest.raises(pt.PartitionsLeased):
        take("b", "1")


def test_a_run_that_is_running_is_not_resumed(take: Callable[..., Lease]) -> None:
    take("a", "1")
    with pytest.raises(pt.PartitionsLeased):
        take("a", "1")


@pytest.mark.slow(reason="waits for a lease to expire")
def test_a_heartbeat_renews_its_lease_until_it_is_lost(leases: LeaseStore, take: Callable[..., Lease]) -> None:
    with LeaseHeartbeat(leases, take("a", "1", seconds=0.8), lease_seconds=0.8) as heartbeat:
        held = []
        for _ in range(2):
            time.sleep(1.0)
            held.append(heartbeat.is_lease_held)
            for lease in leases.live_leases():
                leases.release(lease)
    assert held == [True, False]
    assert leases.live_leases() == []


def test_of_many_concurrent_runs_one_gets_the_lease(leases: LeaseStore, take: Callable[..., Lease]) -> None:
    def try_to_lease(number: int) -> bool:
        try:
            take(f"run{number}", "1")
        except pt.PartitionsLeased:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(try_to_lease, range(24))) == 1


@pytest.mark.slow(reason="waits for a lease to expire")
def test_old_changes_are_removed_and_a_slow_writer_does_not_count(
    leases: LeaseStore, take: Callable[..., Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = take("a", "1")
    for _ in range(120):
        leases.renew(lease)
    assert len(list(leases.storage.list_paths("w/leases"))) <= 60
    # A slow writer that read the leases long ago finds the next number free, because that file was removed.
    stale_reads: list[tuple[int, list[Lease]]] = [(0, [])]
    read_leases = LeaseStore._read_leases
    monkeypatch.setattr(
        LeaseStore, "_read_leases", lambda self: stale_reads.pop() if stale_reads else read_leases(self)
    )
    with pytest.raises(pt.PartitionsLeased):
        take("b", "1")
    assert [lease.run_id for lease in leases.live_leases()] == ["a"]


@pytest.mark.slow(reason="waits for a lease to expire")
def test_releasing_a_lost_lease_keeps_the_new_one(leases: LeaseStore, take: Callable[..., Lease]) -> None:
    lost_lease = take("a", "1", seconds=0.1)
    time.sleep(0.2)
    new_lease = take("a", "1")
    leases.release(lost_lease)
    assert not leases.renew(lost_lease)
    assert leases.renew(new_lease)
    assert [lease.token for lease in leases.live_leases()] == [new_lease.token]
