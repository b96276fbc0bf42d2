"""What is refused before anything is written: tables that can't be written, and files that don't fit their spec."""

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
from partita.formats.iceberg.classes import check_no_location_provider
from partita.formats.iceberg.transaction.grouping import group_files_by_spec
from partita.formats.iceberg.transaction.pointers import referenced_path, spec_of
from partita.formats.iceberg.transaction.schemas import partition_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.table.metadata import TableMetadata

    from partita.formats.iceberg.transaction.changes import Changes

OPERATIONS = ("append", "overwrite", "delete", "row_delta", "replace")
_WRITTEN_VERSIONS = (1, 2)


def check_writable(metadata: TableMetadata) -> None:
    """Refuse tables of version 3 and above, and those that need a partition transform or a class that isn't known.

    The latter in any spec: pyiceberg keeps no name of such a transform, so that any metadata it writes would lose it.
    """
    check_no_location_provider(metadata.properties)
    version = int(metadata.format_version)
    if version not in _WRITTEN_VERSIONS:
        raise UnsupportedFeature((f"format version {version} (versions 1 and 2 are written)",), "writing to")
    for spec in metadata.partition_specs:
        for field in spec.fields:
            if isinstance(field.transform, UnknownTransform):
                raise UnsupportedFeature((f"the transform of partition field {field.name!r}",), "writing to")


def validate(metadata: TableMetadata, changes: Changes) -> None:
    """Refuse changes that no commit could make right."""
    check_writable(metadata)
    if changes.operation not in OPERATIONS:
        raise TableError(f"no operation {changes.operation!r}; there are {', '.join(OPERATIONS)}")
    takes = changes.removed or changes.removed_deletes or changes.added_deletes
    if changes.operation == "append" and takes:
        raise TableError("an append takes nothing away; use another operation")
    if metadata.format_version == 1 and (changes.added_deletes or changes.removed_deletes):
        raise TableError("a table of version 1 has no delete files; rewrite the data files, or upgrade the table")
    both = changes.targets & changes.removed
    if both:
        raise TableError(f"deletes point into a data file that goes in the same commit ({min(both)})")
    seen: set[str] = set()
    for spec_id, files in group_files_by_spec(changes.added).items():
        spec, type_ = _known(metadata, spec_id)
        for file in files:
            if file.file_path in seen:
                raise PartitionsError(f"file {file.file_path} is added twice")
            seen.add(file.file_path)
            _check_partition(file, spec, type_)
            _check_content(file, changes)
    again = seen & (changes.removed | changes.removed_deletes)
    if again:
        raise PartitionsError(f"file {min(again)} is added and removed at once")


def validate_data_file(metadata: TableMetadata, file: DataFile) -> None:
    """Refuse a file of a spec that the table doesn't know, or whose partition doesn't fit its spec."""
    _check_partition(file, *_known(metadata, spec_of(file)))


def _known(metadata: TableMetadata, spec_id: int) -> tuple[PartitionSpec, StructType]:
    specs = metadata.specs()
    if spec_id not in specs:
        raise UnknownSpec(spec_id, tuple(sorted(specs)))
    return specs[spec_id], partition_type(metadata, specs[spec_id])


def _check_partition(file: DataFile, spec: PartitionSpec, type_: StructType) -> None:
    if len(file.partition) != len(spec.fields):
        raise PartitionsError(
            f"file {file.file_path} has a partition of {len(file.partition)} values, "
            f"but spec {spec.spec_id} has {len(spec.fields)} fields"
        )
    for at, (field, typed) in enumerate(zip(spec.fields, type_.fields, strict=True)):
        _check_value(file.partition[at], field, typed.field_type)


def _check_value(value: object, field: PartitionField, type_: IcebergType) -> None:
    if value is None:
        return
    if isinstance(field.transform, VoidTransform):
        raise PartitionValueError(field.name, "null, for its transform is void", repr(value))
    if not _FITS[type(type_)](value, type_):
        raise PartitionValueError(field.name, f"a plain {type_}", f"{value!r} ({type(value).__name__})")
    buckets = field.transform.num_buckets if isinstance(field.transform, BucketTransform) else None
    if buckets is not None and isinstance(value, int) and not 0 <= value < buckets:
        raise PartitionValueError(field.name, f"a bucket from 0 to {buckets - 1}", repr(value))


def _check_content(file: DataFile, changes: Changes) -> None:
    if file.content == DataFileContent.EQUALITY_DELETES:
        raise UnsupportedFeature(("equality deletes",), "writing to")
    names_none = referenced_path(file) is None and not changes.referenced
    if file.content == DataFileContent.POSITION_DELETES and names_none:
        raise PartitionsError(
            f"position-delete file {file.file_path} does not say which data files it points into; "
            "give referenced_data_file, or Changes.referenced"
        )


def _whole(bits: int) -> Callable[[object, IcebergType], bool]:
    limit = 1 << (bits - 1)
    return lambda value, _: isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _is_decimal(value: object, type_: IcebergType) -> bool:
    # Avro holds the digits alone, so the exponent must be the type's.
    if not isinstance(type_, DecimalType) or not isinstance(value, Decimal) or not value.is_finite():
        return False
    _, digits, exponent = value.as_tuple()
    return exponent == -type_.scale and len(digits) <= type_.precision


def _is_single(value: float) -> bool:
    """Whether a float of 32 bits holds it; any other would be read back as another partition."""
    try:
        return math.isnan(value) or struct.unpack("<f", struct.pack("<f", value))[0] == value
    except OverflowError:
        return False


def _is_fixed(value: object, type_: IcebergType) -> bool:
    return isinstance(type_, FixedType) and isinstance(value, bytes) and len(value) == len(type_)


_FITS: Mapping[type[IcebergType], Callable[[object, IcebergType], bool]] = {
    BooleanType: lambda value, _: isinstance(value, bool),
    IntegerType: _whole(32),
    DateType: _whole(32),
    **dict.fromkeys((LongType, TimeType, TimestampType, TimestamptzType), _whole(64)),
    FloatType: lambda value, _: isinstance(value, float) and _is_single(value),
    DoubleType: lambda value, _: isinstance(value, float),
    StringType: lambda value, _: isinstance(value, str),
    BinaryType: lambda value, _: isinstance(value, bytes),
    FixedType: _is_fixed,
    UUIDType: lambda value, _: isinstance(value, UUID) or (isinstance(value, bytes) and len(value) == 16),
    DecimalType: _is_decimal,
}
