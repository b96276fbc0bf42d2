"""Group files of a table by their names of the table's columns: each group is one scan by those names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partita.formats.field_ids import SPARK_FIELD_ID, FileColumns
from partita.spark.scan import FileGroup
from partita.spark.schema import spark_schema_from_json

Json = Mapping[str, Any]


def file_groups(struct: Json, columns: Sequence[FileColumns]) -> tuple[FileGroup, ...]:
    """Group files that have the same names for the columns of a struct, whose fields have ids.

    `columns` has the columns of each file, in order.
    """
    indices_by_columns: dict[FileColumns, list[int]] = {}
    for index, file_columns in enumerate(columns):
        indices_by_columns.setdefault(file_columns, []).append(index)
    groups: dict[str, tuple[_StructRenamer, dict[str, Any], list[int]]] = {}
    for file_columns, file_indices in indices_by_columns.items():
        renamer = _StructRenamer(file_columns)
        schema = renamer.rename_struct(struct, "")
        # Files that differ only in columns that are not read are in the same group.
        key = repr((schema, renamer.missing_fields, renamer.ambiguous_fields))
        groups.setdefault(key, (renamer, schema, []))[2].extend(file_indices)
    return tuple(
        FileGroup(
            np.array(sorted(file_indices)),
            spark_schema_from_json(schema),
            tuple(renamer.missing_fields),
            tuple(renamer.ambiguous_fields),
        )
        for renamer, schema, file_indices in groups.values()
    )


@dataclass(slots=True)
class _StructRenamer:
    """Renames the fields of a struct to the names of a file; collects missing nested and ambiguous fields."""

    columns: FileColumns
    missing_fields: list[str] = field(default_factory=list)
    ambiguous_fields: list[str] = field(default_factory=list)

    def rename_struct(self, node: Json, parent_path: str) -> dict[str, Any]:
        return {"type": "struct", "fields": [self._rename_field(inner, parent_path) for inner in node["fields"]]}

    def _rename_field(self, node: Json, parent_path: str) -> dict[str, Any]:
        metadata = dict(node["metadata"])
        id_ = metadata.pop(SPARK_FIELD_ID, None)
        path = f"{parent_path}{node['name']}"
        if id_ is None or id_ in self.columns.names_by_id:
            name = node["name"] if id_ is None else self.columns.names_by_id[id_]
            if id_ is not None and "${" in name:
                metadata[SPARK_FIELD_ID] = id_  # Hadoop may replace the name (`partita.spark.scan`).
            if id_ in self.columns.case_ambiguous_ids:
                self.ambiguous_fields.append(path)
            return {**node, "name": name, "type": self._rename_type(node["type"], f"{path}."), "metadata": metadata}
        if parent_path:
            self.missing_fields.append(path)
        return {**node, "name": self._unused_name(id_), "type": strip_field_ids(node["type"]), "metadata": metadata}

    def _rename_type(self, node: Any, parent_path: str) -> Any:
        if isinstance(node, str):
            return node
        if node["type"] == "struct":
            return self.rename_struct(node, parent_path)
        return {
            key: self._rename_type(value, parent_path) if key in _NESTED_TYPE_KEYS else value
            for key, value in node.items()
        }

    def _unused_name(self, field_id: int) -> str:
        """Return a name that no field of the file has, ignoring case."""
        existing_names = {name.lower() for name in self.columns.names_by_id.values()}
        name = f"__missing_{field_id}"
        while name in existing_names:
            name += "_"
        return name


_NESTED_TYPE_KEYS = frozenset({"elementType", "keyType", "valueType"})


def strip_field_ids(node: Any) -> Any:
    """Return a type in Spark's JSON without field ids."""
    if isinstance(node, Mapping):
        return {key: strip_field_ids(value) for key, value in node.items() if key != SPARK_FIELD_ID}
    return [strip_field_ids(inner) for inner in node] if isinstance(node, list | tuple) else node
