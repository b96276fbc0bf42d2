"""Publishing written files: one commit at a time, written down before it is carried out.

```text
_partita_table/staging/<write>/country=US/part-....parquet.staged   written by executors, invisible to all readers
_partita_table/commits/00000000000000000007.json                    what commit 7 adds and removes
```

| step | a kill after it leaves |
|---|---|
| 1 executors write staged files | staged files, which `remove_orphans` deletes |
| 2 the driver puts the next commit, if absent | the commit: Partita reads the staged files; others see nothing yet |
| 3 each staged file is moved to its place | some of the new files in sight of other engines |
| 4 each replaced file is deleted | all of the new files, and some of the replaced ones |
| 5 the commit is put again as finished | everything in place |

Step 2 is the commit: Partita's readers see all of it from then on, and nothing before. Whoever commits next carries out
what is left of steps 3 to 5 if the process is dead or doesn't get on; each step can be done twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from partita.errors import TableError
from partita.formats.parquet.create import TABLE_FOLDER
from partita.formats.parquet.values import is_hidden
from partita.formats.run_transactions import expired_applications
from partita.process import may_be_alive, this_process
from partita.storage import Storage, StoredFile
from partita.untrusted_input import parse_json_object, translate_read_errors

STAGING_FOLDER = f"{TABLE_FOLDER}/staging"
_STAGED_FOLDER_DEPTH = STAGING_FOLDER.count("/") + 2
"""How many segments the path of one write's staging folder has."""
STAGED_SUFFIX = ".staged"
"""Without it, DuckDB and polars would find the files by `**/*.parquet`."""
_COMMITS_FOLDER = f"{TABLE_FOLDER}/commits"
_WRITER_PATIENCE, _READER_PATIENCE = 60.0, 5.0
"""For how many seconds a writer and a reader wait for a commit of a process that may be alive."""
_POLL_SECONDS = 0.02
_MAX_THREADS = 16


def staged_path(path: str, write_id: str) -> str:
    """Return where a file is staged that will be published at a path."""
    return f"{STAGING_FOLDER}/{write_id}/{path}{STAGED_SUFFIX}"


def published_path(path: str) -> str:
    """Return where the staged file of that path will be published."""
    return path.removeprefix(f"{STAGING_FOLDER}/").partition("/")[2].removesuffix(STAGED_SUFFIX)


@dataclass(frozen=True, slots=True)
class FolderCommit:
    """A commit: the staged files that it adds and the files that it removes, as they were when it was decided.

    `transactions` has the number of each application that this commit or one before it recorded.
    """

    number: int
    added_paths: tuple[str, ...] = ()
    removed_files: tuple[StoredFile, ...] = ()
    transactions: Mapping[str, int] = field(default_factory=dict)
    is_finished: bool = False
    commit_id: str = field(default_factory=lambda: str(uuid4()))
    process: Mapping[str, Any] = field(default_factory=this_process)

    def has_transaction(self, transaction: tuple[str, int]) -> bool:
        """Return whether that number of the application, or a later one, is recorded."""
        application, number = transaction
        return self.transactions.get(application, -1) >= number

    def to_json(self) -> bytes:
        """Return the commit as its file holds it."""
        removed_states = [[file.path, file.size, file.modified_time] for file in self.removed_files]
        document = {
            "id": self.commit_id, "finished": self.is_finished, "added": self.added_paths, "removed": removed_states,
            "transactions": dict(self.transactions), "process": dict(self.process),
        }  # fmt: skip
        return json.dumps(document, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, number: int, data: bytes) -> FolderCommit:
        """Parse the file of a commit."""
        document = parse_json_object(data)
        return cls(
            number,
            tuple(map(str, document["added"])),
            tuple(StoredFile(str(path), int(size), float(at)) for path, size, at in document["removed"]),
            {str(name): int(number) for name, number in document["transactions"].items()},
            bool(document["finished"]),
            str(document["id"]),
            dict(document["process"]),
        )


@dataclass(frozen=True, slots=True)
class FolderFile(StoredFile):
    """A data file by the path where it is or will be, and `location`, the path where it is now."""

    location: str = field(default="", compare=False)


_NO_COMMIT = FolderCommit(-1, is_finished=True, commit_id="", process={})


