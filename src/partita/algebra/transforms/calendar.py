"""year, month, day and hour."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, cast

from partita.algebra.calendar import (
    DAY,
    HOUR,
    MICROS_PER_DAY,
    MICROS_PER_HOUR,
    MONTH,
    YEAR,
    IntOrArray,
    civil_from_days,
    days_from_civil,
    iso_date,
)
from partita.algebra.interval import Interval
from partita.algebra.physical_values import PhysicalValue, to_physical_value
from partita.algebra.transforms.base import Transform, TransformFamily
from partita.algebra.types import TIMESTAMP_KINDS, LogicalType, TypeKind


@dataclass(frozen=True, slots=True)
class CalendarTransform(Transform):
    """A calendar field (Lance), or the number of years, months, days or hours since 1970 (Iceberg)."""

    accepted_kinds = dict.fromkeys(TransformFamily, TIMESTAMP_KINDS | {TypeKind.DATE})
    time_unit: ClassVar[str]
    calendar_range: ClassVar[range]
    """The values of the calendar field."""
    unit_micros: ClassVar[int] = MICROS_PER_DAY
    """The microseconds of the unit that `period_start` counts in: a day, or an hour."""
    text_width = 2

    def result_range(self, family: TransformFamily) -> range | None:
        return self.calendar_range if family is TransformFamily.LANCE else None

    def _apply(self, value: object, type_: LogicalType, family: TransformFamily) -> object:
        return self.compute(to_physical_value(value, type_), type_, family)

    @abstractmethod
    def compute(self, value: IntOrArray, type_: LogicalType, family: TransformFamily) -> IntOrArray:
        """Apply the function to physical values: days for a date, microseconds for a timestamp or a time."""

    @abstractmethod
    def period_start(self, ordinal: IntOrArray) -> IntOrArray:
        """Return the start of the period with the Iceberg ordinal, in units of `unit_micros` since 1970."""

    def preimage(self, result: PhysicalValue, type_: LogicalType, family: TransformFamily) -> Interval | None:
        if family is TransformFamily.LANCE:
            return None
        return self._period_interval(cast("int", result), type_)

    def _period_interval(self, ordinal: int, type_: LogicalType) -> Interval:
        unit = 1 if type_.kind is TypeKind.DATE else self.unit_micros
        return Interval(self.period_start(ordinal) * unit, self.period_start(ordinal + 1) * unit - 1)


@dataclass(frozen=True, slots=True)
class YearTransform(CalendarTransform):
    """The year."""

    name = "year"
    aliases = ("years",)
    field_suffix = "_year"
    time_unit = YEAR
    calendar_range = range(-(2**31), 2**31)
    text_width = 4

    def compute(self, value: IntOrArray, type_: LogicalType, family: TransformFamily) -> IntOrArray:
        year, _, _ = civil_from_days(_to_days(value, type_))
        return year if family is TransformFamily.LANCE else year - 1970

    def period_start(self, ordinal: IntOrArray) -> IntOrArray:
        return days_from_civil(ordinal + 1970, 1, 1)

    def preimage(self, result: PhysicalValue, type_: LogicalType, family: TransformFamily) -> Interval:
        first_year = 1970 if family is TransformFamily.LANCE else 0
        return self._period_interval(cast("int", result) - first_year, type_)

    def directory_text(self, result: str, type_: LogicalType) -> str:
        return f"{1970 + int(result):04d}"


@dataclass(frozen=True, slots=True)
class MonthTransform(CalendarTransform):
    """The month of the year (Lance), or the number of months since January 1970 (Iceberg)."""

    name = "month"
    aliases = ("months",)
    field_suffix = "_month"
    time_unit = MONTH
    calendar_range = range(1, 13)

    def compute(self, value: IntOrArray, type_: LogicalType, family: TransformFamily) -> IntOrArray:
        year, month, _ = civil_from_days(_to_days(value, type_))
        return month if family is TransformFamily.LANCE else (year - 1970) * 12 + month - 1

    def period_start(self, ordinal: IntOrArray) -> IntOrArray:
        return days_from_civil(1970 + ordinal // 12, ordinal % 12 + 1, 1)

    def directory_text(self, result: str, type_: LogicalType) -> str:
        return f"{1970 + int(result) // 12:04d}-{int(result) % 12 + 1:02d}"


@dataclass(frozen=True, slots=True)
class DayTransform(CalendarTransform):
    """The day of the month (Lance), or the number of days since 1970-01-01 (Iceberg)."""

    name = "day"
    aliases = ("days",)
    field_suffix = "_day"
    time_unit = DAY
    calendar_range = range(1, 32)

    def compute(self, value: IntOrArray, type_: LogicalType, family: TransformFamily) -> IntOrArray:
        days = _to_days(value, type_)
        return civil_from_days(days)[2] if family is TransformFamily.LANCE else days

    def period_start(self, ordinal: IntOrArray) -> IntOrArray:
        return ordinal

    def directory_text(self, result: str, type_: LogicalType) -> str:
        return iso_date(int(result))


@dataclass(frozen=True, slots=True)
class HourTransform(CalendarTransform):
    """The hour of the day (Lance), or the number of hours since 1970-01-01T00:00Z (Iceberg)."""

    name = "hour"
    aliases = ("hours",)
    accepted_kinds = {  # noqa: RUF012 # declared as a ClassVar by the base class
        TransformFamily.ICEBERG: TIMESTAMP_KINDS,
        TransformFamily.LANCE: TIMESTAMP_KINDS | {TypeKind.TIME},
    }
    field_suffix = "_hour"
    time_unit = HOUR
    calendar_range = range(24)
    unit_micros = MICROS_PER_HOUR

    def compute(self, value: IntOrArray, type_: LogicalType, family: TransformFamily) -> IntOrArray:
        return (value % MICROS_PER_DAY if family is TransformFamily.LANCE else value) // MICROS_PER_HOUR

    def period_start(self, ordinal: IntOrArray) -> IntOrArray:
        return ordinal

    def directory_text(self, result: str, type_: LogicalType) -> str:
        return f"{iso_date(int(result) // 24)}-{int(result) % 24:02d}"


def _to_days(value: IntOrArray, type_: LogicalType) -> IntOrArray:
    return value if type_.kind is TypeKind.DATE else value // MICROS_PER_DAY
