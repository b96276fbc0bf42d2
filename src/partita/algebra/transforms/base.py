"""What every partition function has, and a partition function of a column."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from partita.algebra.calendar import DAY
from partita.algebra.interval import Interval
from partita.algebra.physical_values import PhysicalValue, infer_type, to_python_value
from partita.algebra.type_text import parse_type
from partita.algebra.types import DATE, INT, LogicalType, TypeKind
from partita.errors import SchemaError, SpecError, TransformError, value_repr


class TransformFamily(StrEnum):
    """Which definition of the partition functions a table uses."""

    ICEBERG = "iceberg"
    LANCE = "lance"

    @classmethod
    def of(cls, name: str) -> TransformFamily:
        """Return the family with the given name; raise `SpecError` for any other name."""
        for family in cls:
            if family == name:
                return family
        raise SpecError(f"unknown family of partition functions {value_repr(name)}; use 'iceberg' or 'lance'")


@dataclass(frozen=True, slots=True)
class Transform(ABC):
    """A partition function without its column, such as `bucket[16]`."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names that specs may use, such as Spark's `days`."""
    accepted_kinds: ClassVar[Mapping[TransformFamily, frozenset[TypeKind]]]
    """The types that the function takes, by family; a family that is missing does not have the function."""
    field_suffix: ClassVar[str]
    """What the default name of a partition field appends to the column's name."""
    parameter_name: ClassVar[str | None] = None
    """The name of the integer argument in the JSON of a Lance namespace, or None for a function without argument."""
    parameter_label: ClassVar[str] = ""
    """The integer argument in the words of error messages."""
    time_unit: ClassVar[str | None] = None
    """`year`, `month`, `day` or `hour` for the calendar functions."""
    text_width: ClassVar[int | None] = None
    """To how many digits the names of Lance partitions pad a result, or None."""
    is_known: ClassVar[bool] = True
    """False for a function that Partita can't compute: such a field is neither written nor pruned by."""
    is_identity: ClassVar[bool] = False
    is_void: ClassVar[bool] = False
    is_hashed: ClassVar[bool] = False
    """Whether the result depends on the hash of the value, so that it does not keep the order of values."""
    keeps_source_type: ClassVar[bool] = False
    """Whether results have the type of the source column."""

    @property
    def parameter(self) -> int | None:
        """The integer argument, or None for a function without argument."""
        return None

    def __str__(self) -> str:
        return self.name if self.parameter is None else f"{self.name}[{self.parameter}]"

    def call_text(self, column: str) -> str:
        """Return the function call as the text of a spec has it, such as `bucket(16, user_id)`."""
        return f"{self.name}({column})" if self.parameter is None else f"{self.name}({self.parameter}, {column})"

    def default_field_name(self, source: str) -> str:
        """Return the name of a partition field without an alias: `ts_day`, `user_id_bucket`, `name_trunc`."""
        return source + self.field_suffix

    def check_type(self, type_: LogicalType, family: TransformFamily, column: str | None = None) -> None:
        """Raise `TransformError` if the function does not take the type in the family."""
        if not isinstance(type_, LogicalType):
            raise SchemaError(f"a type is a LogicalType or the name of one, not {value_repr(type_)}")
        problem = self._type_problem(type_, family)
        if problem is not None:
            raise TransformError(str(self), column, str(type_), problem)

    def _type_problem(self, type_: LogicalType, family: TransformFamily) -> str | None:
        accepted_kinds = self.accepted_kinds.get(family)
        if accepted_kinds is None:
            return f"the {family} family has no such function"
        if type_.kind not in accepted_kinds:
            return f"it takes {', '.join(kind.value for kind in TypeKind if kind in accepted_kinds)}"
        return None

    def result_type(self, type_: LogicalType) -> LogicalType:
        """Return the type of the results; for Iceberg's `day` that is `int` (see `key_type`)."""
        return type_ if self.keeps_source_type else INT

    def key_type(self, type_: LogicalType, family: TransformFamily) -> LogicalType:
        """Return the type of the results in partition keys and manifests, where Iceberg's `day` is a date."""
        return DATE if self.time_unit == DAY and family is TransformFamily.ICEBERG else self.result_type(type_)

    def result_range(self, family: TransformFamily) -> range | None:
        """Return the range of the results of a function that has few of them, or None."""
        return None

    def results_text(self, family: TransformFamily) -> str:
        """Describe the possible results in the words of error messages."""
        limits = self.result_range(family)
        return "a value" if limits is None else f"a number from {limits.start} to {limits.stop - 1}"

    def directory_text(self, result: str, type_: LogicalType) -> str:
        """Return what a directory name of Iceberg holds for a result, given as the text of its physical value."""
        return result

    def apply(self, value: object, type_: LogicalType, family: TransformFamily, column: str | None = None) -> object:
        """Apply the function to one value of the given type; errors name the column if it is given."""
        self.check_type(type_, family, column)
        value = to_python_value(value)
        return None if value is None else self._apply(value, type_, family)

    @abstractmethod
    def _apply(self, value: object, type_: LogicalType, family: TransformFamily) -> object: ...

    def preimage(self, result: PhysicalValue, type_: LogicalType, family: TransformFamily) -> Interval | None:
        """Return the interval of all source values with the given result, or None if they are not one interval.

        Lance's month, day and hour repeat; `partita.algebra.domains` combines them with the other fields of a column.
        """
        return None

    def is_calendar_part(self, family: TransformFamily) -> bool:
        """Return whether results are calendar fields that the other fields on the column complete."""
        return self.time_unit is not None and family is TransformFamily.LANCE


@dataclass(frozen=True, slots=True)
class PartitionFunction:
    """A transform of one column. `identity`, `day`, `bucket` and their like return one.

    There are two families of functions. Iceberg's `year`, `month`, `day` and `hour` count from 1970. Lance's are parts
    of the calendar: the `month` of any December is 12.

    Attributes:
        source: the name of the column; the path to a field of a struct has dots.
        transform: the transform.
        name: the name of the partition field.
    """

    source: str
    transform: Transform
    name: str

    def alias(self, name: str) -> PartitionFunction:
        """Return the same function with another name for its partition field."""
        if not isinstance(name, str) or not name:
            raise SpecError(f"the name of a partition field must be a non-empty string, not {value_repr(name)}")
        return replace(self, name=name)

    def apply(self, value: object, *, family: str, type: LogicalType | str | None = None) -> object:  # noqa: A002
        """Apply the function to one Python value.

        Examples:
            >>> PartitionFunction("user_id", BucketTransform(16), "shard").apply(34, family="iceberg")
            3

        Args:
            value: the value; None gives None.
            family: "iceberg" or "lance".
            type: the type of the value, such as "decimal(4,2)"; by default it is inferred from the value.

        Raises:
            TransformError: the function does not take the type.
        """
        if value is None and type is None:
            TransformFamily.of(family)
            return None
        value_type = infer_type(value) if type is None else parse_type(type) if isinstance(type, str) else type
        return self.transform.apply(value, value_type, TransformFamily.of(family), self.source)

    def __str__(self) -> str:
        call = self.transform.call_text(_quote_name(self.source))
        is_default = self.name == self.transform.default_field_name(self.source)
        return call if is_default else f"{call} AS {_quote_name(self.name)}"


def _quote_name(name: str) -> str:
    """Quote a name with backquotes if the parser of specs would not read it as a name otherwise."""
    return name if re.fullmatch(r"[^\W\d][\w.]*", name) and name.lower() != "as" else f"`{name.replace('`', '``')}`"
