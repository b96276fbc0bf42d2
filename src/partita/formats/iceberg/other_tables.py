"""Files in a table's folder that may be another table's, which maintenance must not delete.

Nothing keeps two tables apart: a table is renamed and another created in its folder, two catalogs have tables in one
folder, `register_table` makes a fork, `write.data.path` of one table leads into the folder of another. Two sources tell
of such tables:

1. Metadata files in the table's folder. One with another `table-uuid`, or one that is not among the table's own
   versions (a fork, or a later commit through another catalog), may be current in some catalog: every file that it
   reaches counts as live. One whose current manifest list is missing can't be read as a table, and is the leftover of
   a lost race.
2. The other tables of the catalog: files that tables of the same location reach are live, and files in a folder that
   one of them has inside this table's are kept. Files that `add_files` gave to another table may be anywhere; such a
   table has a name mapping, because its files have no field ids, and what it reaches in this table's folder is live.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyarrow.fs import FileSelector, FileType
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.io.pyarrow import PyArrowFileIO

from partita.errors import PartitaError, StorageError, TableError
from partita.formats.containment import FolderLocation
from partita.formats.iceberg.catalogs import (
    catalog_table_names,
    load_table,
    metadata_locations,
    table_identifier,
    table_name,
)
from partita.formats.iceberg.field_ids import NAME_MAPPING_PROPERTY
from partita.formats.iceberg.locations import WRITE_METADATA_PATH, property_folders
from partita.formats.iceberg.manifests.entries import manifests_by_path, read_manifest_entries, read_manifest_files
from partita.untrusted_input import parse_json_object

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

_METADATA_FILE_SUFFIXES = (".metadata.json", ".metadata.json.gz")


@dataclass(slots=True)
class FileClaims:
    """Files and folders that may be another table's, each with the reason.

    Files are keyed by name: a path can be spelled in many ways, while names of data files, manifests and metadata files
    are unique. `unreadable_tables` are tables of the catalog, or the catalog itself, that couldn't be read.
    """

    file_reasons: dict[str, str] = field(default_factory=dict)
    folder_reasons: dict[FolderLocation, str] = field(default_factory=dict)
    unreadable_tables: dict[str, str] = field(default_factory=dict)

    def reason(self, path: str) -> str | None:
        """Return why the file with that absolute path may be another table's; None if nothing says so."""
        file_reason = self.file_reasons.get(_file_name(path))
        if file_reason is not None:
            return file_reason
        return next(
            (
                folder_reason
                for folder, folder_reason in self.folder_reasons.items()
                if folder.relative_path(path) is not None
            ),
            None,
        )


def claims_in_folder(table: Table, table_folder: FolderLocation) -> FileClaims:
    """Return the claims of metadata files in the table's folder that are not the table's own.

    An SQL catalog is also asked for tables whose current metadata file is one of the table's own earlier ones.
    """
    claims, reachable_files = FileClaims(), _ReachableFiles(table.io)
    for path, document in _foreign_metadata_files(table, table_folder):
        claims.file_reasons |= dict.fromkeys(reachable_files.reachable_names(path, document), _claim_reason(path))
    own_name = table.name()
    for name, path in (metadata_locations(table.catalog) or {}).items():
        if name != own_name and table_folder.relative_path(path) is not None:
            _add_table_claims(claims, table.io, ".".join(name), path)
    return claims


