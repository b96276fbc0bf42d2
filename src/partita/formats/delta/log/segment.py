"""Which files of the log make a version: the last complete checkpoint, and the commits after it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from partita.errors import TableError, TableMissing, UnsupportedFeature
from partita.storage import Storage
from partita.untrusted import parse_json_object

FOLDER = "_delta_log"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The Parquet files of one checkpoint, all there."""

    version: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """What to read for a version: a checkpoint, if any, and the versions of the commits after it, in order."""

    version: int
    checkpoint: Checkpoint | None
    commits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """The versions that the log has commits and complete checkpoints of; `v2` are checkpoints with a UUID."""

    commits: frozenset[int]
    checkpoints: tuple[Checkpoint, ...]
    v2: frozenset[int]

    @property
    def latest(self) -> int:
        """The newest version; -1 where there is none."""
        return max((*self.commits, *(c.version for c in self.checkpoints), *self.v2), default=-1)


def commit_path(version: int) -> str:
    """The file of a commit."""
    return f"{FOLDER}/{version:020}.json"


def latest_listing(storage: Storage) -> Listing:
    """The log from its last checkpoint on; refused where there is no table."""
    hint = _hinted(storage)
    listing = None if hint is None else list_log(storage, hint)
    if listing is None or hint not in {c.version for c in listing.checkpoints}:
        listing = list_log(storage)
    if listing.latest < 0:
        raise TableMissing(storage.uri)
    return listing


def find_segment(storage: Storage, version: int | None = None) -> Segment:
    """What makes that version, or the newest one."""
    listing = latest_listing(storage)
    if version is None:
        return _segment(listing, listing.latest)
    if version < 0 or version > listing.latest:
        raise TableError(f"there is no version {version} of {storage.uri}; the newest is {listing.latest}")
    if all(c.version > version for c in listing.checkpoints) and listing.checkpoints:
        listing = list_log(storage)
    return _segment(listing, version)


def segment_after(storage: Storage, known: int, version: int | None = None) -> Segment | None:
    """The commits that lead from a known version to that one, or to the newest; None where they aren't all there."""
    listing = list_log(storage, known)
    target = listing.latest if version is None else version
    if target < known or target > listing.latest:
        return None
    wanted = range(known + 1, target + 1)
    return Segment(target, None, tuple(wanted)) if listing.commits.issuperset(wanted) else None


def list_log(storage: Storage, start: int = 0) -> Listing:
    """What the log has of that version and the ones after it."""
    commits, v2 = set(), set()
    parts: dict[tuple[int, int], dict[int, str]] = {}
    for path, _ in storage.list(FOLDER, after=f"{FOLDER}/{start:020}"):
        if match := _COMMIT.fullmatch(path):
            commits.add(int(match[1]))
        elif match := _CLASSIC.fullmatch(path):
            parts.setdefault((int(match[1]), int(match[3] or 1)), {})[int(match[2] or 1)] = path
        elif match := _V2.fullmatch(path):
            v2.add(int(match[1]))
    return Listing(frozenset(commits), tuple(_complete(parts)), frozenset(v2))


def check_complete(found: Iterable[int], wanted: Iterable[int]) -> None:
    """Refuse a log that lacks a version of those wanted."""
    missing = sorted(set(wanted) - set(found))
    if missing:
        shown = ", ".join(map(str, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise TableError(f"the log lacks the commits of these versions: {shown}; no checkpoint stands for them")


_COMMIT = re.compile(rf"{FOLDER}/(\d{{20}})\.json")
_CLASSIC = re.compile(rf"{FOLDER}/(\d{{20}})\.checkpoint(?:\.(\d{{10}})\.(\d{{10}}))?\.parquet")
_V2 = re.compile(rf"{FOLDER}/(\d{{20}})\.checkpoint\.[0-9A-Fa-f-]{{36}}\.(?:json|parquet)")


def _segment(listing: Listing, version: int) -> Segment:
    checkpoints = [c for c in listing.checkpoints if c.version <= version]
    checkpoint = max(checkpoints, key=lambda c: c.version, default=None)
    start = -1 if checkpoint is None else checkpoint.version
    if any(start < v2 <= version for v2 in listing.v2):
        raise UnsupportedFeature(("v2Checkpoint",), "reading")
    wanted = range(start + 1, version + 1)
    check_complete(listing.commits, wanted)
    return Segment(version, checkpoint, tuple(wanted))


def _complete(parts: dict[tuple[int, int], dict[int, str]]) -> Iterator[Checkpoint]:
    """Checkpoints with all of their parts; where a version has several, the one of the fewest parts comes first."""
    for (version, count), paths in sorted(parts.items()):
        if len(paths) == count:
            yield Checkpoint(version, tuple(paths[part] for part in sorted(paths)))


def _hinted(storage: Storage) -> int | None:
    """The version that `_last_checkpoint` says; it is a hint, so a damaged one counts for none."""
    data = storage.get(f"{FOLDER}/_last_checkpoint")
    try:
        version = parse_json_object(data or b"{}").get("version")
    except ValueError:
        return None
    return version if isinstance(version, int) and 0 <= version < 2**63 else None
