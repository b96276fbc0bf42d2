"""The transactions of Partita's own runs, `partita/<ULID of the run>/...`: nobody asks for one long after its run."""

from __future__ import annotations

import time
from collections.abc import Iterable

from partita.algebra.ulid import is_ulid, ulid_millis

RETENTION_MILLIS = 30 * 24 * 3600 * 1000
"""Milliseconds for which the transactions of a run are kept, and its plan, without which it can't be resumed."""

_RUN_PREFIX = "partita/"


def expired_applications(applications: Iterable[str], now: int | None = None) -> list[str]:
    """The applications among those that are runs from so long ago that they can be forgotten."""
    before = (time.time_ns() // 1_000_000 if now is None else now) - RETENTION_MILLIS
    return [one for one in applications if _run_start_millis(one, before) < before]


def _run_start_millis(application: str, default_millis: int) -> int:
    """When a run began, in milliseconds from 1970; of what is no run, `before`."""
    run, _, _ = application.removeprefix(_RUN_PREFIX).partition("/")
    return ulid_millis(run) if application.startswith(_RUN_PREFIX) and is_ulid(run) else default_millis
