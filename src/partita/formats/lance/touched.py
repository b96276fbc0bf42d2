"""Which partitions of a Lance table were touched: by finished writes of its log, and by others in its leaves.

A cursor names the table, the last write that was seen, and the versions of those leaves that others had committed to
since. What a leaf has on top of that and no write of ours has put there is another's, and told with the version's own
time. That changes no rows where its transaction says so: an index, a compaction, other columns. Where a version that
may be another's has been cleaned up, the oldest one that is left stands for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.groups import distinct
from partita.errors import StorageError
from partita.formats.commits import Commits, TableCommit, cursor_fields, cursor_text, moment
from partita.formats.lance.leaf import fragment_json, fragments_of, our_versions, translated
from partita.formats.lance.log import Ending, Known
from partita.formats.lance.state import leaf_partitions
from partita.formats.lance.writes import QUIET, THREADS

if TYPE_CHECKING:
    from lance import LanceDataset

    from partita.formats.lance.state import LanceState
    from partita.formats.lance.store import LanceStore

_FORM = "Lance"
_EMPTY = QUIET | {"add partition", "cleanup", "rewrite"}
"""Writes that put no rows in, and take none out."""
_UNCHANGED = frozenset({"CreateIndex", "Project", "Rewrite", "UpdateConfig", "UpdateMap"})
"""Transactions of Lance that change no rows."""


def commits(store: LanceStore, after: str | None) -> Commits:
    """The writes after a cursor that changed data, and the versions that others made of leaves."""
    state = store.state()
    table = _table_of(store)
    cursor = cursor_fields(_FORM, after) or {}
    is_same = cursor.get("table") in (None, table) and cursor.get("number", -1) <= state.version
    number, ahead = (cursor.get("number", -1), cursor.get("ahead", {})) if is_same else (-1, {})
    newest = dict(zip(state.ids.to_pylist(), store.versions(state, np.arange(len(state.ids))), strict=True))
    endings = [e for e in map(store.log.ending, range(number + 1, state.version + 1)) if e is not None]
    seen = _seen(store, state, number, is_new=bool(endings)) | ahead
    ours = _ours(endings)
    told = [*_written(state, table or "", ours), *_by_others(store, state, _Since(seen, newest, _made(ours)))]
    text = cursor_text(_FORM, table=table, number=state.version, ahead=_ahead(state, newest))
    return Commits(text, tuple(sorted(told, key=lambda one: one.at)))


def _table_of(store: LanceStore) -> str | None:
    """What tells the table from another that is made in its place: how its first write ended, which is kept."""
    first = store.log.first()
    return None if first is None else sha256(first).hexdigest()[:16]


def _ahead(state: LanceState, newest: Mapping[str, int]) -> dict[str, int]:
    """The leaves with a version that no finished write of ours made."""
    pins = dict(zip(state.ids.to_pylist(), state.pins.to_pylist(), strict=True))
    return {name: version for name, version in newest.items() if pins[name] != version}


def _seen(store: LanceStore, state: LanceState, number: int, *, is_new: bool) -> dict[str, int]:
    """The versions that leaves had after a write, as far as writes of ours made them."""
    known: Known = store.log.known_at(number) if is_new else state.known
    return dict(zip(known.pins["id"].to_pylist(), known.pins["version"].to_pylist(), strict=True))


def _ours(endings: Sequence[Ending]) -> list[Ending]:
    """The writes that changed rows."""
    return [e for e in endings if e.finished and e.leaves and e.operation not in _EMPTY]


def _made(ours: Sequence[Ending]) -> dict[str, set[int]]:
    """The versions of leaves that writes made."""
    made: dict[str, set[int]] = {}
    for ending in ours:
        for name, version, _, _ in ending.leaves:
            made.setdefault(name, set()).add(version)
    return made


def _written(state: LanceState, table: str, ours: Sequence[Ending]) -> Iterator[TableCommit]:
    for ending in ours:
        partitions = _partitions(state, [leaf[0] for leaf in ending.leaves])
        yield TableCommit(f"{table}:{ending.number}", ending.number, moment(ending.at), ending.operation, partitions)


def _partitions(state: LanceState, ids: Sequence[str]) -> pa.Table:
    """The partitions of leaves, also of those that are no longer there."""
    given = pa.array(ids, pa.string())
    at = pc.index_in(given, value_set=state.ids)
    return distinct(leaf_partitions(given, pc.coalesce(state.locations.take(at), given), state.spec))


@dataclass(frozen=True, slots=True)
class _Since:
    """The versions of leaves that were seen, those that they have now, and those of them that writes of ours made."""

    seen: Mapping[str, int]
    newest: Mapping[str, int]
    made: Mapping[str, set[int]]

    def unknown(self, name: str) -> list[int]:
        """The versions of a leaf that another may have made; all where the leaf was made anew since."""
        newest, seen = self.newest[name], self.seen.get(name, 0)
        made = self.made.get(name, ())
        return [number for number in range((seen if seen <= newest else 0) + 1, newest + 1) if number not in made]


def _by_others(store: LanceStore, state: LanceState, since: _Since) -> Iterator[TableCommit]:
    moved = [(place, name) for place, name in enumerate(state.ids.to_pylist()) if since.unknown(name)]

    def versions(one: tuple[int, str]) -> list[_Version]:
        place, name = one
        leaf = store.leaf(state, place)
        with translated(leaf.location):
            return list(_others_versions(leaf.open(since.newest[name]), since.unknown(name)))

    with ThreadPoolExecutor(THREADS) as pool:
        for (_, name), found in zip(moved, pool.map(versions, moved), strict=True):
            partitions = _partitions(state, [name]) if found else None
            for one in found:
                yield TableCommit(f"{name}@{one.number}", one.number, one.at, one.operation, partitions)


_FIRST_WRITTEN = 2
"""The version that the first write to a leaf makes, where it made the leaf."""


@dataclass(frozen=True, slots=True)
class _Version:
    """A version that another made of a leaf, and changed rows in."""

    number: int
    at: datetime
    operation: str


def _others_versions(dataset: LanceDataset, unknown: Sequence[int]) -> Iterator[_Version]:
    """What others made of a leaf, among versions that they may have."""
    first = unknown[0] - 1
    ours = our_versions(dataset, first)
    times = {one["version"]: _utc(one["timestamp"]) for one in dataset.versions()}
    is_lost = False
    for number in unknown:
        if number in ours:
            continue
        if number not in times:
            # The first version of a leaf that a write of ours makes is empty.
            is_lost = is_lost or number > 1 or _FIRST_WRITTEN in set(unknown) - ours
            continue
        operation = _operation(dataset, number)
        if is_lost or _changes_rows(dataset, number, operation, times):
            yield _Version(number, times[number], operation.lower())
        is_lost = False
    if is_lost:
        # What is lost lies below a version of ours.
        number = min(version for version in times if version > first)
        yield _Version(number, times[number], "unknown")


def _utc(timestamp: Any) -> datetime:
    """A version's time, which Lance gives in the zone of this machine."""
    return cast("datetime", timestamp.astimezone(UTC))


