"""Freshness policies: until when a materialization counts as fresh."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, TypeAlias

from partita.algebra.cron import Cron
from partita.errors import DefinitionError, value_repr


@dataclass(frozen=True, slots=True)
class MaximumLag:
    """A materialization is fresh for so long."""

    lag: timedelta

    def __post_init__(self) -> None:
        _check_lag(self.lag)

    def document(self) -> dict[str, Any]:
        """The policy as JSON."""
        return {"maximum_lag": self.lag.total_seconds()}


@dataclass(frozen=True, slots=True)
class Deadline:
    """At every moment of the schedule there must be a materialization that is at most `lag` old.

    Without a lag it must have come after the moment before.
    """

    cron: Cron
    lag: timedelta | None = None

    def __post_init__(self) -> None:
        if self.lag is not None:
            _check_lag(self.lag)

    def document(self) -> dict[str, Any]:
        """The policy as JSON."""
        lag = None if self.lag is None else self.lag.total_seconds()
        return {"cron": self.cron.text, "time_zone": self.cron.time_zone, "lag": lag}

    def deadlines(self, first: datetime, last: datetime, now: datetime) -> list[tuple[int, int]]:
        """Pairs of a moment and a deadline, in microseconds: what was made up to the one is fresh until the other.

        A materialization belongs to the first pair whose moment is not before it. They are for materializations from
        `first` to `last`, and for deadlines until `now`.
        """
        lag = timedelta(0) if self.lag is None else self.lag
        if lag > now - first:
            return []
        until = last + lag if lag < now - last else now
        ticks = self.cron.ticks(first + lag, until) + self.cron.following(until, 2, now)
        if self.lag is None:
            return list(pairwise(ticks))
        # What is older than `lag` at a tick, if only by a microsecond, doesn't meet it.
        return [(tick - lag // timedelta(microseconds=1) - 1, tick) for tick in ticks]


_LONGEST = timedelta(days=365_000)


def _check_lag(lag: timedelta) -> None:
    if lag > _LONGEST:
        raise DefinitionError(f"a lag of {lag.days:,} days is more than {_LONGEST.days:,}; leave freshness out")


Freshness: TypeAlias = MaximumLag | Deadline


def cron(schedule: str, *, time_zone: str = "UTC", lag: timedelta | None = None) -> Deadline:
    """Deadlines on a cron schedule: at each, a partition must have been materialized since the one before.

    With a `lag`, it must have been materialized at most so long before each.
    """
    if lag is not None and (not isinstance(lag, timedelta) or lag < timedelta(0)):
        raise DefinitionError(f"a lag is a timedelta that is not negative, not {value_repr(lag)}")
    return Deadline(Cron(schedule, time_zone), lag)


def as_freshness(given: object) -> Freshness | None:
    """A policy from what an asset was given: a timedelta is the maximum lag."""
    if given is None or isinstance(given, MaximumLag | Deadline):
        return given
    if isinstance(given, timedelta):
        if given <= timedelta(0):
            raise DefinitionError(f"a maximum lag is positive, which {given} is not")
        return MaximumLag(given)
    raise DefinitionError(f"freshness is a timedelta or cron(...), not {value_repr(given)}")


def freshness_of(document: dict[str, Any] | None) -> Freshness | None:
    """The policy that its `document` gave."""
    if document is None:
        return None
    if "maximum_lag" in document:
        return MaximumLag(timedelta(seconds=document["maximum_lag"]))
    if "cron" in document:
        lag = document["lag"]
        return Deadline(Cron(document["cron"], document["time_zone"]), None if lag is None else timedelta(seconds=lag))
    raise DefinitionError("the freshness policy is of a kind that this version of Partita doesn't know")
