"""Files of a table grouped by what they call the table's columns: each group is one scan by the files' own names."""

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
    """Groups of files that have the same names for the columns of a struct, whose fields say their ids.

    `columns` are those of each file, in order.
    """
    numbers: dict[FileColumns, list[int]] = {}
    for number, found in enumerate(columns):
        numbers.setdefault(found, []).append(number)
    groups: dict[str, tuple[_StructRenamer, dict[str, Any], list[int]]] = {}
    for found, files in numbers.items():
        renaming = _StructRenamer(found)
        schema = renaming.rename_struct(struct, "")
        # Other columns of the files, which nobody asks for, don't tell them apart.
        key = repr((schema, renaming.missing_fields, renaming.ambiguous_fields))
        groups.setdefault(key, (renaming, schema, []))[2].extend(files)
    return tuple(
        FileGroup(
            np.array(sorted(files)),
            spark_schema_from_json(schema),
            tuple(renaming.missing_fields),
            tuple(renaming.ambiguous_fields),
        )
        for renaming, schema, files in groups.values()
    )


@dataclass(slots=True)
class _StructRenamer:
    """A struct under the names of a file, and what is to be known of it: nested fields that it lacks, names alike."""

    columns: FileColumns
    missing_fields: list[str] = field(default_factory=list)
    ambiguous_fields: list[str] = field(default_factory=list)

    def rename_struct(self, node: Json, parent_path: str) -> dict[str, Any]:
        return {"type": "struct", "fields": [self._rename_field(inner, parent_path) for inner in node["fields"]]}

    def _rename_field(self, node: Json, parent_path: str) -> dict[str, Any]:
        metadata = dict(node["metadata"])
        number = metadata.pop(SPARK_FIELD_ID, None)
        full = f"{parent_path}{node['name']}"
        if number is None or number in self.columns.names_by_id:
            name = node["name"] if number is None else self.columns.names_by_id[number]
            if number is not None and "${" in name:
                metadata[SPARK_FIELD_ID] = number  # Hadoop may replace the name (`partita.spark.scan`).
            if number in self.columns.case_ambiguous_ids:
                self.ambiguous_fields.append(full)
            return {**node, "name": name, "type": self._rename_type(node["type"], f"{full}."), "metadata": metadata}
        if parent_path:
            self.missing_fields.append(full)
        return {**node, "name": self._unused_name(number), "type": strip_field_ids(node["type"]), "metadata": metadata}

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
        """A name that no field of the file has, nor one that differs from it in case."""
        taken = {name.lower() for name in self.columns.names_by_id.values()}
        name = f"__missing_{field_id}"
        while name in taken:
            name += "_"
        return name


_NESTED_TYPE_KEYS = frozenset({"elementType", "keyType", "valueType"})


def strip_field_ids(node: Any) -> Any:
    """A type in Spark's JSON without field ids."""
    if isinstance(node, Mapping):
        return {key: strip_field_ids(value) for key, value in node.items() if key != SPARK_FIELD_ID}
    return [strip_field_ids(inner) for inner in node] if isinstance(node, list | tuple) else node
