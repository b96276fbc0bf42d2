"""The partition values that the names of leaves hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.spec import PartitionSpec
from partita.arrow.schema import to_arrow_type
from partita.errors import PartitionValueError, TableError
from partita.formats.lance.namespace import ID_SEPARATOR
from partita.formats.lance.values import LEAF_SUFFIX, values_from_names

if TYPE_CHECKING:
    from partita.formats.lance.state import LanceTableVersion


def leaf_partitions(ids: pa.Array, locations: pa.Array, spec: PartitionSpec) -> pa.Table:
    """Return the partitions of leaves, as `TableVersion.partitions` has them."""
    return pa.table({**leaf_partition_values(ids, locations, spec), "spec_id": pa.array(np.zeros(len(ids), np.int32))})


def leaf_partition_values(ids: pa.Array, locations: pa.Array, spec: PartitionSpec) -> dict[str, pa.Array]:
    """Return the typed values that ids of leaves name, by field."""
    depth = len(spec.fields)
    if not len(ids) or not depth:
        return {f.name: pa.nulls(0, to_arrow_type(f.result_type)) for f in spec.fields}
    names = pc.split_pattern(ids, ID_SEPARATOR)
    wrong = pc.not_equal(pc.list_value_length(names), depth)
    if wrong.true_count:
        stray = ids.filter(wrong)[0].as_py()
        raise TableError(f"the table {stray!r} is not {depth} levels below the root, as its leaves are; deregister it")
    flat = names.flatten()
    levels = [pc.take(flat, pa.array(np.arange(i, len(flat), depth))) for i in range(depth)] if depth > 1 else [flat]
    levels[-1] = _strip_leaf_suffix(levels[-1], locations)
    columns: dict[str, pa.Array] = {}
    for partition_field, level in zip(spec.fields, levels, strict=True):
        try:
            columns[partition_field.name] = values_from_names(level, partition_field)
        except PartitionValueError as error:
            raise TableError(f"the leaves have a name that the table's partitioning doesn't: {error}") from error
    return columns


def omitted_column_values(
    table_version: LanceTableVersion, file_indices: Sequence[int] | np.ndarray, column_names: Sequence[str]
) -> pa.Table:
    """Return those of the columns that leaves don't store, with a row for each leaf."""
    columns = {}
    for name in column_names:
        if name in table_version.definition.omitted_columns:
            field = next(f for f in table_version.spec.fields if f.source == name and f.transform.is_identity)
            columns[name] = table_version.partitions[field.name].take(pa.array(file_indices))
    return pa.table(columns)


def _strip_leaf_suffix(names: pa.Array, locations: pa.Array) -> pa.Array:
    """Remove the suffix `.lance` from names of leaves that other writers registered by the names of folders.

    Partita escapes the dot of a value with this suffix; of other writers, a folder that has it twice is such a value.
    """
    ends = pc.ends_with(names, LEAF_SUFFIX)
    if not ends.true_count:
        return names
    folders = pc.replace_substring_regex(locations, "^.*/", "")
    whole = pc.and_(ends, pc.not_equal(folders, pc.binary_join_element_wise(names, LEAF_SUFFIX, "")))
    return pc.if_else(whole, pc.utf8_slice_codeunits(names, 0, -len(LEAF_SUFFIX)), names)
