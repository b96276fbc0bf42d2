"""Footers of Parquet files: read in parallel, kept for the process, and their columns joined to one schema.

Types are joined as `partita.algebra.joined_types` says. A read loses nothing: a column whose values the table's type
doesn't hold is refused, and so is one that an inferred schema lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from partita.algebra.joined_types import joined_type, replace_void_with_string
from partita.algebra.schema import Schema
from partita.algebra.types import (
    BINARY,
    DOUBLE,
    LONG,
    Field,
    ListType,
    LogicalType,
    MapType,
    StructType,
    list_type,
    map_type,
    struct_type,
)
from partita.arrow.required_fields import relax_required_fields
from partita.arrow.schema import to_logical_type
from partita.cache import LruCache
from partita.errors import SchemaError, TableError
from partita.formats.parquet.annotated_types import annotated_types
from partita.formats.parquet.commit import FolderFile
from partita.formats.parquet.create import (
    DECLARATION_CALL,
    check_distinct_columns,
    check_distinct_fields,
    check_stored_type,
)
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
    subject = f"the Parquet footer of {file.path} in {storage.uri}"
    with translate_read_errors(f"{subject} (if the file is damaged, write it anew or remove it)"):
        with storage.open_input(file.location) as stream:
            metadata = pq.read_metadata(stream)
        schema = metadata.schema
        _check_repeated_columns(schema.to_arrow_schema().names, f"{file.path} in {storage.uri}")
        columns = {schema.column(i).path: i for i in range(metadata.num_columns)}
        int96 = {path.partition(".")[0] for path, i in columns.items() if schema.column(i).physical_type == "INT96"}
        types = {f.name: to_logical_type(_spark_arrow_type(f.type, f.name in int96)) for f in schema.to_arrow_schema()}
        types |= annotated_types(metadata, list(types))
        footer = Footer(metadata, types, columns, _has_old_calendar(metadata.metadata or {}))
    check_distinct_columns(types, f"{file.path} in {storage.uri}")
    for name, type_ in types.items():
        check_distinct_fields(type_, f"{file.path} in {storage.uri}, column {name!r}")
    return _footer_cache.put((storage.uri, file), footer, metadata.serialized_size + 1000)


def _check_repeated_columns(names: Sequence[str], description: str) -> None:
    name, count = max(Counter(names).items(), key=itemgetter(1), default=("", 0))
    if count > 1:
        raise TableError(f"{description} has {count} columns called {name!r}, which Spark can't read; write it anew")


def _spark_arrow_type(type_: pa.DataType, is_int96: bool) -> pa.DataType:
    """Return a type as Spark reads it: the old timestamps of 96 bits are instants, fixed bytes are bytes."""
    if is_int96 and pa.types.is_timestamp(type_) and type_.unit == "ns":
        return pa.timestamp("us", "UTC")
    if pa.types.is_fixed_size_binary(type_) and not pa.types.is_decimal(type_):
        return pa.binary()
    if pa.types.is_struct(type_):
        return pa.struct([(f.name, _spark_arrow_type(f.type, is_int96)) for f in type_])
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

    Raises `TableError`, naming the files, if no type holds the types that they have for a column.
    """
    sources: dict[str, tuple[Field, FolderFile]] = {}
    partitions = {name.casefold() for name in partition_names}
    newest_first = sampled_files(files)[::-1]
    for file, footer in zip(newest_first, read_footers(storage, newest_first), strict=True):
        for name, type_ in footer.types.items():
            if name.casefold() in partitions:
                continue
            _check_readable(name, type_, file, storage.uri)
            field, field_file = sources.get(name.casefold(), (Field(name, type_), file))
            wider_type = joined_type(field.type, type_)
            if wider_type is None:
                place, way_out = f"{field_file.path} of {storage.uri}", "write one of them anew with the other type"
                if {field.type, type_} == {LONG, DOUBLE}:
                    way_out += f", or declare it as double with {DECLARATION_CALL}, which takes longs up to 2**53"
                raise _type_conflict(name, (type_, field.type), file, place, way_out)
            field_file = field_file if wider_type == field.type else file
            sources[name.casefold()] = Field(field.name, wider_type), field_file
    if not sources and files:
        raise SchemaError(
            f"the files of {storage.uri}, such as {files[0].path}, have no column besides those of its folders; write "
            "them anew with one"
        )
    return Schema(tuple(Field(field.name, replace_void_with_string(field.type)) for field, _ in sources.values()))


def stored_types_by_file(
    storage: Storage, files: Sequence[FolderFile], columns: Iterable[Field]
) -> list[dict[str, LogicalType]]:
    """Return for each file the columns that it stores in another type than the table, with that type.

    Raises `TableError` if the table's type doesn't hold it. Spark would read some of these all the same: a timestamp as
    a number, or bytes as a damaged text.
    """
    fields = list(columns)
    if not fields:
        return [{} for _ in files]
    return [
        {
            field.name: type_
            for field in fields
            if (name := stored_name(field.name, footer)) is not None
            and footer.types[name] != field.type
            and (type_ := stored_type(field, name, footer, file, storage.uri)) != field.type
        }
        for file, footer in zip(files, read_footers(storage, files), strict=True)
    ]


