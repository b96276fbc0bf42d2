"""Which files that the log doesn't reference may be deleted as orphans of failed writers.

A file is an orphan only if its name has a form that Partita, delta-spark or delta-rs give their files. Plain Spark
gives Parquet files the same form, so a file of another writer must also be in a folder that writers of this table use:
a partition directory, a random prefix if the table has those, or `_change_data`. If the table has a feature that
Partita doesn't know, files of other writers stay: the feature may reference them in a way of its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from urllib.parse import unquote

from partita.formats.containment import REASON_UNKNOWN_FOLDER, DeletedFiles, FolderListing
from partita.formats.delta.files import random_prefix_length
from partita.formats.delta.log import DeltaLog, DeltaSnapshot, check_readable, has_known_features, physical_names

_UUID_PATTERN = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PARTITA_FILE = re.compile(rf"part-\d{{5}}-\d+-{_UUID_PATTERN}\.c000\.snappy\.parquet")
_OTHER_WRITER_FILE = re.compile(
    rf"(?:part|cdc)-\d{{5,}}-{_UUID_PATTERN}[.-]c\d{{3,}}(?:\.[a-z0-9]+)?\.parquet"
    rf"|\d+-{_UUID_PATTERN}-\d+(?:\.[a-z0-9]+)?\.parquet"
)
_DELETION_VECTOR_FILE = re.compile(rf"deletion_vector_{_UUID_PATTERN}\.bin")
_CHANGE_DATA_FOLDER = "_change_data/"
_RANDOM_FOLDER = re.compile("[0-9A-Za-z]{0,16}")

REASON_UNKNOWN_FEATURE = (
    "another writer left it, and the table has features that Partita doesn't know, which may need it"
)


def remove_orphan_files(log: DeltaLog, older_than: float) -> DeletedFiles:
    """Delete files older than that many seconds that no commit names, and that have names of Delta's writers."""
    listing = FolderListing.from_files(log.storage.list_files(), "delta")
    # A log that lacks commits, or has parts that can't be read, doesn't tell which files it names.
    snapshot = log.snapshot()
    check_readable(snapshot.protocol, snapshot.metadata, snapshot.files.slice(0, 0))
    # The log is read after the listing, so that files committed in between count as named. File names are compared
    # instead of paths: a path can be spelled in many ways, and no two files share a name with a UUID.
    referenced_names = {path.rpartition("/")[2] for path in log.referenced_paths()}
    orphans = listing.orphan_files(
        lambda path: path.rpartition("/")[2] in referenced_names or path.startswith("_delta_log/"),
        is_writer_file_name,
        time.time() - older_than,
        keep_reason_lookup(snapshot, random_prefix_length(snapshot.metadata)),
    )
    log.storage.delete(orphans)
    return orphans


def is_writer_file_name(path: str) -> bool:
    """Whether the name of a file has the form that writers of Delta tables give their files."""
    name = path.rpartition("/")[2]
    return any(pattern.fullmatch(name) for pattern in (_PARTITA_FILE, _OTHER_WRITER_FILE, _DELETION_VECTOR_FILE))


def keep_reason_lookup(snapshot: DeltaSnapshot, random_prefix_length: int) -> Callable[[str], str | None]:
    """Return a function that says why an unreferenced file of a writer must stay; None if it may be deleted.

    `random_prefix_length` is the length of the random folder names of the table, or 0 if it has none.
    """
    features_known = has_known_features(snapshot.protocol)
    physical = physical_names(snapshot.metadata)
    column_names = [{name, physical[name]} for name in snapshot.metadata.partition_columns]

    def is_partition_folder(folder: str) -> bool:
        segments = folder.split("/") if folder else []
        return len(segments) == len(column_names) and all(
            "=" in segment and unquote(segment.partition("=")[0]) in names
            for segment, names in zip(segments, column_names, strict=True)
        )

    def is_random_prefix(folder: str) -> bool:
        return 0 < random_prefix_length == len(folder) and _RANDOM_FOLDER.fullmatch(folder) is not None

    def keep_reason(path: str) -> str | None:
        folder, _, name = path.rpartition("/")
        if _PARTITA_FILE.fullmatch(name):
            return None
        if not features_known:
            return REASON_UNKNOWN_FEATURE
        if _DELETION_VECTOR_FILE.fullmatch(name):
            return None if _RANDOM_FOLDER.fullmatch(folder) else REASON_UNKNOWN_FOLDER
        folder = f"{folder}/".removeprefix(_CHANGE_DATA_FOLDER).rstrip("/")
        return None if is_random_prefix(folder) or is_partition_folder(folder) else REASON_UNKNOWN_FOLDER

    return keep_reason
