"""The operations of a write on single leaves; they are logged as JSON, so that any process can finish a write.

| kind | effect on the leaf |
|---|---|
| add | adds fragments |
| replace | replaces all fragments |
| change | replaces deletion files of some fragments, and adds fragments |
| drop | removes all fragments, and the leaf from the manifest |
| pin | none: its newest version becomes the committed one |
| widen | adds columns, null in every row |

An operation takes effect once, however often it is applied: the names of data files are unique, so a leaf that has one
of them has had the operation already.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from partita.errors import CommitConflict, SchemaError, TableError
from partita.formats.lance.files import leaf_identifier
from partita.formats.lance.leaf_dataset import (
    MAX_COMMIT_ATTEMPTS,
    WRITE_PROPERTY,
    LeafDataset,
    commits_after,
    data_file_names,
    field_ids,
    fragment_json,
    fragments_from_json,
    fragments_of,
    next_fragment_id,
    row_count_and_bytes,
    translate_lance_errors,
    undo_commits,
)
from partita.formats.lance.schema_json import schema_from_json
from partita.formats.lance.values import ID_SEPARATOR
from partita.formats.table_change import TableChange

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

    from partita.formats.lance.log import LeafVersion
    from partita.formats.lance.state import LanceTableVersion


class LeafOperationKind(StrEnum):
    """What an operation does to a leaf, as the log has it."""

    ADD = "add"
    REPLACE = "replace"
    CHANGE = "change"
    DROP = "drop"
    PIN = "pin"
    WIDEN = "widen"


@dataclass(frozen=True, slots=True)
class LeafOperation:
    """What a write does to one leaf.

    `names` is the path from the root namespace to the leaf; `make` says that the leaf is new. `new` are added fragments
    as JSON, `fields` the field ids of the columns in their files. `before` and `after` are changed fragments by id, as
    JSON; `after` is None for a removed one. `columns` is a schema of columns that the leaf gets, as JSON.
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
        return ID_SEPARATOR.join(self.names)

    def as_json(self) -> dict[str, Any]:
        """Return the operation as the log has it."""
        return {"id": self.id, **asdict(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Parse an operation of the log."""
        fields = {name: value for name, value in document.items() if name != "id"}
        return cls(**{**fields, "names": tuple(fields["names"]), "new": tuple(fields["new"])})


def leaf_operation(table_version: LanceTableVersion, file_index: int, kind: LeafOperationKind) -> LeafOperation:
    """Return an operation of a kind on an existing leaf."""
    names = tuple(table_version.leaf_ids[file_index].as_py().split(ID_SEPARATOR))
    return LeafOperation(names, table_version.leaf_locations[file_index].as_py(), kind)


@dataclass(frozen=True, slots=True)
class LeafDeletions:
    """Rows deleted from a leaf: its file index, and fragments before and after, by fragment id."""

    file_index: int
    before: Mapping[str, Mapping[str, Any]]
    after: Mapping[str, Mapping[str, Any] | None]


def leaf_operations(table_version: LanceTableVersion, change: TableChange) -> list[LeafOperation]:
    """Return what new fragments, removed leaves and deleted rows mean for each leaf."""
    files_by_leaf: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for file in change.added_files.to_pylist():
        names = leaf_identifier(table_version.spec.names, tuple(file["partition"] or ()))
        files_by_leaf.setdefault(names, []).append(file)
    deletions = {
        leaf.file_index: leaf
        for leaf in (LeafDeletions(**json.loads(details)) for details in change.delete_files["details"].to_pylist())
    }
    removed_indices = set(change.removed_file_indices.tolist())
    file_indices = table_version.file_indices_by_id()
    operations: list[LeafOperation] = []
    for names, files in files_by_leaf.items():
        file_index = file_indices.get(ID_SEPARATOR.join(names))
        details = [json.loads(file["details"]) for file in files]
        fragments = tuple(detail["fragment"] for detail in details)
        fields = _common_field_ids([detail["fields"] for detail in details], files[0]["path"])
        if file_index is None:
            operations.append(LeafOperation(names, files[0]["path"], LeafOperationKind.ADD, True, fragments, fields))
        elif file_index in removed_indices:
            removed_indices.remove(file_index)
            deletions.pop(file_index, None)
            operation = leaf_operation(table_version, file_index, LeafOperationKind.REPLACE)
            operations.append(replace(operation, new=fragments, fields=fields))
        elif file_index in deletions:
            operation = _change_operation(table_version, deletions.pop(file_index))
            operations.append(replace(operation, new=fragments, fields=fields))
        else:
            operation = leaf_operation(table_version, file_index, LeafOperationKind.ADD)
            operations.append(replace(operation, new=fragments, fields=fields))
    operations += [
        leaf_operation(table_version, file_index, LeafOperationKind.REPLACE) for file_index in sorted(removed_indices)
    ]
    operations += [_change_operation(table_version, leaf_deletions) for leaf_deletions in deletions.values()]
    return operations


def _change_operation(table_version: LanceTableVersion, deletions: LeafDeletions) -> LeafOperation:
    operation = leaf_operation(table_version, deletions.file_index, LeafOperationKind.CHANGE)
    return replace(operation, before=deletions.before, after=deletions.after)


def _common_field_ids(field_ids: Sequence[Mapping[str, int]], path: str) -> Mapping[str, int]:
    if any(ids != field_ids[0] for ids in field_ids):
        raise SchemaError(f"the leaf {path} was created again while rows were written to it; try again")
    return field_ids[0]


def apply_operation(
    leaf: LeafDataset, operation: LeafOperation, write_id: str, committed_version: int, *, is_owner: bool
) -> LanceDataset | None:
    """Apply an operation, unless it is applied already, and return the leaf after it.

    Returns None for a dropped leaf whose folder is missing or outside of the table. `committed_version` is the version
    of the last finished write, or 0 if only other writers have written. `is_owner` says that this process began the
    write. Raises `CommitConflict` if another writer changed the leaf in a conflicting way.
    """
    if operation.kind == LeafOperationKind.DROP and not _is_inside(leaf):
        return None  # the leaf leaves the table; files outside of the table stay
    for _ in range(MAX_COMMIT_ATTEMPTS):
        dataset = leaf.open_if_exists() if operation.kind == LeafOperationKind.DROP else leaf.open()
        if dataset is None:
            return None
        commits = commits_after(dataset, committed_version)
        own_versions = [v for v in commits.pending_versions if commits.write_ids[v] == write_id]
        if own_versions:
            return leaf.open(own_versions[0])
        if commits.pending_versions:
            undo_commits(leaf, committed_version)
            continue
        if operation.columns is not None:
            return add_missing_columns(leaf, schema_from_json(operation.columns))
        new_files = {file["path"] for fragment in operation.new for file in fragment["files"]}
        if _is_no_op(operation, dataset) or new_files & data_file_names(fragments_of(dataset)):
            return dataset
        committed_dataset = leaf.commit(
            dataset, _lance_operation(dataset, operation, is_owner=is_owner), {WRITE_PROPERTY: write_id}
        )
        if committed_dataset is None:
            continue
        if (
            committed_dataset.version > dataset.version + 1
            and commits_after(committed_dataset, dataset.version).pending_versions[:-1]
        ):
            return undo_commits(leaf, dataset.version, lambda other: other != write_id)
        return committed_dataset
    raise CommitConflict(operation.kind, f"kept changing {operation.location}")


def _is_inside(leaf: LeafDataset) -> bool:
    try:
        leaf.check_inside()
    except TableError:
        return False
    return True


def add_missing_columns(leaf: LeafDataset, columns: Iterable[pa.Field]) -> LanceDataset:
    """Add the columns that a leaf lacks; raise `SchemaError` if it has one of another type."""
    with translate_lance_errors(leaf.location):
        dataset = leaf.open()
        types = {f.name: f.type for f in dataset.schema}
        differing_names = [f.name for f in columns if f.name in types and types[f.name] != f.type]
        if differing_names:
            raise SchemaError(f"the leaf {leaf.location} has a column {differing_names[0]!r} of another type")
        missing_fields = [f for f in columns if f.name not in types]
        if missing_fields:
            leaf.check_no_symlinks()
            dataset.add_columns(missing_fields)
    return leaf.open()


def _is_no_op(operation: LeafOperation, dataset: LanceDataset) -> bool:
    if operation.kind in (LeafOperationKind.REPLACE, LeafOperationKind.DROP):
        return not operation.new and not dataset.get_fragments()
    return operation.kind == LeafOperationKind.PIN or not (operation.new or operation.before)


def _lance_operation(dataset: LanceDataset, operation: LeafOperation, *, is_owner: bool) -> Any:
    from lance import LanceOperation

    new_fragments = fragments_from_json(operation.new)
    existing_fragments = fragments_of(dataset)
    _check_field_ids(dataset, operation)
    if operation.kind in (LeafOperationKind.REPLACE, LeafOperationKind.DROP) and existing_fragments:
        return LanceOperation.Update(
            removed_fragment_ids=[f.id for f in existing_fragments], new_fragments=new_fragments
        )
    if operation.kind == LeafOperationKind.CHANGE and operation.before:
        return _update_operation(existing_fragments, operation, new_fragments)
    if is_owner:
        return LanceOperation.Append(new_fragments)
    # Another process may apply the same operation. Lance would take both appends, but rejects the second of two merges,
    # and an append beside a merge.
    first_id = next_fragment_id(dataset)
    for index, fragment in enumerate(new_fragments):
        fragment.id = first_id + index
    return LanceOperation.Merge([*existing_fragments, *new_fragments], dataset.lance_schema)


def _update_operation(existing_fragments: Sequence[Any], operation: LeafOperation, new_fragments: Sequence[Any]) -> Any:
    from lance import LanceOperation

    fragments = {str(fragment.id): fragment_json(fragment) for fragment in existing_fragments}
    for fragment_id, before in operation.before.items():
        if fragments.get(fragment_id) != before:
            raise CommitConflict(
                LeafOperationKind.CHANGE, f"changed rows of {operation.location} that this write changes too"
            )
    removed_ids = [int(fragment_id) for fragment_id, after in operation.after.items() if after is None]
    updated_fragments = fragments_from_json([after for after in operation.after.values() if after is not None])
    return LanceOperation.Update(
        removed_fragment_ids=removed_ids, updated_fragments=updated_fragments, new_fragments=list(new_fragments)
    )


def _check_field_ids(dataset: LanceDataset, operation: LeafOperation) -> None:
    """Raise `CommitConflict` if the columns of new files have other field ids than those of the leaf."""
    ids = field_ids(dataset)
    for name, field_id in operation.fields.items():
        if ids.get(name) != field_id:
            raise CommitConflict(operation.kind, f"created {operation.location} again, with other columns")


def leaf_version_after(operation: LeafOperation, dataset: LanceDataset | None) -> LeafVersion:
    """Return the version, rows and bytes of a leaf after an operation; rows are None if the leaf is dropped."""
    if dataset is None or operation.kind == LeafOperationKind.DROP:
        return (operation.id, 0 if dataset is None else dataset.version, None, None)
    rows, size = row_count_and_bytes(fragments_of(dataset))
    return (operation.id, dataset.version, rows, size)
