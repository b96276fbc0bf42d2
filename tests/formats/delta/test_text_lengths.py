"""CHAR(n) and VARCHAR(n) of Delta tables, as in delta-spark: too long values are refused, CHAR is padded."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

import partita as pt
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.types import char_type, varchar_type
from partita.errors import ConstraintError, TableError
from partita.formats.delta.spark.text_lengths import length_violations
from partita.spark.frames import to_dataframe
from tests.formats.delta.log.handwritten_logs import (
    PROTOCOL_ACTION,
    add_action,
    metadata_action,
    schema_field,
    write_log,
)
from tests.formats.delta.tables import rows_by_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from partita.formats.table import Table
    from partita.lake import Lake

_STRUCT = "STRUCT<a: CHAR(4), b: VARCHAR(2)>"
_COLUMNS = f"id INT, c CHAR(5), v VARCHAR(3), s {_STRUCT}, l ARRAY<VARCHAR(2)>, m MAP<CHAR(3), VARCHAR(2)>, p CHAR(3)"
_LOGICAL = pt.Schema.of({
    "c": "char(5)", "v": "varchar(3)", "s": "struct<a:char(4),b:varchar(2)>", "l": "array<varchar(2)>",
    "m": "map<char(3),varchar(2)>", "p": "char(3)",
})  # fmt: skip
_ROW = {"id": 1, "c": "ab", "v": "abc", "s": {"a": "x", "b": "yy"}, "l": ["a", None], "m": {"k": "v"}, "p": "US"}


def _rows(**values: Any) -> pa.Table:
    text = pa.string()
    types = {"id": pa.int32(), "c": text, "v": text, "s": pa.struct([("a", text), ("b", text)]),
             "l": pa.list_(text), "m": pa.map_(text, text), "p": text}  # fmt: skip
    row = {**_ROW, **values}
    row["m"] = None if row["m"] is None else list(row["m"].items())
    return pa.Table.from_pylist([row], pa.schema(list(types.items())))


def _create_with_delta_spark(spark: SparkSession, folder: Path, properties: str = "") -> Table:
    spark.sql(f"CREATE TABLE delta.`{folder}` ({_COLUMNS}) USING delta PARTITIONED BY (p) {properties}")
    return pt.open_table(str(folder), format="delta")


TOO_LONG: dict[str, dict[str, Any]] = {
    "c": {"c": "abcdef"},
    "c by spaces": {"c": "abc   "},
    "v": {"v": "äöüß"},
    "v by spaces": {"v": "abc "},
    "s.a": {"s": {"a": "xxxxx", "b": None}},
    "s.b": {"s": {"a": None, "b": "yyy"}},
    "l.element": {"l": ["a", "abc"]},
    "m.key": {"m": {"keys": "v"}},
    "m.value": {"m": {"k": "val"}},
    "p": {"p": "DEUT"},
}


def test_texts_that_are_too_long(spark: SparkSession) -> None:
    columns = {f.name: f.type for f in _LOGICAL}
    violations = length_violations(columns)
    every = {"right": {}, "none": dict.fromkeys(_ROW), **TOO_LONG}
    rows = pa.concat_tables(_rows(**{**values, "id": at}) for at, values in enumerate(every.values()))
    conditions = [F.expr(str(v.condition)).alias(v.problem) for v in violations]
    flags = to_dataframe(rows, spark).orderBy("id").select(*conditions).collect()
    for name, row in zip(every, flags, strict=True):
        met = [problem for problem, is_met in row.asDict().items() if is_met]
        expected = [] if name in ("right", "none") else [name.partition(" ")[0]]
        assert [problem.partition("'")[2].partition("'")[0] for problem in met] == expected, name


_MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


@pytest.mark.parametrize(
    ("mapping", "refused"),
    [("", ["c by spaces", "m.key", "s.b", "p"]), pytest.param(_MAPPED, ["s.b", "p"], marks=pytest.mark.long)],
)
def test_a_table_of_delta_spark(spark: SparkSession, tmp_path: Path, mapping: str, refused: list[str]) -> None:
    table = _create_with_delta_spark(spark, tmp_path, mapping)
    assert [str(f.type) for f in table.schema][1:3] == ["char(5)", "varchar(3)"]
    assert str(table.schema.find_field("s").type) == "struct<a:char(4),b:varchar(2)>"
    for name in refused:
        with pytest.raises(ConstraintError, match=f"column '{name.partition(' ')[0]}' is longer than"):
            table.append(_rows(**TOO_LONG[name]))
    assert table.version == 0
    table.append(_rows())
    table.append(_rows(id=2, c="äöüßé", v=None, s=None, l=None, p=""))
    spark.sql(f"INSERT INTO delta.`{tmp_path}` VALUES (3, 'ab', 'v', null, null, map('k', 'v'), 'US')")  # noqa: S608
    theirs = spark.sql(f"SELECT * FROM delta.`{tmp_path}` ORDER BY id").collect()  # noqa: S608
    assert table.read().orderBy("id").collect() == theirs
    assert [(row.c, row.p) for row in theirs] == [("ab   ", "US "), ("äöüßé", None), ("ab   ", "US ")]
    # A row of delta-spark's after an update is padded, and one of an insert is not: one partition of the two.
    spark.sql(f"UPDATE delta.`{tmp_path}` SET v = 'w' WHERE id = 3")  # noqa: S608
    assert table.partitions()["p"].to_pylist() in ([None, "US "], ["US ", None])
    assert table.overwrite_partitions(_rows(id=4)).counts["files_removed"] == 2
    assert spark.sql(f"SELECT id FROM delta.`{tmp_path}` ORDER BY id").collect() == [(2,), (4,)]  # noqa: S608


@pytest.fixture(scope="module")
def compared_tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, str]:
    """A table with values of CHAR columns that are padded in files and in the log, and with unpadded ones."""
    folder = tmp_path_factory.mktemp("compared")
    table = _create_with_delta_spark(spark, folder)
    for at, (value, partition) in enumerate([("ab", "US"), ("", ""), ("abc", "DE"), ("ab\t", "D\t"), ("zz", "US")]):
        table.append(_rows(id=at, c=value, p=partition))
    spark.sql(f"UPDATE delta.`{folder}` SET v = 'w' WHERE id = 4")  # noqa: S608
    return table, f"delta.`{folder}`"


CONDITIONS = [
    *("c = 'ab'", "c = 'ab       '", "c IN ('ab', 'zz')", "c IN ('ab', 'zz       ')", "c < 'ab'", "c <= 'ab'"),
    *("c > 'ab'", "c != 'ab'", "c <=> 'ab'", "c LIKE 'ab'", "c LIKE 'ab%'", "c BETWEEN 'ab' AND 'ab'", "'ab' = c"),
    *("c NOT IN ('ab')", "c BETWEEN 'ab' AND 'ab   '", "c = substr('abx', 1, 2)", "c = 'ab' OR p = 'DE'"),
    *(
        "p = 'US'",
        "p = 'US    '",
        "p IN ('US', 'DE')",
        "p < 'US'",
        "p != 'US'",
        "p LIKE 'US'",
        "p BETWEEN 'A' AND 'US'",
    ),
]


def test_comparisons_are_sparks(spark: SparkSession, compared_tables: tuple[Table, str]) -> None:
    table, name = compared_tables
    answers = spark.sql(f"SELECT id, array({', '.join(CONDITIONS)}) AS found FROM {name} ORDER BY id").collect()  # noqa: S608
    theirs = {c: [row.id for row in answers if row.found[at]] for at, c in enumerate(CONDITIONS)}
    ours = rows_by_name({condition: table.read(condition, ["id"]) for condition in CONDITIONS})
    assert {condition: [row_id for (row_id,) in rows] for condition, rows in ours.items()} == theirs
    assert theirs["c = 'ab'"] == [0]
    assert theirs["p = 'US'"] == [0, 4]
    assert table.plan("p = 'US'").files.num_rows == 2
    assert table.plan("c = 'ab'").files.num_rows == 2  # with the file of a tab, which sorts below the space
    assert table.plan(pt.col("p") == "US").files.num_rows == 2
    chosen = pa.table({"p": ["US"]})
    assert sorted(table.read_partitions(chosen, ["id"]).toArrow()["id"].to_pylist()) == [0, 4]


def test_changes_keep_the_lengths(spark: SparkSession, tmp_path: Path) -> None:
    table = _create_with_delta_spark(spark, tmp_path)
    table.append(_rows())
    source = pa.table({"id": pa.array([9], pa.int32()), "c": ["toolong"], "p": ["X"]})
    changes: list[Callable[[], object]] = [
        lambda: table.update({"c": "'toolong'"}, "id = 1"),
        lambda: table.update({"v": "concat(v, 'd')"}),
        lambda: table.update({"p": "'LONG'"}),
        lambda: table.merge(source, "t.id = s.id", pt.when_not_matched().insert()),
        lambda: table.merge(source, "t.id = 1", pt.when_matched().update({"c": "s.c"})),
        lambda: table.overwrite(_rows(c="toolong")),
        lambda: table.overwrite_partitions(_rows(c="toolong")),
    ]
    for change in changes:
        with pytest.raises(ConstraintError, match="is longer than"):
            change()
    assert table.version == 1
    table.update({"c": "'z'", "v": "'d'"}, "c = 'ab' AND p = 'US'")
    merged = pa.table({"id": pa.array([9], pa.int32()), "c": ["q"], "p": ["X"]})
    table.merge(merged, "t.id = s.id", pt.when_not_matched().insert())
    rows = spark.sql(f"SELECT id, c, v, p FROM delta.`{tmp_path}` WHERE c IN ('z', 'q') ORDER BY id").collect()  # noqa: S608
    assert [tuple(row) for row in rows] == [(1, "z    ", "d", "US "), (9, "q    ", None, "X  ")]
    assert table.delete("p = 'X'").counts["rows_deleted"] == 1


def test_a_table_that_partita_created(spark: SparkSession, lake: Lake) -> None:
    field, text = spark_types.StructField, spark_types.StringType()
    schema = spark_types.StructType([
        field("id", spark_types.IntegerType()),
        field("c", spark_types.CharType(5)),
        field("s", spark_types.StructType([field("a b", spark_types.VarcharType(2)), field("n", text)])),
        field("m", spark_types.MapType(text, spark_types.ArrayType(spark_types.VarcharType(1)))),
        field("p", spark_types.CharType(3)),
    ])  # fmt: skip
    properties = {"delta.columnMapping.mode": "name"}
    table = lake.create_table("t", schema, format="delta", partition_by=["p"], properties=properties)
    assert table.schema.find_field("c").type == char_type(5)
    assert table.schema.find_field("s").type.fields[0].type == varchar_type(2)  # type: ignore[attr-defined]
    name = f"delta.`{table.uri}`"
    spark.sql(f"INSERT INTO {name} VALUES (1, 'ab', named_struct('a b', 'x', 'n', 'y'), map('k', array('v')), 'US')")  # noqa: S608
    for values in (
        "2, 'toolong', null, null, 'US'",
        "2, 'a', named_struct('a b', 'xyz', 'n', 'y'), null, 'US'",
        "2, 'a', null, map('k', array('vv')), 'US'",
        "2, 'a', null, null, 'LONG'",
    ):
        with pytest.raises(Exception, match="DELTA_EXCEED_CHAR_VARCHAR_LIMIT"):
            spark.sql(f"INSERT INTO {name} VALUES ({values})")  # noqa: S608
    assert table.read("p = 'US' AND c = 'ab'").collect() == spark.sql(f"SELECT * FROM {name}").collect()  # noqa: S608
    copy = lake.create_table("copy", table.read().schema, format="delta", properties=properties)
    assert [(f.name, f.type) for f in copy.schema] == [(f.name, f.type) for f in table.schema]


def test_a_session_that_takes_char_for_string_is_refused(
    spark: SparkSession, compared_tables: tuple[Table, str]
) -> None:
    setting = "spark.sql.legacy.charVarcharAsString"
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(TableError, match=f"set {setting} to false"):
            compared_tables[0].read("p = 'US'")
    finally:
        spark.conf.unset(setting)


def test_bounds_of_values_that_are_not_padded(tmp_path: Path) -> None:
    def stats(low: str, high: str) -> str:
        return f'{{"numRecords":2,"minValues":{{"c":"{low}"}},"maxValues":{{"c":"{high}"}},"nullCount":{{"c":0}}}}'

    schema = metadata_action(schema_field("c", __CHAR_VARCHAR_TYPE_STRING="char(4)"))
    files = {"ab": ("ab", "ab"), "tab": ("a", "ab\\\\t"), "padded": ("ab  ", "ab  "), "z": ("z", "zz")}
    write_log(
        tmp_path, [PROTOCOL_ACTION, schema, *(add_action(name, stats=stats(*ends)) for name, ends in files.items())]
    )
    table = pt.open_table(str(tmp_path), format="delta")
    assert table.plan("c = 'ab'").files["path"].to_pylist() == ["ab", "tab", "padded"]
    assert table.plan("c > 'ab'").files["path"].to_pylist() == ["tab", "z"]


def test_lengths_that_cannot_be_read_are_not_written(spark: SparkSession, tmp_path: Path) -> None:
    write_log(
        tmp_path,
        [PROTOCOL_ACTION, metadata_action(schema_field("c", __CHAR_VARCHAR_TYPE_STRING="struct<a b:char(4)>"))],
    )
    table = pt.open_table(str(tmp_path), format="delta")
    assert table.read().collect() == []
    with pytest.raises(TableError, match=r"column 'c' limits the length .* delta-spark"):
        table.append(pa.table({"c": ["x"]}))


@pytest.fixture(scope="module")
def nested_table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with nested CHAR values, written by delta-spark and then by Partita."""
    folder = tmp_path_factory.mktemp("nested") / "t"
    columns = (
        "id INT, s STRUCT<b: CHAR(3), d: STRUCT<e: CHAR(2)>>, l ARRAY<CHAR(3)>, m MAP<CHAR(2), CHAR(3)>, c CHAR(3)"
    )
    spark.sql(f"CREATE TABLE delta.`{folder}` ({columns}) USING delta")
    texts = ["'y'", "'yyy'", "''", "'y\t'", "null", "'zz'"]
    values = (
        f"({at}, named_struct('b', {t}, 'd', named_struct('e', left({t}, 2))), array({t}), map('k', {t}), {t})"
        for at, t in enumerate(texts)
    )
    spark.sql(f"INSERT INTO delta.`{folder}` VALUES {', '.join(values)}")  # noqa: S608
    table = pt.open_table(str(folder), format="delta")
    table.append(table.read().withColumn("id", F.col("id") + 10))
    return folder


