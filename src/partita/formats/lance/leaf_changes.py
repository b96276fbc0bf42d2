"""What a table change means for each leaf of a Lance table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from partita.errors import SchemaError
from partita.formats.lance.files import leaf_identifier
from partita.formats.lance.namespace import ID_SEPARATOR
from partita.formats.lance.operations import LeafOperation, leaf_operation
from partita.formats.table_change import TableChange

if TYPE_CHECKING:
    from partita.formats.lance.state import LanceTableVersion


@dataclass(frozen=True, slots=True)
class LeafDeletions:
    """Rows deleted from a leaf: its file index, and fragments before and after, by fragment id."""

    place: int
    before: Mapping[str, Mapping[str, Any]]
    after: Mapping[str, Mapping[str, Any] | None]


def leaf_operations(table_version: LanceTableVersion, change: TableChange) -> list[LeafOperation]:
    """Return what new fragments, removed leaves and deleted rows mean for each leaf."""
    files_by_leaf: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for file in change.added_files.to_pylist():
        names = leaf_identifier(table_version.spec.names, tuple(file["partition"] or ()))
        files_by_leaf.setdefault(names, []).append(file)
    deletions = {
        leaf.place: leaf
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
            operations.append(LeafOperation(names, files[0]["path"], "add", True, fragments, fields))
        elif file_index in removed_indices:
            removed_indices.remove(file_index)
            deletions.pop(file_index, None)
            operation = leaf_operation(table_version, file_index, "replace")
            operations.append(replace(operation, new=fragments, fields=fields))
        elif file_index in deletions:
            operation = _change_operation(table_version, deletions.pop(file_index))
            operations.append(replace(operation, new=fragments, fields=fields))
        else:
            operation = leaf_operation(table_version, file_index, "add")
            operations.append(replace(operation, new=fragments, fields=fields))
    operations += [leaf_operation(table_version, file_index, "replace") for file_index in sorted(removed_indices)]
    operations += [_change_operation(table_version, leaf_deletions) for leaf_deletions in deletions.values()]
    return operations


def _change_operation(table_version: LanceTableVersion, deletions: LeafDeletions) -> LeafOperation:
    operation = leaf_operation(table_version, deletions.place, "change")
    return replace(operation, before=deletions.before, after=deletions.after)


def _common_field_ids(field_ids: Sequence[Mapping[str, int]], path: str) -> Mapping[str, int]:
    if any(ids != field_ids[0] for ids in field_ids):
        raise SchemaError(f"the leaf {path} was made anew while rows were written to it; try again")
    return field_ids[0]
