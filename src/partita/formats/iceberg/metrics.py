"""Column metrics of new data files for their manifest entries, from the Parquet footers.

Bounds are Iceberg's binary single values (specification, appendix D). `write.metadata.metrics` of the table says how
much of strings and binaries is kept; columns inside lists and maps have no metrics.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from partita.algebra.schema import Schema
from partita.algebra.types import BINARY_KINDS, INTEGER_KINDS, DecimalType, LogicalType, StructType, TypeKind
from partita.errors import TableError, value_repr
from partita.formats.iceberg.properties import int_property
from partita.formats.parquet_files import FileFooter, FloatStatistics, column_chunks

_DEFAULT_METRICS_MODE = "truncate(16)"
_MAX_INFERRED_COLUMNS = 100
"""Columns that get bounds unless the table's properties name them."""


@dataclass(frozen=True, slots=True)
class MetricsColumn:
    """A column with metrics: its id, its type, and the width of its bounds; None keeps all of them, 0 none."""

    field_id: int
    type: LogicalType
    truncate_width: int | None


@dataclass(frozen=True, slots=True)
class IcebergMetricsCollector:
    """Collects the metrics of a file; `columns` are keyed by their path in files."""

    columns: Mapping[str, MetricsColumn]

    def __call__(self, footer: FileFooter) -> str:
        metrics: dict[str, dict[int, Any]] = {name: {} for name in _METRIC_FIELDS}
        for path, chunks in column_chunks(footer.metadata).items():
            column = self.columns.get(path)
            if column is not None:
                self._collect_column_metrics(column, chunks, footer.float_statistics.get(path), metrics)
        offsets = [
            _row_group_offset(footer.metadata.row_group(index)) for index in range(footer.metadata.num_row_groups)
        ]
        return json.dumps({**metrics, "split_offsets": offsets})

    def _collect_column_metrics(
        self,
        column: MetricsColumn,
        chunks: list[Any],
        floats: FloatStatistics | None,
        metrics: dict[str, dict[int, Any]],
    ) -> None:
        field_id = column.field_id
        metrics["column_sizes"][field_id] = sum(chunk.total_compressed_size for chunk in chunks)
        metrics["value_counts"][field_id] = sum(chunk.num_values for chunk in chunks)
        if floats is not None:
            metrics["null_value_counts"][field_id] = floats.null_count
            metrics["nan_value_counts"][field_id] = floats.nan_count
            bounds: tuple[Any, Any] | None = (floats.min_value, floats.max_value)
        else:
            statistics = [chunk.statistics for chunk in chunks]
            if any(s is None or not s.has_null_count for s in statistics):
                return
            metrics["null_value_counts"][field_id] = sum(s.null_count for s in statistics)
            bounds = _min_and_max([s for s in statistics if s.num_values], column.type)
        if bounds is not None and column.truncate_width != 0:
            for metric, encode_bound in (("lower_bounds", lower_bound), ("upper_bounds", upper_bound)):
                value = bounds[metric == "upper_bounds"]
                bound = None if value is None else encode_bound(value, column.type, column.truncate_width)
                if bound is not None:
                    metrics[metric][field_id] = base64.b64encode(bound).decode()


_METRIC_FIELDS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)


def metrics_from_json(details: str) -> dict[str, Any]:
    """Parse the metrics that an executor returned into fields of a manifest entry."""
    document = json.loads(details)
    metrics: dict[str, Any] = {
        name: {int(field_id): value for field_id, value in document[name].items()} for name in _METRIC_FIELDS
    }
    for name in ("lower_bounds", "upper_bounds"):
        metrics[name] = {field_id: base64.b64decode(text) for field_id, text in metrics[name].items()}
    return {**metrics, "split_offsets": document["split_offsets"]}


def metrics_columns(
    schema: Schema, field_ids: Mapping[str, int], properties: Mapping[str, str]
) -> dict[str, MetricsColumn]:
    """Return the columns with metrics by their paths in the table: all that are not inside a list or a map."""
    default = properties.get("write.metadata.metrics.default")
    max_inferred = int_property(
        properties, "write.metadata.metrics.max-inferred-column-defaults", _MAX_INFERRED_COLUMNS
    )
    columns: dict[str, MetricsColumn] = {}
    for index, (path, type_) in enumerate(_leaf_columns(schema.fields, "")):
        default_mode = default if default is not None else _DEFAULT_METRICS_MODE if index < max_inferred else "none"
        mode = properties.get(f"write.metadata.metrics.column.{path}", default_mode)
        width = _truncate_width(mode)
        if mode != "none":
            columns[path] = MetricsColumn(field_ids[path], type_, width)
    return columns


