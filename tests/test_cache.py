"""The LRU cache: bounded by size, least recently used first out."""

from __future__ import annotations

from partita.cache import LruCache


def test_the_least_recently_used_value_is_evicted_first() -> None:
    cache: LruCache[str, int] = LruCache(10)
    for index, key in enumerate("abc"):
        assert cache.put(key, index, 3) == index
    assert cache.get("a") == 0
    cache.put("d", 3, 4)
    assert [cache.get(key) for key in "abcd"] == [0, None, 2, 3]


def test_a_cached_key_keeps_its_first_value_and_counts_once() -> None:
    cache: LruCache[str, int] = LruCache(10)
    cache.put("a", 1, 6)
    assert cache.put("a", 2, 6) == 2
    assert cache.get("a") == 1
    cache.put("b", 3, 4)
    assert [cache.get(key) for key in "ab"] == [1, 3]


def test_a_value_larger_than_the_cache_evicts_nothing() -> None:
    cache: LruCache[str, int] = LruCache(10)
    cache.put("a", 1, 6)
    assert cache.put("b", 2, 11) == 2
    assert [cache.get(key) for key in "ab"] == [1, None]


def test_a_cache_can_be_cleared() -> None:
    cache: LruCache[str, int] = LruCache(10)
    cache.put("a", 1, 10)
    cache.clear()
    assert cache.get("a") is None
    cache.put("b", 2, 10)
    assert cache.get("b") == 2
