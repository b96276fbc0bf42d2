"""Find the files of the log that make up a version: the last complete checkpoint and the commits after it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from partita.errors import TableError, TableMissing, UnsupportedFeature
from partita.storage import Storage
from partita.untrusted_input import parse_json_object

LOG_FOLDER = "_delta_log"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The Parquet files of one complete checkpoint."""

    version: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files that make up a version: a checkpoint, if any, and the versions of the commits after it, in order."""

    version: int
    checkpoint: Checkpoint | None
    commit_versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogListing:
    """The commits and complete checkpoints that the log has; V2 checkpoints are those with a UUID in their name."""

    commit_versions: frozenset[int]
    checkpoints: tuple[Checkpoint, ...]
    v2_checkpoint_versions: frozenset[int]

    @property
    def latest_version(self) -> int:
        """The newest version; -1 if the log is empty."""
        return max(
            (*self.commit_versions, *(c.version for c in self.checkpoints), *self.v2_checkpoint_versions), default=-1
        )


def commit_path(version: int) -> str:
    """Return the path of the commit file of a version."""
    return f"{LOG_FOLDER}/{version:020}.json"


def list_log_tail(storage: Storage) -> LogListing:
    """List the log from its last checkpoint on; raise `TableMissing` if there is no log."""
    hint = _last_checkpoint_version(storage)
    listing = None if hint is None else list_log(storage, hint)
    if listing is None or hint not in {c.version for c in listing.checkpoints}:
        listing = list_log(storage)
    if listing.latest_version < 0:
        raise TableMissing(storage.uri)
    return listing


def find_log_segment(storage: Storage, version: int | None = None) -> LogSegment:
    """Return the segment of a version, or of the newest one; raise `TableError` if the version doesn't exist."""
    listing = list_log_tail(storage)
    if version is None:
        return _log_segment_at(listing, listing.latest_version)
    if version < 0 or version > listing.latest_version:
        raise TableError(f"there is no version {version} of {storage.uri}; the newest is {listing.latest_version}")
    if all(c.version > version for c in listing.checkpoints) and listing.checkpoints:
        listing = list_log(storage)
    return _log_segment_at(listing, version)


def log_segment_after(storage: Storage, known_version: int, version: int | None = None) -> LogSegment | None:
    """Return the commits from a known version to another, or to the newest one; None if any of them is missing."""
    listing = list_log(storage, known_version)
    target = listing.latest_version if version is None else version
    if target < known_version or target > listing.latest_version:
        return None
    versions = range(known_version + 1, target + 1)
    return LogSegment(target, None, tuple(versions)) if listing.commit_versions.issuperset(versions) else None


def list_log(storage: Storage, start_version: int = 0) -> LogListing:
    """List the commits and checkpoints of a version and of those after it."""
    commits, v2 = set(), set()
    checkpoint_parts: dict[tuple[int, int], dict[int, str]] = {}
    for path, _ in storage.list_paths(LOG_FOLDER, after=f"{LOG_FOLDER}/{start_version:020}"):
        if match := _COMMIT_FILE.fullmatch(path):
            commits.add(int(match[1]))
        elif match := _CLASSIC_CHECKPOINT_FILE.fullmatch(path):
            checkpoint_parts.setdefault((int(match[1]), int(match[3] or 1)), {})[int(match[2] or 1)] = path
        elif match := _V2_CHECKPOINT_FILE.fullmatch(path):
            v2.add(int(match[1]))
    return LogListing(frozenset(commits), tuple(_complete_checkpoints(checkpoint_parts)), frozenset(v2))


def check_no_missing_commits(existing_versions: Iterable[int], required_versions: Iterable[int]) -> None:
    """Raise `TableError` if the log lacks a commit that is required."""
    missing_versions = sorted(set(required_versions) - set(existing_versions))
    if missing_versions:
        preview = ", ".join(map(str, missing_versions[:5])) + (
            f" and {len(missing_versions) - 5} more" if len(missing_versions) > 5 else ""
        )
        raise TableError(f"the log lacks the commits of these versions: {preview}; no checkpoint stands for them")


_COMMIT_FILE = re.compile(rf"{LOG_FOLDER}/(\d{{20}})\.json")
_CLASSIC_CHECKPOINT_FILE = re.compile(rf"{LOG_FOLDER}/(\d{{20}})\.checkpoint(?:\.(\d{{10}})\.(\d{{10}}))?\.parquet")
_V2_CHECKPOINT_FILE = re.compile(rf"{LOG_FOLDER}/(\d{{20}})\.checkpoint\.[0-9A-Fa-f-]{{36}}\.(?:json|parquet)")


def _log_segment_at(listing: LogListing, version: int) -> LogSegment:
    checkpoints = [c for c in listing.checkpoints if c.version <= version]
    checkpoint = max(checkpoints, key=lambda c: c.version, default=None)
    start = -1 if checkpoint is None else checkpoint.version
    if any(start < v2 <= version for v2 in listing.v2_checkpoint_versions):
        raise UnsupportedFeature(("v2Checkpoint",), "reading")
    versions = range(start + 1, version + 1)
    check_no_missing_commits(listing.commit_versions, versions)
    return LogSegment(version, checkpoint, tuple(versions))


def _complete_checkpoints(checkpoint_parts: dict[tuple[int, int], dict[int, str]]) -> Iterator[Checkpoint]:
    """Return the checkpoints that have all of their parts; of one version, those with the fewest parts first."""
    for (version, count), paths in sorted(checkpoint_parts.items()):
        if len(paths) == count:
            yield Checkpoint(version, tuple(paths[part] for part in sorted(paths)))


def _last_checkpoint_version(storage: Storage) -> int | None:
    """Return the version in `_last_checkpoint`; None if it is missing or damaged, since it is only a hint."""
    data = storage.get(f"{LOG_FOLDER}/_last_checkpoint")
    try:
        version = parse_json_object(data or b"{}").get("version")
    except ValueError:
        return None
    return version if isinstance(version, int) and 0 <= version < 2**63 else None