def _leaf_columns(fields: Any, parent_path: str) -> list[tuple[str, LogicalType]]:
    leaves: list[tuple[str, LogicalType]] = []
    for f in fields:
        if isinstance(f.type, StructType):
            leaves += _leaf_columns(f.type.fields, f"{parent_path}{f.name}.")
        elif f.type.kind not in (TypeKind.LIST, TypeKind.MAP):
            leaves.append((f"{parent_path}{f.name}", f.type))
    return leaves


def _truncate_width(mode: str) -> int | None:
    match = re.fullmatch(r"truncate\((\d+)\)", mode)
    if match is not None:
        return int(match[1])
    if mode not in ("none", "counts", "full"):
        raise TableError(f"write.metadata.metrics must be none, counts, truncate(n) or full, not {value_repr(mode)}")
    return None if mode == "full" else 0


def _row_group_offset(group: Any) -> int:
    first = group.column(0)
    return int(first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset)


def _min_and_max(chunk_statistics: list[Any], type_: LogicalType) -> tuple[Any, Any] | None:
    if not chunk_statistics or any(not s.has_min_max for s in chunk_statistics):
        return None
    return min(_comparable_bound(s.min_raw, type_) for s in chunk_statistics), max(
        _comparable_bound(s.max_raw, type_) for s in chunk_statistics
    )


def _comparable_bound(raw_bound: Any, type_: LogicalType) -> Any:
    """Return a bound in a form that compares: numbers, unscaled ones for decimals, and bytes."""
    if isinstance(type_, DecimalType) and isinstance(raw_bound, bytes):
        return int.from_bytes(raw_bound, "big", signed=True)
    return raw_bound.encode() if isinstance(raw_bound, str) else raw_bound


def lower_bound(value: Any, type_: LogicalType, width: int | None) -> bytes | None:
    """Encode the least value, truncated to a width."""
    if type_.kind is TypeKind.STRING and width is not None:
        return bytes(value).decode()[:width].encode()
    return bytes(value[:width]) if type_.kind in BINARY_KINDS else _single_value_bytes(value, type_)


def upper_bound(value: Any, type_: LogicalType, width: int | None) -> bytes | None:
    """Encode the greatest value; a truncated one is incremented, and None if that is impossible."""
    if type_.kind is TypeKind.STRING and width is not None:
        text = bytes(value).decode()
        return text.encode() if len(text) <= width else _increment_text(text[:width])
    if type_.kind in BINARY_KINDS:
        return bytes(value) if width is None or len(value) <= width else _increment_bytes(value[:width])
    return _single_value_bytes(value, type_)


def _increment_text(text: str) -> bytes | None:
    for index in reversed(range(len(text))):
        code = ord(text[index]) + 1
        if code == 0xD800:
            code = 0xE000  # the code points between are surrogates
        if code <= 0x10FFFF:
            return (text[:index] + chr(code)).encode()
    return None


def _increment_bytes(octets: bytes) -> bytes | None:
    prefix = octets.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


_STRUCT_FORMATS = {
    TypeKind.LONG: "<q", TypeKind.TIME: "<q", TypeKind.TIMESTAMP: "<q", TypeKind.TIMESTAMP_NTZ: "<q",
    TypeKind.DATE: "<i", TypeKind.FLOAT: "<f", TypeKind.DOUBLE: "<d", TypeKind.BOOLEAN: "<?",
}  # fmt: skip


def _single_value_bytes(value: Any, type_: LogicalType) -> bytes | None:
    if isinstance(type_, DecimalType):
        return int(value).to_bytes(int(value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)
    if type_.kind in INTEGER_KINDS and type_.kind is not TypeKind.LONG:
        return struct.pack("<i", value)
    if type_.kind in _STRUCT_FORMATS:
        return struct.pack(_STRUCT_FORMATS[type_.kind], value)
    return bytes(value) if isinstance(value, bytes) else None
