"""Transactions of Partita's runs (`partita/<ULID of the run>/...`) expire, since only their run checks for them."""

from __future__ import annotations

import time
from collections.abc import Iterable

from partita.algebra.ulid import is_ulid, ulid_millis

RETENTION_MILLIS = 30 * 24 * 3600 * 1000
"""Milliseconds for which the transactions and the plan of a run are kept; after that it can't be resumed."""

_RUN_PREFIX = "partita/"


def expired_applications(applications: Iterable[str], now_millis: int | None = None) -> list[str]:
    """Return the applications that are runs older than `RETENTION_MILLIS`."""
    before = (time.time_ns() // 1_000_000 if now_millis is None else now_millis) - RETENTION_MILLIS
    return [application for application in applications if _run_start_millis(application, before) < before]


def _run_start_millis(application: str, default_millis: int) -> int:
    """Return when a run began, in milliseconds since 1970; the default for an application that is no run."""
    run, _, _ = application.removeprefix(_RUN_PREFIX).partition("/")
    return ulid_millis(run) if application.startswith(_RUN_PREFIX) and is_ulid(run) else default_millis
