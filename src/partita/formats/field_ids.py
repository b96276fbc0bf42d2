"""Names of the columns in Parquet files, by field id.

Iceberg, and Delta with column mapping `id`, find columns by the field ids in a file's footer; the names in the file may
be earlier ones, sanitised ones, or those of other columns. Spark finds columns by id only where the session says so
(`spark.sql.parquet.fieldId.read.enabled`), so Partita reads every file by the names that the file itself has.

A footer is read once for each process. It need not be read where the file's name ends with the `fingerprint` of its
columns, as those of Partita's Iceberg files do: equal fingerprints are equal names and ids.
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
"""Where Arrow keeps the id of a column of a Parquet file."""
SPARK_FIELD_ID = "parquet.field.id"
"""Where the JSON of a Spark schema keeps it."""
_MAX_THREADS = 32
"""Footers that are read at once; nearly all of the time is spent on waiting for an object store."""
_footer_cache: LruCache[tuple[str, int], FileColumns] = LruCache(500_000)
_fingerprint_cache: LruCache[str, FileColumns] = LruCache(10_000)


@dataclass(frozen=True, slots=True, eq=False)
class FileColumns:
    """The fields of a file's schema that have an id, at every depth; equal ones are one object.

    `names` are the fields' own names, without those above them. `top_level` are the ids of the columns. `alike` are the
    fields with a sibling whose name differs only in case. `is_complete` says that every column has an id.
    """

    names_by_id: Mapping[int, str]
    top_level_ids: frozenset[int]
    case_ambiguous_ids: frozenset[int]
    has_all_ids: bool
    fingerprint: str


def file_columns_from(schema: pa.Schema) -> FileColumns:
    """The columns of a file with that schema."""
    names: dict[int, str] = {}
    alike: set[int] = set()
    for siblings in _sibling_fields(schema):
        lower = [field.name.lower() for field in siblings]
        for field, name in zip(siblings, lower, strict=True):
            number = field_id(field)
            if number is None:
                continue
            if number in names:
                raise TableError(f"two fields of a file have the id {number}: {names[number]!r} and {field.name!r}")
            names[number] = field.name
            if lower.count(name) > 1:
                alike.add(number)
    top_level = [field_id(field) for field in schema]
    numbers = frozenset(number for number in top_level if number is not None)
    known = [sorted(names.items()), sorted(numbers), sorted(alike), None not in top_level]
    fingerprint = hashlib.sha256(json.dumps(known).encode()).hexdigest()[:_FINGERPRINT_LENGTH]
    found = _fingerprint_cache.get(fingerprint)
    if found is not None:
        return found
    columns = FileColumns(names, numbers, frozenset(alike), None not in top_level, fingerprint)
    return _fingerprint_cache.put(fingerprint, columns, 1)


_FINGERPRINT_LENGTH = 16


def cached_columns(fingerprint: str) -> FileColumns | None:
    """The columns with that fingerprint, where a schema or a file that has it was seen."""
    return _fingerprint_cache.get(fingerprint)


def field_id(field: pa.Field) -> int | None:
    """The Parquet id of an Arrow field."""
    text = (field.metadata or {}).get(ARROW_FIELD_ID)
    return None if text is None else int(text)


def read_file_columns(open_file: Callable[[str], Any], files: Sequence[tuple[str, int]]) -> list[FileColumns]:
    """The columns of files, given by path and size; footers that weren't read before are, many at once."""
    found = [_footer_cache.get(file) for file in files]
    missing = [file for file, columns in zip(files, found, strict=True) if columns is None]
    if len(missing) <= 1:
        read = iter([_read_footer(open_file, file) for file in missing])
    else:
        with ThreadPoolExecutor(min(_MAX_THREADS, len(missing))) as threads:
            read = iter(list(threads.map(lambda file: _read_footer(open_file, file), missing)))
    return [next(read) if columns is None else columns for columns in found]


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
    """The fields of a schema, then those of each struct in it, at every depth."""
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
