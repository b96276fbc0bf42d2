"""Time zones by the names that Spark takes, and what local times mean in them.

| name | zone |
|---|---|
| `UTC`, `GMT`, `UT`, `Z` | UTC |
| `+05:30`, `-8`, `+0530`, `+5:30`, `+05:30:15` | a fixed offset, 18 hours at most |
| `UTC+01:00`, `GMT-8`, `UT+3` | the same |
| `Europe/Berlin`, `EST5EDT`, `Etc/GMT+5` | a region of the tz database |
| `PST`, `JST`, `EST`, ... | one of Java's short ids |

A local time that clocks skip is shifted forward by the length of the gap, and of one that they show twice the first is
meant, as in Java: Python does the same with `fold=0`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from partita.errors import TimeZoneError

FIRST_YEAR, LAST_YEAR = 1970, 2099
"""The years of a region whose rules are relied on: before and after them, tz databases differ."""


@dataclass(frozen=True, slots=True)
class TimeZone:
    """A time zone. Without `rules`, only Spark knows what a local time means in it.

    `timestamp_is_ntz` is true of a session in which TIMESTAMP is short for TIMESTAMP_NTZ.
    """

    name: str
    rules: tzinfo | None
    timestamp_is_ntz: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether every local time has the same offset."""
        return isinstance(self.rules, timezone)

    def instant(self, local: datetime) -> datetime | None:
        """The instant, in UTC, of a local time; None where it isn't known."""
        if self.rules is None or not self._has_rules_for(local):
            return None
        return _in_utc(local.replace(tzinfo=self.rules))

    def local(self, instant: datetime) -> datetime | None:
        """The local time, without a zone, of an instant; None where it isn't known."""
        try:
            local = None if self.rules is None else instant.astimezone(self.rules).replace(tzinfo=None, fold=0)
        except (OverflowError, ValueError):
            return None
        return local if local is not None and self._has_rules_for(local) else None

    def start_of_day(self, day: date) -> datetime | None:
        """The first instant of a day, which is midnight unless clocks skip that; None where it isn't known.

        Of a gap that begins before midnight, only the tz database knows the end.
        """
        start = self.instant(datetime.combine(day, time(0)))
        if start is None or self.is_fixed or self.local(start) == datetime.combine(day, time(0)):
            return start
        before = self.local(start - timedelta(microseconds=1))
        return start if before is not None and before.date() < day else None

    def _has_rules_for(self, local: datetime) -> bool:
        return self.is_fixed or FIRST_YEAR <= local.year <= LAST_YEAR


def _in_utc(value: datetime) -> datetime | None:
    try:
        return value.astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def find_time_zone(name: str) -> TimeZone:
    """The time zone of a name, as Spark reads it; any other name is a `TimeZoneError`."""
    return TimeZone(name, rules_of(name))


def rules_of(name: str) -> tzinfo:
    """The rules of the time zone of a name."""
    rules = _rules(name) if isinstance(name, str) else None
    if rules is None:
        raise TimeZoneError(name)
    return rules


@lru_cache(maxsize=256)
def _rules(name: str) -> tzinfo | None:
    padded = re.sub(r"([+-][0-9]{2}):([0-9])$", r"\1:0\2", re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", name, count=1))
    meant = _SHORT_IDS.get(padded, padded)
    if meant in _UTC:
        return UTC
    offset = _OFFSET.fullmatch(meant)
    return _region(meant) if offset is None else _fixed(offset)


_UTC = frozenset({"UTC", "GMT", "UT", "Z", "Etc/UTC", "Etc/GMT", "Etc/UCT", "Etc/Zulu", "Zulu", "UCT", "Universal"})
_OFFSET = re.compile(
    "(?:UTC|GMT|UT)?([+-])(?:([0-9])|([0-9]{2})(?::([0-9]{2})(?::([0-9]{2}))?|([0-9]{2})([0-9]{2})?)?)"
)
_REGION = re.compile("[A-Za-z][A-Za-z0-9~/._+-]+")
_NO_REGIONS = ("posix/", "right/", "posixrules", "localtime", "Factory")
"""Files beside the regions of the tz database."""


def _fixed(offset: re.Match[str]) -> timezone | None:
    hours, minutes, seconds = (
        int(next((offset[group] for group in groups if offset[group]), 0)) for groups in ((2, 3), (4, 6), (5, 7))
    )
    found = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or found > timedelta(hours=18):
        return None
    if not found:
        return UTC
    return timezone(-found if offset[1] == "-" else found)


def _region(name: str) -> ZoneInfo | None:
    if not _REGION.fullmatch(name) or name.startswith(_NO_REGIONS):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


_SHORT_IDS = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Java's `ZoneId.SHORT_IDS`."""

IN_UTC = TimeZone("UTC", UTC)
