"""What is kept in memory: up to a size, and what was asked for last the longest."""

from __future__ import annotations

from partita.kept import Kept


def test_what_was_asked_for_longest_ago_goes_first() -> None:
    kept: Kept[str, int] = Kept(10)
    for at, key in enumerate("abc"):
        assert kept.keep(key, at, 3) == at
    assert kept.find("a") == 0
    kept.keep("d", 3, 4)
    assert [kept.find(key) for key in "abcd"] == [0, None, 2, 3]


def test_what_is_kept_twice_counts_once_and_stays_the_first() -> None:
    kept: Kept[str, int] = Kept(10)
    kept.keep("a", 1, 6)
    assert kept.keep("a", 2, 6) == 2
    assert kept.find("a") == 1
    kept.keep("b", 3, 4)
    assert [kept.find(key) for key in "ab"] == [1, 3]


def test_what_is_larger_than_all_that_may_be_kept_drives_nothing_out() -> None:
    kept: Kept[str, int] = Kept(10)
    kept.keep("a", 1, 6)
    assert kept.keep("b", 2, 11) == 2
    assert [kept.find(key) for key in "ab"] == [1, None]


def test_all_can_be_dropped() -> None:
    kept: Kept[str, int] = Kept(10)
    kept.keep("a", 1, 10)
    kept.clear()
    assert kept.find("a") is None
    kept.keep("b", 2, 10)
    assert kept.find("b") == 2
