"""Facts of a `DataFile` description: spec, partition, and the data file that a position-delete file references.

Descriptions are held as wide as version 3 has them: `referenced_data_file` is allowed in version 2 too, where pyiceberg
leaves it out.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, TypeAlias

from pyiceberg.manifest import DataFile, DataFileContent

from partita.formats.iceberg.files import FILE_PATH_FIELD_ID
from partita.formats.iceberg.manifests.schema import DATA_FILE_FIELDS, REFERENCED_POSITION

if TYPE_CHECKING:
    from collections.abc import Iterable


PartitionIdentity: TypeAlias = tuple[int, tuple[Hashable, ...]]
"""A spec id and the partition values under it, in a form that can be hashed."""


# --- spec


def spec_id_of(file: DataFile) -> int:
    """Return the spec id of a file; a file without one was written by version 1, under spec 0."""
    spec_id: int | None = getattr(file, "_spec_id", None)
    return 0 if spec_id is None else spec_id


def group_files_by_spec(files: Iterable[DataFile]) -> dict[int, list[DataFile]]:
    """Group files by spec id, in ascending order: a manifest is of one spec (specification, "Manifests")."""
    groups: dict[int, list[DataFile]] = {}
    for file in files:
        groups.setdefault(spec_id_of(file), []).append(file)
    return dict(sorted(groups.items()))


# --- partition


def partition_identity(file: DataFile) -> PartitionIdentity:
    """Return the partition of a file; equal values under different specs are different partitions."""
    return spec_id_of(file), tuple(map(_hashable_value, _partition_values(file)))


def partition_sort_key(file: DataFile) -> tuple[tuple[Any, ...], ...]:
    """Return a key that orders files of one spec by partition: values ascending, then NaN, then null."""
    return tuple(map(_value_sort_key, _partition_values(file)))


def _partition_values(file: DataFile) -> list[Any]:
    return [file.partition[index] for index in range(len(file.partition))]


def _value_sort_key(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (2,)
    if isinstance(value, float) and math.isnan(value):
        return (1,)
    return 0, getattr(value, "bytes", value)


def _hashable_value(value: object) -> Hashable:
    """Return a value that compares as partitions do: NaN equals NaN, and zero differs from negative zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    plain: Hashable = getattr(value, "bytes", value)
    return plain


# --- referenced data file


def to_v3_data_file(file: DataFile) -> DataFile:
    """Return the description with all fields of version 3, `referenced_data_file` filled in where it is known."""
    values = [file[index] for index in range(len(file))]
    values += [None] * (len(DATA_FILE_FIELDS) - len(values))
    v3_file = DataFile(*values)
    v3_file[REFERENCED_POSITION] = referenced_path(file)
    v3_file.spec_id = spec_id_of(file)
    return v3_file


def referenced_path(file: DataFile) -> str | None:
    """Return the one data file that a position-delete file references; None where there may be several."""
    if file.content != DataFileContent.POSITION_DELETES:
        return None
    if len(file) > REFERENCED_POSITION and file[REFERENCED_POSITION] is not None:
        return str(file[REFERENCED_POSITION])
    lower, upper = _path_bounds(file)
    # Truncated bounds are never equal: a truncated upper bound is incremented.
    return lower.decode() if lower is not None and lower == upper else None


def may_reference(file: DataFile, path: str) -> bool:
    """Return whether a delete file may hold deletes of the data file at `path`, by paths alone."""
    if file.content != DataFileContent.POSITION_DELETES:
        return True
    only_path = referenced_path(file)
    if only_path is not None:
        return only_path == path
    lower, upper = _path_bounds(file)
    path_bytes = path.encode()
    return (lower is None or lower <= path_bytes) and (
        upper is None or path_bytes <= upper or path_bytes.startswith(upper)
    )


def _path_bounds(file: DataFile) -> tuple[bytes | None, bytes | None]:
    return (file.lower_bounds or {}).get(FILE_PATH_FIELD_ID), (file.upper_bounds or {}).get(FILE_PATH_FIELD_ID)
