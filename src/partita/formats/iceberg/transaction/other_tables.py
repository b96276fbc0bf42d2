"""Files in a table's folder that may be another table's: what maintenance leaves alone besides the table's own.

Nothing keeps two tables apart: a table is renamed and another made in its folder, two catalogs have tables in one
folder, `register_table` makes a fork, `write.data.path` of a table leads into the folder of another. Two things tell of
such tables:

1. Metadata files in the table's folder. One of another `table-uuid`, or one that is not among the table's own versions
   (a fork, or a later commit through another catalog), may be the current one of somebody: every file that it reaches
   counts as live. One whose current manifest list is gone can't be read as a table by anybody, and is what a lost race
   left.
2. The other tables of the catalog: what those with the same location reach is live, and what lies in a folder that one
   of them has inside of this table's is left alone. Files that `add_files` gave to one of them may lie anywhere; such a
   table has a name mapping, for its files have no field ids, and what it reaches in this table's folder is live too.
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
from pyiceberg.manifest import read_manifest_list

from partita.errors import PartitaError, StorageError, TableError
from partita.formats.containment import Place
from partita.formats.iceberg.catalogs import identifier, load, metadata_locations, names_in
from partita.formats.iceberg.field_ids import NAME_MAPPING
from partita.formats.iceberg.places import METADATA_PATH, folders_of_properties
from partita.formats.iceberg.transaction.edge import name_of
from partita.formats.iceberg.transaction.manifests import manifests_by_path, read_entries
from partita.untrusted import parse_json_object

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

_ENDINGS = (".metadata.json", ".metadata.json.gz")


@dataclass(slots=True)
class Claims:
    """What may be another table's: files by their names and folders, each with the reason.

    By names alone: a path may be said in many ways, and the names of data files, manifests and metadata files differ.
    `unknown` are tables of the catalog, or the catalog itself, that couldn't be asked.
    """

    files: dict[str, str] = field(default_factory=dict)
    folders: dict[Place, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)

    def reason(self, path: str) -> str | None:
        """Why a file with that absolute path may be another table's; None where nothing says so."""
        found = self.files.get(_name(path))
        if found is not None:
            return found
        return next((why for folder, why in self.folders.items() if folder.relative(path) is not None), None)


def claims_in_folder(table: Table, place: Place) -> Claims:
    """What the metadata files reach that lie in the table's folder, and are not the table's own.

    A catalog in SQL is asked for tables whose current metadata file is one of the table's own earlier ones.
    """
    claims, reader = Claims(), _Reader(table.io)
    for path, document in _strangers(table, place):
        claims.files |= dict.fromkeys(reader.names_reached(path, document), _reason_of(path))
    own = table.name()
    for name, path in (metadata_locations(table.catalog) or {}).items():
        if name != own and place.relative(path) is not None:
            _claim_of_table(claims, table.io, ".".join(name), path)
    return claims


def claims_in_catalog(table: Table, place: Place, claims: Claims) -> None:
    """Add what the other tables of the catalog have in the table's folder; one request for each of them."""
    catalog, own = table.catalog, identifier(name_of(table))
    try:
        names = list(names_in(catalog))
    except (StorageError, TableError) as error:
        if not isinstance(error.__cause__, ForbiddenError | NotImplementedError):
            raise
        claims.unknown[catalog.name] = "its tables can't be listed, so that those which have files here aren't known"
        return
    for name in names:
        if identifier(name) == own:
            continue
        try:
            other = load(catalog, name)
        except PartitaError as error:
            if isinstance(error, StorageError) and not isinstance(error.__cause__, FileNotFoundError):
                raise
            claims.unknown[name] = f"this table can't be read, so that where it has files isn't known: {error}"
            continue
        location = Place.at(other.location())
        if location == place:
            _claim_of_table(claims, other.io, name, other.metadata_location)
        elif NAME_MAPPING in other.metadata.properties:
            added = (path for path in _data_files(other) if place.relative(path) is not None)
            claims.files |= dict.fromkeys(_names(added), f"the table {name} names it: its files may lie in any folder")
        named = [Place.at(folder) for folder in folders_of_properties(other.metadata)]
        for inside in (*named, *([] if location == place else [location])):
            if inside == place or place.relative(inside.root) is not None:
                claims.folders[inside] = f"the table {name} may have it: its files are in this folder"


def _data_files(table: Table) -> Iterator[str]:
    """The paths of the data and delete files of all snapshots of a table."""
    for manifest in manifests_by_path(table.io, table.metadata.snapshots).values():
        yield from (entry.data_file.file_path for entry in read_entries(table.io, manifest))


def _claim_of_table(claims: Claims, io: FileIO, name: str, path: str) -> None:
    document = _document(io, path)
    if document is not None:
        reached = [
            *_Reader(io).names_reached(path, document),
            *_names(entry["metadata-file"] for entry in _log(document)),
        ]
        claims.files |= dict.fromkeys(reached, f"the table {name} names it, which has its metadata in the same folder")


def _reason_of(path: str) -> str:
    return (
        f"the metadata file {path} is not this table's, and names it: it may be another table, or a fork of this one; "
        "delete that metadata file if no catalog has it"
    )


# --- metadata files that are not the table's


