"""What the files of an Iceberg table call its columns: by the names of Partita's files, by the footers of others'."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from partita.errors import SchemaError, UnsupportedFeature
from partita.formats.field_ids import FileColumns, columns_of, known_columns, read_columns
from partita.formats.iceberg.columns import stored_arrow

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

NAME_MAPPING = "schema.name-mapping.default"
"""The property of a table that may have files without field ids."""

_SUFFIX = re.compile(r"-([0-9a-f]{16})\.parquet")
_SUFFIX_LENGTH = len("-0123456789abcdef.parquet")


def file_columns(io: FileIO, metadata: TableMetadata, files: pa.Table) -> list[FileColumns]:
    """The columns of each of some files of a table, which have `path` and `file_size`.

    A file that says nothing of field ids is refused, for its columns could be found by name alone.
    """
    paths = files["path"]
    suffixes = pc.utf8_slice_codeunits(paths, start=-_SUFFIX_LENGTH).combine_chunks().dictionary_encode()
    known = [_columns_by_name(metadata, suffix) for suffix in suffixes.dictionary.to_pylist()]
    found: list[FileColumns | None] = [known[code] for code in suffixes.indices.to_pylist()]
    others = [number for number, columns in enumerate(found) if columns is None]
    if others:
        rows = files.select(["path", "file_size"]).take(pa.array(others)).to_pylist()
        read = read_columns(_opening(io), [(row["path"], row["file_size"]) for row in rows])
        for number, columns, row in zip(others, read, rows, strict=True):
            if not columns.top_level or (NAME_MAPPING in metadata.properties and not columns.is_complete):
                what = f"files without field ids, such as {row['path']}; rewrite them with the engine that added them"
                raise UnsupportedFeature((what,), "reading")
            found[number] = columns
    return [columns for columns in found if columns is not None]


def check_have_column(io: FileIO, files: Sequence[tuple[str, int]], field_id: int, name: str) -> None:
    """Refuse files that leave out a column because their partition says its value."""
    for (path, _), columns in zip(files, read_columns(_opening(io), files), strict=True):
        if field_id not in columns.top_level:
            what = f"files that leave out their partition's column {name!r}, such as {path}; rewrite them with the "
            raise UnsupportedFeature((f"{what}engine that added them",), "reading")


def _opening(io: FileIO) -> Callable[[str], Any]:
    return lambda path: io.new_input(path).open()


def _columns_by_name(metadata: TableMetadata, suffix: str) -> FileColumns | None:
    """The columns of a file whose name ends so, where a schema of the table has that fingerprint."""
    match = _SUFFIX.fullmatch(suffix)
    if match is None:
        return None
    found = known_columns(match[1])
    if found is not None:
        return found
    for schema in metadata.schemas:
        try:
            columns = columns_of(stored_arrow(schema))
        except SchemaError:  # a type that Partita doesn't write
            continue
        if columns.fingerprint == match[1]:
            return columns
    return None