def _operation(dataset: LanceDataset, number: int) -> str:
    try:
        transaction = dataset.read_transaction(number)
    except TypeError as error:
        # Lance can't put a compaction that moved an index into Python's classes.
        return "Rewrite" if "RewrittenIndex" in str(error) else "unknown"
    except (OSError, ValueError) as error:
        if "was not found" in str(error):
            return "unknown"
        raise StorageError(f"Lance, of {dataset.uri}: {error}") from error
    return "unknown" if transaction is None else type(transaction.operation).__name__


def _changes_rows(dataset: LanceDataset, number: int, operation: str, times: Mapping[int, Any]) -> bool:
    if operation in _UNCHANGED:
        return False
    if number > 1 and number - 1 not in times:
        return True
    after = _rows_of(dataset, number)
    before = _rows_of(dataset, number - 1) if number > 1 else []
    if operation == "Merge":
        # Columns that are added to the rows that were there.
        return [_without_files(one) for one in before] != [_without_files(one) for one in after]
    return bool(before or after) if operation == "Overwrite" else before != after


def _rows_of(dataset: LanceDataset, number: int) -> list[dict[str, Any]]:
    return [fragment_json(fragment) for fragment in fragments_of(dataset.checkout_version(number))]


def _without_files(fragment: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fragment[name] for name in ("id", "physical_rows", "deletion_file")}
