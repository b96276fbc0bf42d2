"""What a write does to one leaf, as JSON that anyone can carry out: once, however often it is tried.

| kind | what it does |
|---|---|
| add | more fragments |
| replace | these fragments in the place of all |
| change | other deletions for some fragments, and more fragments |
| drop | no fragments, and out of the manifest |
| pin | nothing: the newest version counts |
| widen | more columns, null in every row |

The names of data files are new in each write, so a leaf that has one of them has had the operation already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from partita.errors import Conflict, SchemaError, TableError
from partita.formats.lance.leaf import (
    TRIES,
    WRITE,
    Leaf,
    commits_after,
    field_ids,
    files_in,
    fragment_json,
    fragments_from,
    fragments_of,
    next_fragment_id,
    size_of,
    translated,
    undo,
)
from partita.formats.lance.schema_json import schema_from_json

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

    from partita.formats.lance.log import Pinned


@dataclass(frozen=True, slots=True)
class Operation:
    """One leaf of a write.

    `names` lead from the root to the leaf; `make` where the leaf is new. `new` are fragments as JSON, `fields` the
    numbers under which their files hold the columns. `before` and `after` are the fragments that change, by their
    number; None for one that goes. `columns` are those that the leaf is to have, as JSON.
    """

    names: tuple[str, ...]
    location: str
    kind: str
    make: bool = False
    new: tuple[Mapping[str, Any], ...] = ()
    fields: Mapping[str, int] = field(default_factory=dict)
    before: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    after: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    columns: str | None = None

    @property
    def id(self) -> str:
        """The leaf's id under the root."""
        return "$".join(self.names)

    def as_json(self) -> dict[str, Any]:
        """For the log."""
        return {"id": self.id, **asdict(self)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """From the log."""
        given = {name: value for name, value in document.items() if name != "id"}
        return cls(**{**given, "names": tuple(given["names"]), "new": tuple(given["new"])})


def applied(leaf: Leaf, operation: Operation, write: str, floor: int, *, is_owner: bool) -> LanceDataset | None:
    """The leaf after the operation, whoever carried it out; a leaf that others changed in its way is a `Conflict`.

    None where a leaf is dropped whose folder is gone, or lies outside of the table. `floor` is the version that the
    last finished write made, 0 where only others have written.
    """
    if operation.kind == "drop" and not _is_inside(leaf):
        return None  # it goes out of the table, and what is there is not the table's
    for _ in range(TRIES):
        found = leaf.find() if operation.kind == "drop" else leaf.open()
        if found is None:
            return None
        dataset = found
        commits = commits_after(dataset, floor)
        mine = [v for v in commits.pending if commits.writes[v] == write]
        if mine:
            return leaf.open(mine[0])
        if commits.pending:
            undo(leaf, floor)
            continue
        if operation.columns is not None:
            return widened(leaf, schema_from_json(operation.columns))
        new = {file["path"] for fragment in operation.new for file in fragment["files"]}
        if _is_nothing(operation, dataset) or new & files_in(fragments_of(dataset)):
            return dataset
        committed = leaf.commit(dataset, _lance(dataset, operation, is_owner=is_owner), {WRITE: write})
        if committed is None:
            continue
        if committed.version > dataset.version + 1 and commits_after(committed, dataset.version).pending[:-1]:
            return undo(leaf, dataset.version, lambda other: other != write)
        return committed
    raise Conflict(operation.kind, f"kept changing {operation.location}")


def _is_inside(leaf: Leaf) -> bool:
    try:
        leaf.check_inside()
    except TableError:
        return False
    return True


def widened(leaf: Leaf, columns: Iterable[pa.Field]) -> LanceDataset:
    """The leaf with the columns that it lacks; one of another type is refused."""
    with translated(leaf.location):
        dataset = leaf.open()
        there = {f.name: f.type for f in dataset.schema}
        other = [f.name for f in columns if f.name in there and there[f.name] != f.type]
        if other:
            raise SchemaError(f"the leaf {leaf.location} has a column {other[0]!r} of another type")
        missing = [f for f in columns if f.name not in there]
        if missing:
            leaf.check_changeable()
            dataset.add_columns(missing)
    return leaf.open()


def _is_nothing(operation: Operation, dataset: LanceDataset) -> bool:
    if operation.kind in ("replace", "drop"):
        return not operation.new and not dataset.get_fragments()
    return operation.kind == "pin" or not (operation.new or operation.before)


def _lance(dataset: LanceDataset, operation: Operation, *, is_owner: bool) -> Any:
    from lance import LanceOperation

    new = fragments_from(operation.new)
    there = fragments_of(dataset)
    _check(dataset, operation)
    if operation.kind in ("replace", "drop") and there:
        return LanceOperation.Update(removed_fragment_ids=[f.id for f in there], new_fragments=new)
    if operation.kind == "change" and operation.before:
        return _change(there, operation, new)
    if is_owner:
        return LanceOperation.Append(new)
    # Two appends of the same would both be taken; of two merges the second is refused, and an append beside one too.
    first = next_fragment_id(dataset)
    for at, fragment in enumerate(new):
        fragment.id = first + at
    return LanceOperation.Merge([*there, *new], dataset.lance_schema)


def _change(there: Sequence[Any], operation: Operation, new: Sequence[Any]) -> Any:
    from lance import LanceOperation

    known = {str(fragment.id): fragment_json(fragment) for fragment in there}
    for number, before in operation.before.items():
        if known.get(number) != before:
            raise Conflict("change", f"changed rows of {operation.location} that were to change")
    gone = [int(number) for number, after in operation.after.items() if after is None]
    updated = fragments_from([after for after in operation.after.values() if after is not None])
    return LanceOperation.Update(removed_fragment_ids=gone, updated_fragments=updated, new_fragments=list(new))


def _check(dataset: LanceDataset, operation: Operation) -> None:
    """New files hold their columns under numbers that must be the leaf's."""
    ids = field_ids(dataset)
    for name, number in operation.fields.items():
        if ids.get(name) != number:
            raise Conflict(operation.kind, f"made {operation.location} anew, with other columns")


def told(operation: Operation, dataset: LanceDataset | None) -> Pinned:
    """A row of `partita.formats.lance.log.PINS` after the operation; without rows where the leaf is dropped."""
    if dataset is None or operation.kind == "drop":
        return (operation.id, 0 if dataset is None else dataset.version, None, None)
    rows, size = size_of(fragments_of(dataset))
    return (operation.id, dataset.version, rows, size)
