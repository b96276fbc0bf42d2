"""Freshness policies: how long a materialization is fresh."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, TypeAlias

from partita.algebra.cron import CronSchedule
from partita.errors import DefinitionError, value_repr


@dataclass(frozen=True, slots=True)
class MaximumLag:
    """A materialization is fresh until `lag` has passed."""

    lag: timedelta

    def __post_init__(self) -> None:
        _check_lag(self.lag)

    def document(self) -> dict[str, Any]:
        """Return the policy as JSON."""
        return {"maximum_lag": self.lag.total_seconds()}


@dataclass(frozen=True, slots=True)
class Deadline:
    """At every tick of the schedule there must be a materialization that is at most `lag` old.

    Without a lag, it must have come after the previous tick.
    """

    cron: CronSchedule
    lag: timedelta | None = None

    def __post_init__(self) -> None:
        if self.lag is not None:
            _check_lag(self.lag)

    def document(self) -> dict[str, Any]:
        """Return the policy as JSON."""
        lag = None if self.lag is None else self.lag.total_seconds()
        return {"cron": self.cron.text, "time_zone": self.cron.time_zone, "lag": lag}

    def deadlines(self, first: datetime, last: datetime, now: datetime) -> list[tuple[int, int]]:
        """Return pairs of a moment and a deadline, in microseconds since 1970.

        A materialization is fresh until the deadline of the first pair whose moment is not before it. The pairs cover
        materializations from `first` to `last` and deadlines until `now`.
        """
        lag = timedelta(0) if self.lag is None else self.lag
        if lag > now - first:
            return []
        until = last + lag if lag < now - last else now
        ticks = self.cron.ticks(first + lag, until) + self.cron.next_ticks(until, 2, now)
        if self.lag is None:
            return list(pairwise(ticks))
        # A materialization that is a microsecond older than `lag` misses the tick.
        return [(tick - lag // timedelta(microseconds=1) - 1, tick) for tick in ticks]


_MAX_LAG = timedelta(days=365_000)


def _check_lag(lag: timedelta) -> None:
    if lag > _MAX_LAG:
        raise DefinitionError(f"a lag of {lag.days:,} days is over the limit of {_MAX_LAG.days:,}; leave freshness out")


FreshnessPolicy: TypeAlias = MaximumLag | Deadline


def cron(schedule: str, *, time_zone: str = "UTC", lag: timedelta | None = None) -> Deadline:
    """Return a freshness policy with a deadline at each tick of a cron schedule.

    By a tick, a partition must have been materialized since the previous tick or, with a `lag`, at most that long
    before.

    Args:
        schedule: five fields as in cron (minute, hour, day of month, month, day of week), or `@daily` and the like.
        time_zone: the time zone of the schedule.
        lag: how old a materialization may be at a tick.

    Raises:
        DefinitionError: the schedule is invalid or can never match a day.
    """
    if lag is not None and (not isinstance(lag, timedelta) or lag < timedelta(0)):
        raise DefinitionError(f"a lag must be a non-negative timedelta, not {value_repr(lag)}")
    return Deadline(CronSchedule(schedule, time_zone), lag)


def to_freshness_policy(freshness: object) -> FreshnessPolicy | None:
    """Return the policy for the `freshness` argument of an asset; a timedelta is the maximum lag."""
    if freshness is None or isinstance(freshness, MaximumLag | Deadline):
        return freshness
    if isinstance(freshness, timedelta):
        if freshness <= timedelta(0):
            raise DefinitionError(f"a maximum lag must be positive, not {freshness}")
        return MaximumLag(freshness)
    raise DefinitionError(f"freshness must be a timedelta or cron(...), not {value_repr(freshness)}")


def freshness_from_document(document: dict[str, Any] | None) -> FreshnessPolicy | None:
    """Return the policy from its JSON."""
    if document is None:
        return None
    if "maximum_lag" in document:
        return MaximumLag(timedelta(seconds=document["maximum_lag"]))
    if "cron" in document:
        lag = document["lag"]
        return Deadline(
            CronSchedule(document["cron"], document["time_zone"]), None if lag is None else timedelta(seconds=lag)
        )
    raise DefinitionError("unknown kind of freshness policy; a newer version of Partita wrote it")
