"""Footers of Parquet files: read in parallel, kept for the process, and their columns joined to one schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from partita.algebra.schema import Schema, check_distinct_names
from partita.algebra.types import BINARY, Field, ListType, LogicalType, MapType, StructType, TypeKind
from partita.arrow.required_fields import relax_required_fields
from partita.arrow.schema import to_logical_type
from partita.cache import LruCache
from partita.errors import SchemaError, TableError
from partita.formats.parquet.commit import FolderFile
from partita.formats.parquet.create import check_stored_type
from partita.storage import Storage
from partita.untrusted_input import translate_read_errors

SCHEMA_FOOTERS = 32
"""How many footers are read for the schema of a folder that has no definition."""
_MAX_THREADS = 32
_MAX_CACHED_BYTES = 256 * 2**20
_footer_cache: LruCache[tuple[str, FolderFile], Footer] = LruCache(_MAX_CACHED_BYTES)


@dataclass(frozen=True, slots=True, eq=False)
class Footer:
    """The footer of a file, the types of its columns by name, and the position of each column that isn't nested.

    `has_old_calendar` says that dates and timestamps may be of the Julian calendar before 1582, as Spark 2 wrote them.
    """

    metadata: pq.FileMetaData
    types: Mapping[str, LogicalType]
    positions: Mapping[str, int]
    has_old_calendar: bool


def read_footers(storage: Storage, files: Sequence[FolderFile]) -> list[Footer]:
    """Return the footers of files; those that weren't read before are, many at once."""
    cached_footers = [_footer_cache.get((storage.uri, file)) for file in files]
    missing = [file for file, footer in zip(files, cached_footers, strict=True) if footer is None]
    if len(missing) <= 1:
        read = iter([_read_footer(storage, file) for file in missing])
    else:
        with ThreadPoolExecutor(min(_MAX_THREADS, len(missing))) as threads:
            read = iter(list(threads.map(lambda file: _read_footer(storage, file), missing)))
    return [next(read) if footer is None else footer for footer in cached_footers]


def _read_footer(storage: Storage, file: FolderFile) -> Footer:
    with translate_read_errors(f"the Parquet footer of {file.path} in {storage.uri}"):
        with storage.open_input(file.location) as stream:
            metadata = pq.read_metadata(stream)
        schema = metadata.schema
        _check_repeated_columns(schema.to_arrow_schema().names, file)
        columns = {schema.column(i).path: i for i in range(metadata.num_columns)}
        int96 = {path.partition(".")[0] for path, i in columns.items() if schema.column(i).physical_type == "INT96"}
        types = {f.name: to_logical_type(_spark_arrow_type(f.type, f.name in int96)) for f in schema.to_arrow_schema()}
        footer = Footer(metadata, types, columns, _has_old_calendar(metadata.metadata or {}))
    return _footer_cache.put((storage.uri, file), footer, metadata.serialized_size + 1000)


def _check_repeated_columns(names: Sequence[str], file: FolderFile) -> None:
    name, count = max(Counter(names).items(), key=itemgetter(1), default=("", 0))
    if count > 1:
        raise TableError(f"{file.path} has {count} columns called {name!r}, which Spark can't read; write it anew")


def _spark_arrow_type(type_: pa.DataType, is_int96: bool) -> pa.DataType:
    """Return a type as Spark reads it: the old timestamps of 96 bits are instants, fixed bytes are bytes."""
    if is_int96 and pa.types.is_timestamp(type_) and type_.unit == "ns":
        return pa.timestamp("us", "UTC")
    if pa.types.is_fixed_size_binary(type_) and not pa.types.is_decimal(type_):
        return pa.binary()
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_spark_arrow_type(f.type, is_int96)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(_spark_arrow_type(type_.key_type, is_int96), _spark_arrow_type(type_.item_type, is_int96))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_spark_arrow_type(type_.value_type, is_int96))
    return relax_required_fields(type_)


