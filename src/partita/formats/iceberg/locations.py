"""Where the files of an Iceberg table are, and in which folders the table may delete files (ADR 25).

Anyone who wrote metadata could have written any location, so a location in metadata is no proof of ownership. A folder
is the table's own if the user opened or created the table in it, or if it is the table's location and the catalog's
metadata file is in its `metadata` folder. Folders that properties name (`write.data.path`, `write.metadata.path`) may
hold files of other tables too: there a table deletes only files whose names begin with its id, as those that Partita
writes do, and only if one of its snapshots references such a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO

from partita.errors import StorageError, TableError
from partita.formats.containment import FolderLocation, plain_location
from partita.storage import Storage, StoredFile

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

WRITE_DATA_PATH = "write.data.path"
WRITE_METADATA_PATH = "write.metadata.path"
FOLDER_PROPERTIES = (WRITE_DATA_PATH, WRITE_METADATA_PATH, "write.object-storage.path", "write.folder-storage.path")
"""The table properties that name folders for its files."""

_UUID_PATTERN = r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_EXTENSION_PATTERN = r"\.(?:parquet|orc|avro|puffin|stats|metadata\.json(?:\.gz)?)"
_SPARK_PART_PATTERN = rf"part-\d{{5,}}-{_UUID_PATTERN}"
"""The names of Parquet files that Spark writes outside of tables."""
_TABLE_FILE_NAME = re.compile(rf"(?!\.)[^/]+{_EXTENSION_PATTERN}", re.IGNORECASE)
_WRITER_FILE_NAME = re.compile(
    rf"(?!\.|{_SPARK_PART_PATTERN})[^/]*(?<![0-9a-f]){_UUID_PATTERN}(?![0-9a-f])[^/]*{_EXTENSION_PATTERN}"
    rf"|\d{{5,}}-\d+-[^/]+{_EXTENSION_PATTERN}"
    r"|v\d+(?:\.gz)?\.metadata\.json",
    re.IGNORECASE,
)
"""A name with a UUID, or with a partition number and a task number before any id, or a metadata version."""

_STATISTICS_FILE_NAME = re.compile(
    r"(?!\.)[^/]+\.(?:stats|puffin)|partition-stats-[^/]+\.(?:parquet|avro|orc)", re.IGNORECASE
)


def is_table_file_name(path: str) -> bool:
    """Return whether a name fits a data file, manifest, statistics file or metadata file."""
    return _TABLE_FILE_NAME.fullmatch(path.rpartition("/")[2]) is not None


def is_statistics_file_name(path: str) -> bool:
    """Return whether a name fits a statistics file or a partition statistics file."""
    return _STATISTICS_FILE_NAME.fullmatch(path.rpartition("/")[2]) is not None


def is_writer_file_name(path: str) -> bool:
    """Return whether a name is one that writers of Iceberg tables generate."""
    return _WRITER_FILE_NAME.fullmatch(path.rpartition("/")[2]) is not None


def is_writer_folder(path: str) -> bool:
    """Return whether writers put files at a path, relative to the table's folder, unless a property redirects them."""
    return path.startswith(("data/", "metadata/"))


# --- where new files go


def data_path(metadata: TableMetadata) -> str:
    """Return the folder of new data files, as manifests name it."""
    return _normalize_folder(metadata.properties.get(WRITE_DATA_PATH) or f"{metadata.location.rstrip('/')}/data")


def metadata_path(metadata: TableMetadata) -> str:
    """Return the folder of new manifests and manifest lists."""
    return _normalize_folder(
        metadata.properties.get(WRITE_METADATA_PATH) or f"{metadata.location.rstrip('/')}/metadata"
    )


def data_file_prefix(metadata: TableMetadata) -> str:
    """Return the file name prefix of new data files: the table's id where other tables may share the folder."""
    return _table_id_prefix(metadata) if metadata.properties.get(WRITE_DATA_PATH) else ""


def metadata_file_prefix(metadata: TableMetadata) -> str:
    """Return the file name prefix of new manifests and manifest lists."""
    return _table_id_prefix(metadata) if metadata.properties.get(WRITE_METADATA_PATH) else ""


def _table_id_prefix(metadata: TableMetadata) -> str:
    return f"{metadata.table_uuid}-"


def _normalize_folder(uri: str) -> str:
    """Strip trailing slashes and, on a local disk, resolve `.` and `..`, which readers refuse."""
    bare = uri.rstrip("/") or "/"
    plain = plain_location(bare)
    if not plain.startswith("/") or os.path.normpath(plain) == plain:
        return bare
    scheme = bare.removesuffix(plain)
    return scheme + os.path.normpath(plain)


