"""What a manifest says of a file's columns, from the footer of the file.

Bounds are Iceberg's single values in binary (specification, appendix D); of texts and bytes as many as the table's
`write.metadata.metrics` say, and never inside the values.
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
from partita.algebra.types import BYTES, INTEGERS, DecimalType, Kind, LogicalType, StructType
from partita.errors import TableError, value_repr
from partita.formats.iceberg.properties import number_in
from partita.formats.parquet import Floats, Footer, column_chunks

_DEFAULT = "truncate(16)"
_INFERRED = 100
"""How many columns have bounds unless the table names them."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A column that is measured: its id, its type, and how much of its bounds is kept; None is all, 0 is none."""

    field_id: int
    type: LogicalType
    width: int | None


@dataclass(frozen=True, slots=True)
class Described:
    """The metrics of files, for the columns of a table by their path in files."""

    columns: Mapping[str, Measured]

    def __call__(self, footer: Footer) -> str:
        metrics: dict[str, dict[int, Any]] = {name: {} for name in _NAMES}
        for path, chunks in column_chunks(footer.metadata).items():
            column = self.columns.get(path)
            if column is not None:
                self._measure(column, chunks, footer.floats.get(path), metrics)
        offsets = [_offset(footer.metadata.row_group(at)) for at in range(footer.metadata.num_row_groups)]
        return json.dumps({**metrics, "split_offsets": offsets})

    def _measure(
        self, column: Measured, chunks: list[Any], floats: Floats | None, metrics: dict[str, dict[int, Any]]
    ) -> None:
        number = column.field_id
        metrics["column_sizes"][number] = sum(chunk.total_compressed_size for chunk in chunks)
        metrics["value_counts"][number] = sum(chunk.num_values for chunk in chunks)
        if floats is not None:
            metrics["null_value_counts"][number] = floats.nulls
            metrics["nan_value_counts"][number] = floats.nans
            ends: tuple[Any, Any] | None = (floats.least, floats.greatest)
        else:
            found = [chunk.statistics for chunk in chunks]
            if any(s is None or not s.has_null_count for s in found):
                return
            metrics["null_value_counts"][number] = sum(s.null_count for s in found)
            ends = _ends([s for s in found if s.num_values], column.type)
        if ends is not None and column.width != 0:
            for name, end in (("lower_bounds", lower_bound), ("upper_bounds", upper_bound)):
                value = ends[name == "upper_bounds"]
                bound = None if value is None else end(value, column.type, column.width)
                if bound is not None:
                    metrics[name][number] = base64.b64encode(bound).decode()


_NAMES = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


def metrics_of(details: str) -> dict[str, Any]:
    """The metrics as the fields of a manifest's entry, from the text that an executor told."""
    told = json.loads(details)
    metrics: dict[str, Any] = {name: {int(number): value for number, value in told[name].items()} for name in _NAMES}
    for name in ("lower_bounds", "upper_bounds"):
        metrics[name] = {number: base64.b64decode(text) for number, text in metrics[name].items()}
    return {**metrics, "split_offsets": told["split_offsets"]}


def measured_columns(schema: Schema, ids: Mapping[str, int], properties: Mapping[str, str]) -> dict[str, Measured]:
    """The columns that are measured, by their paths in the table: all that are not inside of a list or a map."""
    default = properties.get("write.metadata.metrics.default")
    inferred = number_in(properties, "write.metadata.metrics.max-inferred-column-defaults", _INFERRED)
    found: dict[str, Measured] = {}
    for at, (path, type_) in enumerate(_leaves(schema.fields, "")):
        usual = default if default is not None else _DEFAULT if at < inferred else "none"
        mode = properties.get(f"write.metadata.metrics.column.{path}", usual)
        width = _width(mode)
        if mode != "none":
            found[path] = Measured(ids[path], type_, width)
    return found


def _leaves(fields: Any, above: str) -> list[tuple[str, LogicalType]]:
    leaves: list[tuple[str, LogicalType]] = []
    for f in fields:
        if isinstance(f.type, StructType):
            leaves += _leaves(f.type.fields, f"{above}{f.name}.")
        elif f.type.kind not in (Kind.LIST, Kind.MAP):
            leaves.append((f"{above}{f.name}", f.type))
    return leaves


def _width(mode: str) -> int | None:
    cut = re.fullmatch(r"truncate\((\d+)\)", mode)
    if cut is not None:
        return int(cut[1])
    if mode not in ("none", "counts", "full"):
        raise TableError(f"write.metadata.metrics is none, counts, truncate(n) or full, not {value_repr(mode)}")
    return None if mode == "full" else 0


def _offset(group: Any) -> int:
    first = group.column(0)
    return int(first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset)


def _ends(found: list[Any], type_: LogicalType) -> tuple[Any, Any] | None:
    if not found or any(not s.has_min_max for s in found):
        return None
    return min(_plain(s.min_raw, type_) for s in found), max(_plain(s.max_raw, type_) for s in found)


def _plain(raw: Any, type_: LogicalType) -> Any:
    """An end as what compares: numbers, unscaled ones for decimals, and bytes."""
    if isinstance(type_, DecimalType) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    return raw.encode() if isinstance(raw, str) else raw


def lower_bound(value: Any, type_: LogicalType, width: int | None) -> bytes | None:
    """The least value in binary, cut to a width."""
    if type_.kind is Kind.STRING and width is not None:
        return bytes(value).decode()[:width].encode()
    return bytes(value[:width]) if type_.kind in BYTES else _binary(value, type_)


def upper_bound(value: Any, type_: LogicalType, width: int | None) -> bytes | None:
    """The greatest value in binary; what is cut ends one higher, and there is none where it can't."""
    if type_.kind is Kind.STRING and width is not None:
        text = bytes(value).decode()
        return text.encode() if len(text) <= width else _raised_text(text[:width])
    if type_.kind in BYTES:
        return bytes(value) if width is None or len(value) <= width else _raised_bytes(value[:width])
    return _binary(value, type_)


def _raised_text(text: str) -> bytes | None:
    for at in reversed(range(len(text))):
        code = ord(text[at]) + 1
        if code == 0xD800:
            code = 0xE000  # what lies between is no character
        if code <= 0x10FFFF:
            return (text[:at] + chr(code)).encode()
    return None


def _raised_bytes(octets: bytes) -> bytes | None:
    stripped = octets.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


_FORMS = {Kind.LONG: "<q", Kind.TIME: "<q", Kind.TIMESTAMP: "<q", Kind.TIMESTAMP_NTZ: "<q", Kind.DATE: "<i",
          Kind.FLOAT: "<f", Kind.DOUBLE: "<d", Kind.BOOLEAN: "<?"}  # fmt: skip


def _binary(value: Any, type_: LogicalType) -> bytes | None:
    if isinstance(type_, DecimalType):
        return int(value).to_bytes(int(value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)
    if type_.kind in INTEGERS and type_.kind is not Kind.LONG:
        return struct.pack("<i", value)
    if type_.kind in _FORMS:
        return struct.pack(_FORMS[type_.kind], value)
    return bytes(value) if isinstance(value, bytes) else None
