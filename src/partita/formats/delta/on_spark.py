"""The rows of a Delta table on Spark: as it takes them, as its files hold them, as they are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from partita.errors import UnsupportedFeature
from partita.formats.delta.columns import (
    Json,
    generated_columns,
    known_generated,
    length_metadata,
    limited_columns,
    physical_schema,
)
from partita.formats.delta.expressions import check_expression
from partita.formats.delta.files import containing_storage, located_files
from partita.formats.delta.log import Metadata, column_mapping_mode, is_absolute
from partita.formats.field_ids import read_columns
from partita.formats.on_spark.copying import copied
from partita.formats.on_spark.file_groups import file_groups
from partita.formats.on_spark.paths import located, reported
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
    column,
    conformed,
    is_text,
    not_null,
    null_struct_violations,
    null_violations,
    only,
    refuse_violations,
    renamed,
    rule_violations,
    with_columns,
    without_empty,
)
from partita.spark.scan import FileGroup, Files, scan
from partita.spark.schema import from_json
from partita.spark.session import session
from partita.spark.text_lengths import length_violations, with_text_lengths
from partita.spark.time_zones import session_time_zone
from partita.spark.write import PARTITION, Target, gathered, write
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
        schema = self.schema(metadata)
        return self._ruled(metadata, schema, conformed(rows, schema, _made(metadata, schema)))

    def regenerate(self, metadata: Metadata, rows: DataFrame) -> DataFrame:
        """The table's own rows after a change, columns beside the table's kept."""
        schema, names = self.schema(metadata), set(rows.columns)
        made = {n: value.cast(schema[n].dataType) for n, value in _made(metadata, schema).items() if n in names}
        return self._ruled(metadata, schema, not_null(with_columns(rows, made), only(schema, names)))

    def _ruled(self, metadata: Metadata, schema: StructType, rows: DataFrame) -> DataFrame:
        """The rows with what Delta can't tell from null as null, and all rules applied."""
        names = set(rows.columns)
        texts = [n for n in metadata.partition_columns if n in names and is_text(schema[n].dataType)]
        emptied = StructType([schema[name] for name in texts])
        lengths = {name: type_ for name, type_ in limited_columns(metadata).items() if name in names}
        return refuse_violations(
            without_empty(rows, texts),
            [
                *null_violations(emptied),
                *null_struct_violations(only(schema, names)),
                *length_violations(lengths),
                *rule_violations(_rules(metadata)),
            ],
        )

    def has_rules(self, metadata: Metadata) -> bool:
        """Whether there are constraints or invariants."""
        return bool(_rules(metadata))

    def stored(self, metadata: Metadata, rows: DataFrame) -> DataFrame:
        """The rows under the names of files, the texts of the partition first."""
        types = {f.name: f.dataType for f in self.schema(metadata).fields} if metadata.partition_columns else {}
        texts = {
            f"{PARTITION}{at}": partition_text(column(name), types[name], name)
            for at, name in enumerate(metadata.partition_columns)
        }
        return renamed(rows, texts, self.stored_columns(metadata))

    def stored_columns(self, metadata: Metadata) -> list[tuple[str, str, DataType]]:
        """All but the partition columns: name, physical name, and the type with physical names."""
        schema = self.schema(metadata)
        is_mapped = column_mapping_mode(metadata) != "none"
        physical = from_json(physical_schema(metadata)) if is_mapped else schema
        return [
            (own.name, stored.name, stored.dataType)
            for own, stored in zip(schema.fields, physical.fields, strict=True)
            if own.name not in metadata.partition_columns
        ]

    def write(self, metadata: Metadata, rows: DataFrame, target: Callable[[str], Target], *, gathers: bool) -> pa.Table:
        """Write new files of rows, with the rows of each partition in one task where `gathers` is true."""
        stored, count = self.stored(metadata, rows), len(metadata.partition_columns)
        return write(gathered(stored, count) if gathers else stored, target(_zone()), count, TOLD)

    def replace(
        self, metadata: Metadata, changed: DataFrame, columns: set[str], copier: Callable[[str], Copier], places: Places
    ) -> Edits:
        """The files copied with other values in some columns."""
        stored = [column for column in self.stored_columns(metadata) if column[0] in columns]
        return copied(changing(changed, stored), copier(_zone()), places)

    def take_away(self, positions: DataFrame, copier: Callable[[str], Copier], places: Places) -> Edits:
        """The files copied without some rows."""
        return copied(leaving(positions), copier(_zone()), places)

    def scan(  # noqa: PLR0913 - what a scan is of
        self, spark: SparkSession, metadata: Metadata, files: pa.Table, partitions: pa.Table, names: Sequence[str], *,
        positions: bool,
    ) -> DataFrame:  # fmt: skip
        """Some columns of the rows of some files, whose partitions are given in the same order."""
        rows = scan(spark, self._files(metadata, files, partitions, names), positions=positions)
        return with_text_lengths(rows, {n: m for n, m in length_metadata(metadata).items() if n in names})

    def _files(self, metadata: Metadata, files: pa.Table, partitions: pa.Table, names: Sequence[str]) -> Files:
        schema, physical = self.schema(metadata), physical_schema(metadata)
        own = dict(zip(schema.fieldNames(), zip(schema.fields, physical["fields"], strict=True), strict=True))
        constants = [name for name in names if name in metadata.partition_columns]
        stored = {"type": "struct", "fields": [own[name][1] for name in names if name not in constants]}
        paths = located_files(self.storage, files)
        locations = [located(path) if is_absolute(path) else self.storage.location(path) for path in paths]
        return Files(
            locations,
            [reported(location) for location in locations],
            tuple(field["name"] for field in stored["fields"]),
            self._groups(metadata, stored, files, paths, locations),
            partitions.select(constants).rename_columns([own[name][1]["name"] for name in constants]),
            tuple((name, own[name][0].dataType, own[name][1]["name"]) for name in names),
        )

    def _groups(
        self, metadata: Metadata, stored: Json, files: pa.Table, plain: Sequence[str], locations: Sequence[str]
    ) -> tuple[FileGroup, ...]:
        """The files by what they call the columns: the physical names, but where columns are mapped by id."""
        if column_mapping_mode(metadata) != "id" or not stored["fields"]:
            return (FileGroup(np.arange(len(locations)), from_json(stored)),)
        paths = dict(zip(locations, plain, strict=True))
        columns = read_columns(
            lambda location: self._open(paths[location]), list(zip(locations, files["size"].to_pylist(), strict=True))
        )
        for location, found in zip(locations, columns, strict=True):
            if not found.top_level:
                what = f"files without field ids in a table that maps columns by id, such as {location}"
                raise UnsupportedFeature((what,), "reading")
        return file_groups(stored, columns)

    def _open(self, path: str) -> pa.NativeFile:
        storage, name = containing_storage(self.storage, path)
        return storage.open_input(name)