def _has_old_calendar(properties: Mapping[bytes, bytes]) -> bool:
    version = properties.get(b"org.apache.spark.version", b"3")
    return b"org.apache.spark.legacyDateTime" in properties or version[:2] in {b"1.", b"2."}


def sampled_files(files: Sequence[FolderFile]) -> list[FolderFile]:
    """Return the files whose footers say the schema of a folder: all of a few, else some evenly spaced by age.

    The oldest and the newest are among them.
    """
    by_age = sorted(files, key=lambda file: (file.modified_time, file.path))
    if len(by_age) <= SCHEMA_FOOTERS:
        return by_age
    return [by_age[i] for i in np.linspace(0, len(by_age) - 1, SCHEMA_FOOTERS).astype(int).tolist()]


def unified_schema(storage: Storage, files: Sequence[FolderFile], partition_names: Iterable[str]) -> Schema:
    """Return the columns of sampled files, by name, without partition columns; those of the newest files come first.

    Raises `TableError`, naming the files, if they have different types for a column.
    """
    sources: dict[str, tuple[Field, FolderFile]] = {}
    partitions = {name.casefold() for name in partition_names}
    newest_first = sampled_files(files)[::-1]
    for file, footer in zip(newest_first, read_footers(storage, newest_first), strict=True):
        check_distinct_names(footer.types)
        for name, type_ in footer.types.items():
            source = sources.get(name.casefold())
            if name.casefold() in partitions or type_.kind is TypeKind.NULL:
                continue
            if source is None:
                check_stored_type(type_, f"column {name!r} of {file.path} in {storage.uri}")
                sources[name.casefold()] = Field(name, type_), file
            elif source[0].type != type_:
                raise _type_conflict(name, type_, file, source[0].type, f"and {source[0].type} in {source[1].path}")
    if not sources and files:
        raise SchemaError(f"the files of {storage.uri} have no column besides those of its folders")
    return Schema(tuple(field for field, _ in sources.values()))


def check_file_types(storage: Storage, files: Sequence[FolderFile], columns: Iterable[Field]) -> None:
    """Raise `TableError` if a file has another type for one of the columns.

    Spark would read some of them all the same: a timestamp as a number, or bytes as a damaged text.
    """
    fields = list(columns)
    for file, footer in zip(files, read_footers(storage, files) if fields else (), strict=bool(fields)):
        for field in fields:
            name = stored_name(field.name, footer)
            if name is not None:
                check_file_type(field, footer.types[name], file)


def stored_name(name: str, footer: Footer) -> str | None:
    """Return what a file calls a column, found without regard to case, as Spark finds it; None if it lacks it."""
    if name in footer.types:
        return name
    return next((column for column in footer.types if column.casefold() == name.casefold()), None)


def check_file_type(field: Field, type_: LogicalType, file: FolderFile) -> None:
    """Raise `TableError` if a file has another type for a column than the table; fields of a struct may be missing."""
    if not _is_same_type(type_, field.type):
        raise _type_conflict(field.name, type_, file, field.type, f"and {field.type} in the table")


def _is_same_type(stored_type: LogicalType, type_: LogicalType) -> bool:
    if isinstance(stored_type, StructType) and isinstance(type_, StructType):
        types = {field.name.casefold(): field.type for field in type_.fields}
        return all(_is_same_type(f.type, types.get(f.name.casefold(), f.type)) for f in stored_type.fields)
    if isinstance(stored_type, ListType) and isinstance(type_, ListType):
        return _is_same_type(stored_type.element, type_.element)
    if isinstance(stored_type, MapType) and isinstance(type_, MapType):
        return _is_same_type(stored_type.key, type_.key) and _is_same_type(stored_type.value, type_.value)
    return stored_type == type_ or stored_type.kind is TypeKind.NULL


def _type_conflict(name: str, type_: LogicalType, file: FolderFile, other: LogicalType, where: str) -> TableError:
    hint = "; write the texts as UTF-8 strings" if BINARY in (type_, other) else ""
    return TableError(
        f"column {name!r} is {type_} in {file.path}, {where}: write one of them anew with the other type{hint}"
    )