_LITERALS = ("'y'", "'y '", "'y  '", "'y   '", "'yyy'", "''", "'y\t'")
NESTED_CONDITIONS = [
    condition
    for text in _LITERALS
    for condition in (
        *(f"s.b {op} {text}" for op in ("=", "!=", "<", "<=", ">", ">=", "<=>")),
        *(f"{text} = s.b", f"{text} < s.b", f"s.b IN ({text}, 'zz')", f"s.b NOT IN ({text})", f"s.b LIKE {text}"),
        *(f"s.b BETWEEN {text} AND 'z'", f"startswith(s.b, {text})", f"s.d.e = {text}", f"s.b = {text} OR c = {text}"),
        *(f"l[0] = {text}", f"array_contains(l, {text})", f"m['k'] = {text}", f"m['k '] = {text}", f"m[{text}] = 'y'"),
    )
]


def test_comparisons_inside_of_columns_are_sparks(spark: SparkSession, nested_table: Path) -> None:
    """Spark pads literals that are compared with CHAR columns, and not those compared with nested fields."""
    table, name = pt.open_table(str(nested_table), format="delta"), f"delta.`{nested_table}`"
    rows = table.read().orderBy("id")
    assert rows.collect() == spark.sql(f"SELECT * FROM {name} ORDER BY id").collect()  # noqa: S608
    bound = [parse_predicate(condition, table.schema).sql() for condition in NESTED_CONDITIONS]
    theirs = spark.sql(f"SELECT array({', '.join(NESTED_CONDITIONS)}) AS found FROM {name} ORDER BY id").collect()  # noqa: S608
    ours = rows.selectExpr(f"array({', '.join(bound)}) AS found").collect()
    for at, condition in enumerate(NESTED_CONDITIONS):
        assert [row.found[at] for row in ours] == [row.found[at] for row in theirs], condition
    conditions = ("s.b = 'y'", "s.b = 'y  '", "s.b > 'y'", "NOT s.b IN ('y', 'zz')")
    expected = rows_by_name({where: spark.sql(f"SELECT id FROM {name} WHERE {where}") for where in conditions})  # noqa: S608
    assert rows_by_name({where: table.read(where, ["id"]) for where in conditions}) == expected
    assert table.read(pt.col("s.b") == "y").count() == 0


