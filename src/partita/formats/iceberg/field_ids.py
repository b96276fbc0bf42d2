"""The columns of an Iceberg table's files, with their names: from the names of Partita's files, else from footers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from partita.errors import SchemaError, UnsupportedFeature
from partita.formats.field_ids import FileColumns, cached_columns, file_columns_from, read_file_columns
from partita.formats.iceberg.columns import stored_arrow_schema

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

NAME_MAPPING_PROPERTY = "schema.name-mapping.default"
"""The property of tables that may have files without field ids."""

_FINGERPRINT_SUFFIX = re.compile(r"-([0-9a-f]{16})\.parquet")
_FINGERPRINT_SUFFIX_LENGTH = len("-0123456789abcdef.parquet")


def file_columns(io: FileIO, metadata: TableMetadata, files: pa.Table) -> list[FileColumns]:
    """Return the columns of each file; `files` has `path` and `file_size`.

    Raises `UnsupportedFeature` for a file without field ids, whose columns could be found by name only.
    """
    paths = files["path"]
    suffixes = pc.utf8_slice_codeunits(paths, start=-_FINGERPRINT_SUFFIX_LENGTH).combine_chunks().dictionary_encode()
    columns_by_suffix = [_columns_from_suffix(metadata, suffix) for suffix in suffixes.dictionary.to_pylist()]
    columns_by_file: list[FileColumns | None] = [columns_by_suffix[code] for code in suffixes.indices.to_pylist()]
    unknown_indices = [index for index, columns in enumerate(columns_by_file) if columns is None]
    if unknown_indices:
        rows = files.select(["path", "file_size"]).take(pa.array(unknown_indices)).to_pylist()
        footer_columns = read_file_columns(_file_opener(io), [(row["path"], row["file_size"]) for row in rows])
        for index, columns, row in zip(unknown_indices, footer_columns, rows, strict=True):
            if not columns.top_level_ids or (NAME_MAPPING_PROPERTY in metadata.properties and not columns.has_all_ids):
                problem = (
                    f"files without field ids, such as {row['path']}; rewrite them with the engine that added them"
                )
                raise UnsupportedFeature((problem,), "reading")
            columns_by_file[index] = columns
    return [columns for columns in columns_by_file if columns is not None]


def check_files_have_column(io: FileIO, files: Sequence[tuple[str, int]], field_id: int, column_name: str) -> None:
    """Raise `UnsupportedFeature` for files that leave out a partition column because their partition has its value."""
    for (path, _), columns in zip(files, read_file_columns(_file_opener(io), files), strict=True):
        if field_id not in columns.top_level_ids:
            feature = (
                f"files that leave out their partition column {column_name!r}, such as {path}; rewrite them with the "
                "engine that added them"
            )
            raise UnsupportedFeature((feature,), "reading")


def _file_opener(io: FileIO) -> Callable[[str], Any]:
    return lambda path: io.new_input(path).open()


def _columns_from_suffix(metadata: TableMetadata, suffix: str) -> FileColumns | None:
    """Return the columns of a file by the schema fingerprint in its name, if a schema of the table has it."""
    match = _FINGERPRINT_SUFFIX.fullmatch(suffix)
    if match is None:
        return None
    columns = cached_columns(match[1])
    if columns is not None:
        return columns
    for schema in metadata.schemas:
        try:
            columns = file_columns_from(stored_arrow_schema(schema))
        except SchemaError:  # a type that Partita doesn't write
            continue
        if columns.fingerprint == match[1]:
            return columns
    return None
