"""The rows of a Delta table on Spark: as it takes them, as its files hold them, as they are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from partita.formats.delta.columns import generated_columns, known_generated, physical_schema
from partita.formats.delta.log import Metadata, physical_names
from partita.formats.delta.values.uri import uri_decoded, uri_encoded
from partita.formats.on_spark.copying import copied
from partita.formats.store import TOLD, Edits
from partita.spark.delta_values import partition_text
from partita.spark.generated import generated_as, generated_by
from partita.spark.rewrite import Copier, changing, leaving
from partita.spark.rows import (
    Column,
    DataFrame,
    DataType,
    Rule,
    SparkSession,
    StructType,
    checked,
    column,
    conformed,
    is_text,
    not_null,
    renamed,
    with_columns,
    without_empty,
)
from partita.spark.scan import Files, scan
from partita.spark.schema import from_json
from partita.spark.session import session
from partita.spark.write import PARTITION, Target, write
from partita.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa

Places: TypeAlias = np.ndarray


@dataclass(frozen=True, slots=True)
class DeltaRows:
    """The rows of the table in a folder."""

    storage: Storage

    def schema(self, metadata: Metadata) -> StructType:
        """The columns as Spark has them."""
        return from_json(metadata.schema)

    def conform(self, metadata: Metadata, rows: DataFrame) -> DataFrame:
        """Rows of others as the table's: columns by name, generated ones filled, all rules applied."""
        return self._ruled(metadata, conformed(rows, self.schema(metadata), _made(metadata)))

    def regenerate(self, metadata: Metadata, rows: DataFrame) -> DataFrame:
        """The table's own rows after a change, columns beside the table's kept."""
        schema = self.schema(metadata)
        there = StructType([f for f in schema.fields if f.name in rows.columns])
        made = {n: value.cast(schema[n].dataType) for n, value in _made(metadata).items() if n in rows.columns}
        return self._ruled(metadata, not_null(with_columns(rows, made), there))

    def _ruled(self, metadata: Metadata, rows: DataFrame) -> DataFrame:
        """The rows with what Delta can't tell from null as null, and all rules applied."""
        schema = self.schema(metadata)
        texts = [n for n in metadata.partition_columns if n in rows.columns and is_text(schema[n].dataType)]
        emptied = StructType([schema[name] for name in texts])
        return checked(not_null(without_empty(rows, texts), emptied), _rules(metadata))

    def has_rules(self, metadata: Metadata) -> bool:
        """Whether there are constraints or invariants."""
        return bool(_rules(metadata))

    def stored(self, metadata: Metadata, rows: DataFrame) -> DataFrame:
        """The rows under the names of files, the texts of the partition first."""
        schema = self.schema(metadata)
        texts = [
            partition_text(column(name), schema[name].dataType, name).alias(f"{PARTITION}{at}")
            for at, name in enumerate(metadata.partition_columns)
        ]
        return renamed(rows, texts, self.stored_columns(metadata))

    def stored_columns(self, metadata: Metadata) -> list[tuple[str, str, DataType]]:
        """All but the partition columns: name, physical name, and the type with physical names."""
        schema, physical = self.schema(metadata), from_json(physical_schema(metadata))
        return [
            (own.name, stored.name, stored.dataType)
            for own, stored in zip(schema.fields, physical.fields, strict=True)
            if own.name not in metadata.partition_columns
        ]

    def scan(self, spark: SparkSession, files: Files, names: Sequence[str], *, positions: bool) -> DataFrame:
        """Some columns of the rows of some files."""
        columns = {own[0]: own for own in files.columns}
        return scan(spark, replace(files, columns=tuple(columns[name] for name in names)), positions=positions)

    def write(self, metadata: Metadata, rows: DataFrame, target: Callable[[str], Target]) -> pa.Table:
        """New files of rows."""
        return write(self.stored(metadata, rows), target(_zone()), len(metadata.partition_columns), TOLD)

    def replace(
        self, metadata: Metadata, changed: DataFrame, columns: set[str], copier: Callable[[str], Copier], places: Places
    ) -> Edits:
        """The files copied with other values in some columns."""
        stored = [column for column in self.stored_columns(metadata) if column[0] in columns]
        return copied(changing(changed, stored), copier(_zone()), places)

    def take_away(self, positions: DataFrame, copier: Callable[[str], Copier], places: Places) -> Edits:
        """The files copied without some rows."""
        return copied(leaving(positions), copier(_zone()), places)

    def files(self, metadata: Metadata, files: pa.Table, partitions: pa.Table) -> Files:
        """Some files of the table, for a scan."""
        schema, physical = self.schema(metadata), from_json(physical_schema(metadata))
        paths = files["path"].to_pylist()
        names = physical_names(metadata)
        constants = partitions.select(list(metadata.partition_columns))
        return Files(
            [self._location(path) for path in paths],
            [self._reported(path) for path in paths],
            StructType([f for f in physical.fields if f.name not in {names[n] for n in metadata.partition_columns}]),
            constants.rename_columns([names[name] for name in metadata.partition_columns]),
            tuple(
                (own.name, own.dataType, stored.name)
                for own, stored in zip(schema.fields, physical.fields, strict=True)
            ),
        )

    def _location(self, path: str) -> str:
        plain = uri_decoded(path)
        if plain.startswith("file:/") and not plain.startswith("file://"):
            return plain.removeprefix("file:")
        return plain if _is_absolute(path) else self.storage.location(plain)

    def _reported(self, path: str) -> str:
        """The file as Spark's `_metadata.file_path` names it."""
        whole = self._location(path)
        scheme, colon, rest = whole.partition("://")
        if not colon:
            return f"file:{uri_encoded(whole)}"
        return f"file:{uri_encoded(rest)}" if scheme == "file" else f"{scheme}://{uri_encoded(rest)}"


def _zone() -> str:
    return session().conf.get("spark.sql.session.timeZone") or "UTC"


def _is_absolute(path: str) -> bool:
    return "://" in path or path.startswith(("/", "file:/"))


def _made(metadata: Metadata) -> dict[str, Column]:
    """The generated columns, those that Partita knows in UTC."""
    made = {name: generated_as(text) for name, text in generated_columns(metadata).items()}
    schema = from_json(metadata.schema)
    for known in known_generated(metadata):
        made[known.name] = generated_by(known.function, known.source, schema[known.source].dataType, known.width)
    return made


def _rules(metadata: Metadata) -> list[Rule]:
    """Check constraints, and invariants of columns."""
    prefix = "delta.constraints."
    rules = [
        Rule(f"constraint {key.removeprefix(prefix)}", text)
        for key, text in metadata.configuration.items()
        if key.startswith(prefix)
    ]
    for field in metadata.schema["fields"]:
        invariant = (field.get("metadata") or {}).get("delta.invariants")
        if invariant is not None:
            rules.append(Rule(f"invariant of {field['name']}", json.loads(invariant)["expression"]["expression"]))
    return rules
