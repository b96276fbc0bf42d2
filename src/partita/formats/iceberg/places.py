"""Where the files of an Iceberg table are, and in which folders the table may delete files (ADR 0025).

Everybody who wrote metadata could write anything there, so a location in it is no proof. A folder is the table's own
where the user opened or created the table in it, or where it is the table's location and the catalog's metadata file
lies in its `metadata` folder. In folders that properties name (`write.data.path`, `write.metadata.path`) other tables
may have their files too: there a table deletes files whose names begin with its id, as those that Partita writes do,
and only where a snapshot of it has such a file.
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
from partita.formats.containment import Place, plain_location
from partita.storage import Storage, StoredFile

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

DATA_PATH = "write.data.path"
METADATA_PATH = "write.metadata.path"
FOLDER_PROPERTIES = (DATA_PATH, METADATA_PATH, "write.object-storage.path", "write.folder-storage.path")
"""The properties that name folders for a table's files."""

_UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_ENDING = r"\.(?:parquet|orc|avro|puffin|stats|metadata\.json(?:\.gz)?)"
_PLAIN_SPARK = rf"part-\d{{5,}}-{_UUID}"
"""How the names of Parquet files begin that Spark writes to no table."""
_NAMED = re.compile(rf"(?!\.)[^/]+{_ENDING}", re.IGNORECASE)
_UNNAMED = re.compile(
    rf"(?!\.|{_PLAIN_SPARK})[^/]*(?<![0-9a-f]){_UUID}(?![0-9a-f])[^/]*{_ENDING}"
    rf"|\d{{5,}}-\d+-[^/]+{_ENDING}"
    r"|v\d+(?:\.gz)?\.metadata\.json",
    re.IGNORECASE,
)
"""A UUID, or the numbers of a partition and a task before any id, or a version."""

_STATISTICS = re.compile(r"(?!\.)[^/]+\.(?:stats|puffin)|partition-stats-[^/]+\.(?:parquet|avro|orc)", re.IGNORECASE)


def is_file_name(path: str) -> bool:
    """Whether a file that the table names can be one of its data files, manifests, statistics or metadata files."""
    return _NAMED.fullmatch(path.rpartition("/")[2]) is not None


def is_statistics_name(path: str) -> bool:
    """Whether a file can be one of a table's statistics, or partition statistics, by its name."""
    return _STATISTICS.fullmatch(path.rpartition("/")[2]) is not None


def is_writers_name(path: str) -> bool:
    """Whether writers of Iceberg tables give files such names by themselves."""
    return _UNNAMED.fullmatch(path.rpartition("/")[2]) is not None


def is_writers_folder(path: str) -> bool:
    """Whether writers put files there that no property sends elsewhere; by the path in the table's own folder."""
    return path.startswith(("data/", "metadata/"))


# --- where new files go


def data_path(metadata: TableMetadata) -> str:
    """The folder of new data files, as manifests name it."""
    return _folder(metadata.properties.get(DATA_PATH) or f"{metadata.location.rstrip('/')}/data")


def metadata_path(metadata: TableMetadata) -> str:
    """The folder of new manifests and manifest lists."""
    return _folder(metadata.properties.get(METADATA_PATH) or f"{metadata.location.rstrip('/')}/metadata")


def data_owner(metadata: TableMetadata) -> str:
    """How the names of new data files begin: with the table's id where other tables may have theirs beside them."""
    return _owner(metadata) if metadata.properties.get(DATA_PATH) else ""


def metadata_owner(metadata: TableMetadata) -> str:
    """How the names of new manifests and manifest lists begin."""
    return _owner(metadata) if metadata.properties.get(METADATA_PATH) else ""


def _owner(metadata: TableMetadata) -> str:
    return f"{metadata.table_uuid}-"


