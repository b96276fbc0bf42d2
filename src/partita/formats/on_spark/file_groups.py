"""Files of a table grouped by what they call the table's columns: each group is one scan by the files' own names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partita.formats.field_ids import SPARK_FIELD_ID, FileColumns
from partita.spark.scan import FileGroup
from partita.spark.schema import from_json

Json = Mapping[str, Any]


def file_groups(struct: Json, columns: Sequence[FileColumns]) -> tuple[FileGroup, ...]:
    """Groups of files that have the same names for the columns of a struct, whose fields say their ids.

    `columns` are those of each file, in order.
    """
    numbers: dict[FileColumns, list[int]] = {}
    for number, found in enumerate(columns):
        numbers.setdefault(found, []).append(number)
    groups: dict[str, tuple[_Renaming, dict[str, Any], list[int]]] = {}
    for found, files in numbers.items():
        renaming = _Renaming(found)
        schema = renaming.struct(struct, "")
        # Other columns of the files, which nobody asks for, don't tell them apart.
        key = repr((schema, renaming.missing, renaming.alike))
        groups.setdefault(key, (renaming, schema, []))[2].extend(files)
    return tuple(
        FileGroup(np.array(sorted(files)), from_json(schema), tuple(renaming.missing), tuple(renaming.alike))
        for renaming, schema, files in groups.values()
    )


@dataclass(slots=True)
class _Renaming:
    """A struct under the names of a file, and what is to be known of it: nested fields that it lacks, names alike."""

    columns: FileColumns
    missing: list[str] = field(default_factory=list)
    alike: list[str] = field(default_factory=list)

    def struct(self, node: Json, above: str) -> dict[str, Any]:
        return {"type": "struct", "fields": [self._field(inner, above) for inner in node["fields"]]}

    def _field(self, node: Json, above: str) -> dict[str, Any]:
        metadata = dict(node["metadata"])
        number = metadata.pop(SPARK_FIELD_ID, None)
        full = f"{above}{node['name']}"
        if number is None or number in self.columns.names:
            name = node["name"] if number is None else self.columns.names[number]
            if number is not None and "${" in name:
                metadata[SPARK_FIELD_ID] = number  # Hadoop may replace the name (`partita.spark.scan`).
            if number in self.columns.alike:
                self.alike.append(full)
            return {**node, "name": name, "type": self._type(node["type"], f"{full}."), "metadata": metadata}
        if above:
            self.missing.append(full)
        return {**node, "name": self._absent_name(number), "type": without_ids(node["type"]), "metadata": metadata}

    def _type(self, node: Any, above: str) -> Any:
        if isinstance(node, str):
            return node
        if node["type"] == "struct":
            return self.struct(node, above)
        return {key: self._type(value, above) if key in _INNER else value for key, value in node.items()}

    def _absent_name(self, number: int) -> str:
        """A name that no field of the file has, nor one that differs from it in case."""
        taken = {name.lower() for name in self.columns.names.values()}
        name = f"__missing_{number}"
        while name in taken:
            name += "_"
        return name


_INNER = frozenset({"elementType", "keyType", "valueType"})


def without_ids(node: Any) -> Any:
    """A type in Spark's JSON without field ids."""
    if isinstance(node, Mapping):
        return {key: without_ids(value) for key, value in node.items() if key != SPARK_FIELD_ID}
    return [without_ids(inner) for inner in node] if isinstance(node, list | tuple) else node
