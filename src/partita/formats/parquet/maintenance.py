"""Which files of a folder may be deleted as leftovers: staged ones alone, for every visible file counts."""

from __future__ import annotations

import re
import time

from partita.formats.containment import DeletedFiles, FolderListing
from partita.formats.parquet.commit import STAGING_FOLDER, CommitLog
from partita.storage import Storage

_UUID_PATTERN = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_STAGED_FILE = re.compile(
    rf"{STAGING_FOLDER}/{_UUID_PATTERN}/(?:.*/)?part-\d{{5}}-\d+-{_UUID_PATTERN}\.c[0-9a-f]{{12}}\.snappy\.parquet\.staged",
    re.DOTALL,
)


def remove_orphan_files(storage: Storage, older_than: float) -> DeletedFiles:
    """Delete staged files older than that many seconds, after carrying out what is left of the newest commit."""
    CommitLog(storage).latest_finished()
    listing = FolderListing.from_files(storage.list_files(), "parquet")
    commit = CommitLog(storage).latest()
    deleted_files = listing.orphan_files(
        lambda path: not path.startswith(f"{STAGING_FOLDER}/") or path in commit.added_paths,
        lambda path: _STAGED_FILE.fullmatch(path) is not None,
        time.time() - older_than,
    )
    storage.delete(deleted_files)
    return deleted_files
