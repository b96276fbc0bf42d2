"""Checks before anything is written: tables that can't be written, and files that don't fit their spec."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import TYPE_CHECKING
from uuid import UUID

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.transforms import BucketTransform, UnknownTransform, VoidTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from partita.errors import PartitionsError, PartitionValueError, TableError, UnknownSpec, UnsupportedFeature
from partita.formats.iceberg.import_guard import check_no_location_provider
from partita.formats.iceberg.manifests.data_files import group_files_by_spec, referenced_path
from partita.formats.iceberg.snapshot_summary import SnapshotOperation
from partita.formats.iceberg.specs import partition_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.table.metadata import TableMetadata

    from partita.formats.iceberg.snapshot_change import SnapshotChange

_WRITABLE_FORMAT_VERSIONS = (1, 2)


def check_writable(metadata: TableMetadata) -> None:
    """Raise `UnsupportedFeature` for format version 3, unknown partition transforms and location providers.

    Transforms are checked in every spec: pyiceberg doesn't keep the name of an unknown transform, so any metadata that
    it writes would lose it.
    """
    check_no_location_provider(metadata.properties)
    version = int(metadata.format_version)
    if version not in _WRITABLE_FORMAT_VERSIONS:
        raise UnsupportedFeature((f"format version {version} (versions 1 and 2 are written)",), "writing to")
    for spec in metadata.partition_specs:
        for field in spec.fields:
            if isinstance(field.transform, UnknownTransform):
                raise UnsupportedFeature((f"the transform of partition field {field.name!r}",), "writing to")


def validate_change(metadata: TableMetadata, change: SnapshotChange) -> None:
    """Raise an error for a change that no commit could make valid."""
    check_writable(metadata)
    if change.operation not in list(SnapshotOperation):
        raise TableError(f"unknown operation {change.operation!r}; use one of {', '.join(SnapshotOperation)}")
    removes = change.removed_data_files or change.removed_delete_files or change.added_delete_files
    if change.operation == SnapshotOperation.APPEND and removes:
        raise TableError("an append can't remove files; use another operation")
    if metadata.format_version == 1 and (change.added_delete_files or change.removed_delete_files):
        raise TableError("a table of version 1 has no delete files; rewrite the data files, or upgrade the table")
    removed_and_required = change.required_data_files & change.removed_data_files
    if removed_and_required:
        path = min(removed_and_required)
        raise TableError(f"delete files reference the data file {path}, which the same commit removes")
    added_paths: set[str] = set()
    for spec_id, files in group_files_by_spec(change.added_files).items():
        spec, struct = _spec_and_partition_type(metadata, spec_id)
        for file in files:
            if file.file_path in added_paths:
                raise PartitionsError(f"file {file.file_path} is added twice")
            added_paths.add(file.file_path)
            _check_partition(file, spec, struct)
            _check_file_content(file, change)
    added_and_removed = added_paths & (change.removed_data_files | change.removed_delete_files)
    if added_and_removed:
        raise PartitionsError(f"file {min(added_and_removed)} is added and removed at once")


def _spec_and_partition_type(metadata: TableMetadata, spec_id: int) -> tuple[PartitionSpec, StructType]:
    specs = metadata.specs()
    if spec_id not in specs:
        raise UnknownSpec(spec_id, tuple(sorted(specs)))
    return specs[spec_id], partition_type(metadata, specs[spec_id])


def _check_partition(file: DataFile, spec: PartitionSpec, struct: StructType) -> None:
    if len(file.partition) != len(spec.fields):
        raise PartitionsError(
            f"file {file.file_path} has a partition of {len(file.partition)} values, "
            f"but spec {spec.spec_id} has {len(spec.fields)} fields"
        )
    for index, (field, struct_field) in enumerate(zip(spec.fields, struct.fields, strict=True)):
        _check_partition_value(file.partition[index], field, struct_field.field_type)


def _check_partition_value(value: object, field: PartitionField, type_: IcebergType) -> None:
    if value is None:
        return
    if isinstance(field.transform, VoidTransform):
        raise PartitionValueError(field.name, "null, because its transform is void", repr(value))
    if not _VALUE_CHECKS[type(type_)](value, type_):
        raise PartitionValueError(field.name, f"a plain {type_}", f"{value!r} ({type(value).__name__})")
    buckets = field.transform.num_buckets if isinstance(field.transform, BucketTransform) else None
    if buckets is not None and isinstance(value, int) and not 0 <= value < buckets:
        raise PartitionValueError(field.name, f"a bucket from 0 to {buckets - 1}", repr(value))


def _check_file_content(file: DataFile, change: SnapshotChange) -> None:
    if file.content == DataFileContent.EQUALITY_DELETES:
        raise UnsupportedFeature(("equality deletes",), "writing to")
    has_no_reference = referenced_path(file) is None and not change.referenced_data_files
    if file.content == DataFileContent.POSITION_DELETES and has_no_reference:
        raise PartitionsError(
            f"position-delete file {file.file_path} does not say which data files it references; "
            "set its referenced_data_file, or SnapshotChange.referenced_data_files"
        )


def _integer_check(bits: int) -> Callable[[object, IcebergType], bool]:
    limit = 1 << (bits - 1)
    return lambda value, _: isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _is_decimal(value: object, type_: IcebergType) -> bool:
    # Avro stores the unscaled digits only, so the exponent must be that of the type.
    if not isinstance(type_, DecimalType) or not isinstance(value, Decimal) or not value.is_finite():
        return False
    _, digits, exponent = value.as_tuple()
    return exponent == -type_.scale and len(digits) <= type_.precision


def _is_float32(value: float) -> bool:
    """Return whether a 32-bit float holds the value exactly; another would be read back as another partition."""
    try:
        return math.isnan(value) or struct.unpack("<f", struct.pack("<f", value))[0] == value
    except OverflowError:
        return False


def _is_fixed(value: object, type_: IcebergType) -> bool:
    return isinstance(type_, FixedType) and isinstance(value, bytes) and len(value) == len(type_)


_VALUE_CHECKS: Mapping[type[IcebergType], Callable[[object, IcebergType], bool]] = {
    BooleanType: lambda value, _: isinstance(value, bool),
    IntegerType: _integer_check(32),
    DateType: _integer_check(32),
    **dict.fromkeys((LongType, TimeType, TimestampType, TimestamptzType), _integer_check(64)),
    FloatType: lambda value, _: isinstance(value, float) and _is_float32(value),
    DoubleType: lambda value, _: isinstance(value, float),
    StringType: lambda value, _: isinstance(value, str),
    BinaryType: lambda value, _: isinstance(value, bytes),
    FixedType: _is_fixed,
    UUIDType: lambda value, _: isinstance(value, UUID) or (isinstance(value, bytes) and len(value) == 16),
    DecimalType: _is_decimal,
}