@pytest.mark.parametrize("text", [pytest.param("'y'", marks=pytest.mark.long), "'y  '"])
def test_changes_by_comparisons_inside_of_columns_are_sparks(
    spark: SparkSession, nested_table: Path, tmp_path: Path, text: str
) -> None:
    ours, theirs = (Path(shutil.copytree(nested_table, tmp_path / name)) for name in ("ours", "theirs"))
    table, name = pt.open_table(str(ours), format="delta"), f"delta.`{theirs}`"
    table.update({"c": "'u'"}, f"s.b = {text}")
    spark.sql(f"UPDATE {name} SET c = 'u' WHERE s.b = {text}")  # noqa: S608
    table.merge(pa.table({"x": ["q"]}), f"t.s.b <= {text}", pt.when_matched().update({"c": "s.x"}))
    spark.sql(f"UPDATE {name} SET c = 'q' WHERE s.b <= {text}")  # its MERGE fails on fields of type CHAR  # noqa: S608
    table.delete(f"s.b IN ({text}, 'zz')")
    spark.sql(f"DELETE FROM {name} WHERE s.b IN ({text}, 'zz')")  # noqa: S608
    assert table.read().orderBy("id").collect() == spark.sql(f"SELECT * FROM {name} ORDER BY id").collect()  # noqa: S608