def check_known_columns(storage: Storage, files: Sequence[FolderFile], schema: Schema) -> None:
    """Raise `TableError` if a file has a column that an inferred schema lacks: its rows would silently lose it."""
    known_names = {field.name.casefold() for field in schema}
    for file, footer in zip(files, read_footers(storage, files), strict=True):
        for name in footer.types:
            if name.casefold() not in known_names:
                raise _unknown_column(f"a column {name!r}", file, storage.uri)


def check_known_fields(storage: Storage, files: Sequence[FolderFile], columns: Iterable[Field]) -> None:
    """Raise `TableError` if a file has more fields in the structs of some columns than an inferred schema."""
    known_types = {field.name.casefold(): field.type for field in columns}
    for file, footer in zip(files, read_footers(storage, files), strict=True):
        for name, type_ in footer.types.items():
            known_type = known_types.get(name.casefold(), type_)
            if type_ != known_type and joined_type(known_type, type_) != known_type:
                raise _unknown_column(f"fields in its column {name!r}, {type_},", file, storage.uri)


def _unknown_column(description: str, file: FolderFile, uri: str) -> TableError:
    return TableError(
        f"{file.path} in {uri} has {description} that the table lacks, whose schema was inferred from other files; "
        f"declare it with {DECLARATION_CALL}, or read other columns"
    )


def stored_name(name: str, footer: Footer) -> str | None:
    """Return what a file calls a column, found without regard to case, as Spark finds it; None if it lacks it."""
    if name in footer.types:
        return name
    return next((column for column in footer.types if column.casefold() == name.casefold()), None)


def stored_type(field: Field, name: str, footer: Footer, file: FolderFile, uri: str) -> LogicalType:
    """Return the type of a column that a file calls `name`, with the fields of the table's structs.

    Raises `SchemaError` if no table can have the type, and `TableError` if the table's type doesn't hold its values.
    """
    type_ = footer.types[name]
    comparable_type = _projected_type(field.type, type_)
    _check_readable(name, comparable_type, file, uri)
    wider_type = joined_type(field.type, comparable_type)
    if wider_type != field.type and not ((field.type, type_) == (DOUBLE, LONG) and _has_exact_doubles(name, footer)):
        way_out = "write the file anew with the type of the table"
        if wider_type is not None:
            way_out += f", or declare {wider_type}, which holds both"
        elif (field.type, type_) == (DOUBLE, LONG):
            way_out = f"it may have numbers beyond 2**53, which a double rounds; {way_out}"
        raise _type_conflict(field.name, (type_, field.type), file, f"the table {uri}", way_out)
    return comparable_type


def _check_readable(name: str, type_: LogicalType, file: FolderFile, uri: str) -> None:
    """Raise `SchemaError` if a column of a file has a type that can't be read."""
    try:
        check_stored_type(replace_void_with_string(type_), f"column {name!r} of {file.path} in {uri}")
    except SchemaError as error:
        raise SchemaError(f"{error}, or leave the column out of a declared schema: {DECLARATION_CALL}") from error


def _has_exact_doubles(name: str, footer: Footer) -> bool:
    """Return whether the integers of a column are doubles without loss, by its bounds in all row groups."""
    for index in range(footer.metadata.num_row_groups):
        chunk = footer.metadata.row_group(index).column(footer.positions[name])
        statistics = chunk.statistics
        if statistics is None or not (statistics.has_min_max or statistics.null_count == chunk.num_values):
            return False
        if statistics.has_min_max and not -_EXACT_DOUBLE <= statistics.min <= statistics.max <= _EXACT_DOUBLE:
            return False
    return True


_EXACT_DOUBLE = 2**53
"""Each integer up to it is a double."""


def _projected_type(type_: LogicalType, stored_type: LogicalType) -> LogicalType:
    """Return a stored type projected to the fields of a table's type; fields that only the file has are left out."""
    if isinstance(type_, StructType) and isinstance(stored_type, StructType):
        stored_types = {field.name.casefold(): field.type for field in stored_type.fields}
        return struct_type(
            *(
                replace(f, type=_projected_type(f.type, stored_types.get(f.name.casefold(), f.type)))
                for f in type_.fields
            )
        )
    if isinstance(type_, ListType) and isinstance(stored_type, ListType):
        return list_type(_projected_type(type_.element, stored_type.element))
    if isinstance(type_, MapType) and isinstance(stored_type, MapType):
        return map_type(_projected_type(type_.key, stored_type.key), _projected_type(type_.value, stored_type.value))
    return stored_type


def _type_conflict(name: str, types: Sequence[LogicalType], file: FolderFile, place: str, way_out: str) -> TableError:
    """Return an error for a column that has the first of two types in a file, and the second elsewhere."""
    hint = "; write texts as UTF-8 strings" if BINARY in types else ""
    return TableError(f"column {name!r} is {types[0]} in {file.path}, and {types[1]} in {place}: {way_out}{hint}")