def _folder(uri: str) -> str:
    """A folder without a slash at its end, and on a local disk without `.` and `..`, which readers refuse."""
    bare = uri.rstrip("/") or "/"
    plain = plain_location(bare)
    if not plain.startswith("/") or os.path.normpath(plain) == plain:
        return bare
    scheme = bare.removesuffix(plain)
    return scheme + os.path.normpath(plain)


# --- where files may be deleted


def own_place(table: Table, opened: str | None = None) -> Place | None:
    """The folder that is the table's own; None where only its metadata says so.

    `opened` is the folder that the user opened or created the table in, if there is one.
    """
    place = Place.at(table.metadata.location)
    if opened is not None and Place.at(opened) == place:
        return place
    holder = Place.at(table.metadata_location.rpartition("/")[0])
    return place if _once(holder.root) == _once(f"{place.root}/metadata") else None


def _once(path: str) -> str:
    """A path without empty segments, which come from a location that ends with a slash."""
    return re.sub("(?<!:)/+", "/", path)


def check_own_place(table: Table, opened: str | None = None) -> Place:
    """The folder that is the table's own; a table that has none is refused."""
    place = own_place(table, opened)
    if place is None:
        raise TableError(
            f"the table {'.'.join(table.name())} has the location {table.metadata.location}, and its metadata file is "
            f"not in the folder metadata there, but at {table.metadata_location}: nothing shows that the files at the "
            "location are the table's. If they are, confirm it: open_table(..., location=...)"
        )
    return place


def named_places(table: Table, named: Iterable[str]) -> list[Place]:
    """The folders that the table's properties name, where one of the files that it names lies and has its id."""
    waiting = list(dict.fromkeys(map(Place.at, folders_of_properties(table.metadata))))
    proven: list[Place] = []
    for path in named if waiting else ():
        if is_owned_name(table.metadata, path):
            proven += [place for place in waiting if place.relative(path) is not None]
            waiting = [place for place in waiting if place not in proven]
        if not waiting:
            break
    return proven


def folders_of_properties(metadata: TableMetadata) -> list[str]:
    """The folders that properties of a table name."""
    found = (metadata.properties.get(name) for name in FOLDER_PROPERTIES)
    return [_folder(uri) for uri in found if uri]


def is_owned_name(metadata: TableMetadata, path: str) -> bool:
    """Whether a file's name says that it is this table's."""
    return path.rpartition("/")[2].startswith(_owner(metadata)) and is_writers_name(path)


def delete_files(io: FileIO, place: Place, paths: Iterable[str]) -> None:
    """Delete files given by their paths below a folder; on a local disk no symbolic link is followed."""
    if not place.is_local:
        delete_all(io, [f"{place.root}/{path}" for path in paths])
        return
    storage = Storage.at(place.root)
    for path in paths:
        with suppress(StorageError):  # what stays is an orphan, and no reason to fail
            storage.delete([path])


def delete_all(io: FileIO, paths: Iterable[str]) -> None:
    """Delete files as far as that goes: what stays is an orphan, and no reason to fail."""
    with ThreadPoolExecutor(8, thread_name_prefix="partita-delete") as pool:
        list(pool.map(lambda path: _delete(io, path), paths))


def _delete(io: FileIO, path: str) -> None:
    # Each store has errors of its own, and none of them undoes what was committed.
    with suppress(Exception):
        io.delete(path)


def list_files(io: FileIO, place: Place) -> Iterator[StoredFile]:
    """Every file below a folder; no symbolic link is followed."""
    if place.is_local:
        yield from Storage.at(place.root).files()
        return
    if not isinstance(io, PyArrowFileIO):
        raise TableError(
            f"files at {place.root} can't be listed through {type(io).__name__}; set py-io-impl to pyarrow's in the "
            "catalog's configuration"
        )
    scheme, netloc, folder = io.parse_location(place.root, io.properties)
    infos = io.fs_by_scheme(scheme, netloc).get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
    below = len(folder.rstrip("/")) + 1
    for info in infos:
        if info.type == FileType.File:
            yield StoredFile(info.path[below:], info.size, info.mtime.timestamp())
