"""The names of the columns in Parquet files, by field id.

Iceberg, and Delta with column mapping `id`, find columns by the field ids in a file's footer; the names in the file may
be earlier or sanitised ones, or those of other columns. Spark finds columns by id only if the session is configured so
(`spark.sql.parquet.fieldId.read.enabled`), so Partita reads every file by the names that the file itself has.

A process reads a footer once. It reads none if the file's name ends with the `fingerprint` of its columns, as the names
of Partita's Iceberg files do: columns with the same fingerprint have the same names and ids.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from partita.cache import LruCache
from partita.errors import PartitaError, TableError

ARROW_FIELD_ID = b"PARQUET:field_id"
"""The key of a Parquet field id in the metadata of an Arrow field."""
SPARK_FIELD_ID = "parquet.field.id"
"""The key of a Parquet field id in the metadata of a field in the JSON of a Spark schema."""
_MAX_THREADS = 32
"""Number of footers that are read at the same time; nearly all of that time is spent waiting for an object store."""
_footer_cache: LruCache[tuple[str, int], FileColumns] = LruCache(500_000)
_fingerprint_cache: LruCache[str, FileColumns] = LruCache(10_000)


@dataclass(frozen=True, slots=True, eq=False)
class FileColumns:
    """The fields of a file's schema that have an id, at every depth; equal schemas share one object.

    `names_by_id` has the fields' own names, without those of their parents. `top_level_ids` are the ids of the columns,
    `case_ambiguous_ids` those of fields with a sibling whose name differs only in case. `has_all_ids` says that every
    column has an id.
    """

    names_by_id: Mapping[int, str]
    top_level_ids: frozenset[int]
    case_ambiguous_ids: frozenset[int]
    has_all_ids: bool
    fingerprint: str


def file_columns_from(schema: pa.Schema) -> FileColumns:
    """Return the columns of a file with that schema; raise `TableError` if two fields have the same id."""
    names: dict[int, str] = {}
    ambiguous_ids: set[int] = set()
    for siblings in _sibling_fields(schema):
        lower_names = [field.name.lower() for field in siblings]
        for field, name in zip(siblings, lower_names, strict=True):
            id_ = field_id(field)
            if id_ is None:
                continue
            if id_ in names:
                raise TableError(f"two fields of a file have the id {id_}: {names[id_]!r} and {field.name!r}")
            names[id_] = field.name
            if lower_names.count(name) > 1:
                ambiguous_ids.add(id_)
    top_level_or_none = [field_id(field) for field in schema]
    top_level_ids = frozenset(id_ for id_ in top_level_or_none if id_ is not None)
    content = [sorted(names.items()), sorted(top_level_ids), sorted(ambiguous_ids), None not in top_level_or_none]
    fingerprint = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:_FINGERPRINT_LENGTH]
    known_columns = _fingerprint_cache.get(fingerprint)
    if known_columns is not None:
        return known_columns
    columns = FileColumns(names, top_level_ids, frozenset(ambiguous_ids), None not in top_level_or_none, fingerprint)
    return _fingerprint_cache.put(fingerprint, columns, 1)


_FINGERPRINT_LENGTH = 16


def cached_columns(fingerprint: str) -> FileColumns | None:
    """Return the columns with that fingerprint; None if this process has read no schema with it."""
    return _fingerprint_cache.get(fingerprint)


def field_id(field: pa.Field) -> int | None:
    """Return the Parquet field id of an Arrow field; None if it has none."""
    text = (field.metadata or {}).get(ARROW_FIELD_ID)
    return None if text is None else int(text)


def read_file_columns(open_file: Callable[[str], Any], files: Sequence[tuple[str, int]]) -> list[FileColumns]:
    """Return the columns of files, given by path and size; footers that are not cached are read, many at once."""
    columns_or_none = [_footer_cache.get(file) for file in files]
    unread_files = [file for file, columns in zip(files, columns_or_none, strict=True) if columns is None]
    if len(unread_files) <= 1:
        footers = iter([_read_footer(open_file, file) for file in unread_files])
    else:
        with ThreadPoolExecutor(min(_MAX_THREADS, len(unread_files))) as threads:
            footers = iter(list(threads.map(lambda file: _read_footer(open_file, file), unread_files)))
    return [next(footers) if columns is None else columns for columns in columns_or_none]


def _read_footer(open_file: Callable[[str], Any], file: tuple[str, int]) -> FileColumns:
    path, _ = file
    try:
        with open_file(path) as stream:
            columns = file_columns_from(pq.read_schema(stream))
    except PartitaError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"can't read the Parquet footer of {path}: {error}") from error
    return _footer_cache.put(file, columns, 1)


def _sibling_fields(fields: Iterable[pa.Field]) -> Iterator[list[pa.Field]]:
    """Yield the fields of a schema, then those of each struct in it, at every depth."""
    siblings = list(fields)
    yield siblings
    for field in siblings:
        yield from _nested_sibling_fields(field.type)


def _nested_sibling_fields(type_: pa.DataType) -> Iterator[list[pa.Field]]:
    if pa.types.is_struct(type_):
        yield from _sibling_fields(type_)
    elif pa.types.is_map(type_):
        yield from _nested_sibling_fields(type_.key_type)
        yield from _nested_sibling_fields(type_.item_type)
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        yield from _nested_sibling_fields(type_.value_type)
