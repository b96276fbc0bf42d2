"""Leases: who holds which partitions, for how long, and who is told."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import partita as pt
from partita.assets import leases as room
from partita.assets.leases import Heart, Lease, Leases
from partita.process import this_process
from partita.storage import Storage

Plans = dict[str, dict[str, frozenset[str]]]


@pytest.fixture
def plans() -> Plans:
    return {}


@pytest.fixture
def leases(tmp_path: Path, plans: Plans) -> Leases:
    return Leases(Storage.at(str(tmp_path)), "w", lambda run, asset: plans.get(run, {}).get(asset, frozenset()))


@pytest.fixture
def take(leases: Leases, plans: Plans) -> Callable[..., Lease]:
    def taken(run: str, *keys: str, asset: str = "sales", term: float = 60.0) -> Lease:
        plans[run] = {asset: frozenset(keys)}
        return leases.take(run, plans[run], term)

    return taken


def test_the_same_partitions_are_held_once_and_others_beside_them(leases: Leases, take: Callable[..., Lease]) -> None:
    take("a", "1", "2")
    take("b", "3")
    take("c", "1", asset="orders")
    with pytest.raises(pt.Held, match=r"run a of .*, process \d+ is at work on 1 of these partitions") as caught:
        take("d", "2", "4")
    assert (caught.value.run_id, caught.value.partitions) == ("a", 1)
    assert [lease.run_id for lease in leases.all()] == ["a", "b", "c"]


def test_a_lease_ends_when_it_is_let_go_or_runs_out(leases: Leases, take: Callable[..., Lease]) -> None:
    leases.release(take("a", "1"))
    take("b", "1", term=0.2)
    with pytest.raises(pt.Held):
        take("c", "1")
    time.sleep(0.3)
    take("c", "1")


def test_a_lease_of_a_dead_process_is_none(
    leases: Leases, take: Callable[..., Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = this_process()
    monkeypatch.setattr(room, "this_process", lambda: {**alive, "born": "long ago"})
    take("a", "1")
    monkeypatch.setattr(room, "this_process", lambda: {**alive, "host": "another machine"})
    take("b", "1")
    with pytest.raises(pt.Held):
        take("c", "1")
    assert [lease.run_id for lease in leases.all()] == ["b"]
    assert alive["pid"] == os.getpid()


def test_a_run_that_is_at_work_is_not_resumed_beside_itself(take: Callable[..., Lease]) -> None:
    take("a", "1")
    with pytest.raises(pt.Held):
        take("a", "1")


def test_a_heart_renews_until_it_stops_and_knows_when_the_lease_is_lost(
    leases: Leases, take: Callable[..., Lease]
) -> None:
    with Heart(leases, take("a", "1", term=0.8), term=0.8) as heart:
        held = []
        for _ in range(2):
            time.sleep(1.0)
            held.append(heart.is_held)
            for lease in leases.all():
                leases.release(lease)
    assert held == [True, False]
    assert leases.all() == []


def test_of_many_who_want_the_same_one_gets_it(leases: Leases, take: Callable[..., Lease]) -> None:
    def tried(number: int) -> bool:
        try:
            take(f"run{number}", "1")
        except pt.Held:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(tried, range(24))) == 1


def test_old_changes_are_removed_and_a_slow_writer_does_not_count(
    leases: Leases, take: Callable[..., Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = take("a", "1")
    for _ in range(120):
        leases.renew(lease)
    assert len(list(leases.storage.list("w/leases"))) <= 60
    # One that read the list long ago, and finds the next number free because it was removed.
    stale: list[tuple[int, list[Lease]]] = [(0, [])]
    read = Leases._read
    monkeypatch.setattr(Leases, "_read", lambda self: stale.pop() if stale else read(self))
    with pytest.raises(pt.Held):
        take("b", "1")
    assert [one.run_id for one in leases.all()] == ["a"]


def test_letting_go_of_a_lost_lease_leaves_the_one_who_has_it_now(leases: Leases, take: Callable[..., Lease]) -> None:
    lost = take("a", "1", term=0.1)
    time.sleep(0.2)
    now = take("a", "1")
    leases.release(lost)
    assert not leases.renew(lost)
    assert leases.renew(now)
    assert [one.token for one in leases.all()] == [now.token]
