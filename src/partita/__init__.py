"""Partita, the partition layer of a lakehouse. Each name is loaded when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partita import arrow as arrow
    from partita import formats as formats
    from partita import spark as spark
    from partita.algebra.functions import (
        bucket,
        day,
        hash,  # noqa: A004 - the seed's name for it
        hour,
        identity,
        month,
        truncate,
        void,
        year,
    )
    from partita.algebra.key import PartitionKey
    from partita.algebra.predicate import Predicate, col
    from partita.algebra.schema import Schema
    from partita.algebra.spec import PartitionField, PartitionSpec, SpecHistory
    from partita.algebra.transforms import PartitionFunction
    from partita.arrow.prune import Pruned, Statistics, prune
    from partita.arrow.spec import parse_spec
    from partita.errors import (
        Conflict,
        ConstraintError,
        JavaMissing,
        KeyFormatError,
        KeyValueError,
        PartitaError,
        PartitionsError,
        PartitionValueError,
        PredicateError,
        SchemaError,
        SpecError,
        SpecFormatError,
        StorageError,
        TableError,
        TableExists,
        TableMissing,
        TransformError,
        UnknownColumn,
        UnknownSpec,
        UnsupportedFeature,
    )
    from partita.formats.merge import when_matched, when_not_matched, when_not_matched_by_source
    from partita.formats.opening import open_table
    from partita.formats.table import Table
    from partita.lake import Lake

_ROOMS = {
    "partita.algebra.functions": (
        "bucket", "day", "hash", "hour", "identity", "month", "truncate", "void", "year",
    ),
    "partita.algebra.key": ("PartitionKey",),
    "partita.algebra.predicate": ("Predicate", "col"),
    "partita.algebra.schema": ("Schema",),
    "partita.algebra.spec": ("PartitionField", "PartitionSpec", "SpecHistory"),
    "partita.algebra.transforms": ("PartitionFunction",),
    "partita.arrow.prune": ("Pruned", "Statistics", "prune"),
    "partita.arrow.spec": ("parse_spec",),
    "partita.errors": (
        "Conflict", "ConstraintError", "JavaMissing", "KeyFormatError", "KeyValueError", "PartitaError",
        "PartitionValueError", "PartitionsError", "PredicateError", "SchemaError", "SpecError", "SpecFormatError",
        "StorageError", "TableError", "TableExists", "TableMissing", "TransformError", "UnknownColumn", "UnknownSpec",
        "UnsupportedFeature",
    ),
    "partita.formats.merge": ("when_matched", "when_not_matched", "when_not_matched_by_source"),
    "partita.formats.opening": ("open_table",),
    "partita.formats.table": ("Table",),
    "partita.lake": ("Lake",),
}  # fmt: skip
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "Conflict",
    "ConstraintError",
    "JavaMissing",
    "KeyFormatError",
    "KeyValueError",
    "Lake",
    "PartitaError",
    "PartitionField",
    "PartitionFunction",
    "PartitionKey",
    "PartitionSpec",
    "PartitionValueError",
    "PartitionsError",
    "Predicate",
    "PredicateError",
    "Pruned",
    "Schema",
    "SchemaError",
    "SpecError",
    "SpecFormatError",
    "SpecHistory",
    "Statistics",
    "StorageError",
    "Table",
    "TableError",
    "TableExists",
    "TableMissing",
    "TransformError",
    "UnknownColumn",
    "UnknownSpec",
    "UnsupportedFeature",
    "bucket",
    "col",
    "day",
    "hash",
    "hour",
    "identity",
    "month",
    "open_table",
    "parse_spec",
    "prune",
    "truncate",
    "void",
    "when_matched",
    "when_not_matched",
    "when_not_matched_by_source",
    "year",
]


def __getattr__(name: str) -> object:
    if name in ("arrow", "formats", "spark"):
        return import_module(f"partita.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'partita' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "arrow", "formats", "spark"]
