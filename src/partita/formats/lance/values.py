"""Partition values as the names of namespaces and leaves, and back (Lance partition spec, sections 3.2 and 4).

```text
typed values                   12, "a/b", None
   │ partition_texts           "12", "a/b", null            two digits for month, day and hour
   ▼ directory_segment         ts_month=12, s=a%2Fb, s=__HIVE_DEFAULT_PARTITION__
```

Escapes are Hive's; in addition `$` is escaped, which separates the names of an id, and dots that would form `..` or the
suffix of a leaf's folder. Distinct values have distinct names: the text `__HIVE_DEFAULT_PARTITION__` is escaped, and
the empty string is `s=`.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.spec import PartitionField, PartitionSpec
from partita.algebra.types import BINARY_KINDS, INTEGER_KINDS, TypeKind
from partita.arrow.scalar_text import scalar_texts
from partita.arrow.schema import to_arrow_type
from partita.errors import PartitionsError, PartitionValueError, TableError

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
ID_SEPARATOR = "$"
"""The separator of the names in an id."""
LEAF_SUFFIX = ".lance"
"""The suffix of the folder of a leaf."""
MAX_NAME_BYTES = 255
"""Maximum length of a file name in bytes."""

_ESCAPED_CHARACTERS = re.compile(r"""[\x00-\x1f\x7f"#$%'*/:=?\\{\[\]^]|\.(?=\.|$|lance$)""")
_ESCAPED_NULL_NAME = f"%5F{NULL_DIRECTORY[1:]}"


def partition_texts(values: pa.Array, field: PartitionField) -> pa.Array:
    """Return the text of each value of a partition field; null stays null.

    Raises `PartitionValueError` for a value that no name can hold.
    """
    width = field.transform.text_width
    try:
        texts = scalar_texts(values, field.result_type)
    except PartitionsError as error:
        raise PartitionValueError(field.name, "a value that a name can hold", str(error)) from None
    if width is None:
        return pc.cast(texts, pa.string())
    return pc.if_else(
        pc.less(values, 0), pc.cast(texts, pa.string()), pc.utf8_lpad(texts.cast(pa.string()), width, "0")
    )


def directory_segment(name: str, text: str | None) -> str:
    """Return the name of a namespace or leaf, as `country=US`; raise `PartitionValueError` if it is too long."""
    value = NULL_DIRECTORY if text is None else _ESCAPED_NULL_NAME if text == NULL_DIRECTORY else escape_name(text)
    segment = f"{escape_name(name)}={value}"
    if len(segment.encode()) + len(LEAF_SUFFIX) > MAX_NAME_BYTES:
        preview = (text or "")[:40]
        raise PartitionValueError(
            name, f"a name of up to {MAX_NAME_BYTES} bytes", f"{len(segment.encode())} for '{preview}…'"
        )
    return segment


def directory_segments(field_names: Iterable[str], texts: Iterable[str | None]) -> tuple[str, ...]:
    """Return the path of names from the root namespace to a leaf."""
    return tuple(directory_segment(name, text) for name, text in zip(field_names, texts, strict=True))


def escape_name(text: str) -> str:
    """Escape the characters that a name can't hold as `%XX`; spaces and non-ASCII characters stay."""
    return _ESCAPED_CHARACTERS.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescape_name(text: str) -> str:
    """Reverse `escape_name`."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def values_from_names(names: pa.Array, field: PartitionField) -> pa.Array:
    """Parse the names of one level into typed values; the inverse of `directory_segment`.

    Raises `PartitionValueError` for a name that is not `field=value`, or whose value is not of the field's type.
    """
    # Usually there are few distinct names; if not, finding the distinct ones takes longer than parsing all.
    has_few = len(pc.unique(names.slice(0, _SAMPLE_SIZE))) * 2 <= min(len(names), _SAMPLE_SIZE)
    encoded_names = names.dictionary_encode() if has_few else None
    names = names if encoded_names is None else encoded_names.dictionary
    prefix = f"{escape_name(field.name)}="
    has_prefix = pc.starts_with(names, prefix)
    if has_prefix.true_count < len(names):
        invalid_name = names.filter(pc.invert(has_prefix))[0].as_py()
        raise PartitionValueError(field.name, f"a name that begins with {prefix}", repr(invalid_name))
    values = pc.binary_slice(names.cast(pa.binary()), len(prefix.encode()), _SLICE_END).cast(pa.string())
    typed_values = _values_from_texts(_unescape_names(_replace_null_names(values)), field)
    return typed_values if encoded_names is None else typed_values.take(encoded_names.indices)


_SAMPLE_SIZE = 1000
_SLICE_END = 1 << 20
"""More bytes than a name has; Arrow's `binary_slice` needs an end."""