@dataclass(frozen=True, slots=True)
class CommitLog:
    """The newest commit of a folder; those before it are gone."""

    storage: Storage

    def latest(self) -> FolderCommit:
        """Return the newest commit, which may be unfinished; number -1 if there was none."""
        while True:
            path = max((path for path, _ in self.storage.list_paths(_COMMITS_FOLDER)), default=None)
            data = None if path is None else self.storage.get(path)
            if path is None:
                return _NO_COMMIT
            if data is not None:  # else a newer one took its place
                with translate_read_errors(f"{path} in {self.storage.uri}"):
                    return FolderCommit.from_json(int(path.rpartition("/")[2].removesuffix(".json")), data)

    def latest_finished(self) -> FolderCommit:
        """Return the newest commit, after carrying out what is left of it if its process doesn't."""
        commit = self.wait_for_latest(_WRITER_PATIENCE)
        return commit if commit.is_finished else self.finish(commit)

    def wait_for_latest(self, seconds: float) -> FolderCommit:
        """Return the newest commit; one whose process may be alive gets so many seconds to be carried out."""
        commit, deadline = self.latest(), time.monotonic() + seconds
        while not commit.is_finished and may_be_alive(commit.process) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            newer = self.latest()
            if newer.number != commit.number:
                deadline = time.monotonic() + seconds
            commit = newer
        return commit

    def begin(
        self,
        previous: FolderCommit,
        added_paths: Iterable[str],
        removed_files: Iterable[StoredFile],
        transaction: tuple[str, int] | None,
    ) -> FolderCommit | None:
        """Decide a commit after the newest one; None, and nothing is decided, if another process was first.

        Raises `TableError` if a staged file is gone: to move it would be skipped, and what it replaces be deleted.
        """
        staged_files = tuple(added_paths)
        self._check_staged_files(staged_files)
        transactions = {**previous.transactions, **dict([transaction] if transaction else [])}
        for application in expired_applications(transactions):
            del transactions[application]
        commit = FolderCommit(previous.number + 1, staged_files, tuple(removed_files), transactions)
        path = _commit_path(commit.number)
        if not self.storage.put_if_absent(path, commit.to_json()):
            # An object store may answer a retried request with "exists": then the commit is our own.
            latest = self.latest()
            return commit if latest.commit_id == commit.commit_id else None
        if self.latest().number > commit.number:
            # The number had been used and was free again, for finished commits are deleted.
            self.storage.delete([path])
            return None
        return commit

    def _check_staged_files(self, staged_files: Sequence[str]) -> None:
        folders = {"/".join(path.split("/")[:_STAGED_FOLDER_DEPTH]) for path in staged_files}
        stored_files = {path for folder in folders for path, _ in self.storage.list_paths(folder)}
        missing = next((path for path in staged_files if path not in stored_files), None)
        if missing is not None:
            raise TableError(
                f"{missing} in {self.storage.uri} was deleted before its commit; nothing was changed, write again, and "
                "let remove_orphans leave files that are younger than the longest write"
            )

    def finish(self, commit: FolderCommit) -> FolderCommit:
        """Carry out a commit, or what is left of it, and return it as finished."""
        _for_each(self.storage, lambda path: self.storage.move(path, published_path(path)), commit.added_paths)
        self.storage.delete(self._unchanged_paths(commit.removed_files))
        finished_commit = replace(commit, added_paths=(), removed_files=(), is_finished=True)
        self.storage.put(_commit_path(commit.number), finished_commit.to_json())
        earlier = [p for p, _ in self.storage.list_paths(_COMMITS_FOLDER) if p < _commit_path(commit.number)]
        self.storage.delete(earlier)
        return finished_commit

    def _unchanged_paths(self, files: Sequence[StoredFile]) -> list[str]:
        """Return the paths of files that are as they were: another engine may have written some of them anew."""
        folders = sorted({file.path.rpartition("/")[0] for file in files})
        stored_files = {file for folder in folders for file in self.storage.list_files(folder)}
        return [file.path for file in files if file in stored_files]


def _commit_path(number: int) -> str:
    return f"{_COMMITS_FOLDER}/{number:020}.json"


def _for_each(storage: Storage, action: Callable[[str], None], paths: Sequence[str]) -> None:
    """Call an action for each path; many at once in an object store, so that readers see few of them alone."""
    if storage.is_local or len(paths) < 2:
        for path in paths:
            action(path)
        return
    with ThreadPoolExecutor(min(_MAX_THREADS, len(paths))) as threads:
        list(threads.map(action, paths))


def list_table_files(storage: Storage) -> tuple[FolderCommit, list[StoredFile], list[FolderFile]]:
    """List a folder: its newest commit, all that it has, and the files that are visible once that commit is in place.

    A listing during which files came, went or moved by a commit is done again, for it may lack some on both sides.
    Raises `TableError` if that lasts.
    """
    log, deadline = CommitLog(storage), time.monotonic() + _WRITER_PATIENCE
    commit = log.wait_for_latest(_READER_PATIENCE)
    while True:
        files = list(storage.list_files())
        newest = log.latest()
        if newest == commit and not _has_moved_files(storage, commit, files):
            return commit, files, visible_files(files, commit)
        if time.monotonic() > deadline:
            raise TableError(f"others write to {storage.uri} faster than it can be listed; try again later")
        commit = newest if newest.is_finished else log.wait_for_latest(_READER_PATIENCE)


def _has_moved_files(storage: Storage, commit: FolderCommit, files: Sequence[StoredFile]) -> bool:
    """Return whether files of an unfinished commit exist that a listing missed, because they were moved meanwhile."""
    paths = {file.path for file in files}
    missed_paths = (path for path in commit.added_paths if path not in paths and published_path(path) not in paths)
    return any(storage.exists(path) or storage.exists(published_path(path)) for path in missed_paths)


def visible_files(files: Sequence[StoredFile], commit: FolderCommit) -> list[FolderFile]:
    """Return the files that aren't hidden, as they are once a commit is in place."""
    removed_files = frozenset(commit.removed_files)
    visible = [
        FolderFile(file.path, file.size, file.modified_time, file.is_link, file.path)
        for file in files
        if not is_hidden(file.path) and file not in removed_files
    ]
    paths, staged_paths = {file.path for file in visible}, frozenset(commit.added_paths)
    for file in files:
        path = published_path(file.path) if file.path in staged_paths else None
        if path is not None and path not in paths:
            visible.append(FolderFile(path, file.size, file.modified_time, file.is_link, file.path))
    return sorted(visible, key=lambda file: file.path)