def add_catalog_claims(table: Table, table_folder: FolderLocation, claims: FileClaims) -> None:
    """Add the claims of the other tables of the catalog on the table's folder; one request per table."""
    catalog, own_identifier = table.catalog, table_identifier(table_name(table))
    try:
        names = list(catalog_table_names(catalog))
    except (StorageError, TableError) as error:
        if not isinstance(error.__cause__, ForbiddenError | NotImplementedError):
            raise
        claims.unreadable_tables[catalog.name] = (
            "its tables can't be listed, so it is unknown which of them have files here"
        )
        return
    for name in names:
        if table_identifier(name) == own_identifier:
            continue
        try:
            other = load_table(catalog, name)
        except PartitaError as error:
            if isinstance(error, StorageError) and not isinstance(error.__cause__, FileNotFoundError):
                raise
            claims.unreadable_tables[name] = f"this table can't be read, so it is unknown where it has files: {error}"
            continue
        location = FolderLocation.from_uri(other.location())
        if location == table_folder:
            _add_table_claims(claims, other.io, name, other.metadata_location)
        elif NAME_MAPPING_PROPERTY in other.metadata.properties:
            claimed_paths = (path for path in _data_file_paths(other) if table_folder.relative_path(path) is not None)
            claims.file_reasons |= dict.fromkeys(
                _file_names(claimed_paths), f"the table {name} names it: its files may lie in any folder"
            )
        other_folders = [FolderLocation.from_uri(folder) for folder in property_folders(other.metadata)]
        for folder in (*other_folders, *([] if location == table_folder else [location])):
            if folder == table_folder or table_folder.relative_path(folder.root) is not None:
                claims.folder_reasons[folder] = f"the table {name} may have it: its files are in this folder"


def _data_file_paths(table: Table) -> Iterator[str]:
    """Yield the paths of the data and delete files of all snapshots of a table."""
    for manifest in manifests_by_path(table.io, table.metadata.snapshots).values():
        yield from (entry.data_file.file_path for entry in read_manifest_entries(table.io, manifest))


def _add_table_claims(claims: FileClaims, io: FileIO, name: str, metadata_path: str) -> None:
    document = _read_metadata_document(io, metadata_path)
    if document is not None:
        reachable_names = [
            *_ReachableFiles(io).reachable_names(metadata_path, document),
            *_file_names(entry["metadata-file"] for entry in _metadata_log(document)),
        ]
        claims.file_reasons |= dict.fromkeys(
            reachable_names, f"the table {name} names it, which has its metadata in the same folder"
        )


def _claim_reason(path: str) -> str:
    return (
        f"the metadata file {path} is not this table's, and names it: it may be another table, or a fork of this one; "
        "delete that metadata file if no catalog has it"
    )


# --- metadata files that are not the table's


def _foreign_metadata_files(table: Table, table_folder: FolderLocation) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the metadata files in the table's folder that are not among its own versions."""
    own_names = set(
        _file_names([table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)])
    )
    metadata_folder = FolderLocation.from_uri(f"{table_folder.root}/metadata")
    current_folder = FolderLocation.from_uri(table.metadata_location.rpartition("/")[0])
    is_own_folder_by_path = {
        path: True for path in _list_metadata_files(table.io, metadata_folder) if _file_name(path) not in own_names
    }
    if current_folder != metadata_folder:
        # Other tables may have metadata files in that folder too.
        is_own_folder_by_path |= {
            path: False for path in _list_metadata_files(table.io, current_folder) if _file_name(path) not in own_names
        }
    if not is_own_folder_by_path:
        return
    own_names |= _earlier_metadata_names(table)
    for path, is_own_folder in is_own_folder_by_path.items():
        document = None if _file_name(path) in own_names else _read_metadata_document(table.io, path)
        if document is not None and (is_own_folder or document.get("table-uuid") == str(table.metadata.table_uuid)):
            _check_metadata_folder(table, path, document)
            yield path, document


def _check_metadata_folder(table: Table, path: str, document: Mapping[str, Any]) -> None:
    """Raise `TableError` if the folder has metadata of another table whose newest metadata file is somewhere else."""
    properties = document.get("properties")
    other_folder = isinstance(properties, dict) and properties.get(WRITE_METADATA_PATH)
    if other_folder and document.get("table-uuid") != str(table.metadata.table_uuid):
        raise TableError(
            f"the metadata file {path} is of another table, which has its metadata files at {other_folder}: it is "
            f"unknown which files in the folder of {table_name(table)} it needs, so none are deleted; delete that "
            "metadata file if that table no longer exists"
        )


def _earlier_metadata_names(table: Table) -> set[str]:
    """Return the names of metadata files that the table's log has dropped, from the logs of those it still has."""
    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    names: set[str] = set()
    while log and _file_name(log[0]) not in names:
        oldest_path = log[0]
        names.update(_file_names(log))
        document = _read_metadata_document(table.io, oldest_path) if table.io.new_input(oldest_path).exists() else None
        log = [] if document is None else [entry["metadata-file"] for entry in _metadata_log(document)]
    return names


