"""State that belongs to one Spark session: cached DataFrames and readers, and settings that are overridden for a while.

The state is an attribute of the session object, so that it is freed with the session. A `WeakKeyDictionary` would never
free it: a cached DataFrame refers to its session, so the values of the dictionary would keep its keys alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


def session_state(spark: SparkSession, name: str, create: Callable[[], T]) -> T:
    """Return the state of that name that the session has, or else a new one that it then has."""
    states: dict[str, object] = vars(spark).setdefault("_partita_state", {})
    state = states.get(name)
    return cast("T", states.setdefault(name, create()) if state is None else state)


@contextmanager
def override_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of the session while a block runs.

    If several threads override the same setting at once, the last of them restores it.
    """
    overrides: dict[str, tuple[str | None, int]] = session_state(spark, "overrides", dict)
    changed_keys: list[str] = []
    try:
        with _settings_lock:
            for key, value in settings.items():
                original, users = overrides[key] if key in overrides else (spark.conf.get(key, None), 0)
                spark.conf.set(key, value)
                overrides[key] = original, users + 1
                changed_keys.append(key)
        yield
    finally:
        with _settings_lock:
            for key in changed_keys:
                original, users = overrides.pop(key)
                if users > 1:
                    overrides[key] = original, users - 1
                elif original is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, original)


_settings_lock = Lock()
