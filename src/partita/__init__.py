"""Partita, the partition layer of a lakehouse. Each name is loaded when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partita import arrow as arrow
    from partita import formats as formats
    from partita import spark as spark
    from partita import status as status
    from partita.algebra.freshness import cron
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
    from partita.algebra.mappings import all_partitions, mapped_by, same_key, window_offset
    from partita.algebra.partition_sets import PartitionSet, daily, dynamic, hourly, monthly, static, weekly
    from partita.algebra.predicate import Predicate, col
    from partita.algebra.schema import Schema
    from partita.algebra.spec import PartitionField, PartitionSpec, SpecHistory
    from partita.algebra.transforms import PartitionFunction
    from partita.arrow.prune import Pruned, Statistics, prune
    from partita.arrow.spec import parse_spec
    from partita.assets.asset import Asset, asset, source
    from partita.assets.pipeline import Pipeline, load_pipeline
    from partita.assets.plan import Plan, load_plan
    from partita.assets.progress import RunResult
    from partita.errors import (
        Conflict,
        ConstraintError,
        DefinitionError,
        Held,
        JavaMissing,
        KeyFormatError,
        KeyValueError,
        OutsidePartitions,
        PartitaError,
        PartitionsError,
        PartitionValueError,
        PlanError,
        PredicateError,
        ProjectError,
        SchemaError,
        SpecError,
        SpecFormatError,
        StatusError,
        StorageError,
        TableError,
        TableExists,
        TableMissing,
        TimeZoneError,
        TransformError,
        UnknownAsset,
        UnknownColumn,
        UnknownSpec,
        UnsupportedFeature,
        WorldMoved,
    )
    from partita.formats.merge import when_matched, when_not_matched, when_not_matched_by_source
    from partita.formats.opening import open_table
    from partita.formats.table import Table
    from partita.lake import Lake
    from partita.status.display import DisplayStatus, compute_display_status
    from partita.status.why import Why

_ROOMS = {
    "partita.algebra.freshness": ("cron",),
    "partita.algebra.functions": (
        "bucket", "day", "hash", "hour", "identity", "month", "truncate", "void", "year",
    ),
    "partita.algebra.key": ("PartitionKey",),
    "partita.algebra.mappings": ("all_partitions", "mapped_by", "same_key", "window_offset"),
    "partita.algebra.partition_sets": ("PartitionSet", "daily", "dynamic", "hourly", "monthly", "static", "weekly"),
    "partita.algebra.predicate": ("Predicate", "col"),
    "partita.algebra.schema": ("Schema",),
    "partita.algebra.spec": ("PartitionField", "PartitionSpec", "SpecHistory"),
    "partita.algebra.transforms": ("PartitionFunction",),
    "partita.arrow.prune": ("Pruned", "Statistics", "prune"),
    "partita.arrow.spec": ("parse_spec",),
    "partita.assets.asset": ("Asset", "asset", "source"),
    "partita.assets.pipeline": ("Pipeline", "load_pipeline"),
    "partita.assets.plan": ("Plan", "load_plan"),
    "partita.assets.progress": ("RunResult",),
    "partita.errors": (
        "Conflict", "ConstraintError", "DefinitionError", "Held", "JavaMissing", "KeyFormatError", "KeyValueError",
        "OutsidePartitions", "PartitaError", "PartitionValueError", "PartitionsError", "PlanError", "PredicateError",
        "ProjectError", "SchemaError", "SpecError", "SpecFormatError", "StatusError", "StorageError", "TableError",
        "TableExists", "TableMissing", "TimeZoneError", "TransformError", "UnknownAsset", "UnknownColumn",
        "UnknownSpec", "UnsupportedFeature", "WorldMoved",
    ),
    "partita.formats.merge": ("when_matched", "when_not_matched", "when_not_matched_by_source"),
    "partita.formats.opening": ("open_table",),
    "partita.formats.table": ("Table",),
    "partita.lake": ("Lake",),
    "partita.status.display": ("DisplayStatus", "compute_display_status"),
    "partita.status.why": ("Why",),
}  # fmt: skip
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "Asset",
    "Conflict",
    "ConstraintError",
    "DefinitionError",
    "DisplayStatus",
    "Held",
    "JavaMissing",
    "KeyFormatError",
    "KeyValueError",
    "Lake",
    "OutsidePartitions",
    "PartitaError",
    "PartitionField",
    "PartitionFunction",
    "PartitionKey",
    "PartitionSet",
    "PartitionSpec",
    "PartitionValueError",
    "PartitionsError",
    "Pipeline",
    "Plan",
    "PlanError",
    "Predicate",
    "PredicateError",
    "ProjectError",
    "Pruned",
    "RunResult",
    "Schema",
    "SchemaError",
    "SpecError",
    "SpecFormatError",
    "SpecHistory",
    "Statistics",
    "StatusError",
    "StorageError",
    "Table",
    "TableError",
    "TableExists",
    "TableMissing",
    "TimeZoneError",
    "TransformError",
    "UnknownAsset",
    "UnknownColumn",
    "UnknownSpec",
    "UnsupportedFeature",
    "Why",
    "WorldMoved",
    "all_partitions",
    "asset",
    "bucket",
    "col",
    "compute_display_status",
    "cron",
    "daily",
    "day",
    "dynamic",
    "hash",
    "hour",
    "hourly",
    "identity",
    "load_pipeline",
    "load_plan",
    "mapped_by",
    "month",
    "monthly",
    "open_table",
    "parse_spec",
    "prune",
    "same_key",
    "source",
    "static",
    "truncate",
    "void",
    "weekly",
    "when_matched",
    "when_not_matched",
    "when_not_matched_by_source",
    "window_offset",
    "year",
]


def __getattr__(name: str) -> object:
    if name in ("arrow", "formats", "spark", "status"):
        return import_module(f"partita.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'partita' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "arrow", "formats", "spark", "status"]