# --- where files may be deleted


def owned_folder(table: Table, opened_location: str | None = None) -> FolderLocation | None:
    """Return the folder that is the table's own; None if only its metadata says so.

    `opened_location` is the folder that the user opened or created the table in, if there is one.
    """
    location = FolderLocation.from_uri(table.metadata.location)
    if opened_location is not None and FolderLocation.from_uri(opened_location) == location:
        return location
    metadata_folder = FolderLocation.from_uri(table.metadata_location.rpartition("/")[0])
    return (
        location if _collapse_slashes(metadata_folder.root) == _collapse_slashes(f"{location.root}/metadata") else None
    )


def _collapse_slashes(path: str) -> str:
    """Remove the empty segments that a location with a trailing slash leaves in a path."""
    return re.sub("(?<!:)/+", "/", path)


def check_owned_folder(table: Table, opened_location: str | None = None) -> FolderLocation:
    """Return the folder that is the table's own; raise `TableError` if there is none."""
    folder = owned_folder(table, opened_location)
    if folder is None:
        raise TableError(
            f"the table {'.'.join(table.name())} has the location {table.metadata.location}, and its metadata file is "
            f"not in the folder metadata there, but at {table.metadata_location}: nothing shows that the files at the "
            "location are the table's. If they are, confirm it: open_table(..., location=...)"
        )
    return folder


def check_metadata_folder(table: Table, opened_location: str | None) -> None:
    """Raise `TableError` if a commit would write metadata to a folder that only metadata claims for the table.

    From then on, every reader would take that folder for the table's own.
    """
    if not table.metadata.properties.get(WRITE_METADATA_PATH):
        check_owned_folder(table, opened_location)


def owned_property_folders(table: Table, referenced_paths: Iterable[str]) -> list[FolderLocation]:
    """Return the folders named by properties that contain a referenced file whose name begins with the table's id."""
    candidate_folders = list(dict.fromkeys(map(FolderLocation.from_uri, property_folders(table.metadata))))
    owned_folders: list[FolderLocation] = []
    for path in referenced_paths if candidate_folders else ():
        if has_table_id_prefix(table.metadata, path):
            owned_folders += [folder for folder in candidate_folders if folder.relative_path(path) is not None]
            candidate_folders = [folder for folder in candidate_folders if folder not in owned_folders]
        if not candidate_folders:
            break
    return owned_folders


def property_folders(metadata: TableMetadata) -> list[str]:
    """Return the folders that a table's properties name."""
    uris = (metadata.properties.get(name) for name in FOLDER_PROPERTIES)
    return [_normalize_folder(uri) for uri in uris if uri]


def has_table_id_prefix(metadata: TableMetadata, path: str) -> bool:
    """Return whether a file's name begins with the table's id and is one that writers generate."""
    return path.rpartition("/")[2].startswith(_table_id_prefix(metadata)) and is_writer_file_name(path)


def remove_files_in_folder(io: FileIO, folder: FolderLocation, paths: Iterable[str]) -> None:
    """Delete files given by their paths relative to a folder; on a local disk no symbolic link is followed."""
    if not folder.is_local:
        remove_files(io, [f"{folder.root}/{path}" for path in paths])
        return
    storage = Storage.from_uri(folder.root)
    for path in paths:
        with suppress(StorageError):  # a file that can't be deleted is an orphan, and no reason to fail
            storage.delete([path])


def remove_files(io: FileIO, paths: Iterable[str]) -> None:
    """Delete files; a file that can't be deleted is left as an orphan."""
    with ThreadPoolExecutor(8, thread_name_prefix="partita-delete") as pool:
        list(pool.map(lambda path: _remove_file(io, path), paths))


def _remove_file(io: FileIO, path: str) -> None:
    # Each store raises its own errors, and none of them affects what was committed.
    with suppress(Exception):
        io.delete(path)


def list_files(io: FileIO, table_folder: FolderLocation) -> Iterator[StoredFile]:
    """Yield every file below a folder; no symbolic link is followed."""
    if table_folder.is_local:
        yield from Storage.from_uri(table_folder.root).list_files()
        return
    if not isinstance(io, PyArrowFileIO):
        raise TableError(
            f"files at {table_folder.root} can't be listed through {type(io).__name__}; set py-io-impl to pyarrow's "
            "in the catalog's configuration"
        )
    scheme, netloc, folder = io.parse_location(table_folder.root, io.properties)
    infos = io.fs_by_scheme(scheme, netloc).get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
    prefix_length = len(folder.rstrip("/")) + 1
    for info in infos:
        if info.type == FileType.File:
            yield StoredFile(info.path[prefix_length:], info.size, info.mtime.timestamp())
