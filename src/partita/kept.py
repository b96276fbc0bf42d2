"""What is worth keeping in memory, as it never changes and takes long to make."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by their keys, up to a size in all; what was asked for longest ago goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def find(self, key: K) -> V | None:
        """The value of that key, if it is still here."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def keep(self, key: K, value: V, size: int) -> V:
        """Keep a value of that size, unless it is larger than all that may be kept; it is given back."""
        if size > self._most:
            return value
        with self._lock:
            if key not in self._values:
                self._values[key] = value, size
                self._size += size
            while self._size > self._most:
                _, (_, gone) = self._values.popitem(last=False)
                self._size -= gone
        return value

    def clear(self) -> None:
        """Keep nothing of it."""
        with self._lock:
            self._values.clear()
            self._size = 0
