"""identity, truncate and void, whose results have the type of the column; and functions that Partita doesn't know."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import cast

from partita.algebra.calendar import iso_date
from partita.algebra.hashing import decimal_text
from partita.algebra.interval import Interval, prefix_interval
from partita.algebra.physical_values import PhysicalValue, is_in_range, to_physical_value
from partita.algebra.transforms.base import Transform, TransformFamily
from partita.algebra.types import FLOAT_KINDS, INTEGER_KINDS, NESTED_KINDS, DecimalType, LogicalType, TypeKind
from partita.errors import SchemaError

_PRIMITIVE_KINDS = frozenset(TypeKind) - NESTED_KINDS - {TypeKind.OTHER, TypeKind.NULL}
_TRUNCATABLE_KINDS = INTEGER_KINDS | {TypeKind.DECIMAL, TypeKind.STRING, TypeKind.BINARY}


@dataclass(frozen=True, slots=True)
class IdentityTransform(Transform):
    """The value itself."""

    name = "identity"
    accepted_kinds = {  # noqa: RUF012 # declared as a ClassVar by the base class
        TransformFamily.ICEBERG: _PRIMITIVE_KINDS,
        TransformFamily.LANCE: _PRIMITIVE_KINDS - FLOAT_KINDS,
    }
    field_suffix = ""
    is_identity = True
    keeps_source_type = True

    def call_text(self, column: str) -> str:
        return column

    def directory_text(self, result: str, type_: LogicalType) -> str:
        return iso_date(int(result)) if type_.kind is TypeKind.DATE else result

    def _apply(self, value: object, type_: LogicalType, family: TransformFamily) -> object:
        to_physical_value(value, type_)
        return value

    def preimage(self, result: PhysicalValue, type_: LogicalType, family: TransformFamily) -> Interval:
        return Interval(result, result)


@dataclass(frozen=True, slots=True)
class TruncateTransform(Transform):
    """The first `width` code points or bytes, or the number floored to a multiple of `width`."""

    width: int

    name = "truncate"
    accepted_kinds = dict.fromkeys(TransformFamily, _TRUNCATABLE_KINDS)
    field_suffix = "_trunc"
    parameter_name = "width"
    parameter_label = "width"
    keeps_source_type = True

    @property
    def parameter(self) -> int:
        return self.width

    def results_text(self, family: TransformFamily) -> str:
        return f"a value that {self} makes"

    def truncate(self, value: PhysicalValue) -> PhysicalValue:
        """Truncate a physical value."""
        return value[: self.width] if isinstance(value, str | bytes) else value - value % self.width

    def _apply(self, value: object, type_: LogicalType, family: TransformFamily) -> object:
        result = self.truncate(to_physical_value(value, type_))
        if isinstance(result, int) and not is_in_range(result, type_):
            raise SchemaError(f"{self} of {value} is {result}, which is below the range of type {type_}")
        return Decimal(decimal_text(cast("int", result), type_.scale)) if isinstance(type_, DecimalType) else result

    def preimage(self, result: PhysicalValue, type_: LogicalType, family: TransformFamily) -> Interval:
        if not isinstance(result, str | bytes):
            return Interval(result, result + self.width - 1)
        return Interval(result, result) if len(result) < self.width else prefix_interval(result)


@dataclass(frozen=True, slots=True)
class VoidTransform(Transform):
    """Null for every value; Iceberg v1 keeps a dropped field in place with it."""

    name = "void"
    accepted_kinds = {TransformFamily.ICEBERG: frozenset(TypeKind)}  # noqa: RUF012 # declared as a ClassVar above
    field_suffix = "_null"
    is_void = True
    keeps_source_type = True

    def results_text(self, family: TransformFamily) -> str:
        return "null"

    def _apply(self, value: object, type_: LogicalType, family: TransformFamily) -> object:
        return None


@dataclass(frozen=True, slots=True)
class UnknownTransform(Transform):
    """A function of a foreign table that Partita can't compute: its field is neither written nor pruned by."""

    text: str

    name = "unknown"
    accepted_kinds = {}  # noqa: RUF012 # declared as a ClassVar by the base class
    is_known = False

    def __str__(self) -> str:
        return self.text

    def call_text(self, column: str) -> str:
        return f"{self.text}({column})"

    def default_field_name(self, source: str) -> str:
        return f"{source}_{self.text}"

    def _type_problem(self, type_: LogicalType, family: TransformFamily) -> str | None:
        return "Partita doesn't know this function"

    def _apply(self, value: object, type_: LogicalType, family: TransformFamily) -> object:
        raise AssertionError(f"{self} is refused by check_type")
