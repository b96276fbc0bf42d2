"""A cache of values that never change and are slow to compute."""

from __future__ import annotations

from collections.abc import Hashable
from operator import itemgetter
from threading import Lock
from typing import Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A thread-safe cache of values up to a total size; the least recently used values are evicted first."""

    def __init__(self, max_size: int) -> None:
        self._entries: LRUCache[K, tuple[V, int]] = LRUCache(max_size, getsizeof=itemgetter(1))
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None if it is not cached."""
        with self._lock:
            try:
                return self._entries[key][0]
            except KeyError:
                return None

    def put(self, key: K, value: V, size: int) -> V:
        """Cache a value of that size and return it; the value of a cached key stays.

        A value larger than the whole cache is not cached.
        """
        if size <= self._entries.maxsize:
            with self._lock:
                self._entries.setdefault(key, (value, size))
        return value

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._entries.clear()