def _zone() -> str:
    """The session's time zone, in which folders show timestamps; UTC where Python has none of that name."""
    zone = session_time_zone(session())
    return "UTC" if zone.rules is None else zone.name


def _made(metadata: Metadata, schema: StructType) -> dict[str, Column]:
    """The generated columns, those that Partita knows in UTC."""
    made = {
        name: generated_as(check_expression(text, f"the generated column {name!r}"))
        for name, text in generated_columns(metadata).items()
    }
    for known in known_generated(metadata):
        made[known.name] = generated_by(known.function, known.source, schema[known.source].dataType, known.width)
    return made


def _rules(metadata: Metadata) -> list[Rule]:
    """Check constraints, and invariants of columns."""
    prefix = "delta.constraints."
    rules = [
        Rule(f"constraint {key.removeprefix(prefix)}", check_expression(text, f"the constraint {key}"))
        for key, text in metadata.configuration.items()
        if key.startswith(prefix)
    ]
    for field in metadata.schema["fields"]:
        invariant = (field.get("metadata") or {}).get("delta.invariants")
        if invariant is not None:
            name, text = field["name"], json.loads(invariant)["expression"]["expression"]
            rules.append(Rule(f"invariant of {name}", check_expression(text, f"the invariant of {name!r}")))
    return rules