def _strangers(table: Table, place: Place) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The metadata files in the table's folder that are not among its own versions."""
    own = set(_names([table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]))
    folder = Place.at(f"{place.root}/metadata")
    current = Place.at(table.metadata_location.rpartition("/")[0])
    listed = {path: True for path in _metadata_files(table.io, folder) if _name(path) not in own}
    if current != folder:
        # Other tables may have theirs there too.
        listed |= {path: False for path in _metadata_files(table.io, current) if _name(path) not in own}
    if not listed:
        return
    own |= _earlier_versions(table)
    for path, is_own_folder in listed.items():
        document = None if _name(path) in own else _document(table.io, path)
        if document is not None and (is_own_folder or document.get("table-uuid") == str(table.metadata.table_uuid)):
            _check_complete(table, path, document)
            yield path, document


def _check_complete(table: Table, path: str, document: Mapping[str, Any]) -> None:
    """Refuse a folder that has files of another table, whose newest metadata file is somewhere else."""
    properties = document.get("properties")
    elsewhere = isinstance(properties, dict) and properties.get(METADATA_PATH)
    if elsewhere and document.get("table-uuid") != str(table.metadata.table_uuid):
        raise TableError(
            f"the metadata file {path} is of another table, which has its metadata files at {elsewhere}: which files "
            f"in the folder of {name_of(table)} it needs isn't known, and none are deleted; delete that metadata file "
            "if the table is no more"
        )


def _earlier_versions(table: Table) -> set[str]:
    """The names of the metadata files that the table's log has let go of, by the logs of those that it still names."""
    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    found: set[str] = set()
    while log and _name(log[0]) not in found:
        oldest = log[0]
        found.update(_names(log))
        document = _document(table.io, oldest) if table.io.new_input(oldest).exists() else None
        log = [] if document is None else [entry["metadata-file"] for entry in _log(document)]
    return found


def _metadata_files(io: FileIO, folder: Place) -> list[str]:
    """The metadata files in a folder, without those below it."""
    if folder.is_local:
        found = [str(path) for path in Path(folder.root).iterdir()] if Path(folder.root).is_dir() else []
    elif isinstance(io, PyArrowFileIO):
        scheme, netloc, path = io.parse_location(folder.root, io.properties)
        selector = FileSelector(path, recursive=False, allow_not_found=True)
        infos = io.fs_by_scheme(scheme, netloc).get_file_info(selector)
        found = [f"{folder.root}/{info.base_name}" for info in infos if info.type == FileType.File]
    else:
        raise TableError(f"files at {folder.root} can't be listed through {type(io).__name__}")
    return sorted(path for path in found if path.endswith(_ENDINGS))


def _document(io: FileIO, path: str) -> Mapping[str, Any] | None:
    """What a metadata file says; None where it is none that any reader can take for a table's metadata."""
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
    is_known = isinstance(snapshots, list) and all(
        isinstance(each, dict) and isinstance(each.get("manifest-list"), str) for each in snapshots
    )
    if not is_known or any(not isinstance(entry.get("metadata-file"), str) for entry in _log(document)):
        raise TableError(
            f"the metadata file {path} lies in the table's folder, and which files it needs can't be told, so none are "
            "deleted; move it away if no catalog has it"
        )
    return document


def _log(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    log = document.get("metadata-log") or []
    return [entry if isinstance(entry, dict) else {} for entry in log] if isinstance(log, list) else [{}]


@dataclass(slots=True)
class _Reader:
    """What metadata files reach; each manifest list and each manifest is read once."""

    io: FileIO
    lists: dict[str, set[str]] = field(default_factory=dict)
    manifests: dict[str, set[str]] = field(default_factory=dict)

    def names_reached(self, path: str, document: Mapping[str, Any]) -> set[str]:
        """The names of the files that a metadata file reaches, its own with them; none where nobody can read it."""
        snapshots = document.get("snapshots") or []
        current = document.get("current-snapshot-id")
        for each in snapshots:
            is_current = each.get("snapshot-id") == current
            if is_current and not self.io.new_input(each["manifest-list"]).exists():
                return set()
        found = {_name(path)}
        for each in snapshots:
            found |= self._of_list(each["manifest-list"])
        for kind in ("statistics", "partition-statistics"):
            named = document.get(kind) or []
            paths = [each.get("statistics-path") for each in named if isinstance(each, dict)]
            found.update(_names(each for each in paths if isinstance(each, str)))
        return found

    def _of_list(self, path: str) -> set[str]:
        known = self.lists.get(path)
        if known is None:
            known = self.lists[path] = {_name(path)}
            if self.io.new_input(path).exists():
                for manifest in read_manifest_list(self.io.new_input(path)):
                    if manifest.manifest_path not in self.manifests:
                        self.manifests[manifest.manifest_path] = self._of_manifest(manifest)
                    known |= self.manifests[manifest.manifest_path]
        return known

    def _of_manifest(self, manifest: Any) -> set[str]:
        found = {_name(manifest.manifest_path)}
        if self.io.new_input(manifest.manifest_path).exists():
            found.update(_names(entry.data_file.file_path for entry in read_entries(self.io, manifest)))
        return found


def _names(paths: Iterable[str]) -> Iterator[str]:
    return map(_name, paths)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
