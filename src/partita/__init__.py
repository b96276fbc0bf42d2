"""Partita, the partition layer of a lakehouse. Each name is loaded when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partita import arrow as arrow
    from partita import formats as formats
    from partita import spark as spark
    from partita import status as status
    from partita.algebra.freshness import cron
    from partita.algebra.key import PartitionKey
    from partita.algebra.mappings import all_partitions, mapped_by, same_key, window_offset
    from partita.algebra.partition_functions import (
        bucket,
        day,
        hash,  # noqa: A004 - the Lance partition spec's name for it
        hour,
        identity,
        month,
        truncate,
        void,
        year,
    )
    from partita.algebra.partition_sets import PartitionSet, daily, dynamic, hourly, monthly, static, weekly
    from partita.algebra.predicate import Predicate, col
    from partita.algebra.schema import Schema
    from partita.algebra.spec import PartitionField, PartitionSpec, SpecHistory
    from partita.algebra.transforms import PartitionFunction
    from partita.arrow.prune import ColumnStatistics, PruneResult, prune
    from partita.arrow.schema import parse_spec
    from partita.assets.asset import Asset, asset, source
    from partita.assets.pipeline import Pipeline, load_pipeline
    from partita.assets.plan_file import load_plan
    from partita.assets.progress import RunResult
    from partita.assets.run_plan import RunPlan
    from partita.errors import (
        CommitConflict,
        ConstraintError,
        DefinitionError,
        JavaMissing,
        KeyFormatError,
        KeyValueError,
        PartitaError,
        PartitionsError,
        PartitionsLeased,
        PartitionValueError,
        PlanError,
        PlanOutdated,
        PredicateError,
        ProjectError,
        RowsOutsidePartitions,
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
        UnsupportedOperation,
    )
    from partita.formats.lake_tables import open_table
    from partita.formats.merge_clauses import when_matched, when_not_matched, when_not_matched_by_source
    from partita.formats.table import Table
    from partita.lake import Lake
    from partita.status.explanation import StatusExplanation
    from partita.status.states import DisplayStatus, compute_display_status

_NAMES_BY_MODULE = {
    "partita.algebra.freshness": ("cron",),
    "partita.algebra.partition_functions": (
        "bucket",
        "day",
        "hash",
        "hour",
        "identity",
        "month",
        "truncate",
        "void",
        "year",
    ),
    "partita.algebra.key": ("PartitionKey",),
    "partita.algebra.mappings": ("all_partitions", "mapped_by", "same_key", "window_offset"),
    "partita.algebra.partition_sets": ("PartitionSet", "daily", "dynamic", "hourly", "monthly", "static", "weekly"),
    "partita.algebra.predicate": ("Predicate", "col"),
    "partita.algebra.schema": ("Schema",),
    "partita.algebra.spec": ("PartitionField", "PartitionSpec", "SpecHistory"),
    "partita.algebra.transforms": ("PartitionFunction",),
    "partita.arrow.prune": ("PruneResult", "ColumnStatistics", "prune"),
    "partita.arrow.schema": ("parse_spec",),
    "partita.assets.asset": ("Asset", "asset", "source"),
    "partita.assets.pipeline": ("Pipeline", "load_pipeline"),
    "partita.assets.plan_file": ("load_plan",),
    "partita.assets.run_plan": ("RunPlan",),
    "partita.assets.progress": ("RunResult",),
    "partita.errors": (
        "CommitConflict",
        "ConstraintError",
        "DefinitionError",
        "PartitionsLeased",
        "JavaMissing",
        "KeyFormatError",
        "KeyValueError",
        "RowsOutsidePartitions",
        "PartitaError",
        "PartitionValueError",
        "PartitionsError",
        "PlanError",
        "PredicateError",
        "ProjectError",
        "SchemaError",
        "SpecError",
        "SpecFormatError",
        "StatusError",
        "StorageError",
        "TableError",
        "TableExists",
        "TableMissing",
        "TimeZoneError",
        "TransformError",
        "UnknownAsset",
        "UnknownColumn",
        "UnknownSpec",
        "UnsupportedFeature",
        "UnsupportedOperation",
        "PlanOutdated",
    ),
    "partita.formats.merge_clauses": ("when_matched", "when_not_matched", "when_not_matched_by_source"),
    "partita.formats.lake_tables": ("open_table",),
    "partita.formats.table": ("Table",),
    "partita.lake": ("Lake",),
    "partita.status.states": ("DisplayStatus", "compute_display_status"),
    "partita.status.explanation": ("StatusExplanation",),
}
_MODULE_BY_NAME = {name: room for room, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = [
    "Asset",
    "ColumnStatistics",
    "CommitConflict",
    "ConstraintError",
    "DefinitionError",
    "DisplayStatus",
    "JavaMissing",
    "KeyFormatError",
    "KeyValueError",
    "Lake",
    "PartitaError",
    "PartitionField",
    "PartitionFunction",
    "PartitionKey",
    "PartitionSet",
    "PartitionSpec",
    "PartitionValueError",
    "PartitionsError",
    "PartitionsLeased",
    "Pipeline",
    "PlanError",
    "PlanOutdated",
    "Predicate",
    "PredicateError",
    "ProjectError",
    "PruneResult",
    "RowsOutsidePartitions",
    "RunPlan",
    "RunResult",
    "Schema",
    "SchemaError",
    "SpecError",
    "SpecFormatError",
    "SpecHistory",
    "StatusError",
    "StatusExplanation",
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
    "UnsupportedOperation",
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
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module 'partita' has no attribute {name!r}")
    value: object = getattr(import_module(_MODULE_BY_NAME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "arrow", "formats", "spark", "status"]
