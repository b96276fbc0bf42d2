"""Time zones by the names that Spark accepts, and the meaning of local times in them.

| name | zone |
|---|---|
| `UTC`, `GMT`, `UT`, `Z` | UTC |
| `+05:30`, `-8`, `+0530`, `+5:30`, `+05:30:15` | a fixed offset, 18 hours at most |
| `UTC+01:00`, `GMT-8`, `UT+3` | a fixed offset |
| `Europe/Berlin`, `EST5EDT`, `Etc/GMT+5` | a region of the tz database |
| `PST`, `JST`, `EST`, ... | one of Java's short ids |

A local time that clocks skip is shifted forward by the length of the gap, and one that they show twice is the first of
the two instants, as in Java and in Python with `fold=0`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from partita.errors import TimeZoneError

FIRST_YEAR, LAST_YEAR = 1970, 2099
"""The years for which the rules of regions are used: before and after them, tz databases differ."""


@dataclass(frozen=True, slots=True)
class TimeZone:
    """A time zone; without `rules`, only Spark can interpret local times in it.

    `timestamp_is_ntz` is true for a session in which TIMESTAMP means TIMESTAMP_NTZ.
    """

    name: str
    rules: tzinfo | None
    timestamp_is_ntz: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether the offset is always the same."""
        return isinstance(self.rules, timezone)

    def to_instant(self, local: datetime) -> datetime | None:
        """Return the instant of a local time, in UTC, or None if it is not known."""
        if self.rules is None or not self._has_rules_for(local):
            return None
        return _to_utc(local.replace(tzinfo=self.rules))

    def to_local(self, instant: datetime) -> datetime | None:
        """Return the local time of an instant, without a zone, or None if it is not known."""
        try:
            local = None if self.rules is None else instant.astimezone(self.rules).replace(tzinfo=None, fold=0)
        except (OverflowError, ValueError):
            return None
        return local if local is not None and self._has_rules_for(local) else None

    def start_of_day(self, day: date) -> datetime | None:
        """Return the first instant of a day, which is midnight unless clocks skip it, or None if it is not known.

        The end of a gap that begins before midnight is not known.
        """
        start = self.to_instant(datetime.combine(day, time(0)))
        if start is None or self.is_fixed or self.to_local(start) == datetime.combine(day, time(0)):
            return start
        before = self.to_local(start - timedelta(microseconds=1))
        return start if before is not None and before.date() < day else None

    def _has_rules_for(self, local: datetime) -> bool:
        return self.is_fixed or FIRST_YEAR <= local.year <= LAST_YEAR


def _to_utc(value: datetime) -> datetime | None:
    try:
        return value.astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def find_time_zone(name: str) -> TimeZone:
    """Return the time zone that Spark has for a name; raise `TimeZoneError` if there is none."""
    return TimeZone(name, find_zone_rules(name))


def find_zone_rules(name: str) -> tzinfo:
    """Return the rules of the time zone with the given name; raise `TimeZoneError` if there is none."""
    rules = _find_rules(name) if isinstance(name, str) else None
    if rules is None:
        raise TimeZoneError(name)
    return rules


@lru_cache(maxsize=256)
def _find_rules(name: str) -> tzinfo | None:
    padded_name = re.sub(r"([+-][0-9]{2}):([0-9])$", r"\1:0\2", re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", name, count=1))
    zone_id = _SHORT_IDS.get(padded_name, padded_name)
    if zone_id in _UTC_NAMES:
        return UTC
    offset = _OFFSET_PATTERN.fullmatch(zone_id)
    return _region_rules(zone_id) if offset is None else _fixed_offset(offset)


_UTC_NAMES = frozenset(
    {"UTC", "GMT", "UT", "Z", "Etc/UTC", "Etc/GMT", "Etc/UCT", "Etc/Zulu", "Zulu", "UCT", "Universal"}
)
_OFFSET_PATTERN = re.compile(
    "(?:UTC|GMT|UT)?([+-])(?:([0-9])|([0-9]{2})(?::([0-9]{2})(?::([0-9]{2}))?|([0-9]{2})([0-9]{2})?)?)"
)
_REGION_PATTERN = re.compile("[A-Za-z][A-Za-z0-9~/._+-]+")
_EXCLUDED_REGIONS = ("posix/", "right/", "posixrules", "localtime", "Factory")
"""Files of the tz database that are not regions."""


def _fixed_offset(offset: re.Match[str]) -> timezone | None:
    hours, minutes, seconds = (
        int(next((offset[group] for group in groups if offset[group]), 0)) for groups in ((2, 3), (4, 6), (5, 7))
    )
    distance = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or distance > timedelta(hours=18):
        return None
    if not distance:
        return UTC
    return timezone(-distance if offset[1] == "-" else distance)


def _region_rules(name: str) -> ZoneInfo | None:
    if not _REGION_PATTERN.fullmatch(name) or name.startswith(_EXCLUDED_REGIONS):
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

UTC_TIME_ZONE = TimeZone("UTC", UTC)
