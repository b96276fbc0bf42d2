"""Columns are found by field id whatever their names in files, without any setting of the session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, StringType

import partita as pt
from partita.cache import LruCache
from partita.errors import TableError
from partita.formats import field_ids
from partita.formats.field_ids import file_columns_from
from partita.formats.iceberg.columns import stored_arrow_schema
from partita.formats.iceberg.commit import commit_snapshot
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.spark.session_state import override_settings
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.tables import DATA_CONTENT, jvm_session, live_files, pyiceberg_table, read_with_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INNER = pa.struct([("x", pa.int64()), ("y y", pa.string())])
TYPES = {
    "id": pa.int64(), "p": pa.string(), "a": pa.string(), "b": pa.string(), "c": pa.int64(), "a b": pa.int64(),
    "ü$ {x}": pa.int64(), "_metadata": pa.string(), "s": INNER, "l": pa.list_(INNER),
    "m": pa.map_(pa.string(), INNER),
}  # fmt: skip
COPIES = {f"write.{what}.mode": "copy-on-write" for what in ("delete", "update", "merge")}


def nested_rows(start: int, renames: dict[str, str] | None = None) -> pa.Table:
    """Return four rows of two partitions, with nulls and empty values at every depth."""
    inner = [{"x": start, "y y": "i"}, None, {"x": None, "y y": None}, {"x": 3, "y y": "j"}]
    table = pa.table(
        {
            "id": range(start, start + 4), "p": ["p", "q"] * 2, "a": [f"a{start + index}" for index in range(4)],
            "b": [f"b{start + index}" for index in range(4)], "c": [1, None, 3, 4], "a b": [5, 6, None, 8],
            "ü$ {x}": [1, 2, 3, None], "_metadata": ["m", None, "n", "o"], "s": inner,
            "l": [[inner[0], None], None, [], [inner[2]]], "m": [[("k", inner[0])], None, [("k", None)], []],
        },
        schema=pa.schema(TYPES),
    )  # fmt: skip
    return table.rename_columns(renames or {name: name for name in table.column_names})


def append(writer: str, spark: SparkSession, table: pt.Table, rows: pa.Table) -> None:
    if writer == "partita":
        table.append(rows)
    elif writer == "pyiceberg":
        loaded = pyiceberg_table(table)
        loaded.append(pa.table(rows.columns, schema=stored_without_ids(loaded.schema())))
    else:
        frame = spark.createDataFrame(rows.drop_columns(["_metadata"]))
        names = ", ".join(f"`{name}`" for name in rows.column_names if name != "_metadata")
        frame.createOrReplaceTempView("given")
        # A view can't have a column called so.
        spark.sql(
            f"INSERT INTO partita.{table.name} ({names}, `_metadata`) "  # noqa: S608 - names of the test
            f"SELECT {names}, element_at(array('m', null, 'n', 'o'), cast(id % 4 as int) + 1) FROM given"
        ).collect()


def stored_without_ids(schema: object) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(schema, include_field_ids=False)  # type: ignore[arg-type] # pyiceberg's


@pytest.mark.parametrize(
    ("writer", "mode"),
    [
        ("partita", "copy-on-write"),
        ("pyiceberg", "copy-on-write"),
        ("jvm", "merge-on-read"),
        pytest.param("partita", "merge-on-read", marks=pytest.mark.long),
        pytest.param("pyiceberg", "merge-on-read", marks=pytest.mark.long),
        pytest.param("jvm", "copy-on-write", marks=pytest.mark.long),
    ],
)
def test_names_that_moved(spark: SparkSession, tmp_path: Path, writer: str, mode: str) -> None:
    table = pt.Lake(str(tmp_path)).create_table(
        "db.t", pt.Schema.of(TYPES_SQL), format="iceberg", partition_by=["p"],
        properties=COPIES if mode == "copy-on-write" else {},
    )  # fmt: skip
    jvm = jvm_session(spark, tmp_path)
    before = spark.sql("SET").collect()
    first, second = nested_rows(0), nested_rows(4)
    append(writer, jvm, table, first)
    if writer != "pyiceberg":  # which writes an empty list for null
        assert sorted_rows(table.read()) == sorted_rows(first)
    # Two columns swap their names, one is dropped and comes back as another, nested fields move as well.
    with pyiceberg_table(table).update_schema() as update:
        update.rename_column("a", "tmp").rename_column("s.x", "tmp")
    with pyiceberg_table(table).update_schema() as update:
        update.rename_column("b", "a").delete_column("c").rename_column("s.y y", "x")
        update.rename_column("l.element.x", "z").rename_column("m.value.y y", "v.v")
    with pyiceberg_table(table).update_schema() as update:
        update.rename_column("tmp", "b").add_column("c", StringType()).rename_column("s.tmp", "y y")
        update.add_column(("s", "new"), LongType()).add_column(("l", "new"), LongType())
        update.delete_column("l.element.y y")
    current = pyiceberg_table(table).schema()
    names = [field.name for field in current.fields]
    assert names == ["id", "p", "b", "a", "a b", "ü$ {x}", "_metadata", "s", "l", "m", "c"]

    def rows_of_all_readers() -> list[tuple[object, ...]]:
        rows = sorted_rows(table.read())
        # pyiceberg makes an empty list of null where something inside was renamed.
        assert rows == sorted_rows(read_with_jvm(jvm, table))
        return rows

    moved = rows_of_all_readers()
    assert [row[2:4] for row in moved] == [(f"a{index}", f"b{index}") for index in range(4)]
    assert [row[10] for row in moved] == [None] * 4
    assert sorted_rows(table.read(columns=["id", "c", "a"])) == [(index, None, f"b{index}") for index in range(4)]
    assert sorted_rows(table.read("a = 'b2' and c is null", columns=["id"])) == [(2,)]
    assert sorted_rows(table.read().selectExpr("id", "s.`y y`", "s.x", "s is null")) == [
        (0, 0, "i", False), (1, None, None, True), (2, None, None, False), (3, 3, "j", False)
    ]  # fmt: skip
    inner = second["s"].to_pylist()
    changed = pa.table(
        [second[0], second[1], second[2], second[3], second[5], second[6], second[7],
         [None if row is None else {"y y": row["x"], "x": row["y y"], "new": 7} for row in inner],
         [[{"z": 1, "new": 2}]] * 4, [[("k", {"x": 1, "v.v": "v"})]] * 4, ["new"] * 4],
        schema=stored_without_ids(current),
    )  # fmt: skip
    append(writer, jvm, table, changed)
    later = sorted_rows(table.read())
    assert len(later) == 8
    # A frame that was made before runs after; and two of the same rows are joined.
    left_rows, right_rows = table.read(), table.read("c is null")
    assert left_rows.join(right_rows, left_rows.id == right_rows.id).count() == 4
    assert left_rows.join(spark.range(6), "id").count() == 6
    assert table.delete("a in ('b1', 'b6')").counts["rows_deleted"] == 2
    assert table.update({"b": "concat(b, '!')", "c": "'u'"}, "id in (2, 5)").counts["rows_updated"] == 2
    remaining = [row for row in later if row[0] not in (1, 6)]
    remaining = [(*row[:2], f"{row[2]}!", *row[3:10], "u") if row[0] in (2, 5) else row for row in remaining]
    assert rows_of_all_readers() == remaining
    assert sorted_rows(left_rows) == later
    table.rewrite()
    assert rows_of_all_readers() == remaining
    assert spark.sql("SET").collect() == before


INNER_SQL = "struct<x: long, `y y`: string>"
TYPES_SQL = {
    "id": "long", "p": "string", "a": "string", "b": "string", "c": "long", "a b": "long", "ü$ {x}": "long",
    "_metadata": "string", "s": INNER_SQL, "l": f"array<{INNER_SQL}>", "m": f"map<string, {INNER_SQL}>",
}  # fmt: skip


def test_names_of_partitas_files_prove_their_columns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pt.Lake(str(tmp_path)).create_table("db.t", pt.Schema.of({"id": "long", "s": "string"}), format="iceberg")
    table.append(pa.table({"id": [1], "s": ["x"]}))
    (file,) = live_files(table, DATA_CONTENT)
    assert file.path.endswith(
        f"-{file_columns_from(stored_arrow_schema(pyiceberg_table(table).schema())).fingerprint}.parquet"
    )
    with pyiceberg_table(table).update_schema() as update:
        update.rename_column("s", "t")
    monkeypatch.setattr(field_ids, "_footer_cache", LruCache(10))
    monkeypatch.setattr(field_ids, "_fingerprint_cache", LruCache(10))

    def refuse(*_: object) -> None:
        raise AssertionError("a footer was read")

    with monkeypatch.context() as context:
        context.setattr(field_ids, "_read_footer", refuse)
        assert sorted_rows(table.read("t = 'x'")) == [(1, "x")]
    # A schema that isn't there any more proves nothing: the footer is read.
    loaded = pyiceberg_table(table)
    old = loaded.metadata.model_copy(update={"schemas": [loaded.schema()]})
    monkeypatch.setattr(field_ids, "_fingerprint_cache", LruCache(10))
    table._store._table.metadata = old  # type: ignore[attr-defined] # an Iceberg table's store
    assert sorted_rows(table._store._version_at(table._store._table, None).rows().scan(  # type: ignore[attr-defined]
        spark, pa.array([0]).to_numpy(), ["t"], positions=False
    )) == [("x",)]  # fmt: skip


def test_position_deletes_across_files_with_other_names(spark: SparkSession, tmp_path: Path) -> None:
    """Numbers of files stay right where files of several schemas are read by several scans."""
    table = pt.Lake(str(tmp_path)).create_table("db.t", pt.Schema.of({"id": "long", "v": "long"}), format="iceberg")
    for turn in range(4):
        with pyiceberg_table(table).update_schema() as update:
            update.rename_column("v" if turn == 0 else f"v{turn - 1}", f"v{turn}")
        table.append(pa.table({"id": range(10 * turn, 10 * turn + 10), f"v{turn}": range(10)}))
    assert table.delete("v3 in (3, 4)").counts["rows_deleted"] == 8
    assert table.update({"v3": "v3 + 100"}, "id % 10 = 5").counts["rows_updated"] == 4
    expected = [
        (index, index % 10 + (100 if index % 10 == 5 else 0)) for index in range(40) if index % 10 not in (3, 4)
    ]
    assert sorted(sorted_rows(table.read())) == expected
    assert sorted(sorted_rows(read_with_jvm(jvm_session(spark, tmp_path), table))) == expected


def append_foreign_file(table: pt.Table, name: str, rows: pa.Table) -> None:
    """Commit a file of another engine."""
    loaded = pyiceberg_table(table)
    path = f"{loaded.location()}/data/{name}"
    with loaded.io.new_output(path).create() as stream:
        pq.write_table(rows, stream)
    file = DataFile.from_args(
        content=DataFileContent.DATA, file_path=path, file_format=FileFormat.PARQUET, partition=Record(),
        record_count=rows.num_rows, file_size_in_bytes=Path(path.removeprefix("file://")).stat().st_size,
    )  # fmt: skip
    file.spec_id = 0
    commit_snapshot(loaded, loaded.metadata.current_snapshot_id, SnapshotChange("append", [file]))


def with_ids(**columns: tuple[int, list[int]]) -> pa.Table:
    fields = [
        pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(index)}) for name, (index, _) in columns.items()
    ]
    return pa.table([values for _, values in columns.values()], schema=pa.schema(fields))


def test_names_that_differ_in_case_alone(spark: SparkSession, tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table("db.t", pt.Schema.of({"id": "long", "v": "long"}), format="iceberg")
    append_foreign_file(table, "cased.parquet", with_ids(id=(1, [1]), V=(2, [2]), v=(9, [3])))
    assert sorted_rows(table.read(columns=["id"])) == [(1,)]
    with pytest.raises(TableError, match="'v' that differ only in case; set"):
        table.read()
    with override_settings(spark, {"spark.sql.caseSensitive": "true"}):
        assert sorted_rows(table.read(spark=spark)) == [(1, 2)]
        assert sorted_rows(table.read("v = 2", columns=["id"], spark=spark)) == [(1,)]


def test_a_struct_of_which_a_file_has_nothing_that_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table(
        "db.t", pt.Schema.of({"id": "long", "s": "struct<x: long>"}), format="iceberg"
    )
    table.append(pa.table({"id": [1, 2, 3], "s": [{"x": 1}, None, {"x": None}]}))
    with pyiceberg_table(table).update_schema() as update:
        update.add_column(("s", "y"), LongType())
    with pyiceberg_table(table).update_schema() as update:
        update.delete_column("s.x")
    read = table.read()
    assert sorted_rows(read) == sorted_rows(read_with_jvm(jvm_session(spark, tmp_path), table))
    assert sorted_rows(read) == [(1, (("y", None),)), (2, None), (3, (("y", None),))]
    legacy = "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing"
    with override_settings(spark, {legacy: "true"}), pytest.raises(TableError, match=legacy):
        table.read(spark=spark)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_name_that_hadoop_takes_for_a_variable(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """Spark itself would find no such column in the file, and read null."""
    name = "${spark.app.name}"
    table = pt.Lake(str(tmp_path)).create_table(
        "db.t", pt.Schema.of({"id": "long", name: "long"}), format=form,
        properties={"delta.columnMapping.mode": "name"} if form == "delta" else {},
    )  # fmt: skip
    table.append(pa.table({"id": [1], name: [2]}))
    assert sorted_rows(table.read(columns=["id"])) == [(1,)]
    assert sorted_rows(table.read()) == [(1, 2)]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_names_with_variables_at_every_depth(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """Bound and unbound ones, beside a column that already has the sanitised name; other engines read the same."""
    plain, home, inner, alike = "a ${x}", "${user.name}", "i ${env.NOPE:-x}", "a_x20_x24_x7Bx_x7D"
    struct = pa.struct([(inner, pa.string()), ("j", pa.int64())])
    types = {"id": pa.int64(), plain: pa.string(), home: pa.float64(), alike: pa.string(), "s": struct,
             "l": pa.list_(struct), "m": pa.map_(pa.string(), struct)}  # fmt: skip
    inside = {inner: "z", "j": 1}
    source = pa.table(
        {"id": [1, 2, 3], plain: ["x", "y", None], home: [1.5, None, 2.5], alike: ["p", "q", "r"],
         "s": [inside, None, inside], "l": [[inside], None, []], "m": [[("k", inside)], None, []]},
        schema=pa.schema(types),
    )  # fmt: skip
    table = pt.Lake(str(tmp_path)).create_table(
        "db.t", source.schema, format="iceberg", partition_by=[plain],
        properties=COPIES if mode == "copy-on-write" else {},
    )  # fmt: skip
    jvm = jvm_session(spark, tmp_path)
    table.append(source)
    assert sorted_rows(table.read()) == sorted_rows(source)
    loaded = pyiceberg_table(table)
    numbers = {loaded.schema().find_field(name).field_id for name in (plain, home, alike, f"s.{inner}")}
    assert all(numbers <= set(task.file.value_counts) for task in loaded.scan().plan_files())
    table.update({plain: "'u'", home: "id + 1.5"}, "id = 1")
    assert table.delete("id = 2").counts["rows_deleted"] == 1
    expected = sorted_rows(table.read())
    assert [row[:4] for row in expected] == [(1, "u", 2.5, "p"), (3, None, 2.5, "r")]
    assert expected[1][4] == ((inner, "z"), ("j", 1))
    assert sorted_rows(table.read("id = 3 and s.j = 1", columns=[home])) == [(2.5,)]
    assert sorted_rows(read_with_jvm(jvm, table)) == expected
    scanned = pyiceberg_table(table).scan().to_arrow().select(list(types)).cast(source.schema)
    assert sorted_rows(scanned) == expected


def test_a_variable_in_a_name_of_others_files(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads null by such a name; by its id it is found."""
    name = "v ${env.NOPE:-x}"
    table = pt.Lake(str(tmp_path)).create_table("db.t", pt.Schema.of({"id": "long", name: "long"}), format="iceberg")
    append_foreign_file(table, "raw.parquet", with_ids(**{"id": (1, [1]), name: (2, [2])}))
    assert sorted_rows(table.read(columns=["id"])) == [(1,)]
    by_id = "spark.sql.parquet.fieldId.read.enabled"
    with (
        override_settings(spark, {by_id: "false"}),
        pytest.raises(TableError, match=f"Hadoop takes .* set {by_id} to true"),
    ):
        table.read(spark=spark)
    with override_settings(spark, {by_id: "true"}):
        assert sorted_rows(table.read(spark=spark)) == [(1, 2)]
        assert table.update({name: "id + 2"}).counts["rows_updated"] == 1
    assert sorted_rows(table.read()) == [(1, 3)]