def _replace_null_names(values: pa.Array) -> pa.Array:
    is_null = pc.equal(values, NULL_DIRECTORY)
    return pc.if_else(is_null, pa.scalar(None, pa.string()), values) if is_null.true_count else values


def _unescape_names(values: pa.Array) -> pa.Array:
    if not pc.match_substring(values, "%").true_count:
        return values
    return pa.array([None if v is None else unescape_name(v) for v in values.to_pylist()], pa.string())


def _values_from_texts(values: pa.Array, field: PartitionField) -> pa.Array:
    type_ = field.result_type
    if type_.kind is TypeKind.STRING:
        return values
    try:
        return _text_reader(type_.kind)(values, to_arrow_type(type_))
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise PartitionValueError(field.name, str(type_), f"a name whose value is no such text: {error}") from None


def _text_reader(kind: TypeKind) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    if kind is TypeKind.BOOLEAN:
        return lambda values, _: pa.array(
            [None if v is None else _BOOLEANS_BY_TEXT[v] for v in values.to_pylist()], pa.bool_()
        )
    if kind in BINARY_KINDS:
        return lambda values, type_: pa.array([_bytes_from_text(v) for v in values.to_pylist()], type_)
    if kind is TypeKind.UUID:
        return _uuids_from_texts
    if kind in INTEGER_KINDS or kind in (TypeKind.DATE, TypeKind.DECIMAL):
        return _cast_texts
    return _times_from_texts


_BOOLEANS_BY_TEXT = {"true": True, "false": False}


def _bytes_from_text(text: str | None) -> bytes | None:
    if text is None:
        return None
    if not re.fullmatch("[A-Za-z0-9_-]*", text):
        raise ValueError(f"{text!r} is not base64url")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _uuids_from_texts(values: pa.Array, type_: Any) -> pa.Array:
    octets = [None if v is None else UUID(v).bytes for v in values.to_pylist()]
    return pa.ExtensionArray.from_storage(type_, pa.array(octets, pa.binary(16)))


def _times_from_texts(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Parse times and timestamps; Arrow parses a timestamp without a zone only if the text has none."""
    if pa.types.is_time(type_):
        timestamps = pc.binary_join_element_wise("1970-01-01T", values, "")
        return pc.cast(pc.cast(timestamps, pa.timestamp("us")), pa.int64()).cast(type_)
    return _cast_texts(values, type_)


def _cast_texts(values: pa.Array, type_: pa.DataType) -> pa.Array:
    return pc.cast(values, type_)


def leaf_partitions(ids: pa.Array, locations: pa.Array, spec: PartitionSpec) -> pa.Table:
    """Return the partitions of leaves, as `TableVersion.partitions` has them."""
    return pa.table({**leaf_partition_values(ids, locations, spec), "spec_id": pa.array(np.zeros(len(ids), np.int32))})


def leaf_partition_values(ids: pa.Array, locations: pa.Array, spec: PartitionSpec) -> dict[str, pa.Array]:
    """Return the typed values that ids of leaves name, by field."""
    depth = len(spec.fields)
    if not len(ids) or not depth:
        return {f.name: pa.nulls(0, to_arrow_type(f.result_type)) for f in spec.fields}
    names = pc.split_pattern(ids, ID_SEPARATOR)
    has_other_depth = pc.not_equal(pc.list_value_length(names), depth)
    if has_other_depth.true_count:
        misplaced_id = ids.filter(has_other_depth)[0].as_py()
        raise TableError(
            f"the table {misplaced_id!r} is not {depth} levels below the root, as its leaves are; deregister it"
        )
    flat_names = names.flatten()
    levels = (
        [pc.take(flat_names, pa.array(np.arange(i, len(flat_names), depth))) for i in range(depth)]
        if depth > 1
        else [flat_names]
    )
    levels[-1] = _strip_leaf_suffix(levels[-1], locations)
    columns: dict[str, pa.Array] = {}
    for partition_field, level in zip(spec.fields, levels, strict=True):
        try:
            columns[partition_field.name] = values_from_names(level, partition_field)
        except PartitionValueError as error:
            raise TableError(f"the leaves have a name that the table's partitioning doesn't: {error}") from error
    return columns


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
