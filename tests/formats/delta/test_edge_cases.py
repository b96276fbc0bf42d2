"""Edge cases: values and files that look alike but differ, and invalid input."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import partita as pt
from partita.algebra.predicate_text import parse_predicate
from partita.formats.capabilities import Operation
from partita.formats.delta.columns import known_generated_columns
from partita.formats.table_change import WRITTEN_FILE_SCHEMA, TableChange
from tests.formats.delta.tables import actions_of_kind, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON = "t.id = s.id"
AB = pa.struct([("a", pa.string()), ("b", pa.string())])
BA = pa.struct([("b", pa.string()), ("a", pa.string())])


def create_table(folder: Path, schema: dict[str, pa.DataType], **given: list[Any]) -> pt.Table:
    table = pt.Lake(str(folder)).create_table("t", pa.schema(list(schema.items())), format="delta")
    table.append(pa.table(given, pa.schema(list(schema.items()))))
    return table


def write_table_log(
    folder: Path,
    types: dict[str, str],
    paths: list[str],
    partition: dict[str, str | None] | None = None,
    generated: dict[str, str] | None = None,
) -> pt.Table:
    """Write the log of a table with some files, all in one partition."""
    made_as = {name: {"delta.generationExpression": sql} for name, sql in (generated or {}).items()}
    fields = [{"name": n, "type": t, "nullable": True, "metadata": made_as.get(n, {})} for n, t in types.items()]
    schema = json.dumps({"type": "struct", "fields": fields})
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
                      "partitionColumns": list(partition or {}), "configuration": {}}},
        *({"add": {"path": path, "partitionValues": partition or {}, "size": 1, "modificationTime": 0,
                   "dataChange": True}} for path in paths),
    ]  # fmt: skip
    log = folder / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return pt.open_table(str(folder), format="delta")


@pytest.mark.usefixtures("spark")
def test_fields_of_a_struct_in_another_order_are_refused(tmp_path: Path) -> None:
    table = create_table(tmp_path, {"id": pa.int64(), "s1": AB}, id=[1], s1=[{"a": "A", "b": "B"}])
    source = pa.table({"id": [1, 2], "s1": pa.array([{"a": "A", "b": "B"}] * 2, BA)})
    for clause in (pt.when_matched().update(), pt.when_not_matched().insert()):
        with pytest.raises(pt.SchemaError, match="s1"):
            table.merge(source, ON, clause)
    assert table.version == 1


@pytest.mark.usefixtures("spark")
def test_nothing_inside_an_array_is_lost(tmp_path: Path) -> None:
    table = create_table(tmp_path, {"id": pa.int64(), "x": pa.list_(pa.int32())}, id=[1], x=[[1]])
    with pytest.raises(pt.SchemaError, match="array<bigint>"):
        table.update({"x": "array(7L, 99999999999L)"})
    assert table.update({"x": "array(7, 8)"}).counts["rows_updated"] == 1
    assert sorted_rows(table.read()) == [(1, (7, 8))]


def test_a_merge_prunes_by_times_of_the_session_s_zone(spark: SparkSession, tmp_path: Path) -> None:
    moment = datetime(2024, 12, 31, 20, tzinfo=UTC)
    table = create_table(tmp_path, {"id": pa.int64(), "ts": pa.timestamp("us", "UTC")}, id=[1], ts=[moment])
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        done = table.merge(
            pa.table({"id": [1]}), f"{ON} AND t.ts >= '2025-01-01'", pt.when_matched().delete(),
            pt.when_not_matched().insert(),
        )  # fmt: skip
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert (done.counts["rows_deleted"], done.counts["rows_inserted"]) == (1, 0)


def test_times_that_no_clock_of_the_session_shows(spark: SparkSession, tmp_path: Path) -> None:
    gap = datetime(2024, 3, 10, 2, 30)  # noqa: DTZ001 - a time without a zone
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        table = create_table(tmp_path, {"id": pa.int64(), "n": pa.timestamp("us")}, id=[1], n=[gap])
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert sorted_rows(table.read()) == [(1, gap)]


@pytest.mark.usefixtures("spark")
def test_a_column_in_other_case_is_kept_when_its_file_is_copied(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "NAME": ["a", "b"]}), tmp_path / "a.parquet")
    table = write_table_log(tmp_path, {"id": "long", "name": "string"}, ["a.parquet"])
    table.delete("id = 1")
    assert sorted_rows(table.read()) == [(2, "b")]


@pytest.mark.usefixtures("spark")
def test_far_years_of_int96_are_kept_when_their_file_is_copied(tmp_path: Path) -> None:
    far = datetime(9999, 12, 30)  # noqa: DTZ001 - INT96 has no zone
    stored = pa.table({"id": [1, 2], "ts": pa.array([far, datetime(2024, 1, 1)], pa.timestamp("us"))})  # noqa: DTZ001
    pq.write_table(stored, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    table = write_table_log(tmp_path, {"id": "long", "ts": "timestamp"}, ["a.parquet"])
    table.delete("id = 2")
    assert sorted_rows(table.read()) == [(1, far.replace(tzinfo=UTC))]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_files_of_absolute_paths_are_copied_into_the_table(tmp_path: Path, scheme: str) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "away.parquet")
    (tmp_path / "t").mkdir()
    table = write_table_log(tmp_path / "t", {"id": "long"}, [f"{scheme}{tmp_path}/away.parquet"])
    assert sorted_rows(table.read()) == [(1,), (2,)]
    assert table.plan().outside_paths.to_pylist() == [f"{scheme}{tmp_path}/away.parquet"]
    table.delete("id = 1")
    assert sorted_rows(table.read()) == [(2,)]
    assert table.plan().outside_paths.to_pylist() == []
    assert pq.read_table(tmp_path / "away.parquet").num_rows == 2


@pytest.mark.usefixtures("spark")
def test_invalid_sql_is_refused(tmp_path: Path) -> None:
    table = create_table(tmp_path, {"id": pa.int64()}, id=[1])
    source = pa.table({"id": [1]})
    with pytest.raises(pt.SchemaError, match="SQL text"):
        table.update({"id": 5})  # type: ignore[dict-item] # on purpose
    with pytest.raises(pt.PredicateError, match="SQL text"):
        table.merge(source, None, pt.when_matched().delete())  # type: ignore[arg-type] # on purpose
    with pytest.raises(pt.PredicateError, match="SQL text"):
        table.merge(source, ON, pt.when_matched(5).delete())  # type: ignore[arg-type] # on purpose
    assert table.version == 1


@pytest.mark.usefixtures("spark")
def test_statistics_of_long_decimals_are_exact(tmp_path: Path) -> None:
    value = Decimal(12345678901234567890123456789012345678)
    table = create_table(tmp_path, {"x": pa.decimal128(38, 0)}, x=[value])
    (add,) = actions_of_kind(table, "add")
    stats = json.loads(add["stats"], parse_int=Decimal)
    assert stats["minValues"]["x"] == stats["maxValues"]["x"] == value


@pytest.mark.usefixtures("spark")
def test_the_greatest_of_cut_texts_is_no_less_than_any(tmp_path: Path) -> None:
    table = create_table(tmp_path, {"x": pa.string()}, x=["a" * 32 + "\U0010ffff" * 2])
    (add,) = actions_of_kind(table, "add")
    assert "x" not in json.loads(add["stats"])["maxValues"]


@pytest.mark.parametrize(
    ("sql", "function"),
    [
        ("date_format(ts, 'yyyy-MM')", "month"),
        ("DATE_FORMAT(ts, 'yyyy-mm')", None),
        ("DATE_FORMAT(ts, 'yyyy-MM-dd-hh')", None),
        ("cast(`ts` as date)", "day"),
        ("CAST(name AS DATE)", None),
        ("SUBSTRING(name, 1, 3)", "truncate"),
        ("YEAR(name)", None),
    ],
)
def test_generated_columns_are_known_or_left_to_spark(tmp_path: Path, sql: str, function: str | None) -> None:
    types = {"ts": "timestamp", "name": "string", "d": "string"}
    table = write_table_log(tmp_path, types, ["d=x/a.parquet"], {"d": "2024-05"}, {"d": sql})
    metadata = table._store.current_version().metadata  # type: ignore[attr-defined] # of a Delta table
    assert [column.transform.name for column in known_generated_columns(metadata)] == (
        [] if function is None else [function]
    )
    if function is None:
        assert table.plan("ts = TIMESTAMP '2024-09-09 10:05:00Z'").files.num_rows == 1


def test_a_generated_column_depends_on_the_columns_that_it_names(tmp_path: Path) -> None:
    types = {"id": "long", "ID_TEXT": "string", "twice": "long", "t": "string"}
    generated = {"twice": "id * 2", "t": "concat(`id_text`, 'id')"}
    rows = write_table_log(tmp_path, types, [], generated=generated)._store.current_version().rows()
    assert rows.dependent_columns({"id"}) == {"id", "twice"}
    assert rows.dependent_columns({"ID_TEXT"}) == {"ID_TEXT", "t"}
    assert rows.dependent_columns({"i"}) == {"i"}


@pytest.mark.usefixtures("spark")
def test_odd_names_of_sources_are_generated_from_in_utc(tmp_path: Path) -> None:
    schema = pt.Schema.of({"order ts": "timestamp", "id": "long"})
    mapped = {"delta.columnMapping.mode": "name"}
    lake = pt.Lake(str(tmp_path))
    table = lake.create_table("t", schema, format="delta", partition_by=[pt.day("order ts")], properties=mapped)
    metadata = table._store.current_version().metadata  # type: ignore[attr-defined] # of a Delta table
    assert [column.source for column in known_generated_columns(metadata)] == ["order ts"]


@pytest.mark.usefixtures("spark")
def test_the_empty_text_is_null_before_anything_is_compared(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = pt.Lake(str(tmp_path)).create_table("t", schema, format="delta", partition_by=["p"])
    with pytest.raises(pt.ConstraintError):
        table.overwrite(pa.table({"id": [1], "p": [""]}, schema), where="p = ''")
    table.overwrite(pa.table({"id": [1], "p": [""]}, schema), where="p IS NULL")
    table.overwrite(pa.table({"id": [2], "p": [""]}, schema), where="p IS NULL")
    assert sorted_rows(table.read()) == [(2, None)]


def test_a_number_that_is_none_fails_no_commit(tmp_path: Path) -> None:
    schema = pt.Schema.of({"id": "long"})
    for at, given in enumerate(("abc", "0", "-1")):
        properties = {"delta.checkpointInterval": given}
        table = pt.Lake(str(tmp_path)).create_table(f"t{at}", schema, format="delta", properties=properties)
        store = table._store
        added = WRITTEN_FILE_SCHEMA.empty_table()
        assert store.current_version().commit(TableChange(Operation.APPEND, added, transaction=("a", 1))) == 1


def test_a_file_that_was_read_and_went_is_a_conflict(tmp_path: Path) -> None:
    table = write_table_log(tmp_path, {"id": "long"}, ["a.parquet"])
    store = table._store
    state = store.current_version()
    everything = parse_predicate("true", state.schema)
    first = np.zeros(1, np.int64)
    store.current_version().commit(TableChange(Operation.DELETE, WRITTEN_FILE_SCHEMA.empty_table(), first, everything))
    added_files = pa.Table.from_pylist(
        [{"path": "b.parquet", "partition": [], "rows": 1, "bytes": 1, "modified": 0, "details": "{}"}],
        WRITTEN_FILE_SCHEMA,
    )
    with pytest.raises(pt.CommitConflict, match="read"):
        state.commit(TableChange(Operation.MERGE, added_files, read_scope=everything, read_file_indices=first))


@pytest.mark.usefixtures("spark")
def test_local_times_of_older_writers_stay_as_they_wrote_them(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    old = "2024-01-01 00:00:00"
    table = write_table_log(tmp_path, {"id": "long", "p": "timestamp"}, ["a.parquet"], {"p": old})
    table.delete("id = 1")
    added = [add["partitionValues"] for add in actions_of_kind(table, "add")]
    assert added[-1] == {"p": old}


def test_partitions_of_times_that_no_clock_of_the_session_shows(spark: SparkSession, tmp_path: Path) -> None:
    times = [datetime(2024, 3, 10, 2, 30), datetime(2024, 11, 3, 1, 30)]  # noqa: DTZ001 - without a zone
    schema = pa.schema([("id", pa.int64()), ("p", pa.timestamp("us"))])
    table = pt.Lake(str(tmp_path)).create_table("t", schema, format="delta", partition_by=["p"])
    table.append(pa.table({"id": [1, 2], "p": times}, schema))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert sorted_rows(table.read()) == [(1, times[0]), (2, times[1])]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        pytest.param({"a b": pa.int64()}, "delta.columnMapping.mode", id="a space"),
        pytest.param({"s": pa.struct([("x=y", pa.int64())])}, "'x=y' has '='", id="inside a struct"),
        pytest.param({"a": pa.int64(), "A": pa.int64()}, "in case only", id="names that differ by case"),
    ],
)
def test_names_that_delta_refuses(tmp_path: Path, schema: dict[str, pa.DataType], said: str) -> None:
    with pytest.raises(pt.SchemaError, match=said):
        pt.Lake(str(tmp_path)).create_table("t", pa.schema(list(schema.items())), format="delta")
    assert not list(tmp_path.iterdir())


def test_properties_are_texts(tmp_path: Path) -> None:
    properties: Any = {"delta.appendOnly": True}
    with pytest.raises(pt.TableError, match=r"'delta\.appendOnly' is True"):
        pt.Lake(str(tmp_path)).create_table("t", pa.schema([("a", pa.int64())]), format="delta", properties=properties)


def test_errors_of_spark_become_partita_errors(spark: SparkSession, tmp_path: Path) -> None:
    table = create_table(tmp_path, {"id": pa.int64()}, id=[1, 2])
    with pytest.raises(pt.TableError, match="DIVIDE_BY_ZERO"):
        table.update({"id": "id / 0"})
    with pytest.raises(pt.PredicateError, match=r"Spark can't analyse the expression: .*PARSE_SYNTAX_ERROR"):
        table.update({"id": "id +* 0"})
    with pytest.raises(pt.SchemaError, match=r"\['id'\]"):
        table.read(columns="id")
    assert sorted_rows(table.read()) == [(1,), (2,)]


def test_a_struct_of_the_source_that_is_called_as_the_table(spark: SparkSession, tmp_path: Path) -> None:
    table = create_table(tmp_path, {"id": pa.int64(), "x": pa.string()}, id=[1, 2], x=["a", "b"])
    source = pa.table({"t": pa.array([{"id": 2}, {"id": 3}]), "x": ["B", "C"]})
    clauses = (pt.when_matched().update({"x": "s.x"}), pt.when_not_matched().insert({"id": "s.t.id", "x": "s.x"}))
    table.merge(source, "t.id = s.t.id", *clauses)
    assert sorted_rows(table.read()) == [(1, "a"), (2, "B"), (3, "C")]