def _list_metadata_files(io: FileIO, folder: FolderLocation) -> list[str]:
    """Return the paths of the metadata files directly in a folder."""
    if folder.is_local:
        paths = [str(path) for path in Path(folder.root).iterdir()] if Path(folder.root).is_dir() else []
    elif isinstance(io, PyArrowFileIO):
        scheme, netloc, path = io.parse_location(folder.root, io.properties)
        selector = FileSelector(path, recursive=False, allow_not_found=True)
        infos = io.fs_by_scheme(scheme, netloc).get_file_info(selector)
        paths = [f"{folder.root}/{info.base_name}" for info in infos if info.type == FileType.File]
    else:
        raise TableError(f"files at {folder.root} can't be listed through {type(io).__name__}")
    return sorted(path for path in paths if path.endswith(_METADATA_FILE_SUFFIXES))


def _read_metadata_document(io: FileIO, path: str) -> Mapping[str, Any] | None:
    """Read the JSON of a metadata file; None if no reader could take it for a table's metadata."""
    try:
        with io.new_input(path).open() as stream:
            data = stream.read()
        document = parse_json_object(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    except FileNotFoundError:
        return None
    except (ValueError, EOFError, gzip.BadGzipFile):
        return None
    if "format-version" not in document:
        return None
    snapshots = document.get("snapshots") or []
    is_valid = isinstance(snapshots, list) and all(
        isinstance(snapshot, dict) and isinstance(snapshot.get("manifest-list"), str) for snapshot in snapshots
    )
    if not is_valid or any(not isinstance(entry.get("metadata-file"), str) for entry in _metadata_log(document)):
        raise TableError(
            f"the metadata file {path} is in the table's folder, and it is unknown which files it needs, so none are "
            "deleted; move it away if no catalog has it"
        )
    return document


def _metadata_log(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    log = document.get("metadata-log") or []
    return [entry if isinstance(entry, dict) else {} for entry in log] if isinstance(log, list) else [{}]


@dataclass(slots=True)
class _ReachableFiles:
    """The names of files that metadata files reach; each manifest list and manifest is read once."""

    io: FileIO
    names_by_list: dict[str, set[str]] = field(default_factory=dict)
    names_by_manifest: dict[str, set[str]] = field(default_factory=dict)

    def reachable_names(self, path: str, document: Mapping[str, Any]) -> set[str]:
        """Return the names of the files that a metadata file reaches, itself included; none if it is unreadable."""
        snapshots = document.get("snapshots") or []
        current_id = document.get("current-snapshot-id")
        for item in snapshots:
            is_current = item.get("snapshot-id") == current_id
            if is_current and not self.io.new_input(item["manifest-list"]).exists():
                return set()
        names = {_file_name(path)}
        for item in snapshots:
            names |= self._names_in_list(item["manifest-list"])
        for key in ("statistics", "partition-statistics"):
            statistics = document.get(key) or []
            paths = [item.get("statistics-path") for item in statistics if isinstance(item, dict)]
            names.update(_file_names(item for item in paths if isinstance(item, str)))
        return names

    def _names_in_list(self, path: str) -> set[str]:
        names = self.names_by_list.get(path)
        if names is None:
            names = self.names_by_list[path] = {_file_name(path)}
            if self.io.new_input(path).exists():
                for manifest in read_manifest_files(self.io, path):
                    if manifest.manifest_path not in self.names_by_manifest:
                        self.names_by_manifest[manifest.manifest_path] = self._names_in_manifest(manifest)
                    names |= self.names_by_manifest[manifest.manifest_path]
        return names

    def _names_in_manifest(self, manifest: Any) -> set[str]:
        names = {_file_name(manifest.manifest_path)}
        if self.io.new_input(manifest.manifest_path).exists():
            names.update(_file_names(entry.data_file.file_path for entry in read_manifest_entries(self.io, manifest)))
        return names


def _file_names(paths: Iterable[str]) -> Iterator[str]:
    return map(_file_name, paths)


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]
