"""Files that other engines wrote with fewer, more or narrower columns than the others: nothing is lost by a read."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import partita as pt
from partita.errors import TableError, TableExists
from partita.formats.parquet import declare_table
from partita.formats.parquet.create import TableDefinition, keep_inferred_definition, read_definition
from tests.formats.parquet.folders import bounds_of, load_version, open_folder, write_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

NOON = datetime(2025, 1, 15, 12)  # noqa: DTZ001
NULLS = pa.nulls(2)
NARROW_AND_WIDE = [
    ("long", pa.array([-1, 2**31 - 1], pa.int32()), pa.array([2**40])),
    ("int", pa.array([255, 0], pa.uint8()), pa.array([2**31 - 1], pa.int32())),
    ("double", pa.array([0.1, float("nan")], pa.float32()), pa.array([0.1])),
    ("double", pa.array([1, None], pa.int32()), pa.array([0.1])),
    ("decimal(22,2)", pa.array([2**64 - 1, 0], pa.uint64()), pa.array([Decimal("1.25")], pa.decimal128(10, 2))),
    (
        "decimal(12,4)",
        pa.array([Decimal("1.25"), None], pa.decimal128(10, 2)),
        pa.array([Decimal("1.0625")], pa.decimal128(6, 4)),
    ),
    ("timestamp_ntz", pa.array([date(1500, 1, 1), None]), pa.array([NOON], pa.timestamp("us"))),
    ("timestamp_ntz", pa.array([NOON, None], pa.timestamp("s")), pa.array([NOON], pa.timestamp("us"))),
    (
        "struct<a:long,b:string>",
        pa.array([{"a": 1}, None], pa.struct([("a", pa.int32())])),
        pa.array([{"a": 2**40, "b": "x"}]),
    ),
    (
        "list<struct<a:double>>",
        pa.array([[{"a": 0.5}], None], pa.list_(pa.struct([("a", pa.float32())]))),
        pa.array([[{"a": 0.1}]]),
    ),
]
NARROW_AND_WIDE += [
    (
        "decimal(12,2)",
        pa.array([-(2**31), None], pa.int32()),
        pa.array([Decimal("1.25")], pa.decimal128(10, 2)),
    ),
    ("decimal(20,0)", pa.array([2**64 - 1, 0], pa.uint64()), pa.array([-(2**63)])),
    (
        "list<decimal(21,2)>",
        pa.array([[2**63 - 1], None]),
        pa.array([[Decimal("1.25")]], pa.list_(pa.decimal128(5, 2))),
    ),
]
NULLS_AND_VALUES = {
    "string": (NULLS, pa.array(["x"])),
    "boolean": (NULLS, pa.array([True])),
    "double": (NULLS, pa.array([0.1])),
    "timestamp": (NULLS, pa.array([NOON], pa.timestamp("us", "UTC"))),
    "binary": (NULLS, pa.array([b"x"])),
    "decimal(30,2)": (NULLS, pa.array([Decimal("1.25")], pa.decimal128(30, 2))),
    "struct<a:struct<b:long>>": (NULLS, pa.array([{"a": {"b": 1}}])),
    "map<string,long>": (NULLS, pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int64()))),
    "list<string>": (pa.array([[], [None]], pa.list_(pa.null())), pa.array([["x"]])),
    "list<struct<a:string>>": (pa.array([[], [None]], pa.list_(pa.null())), pa.array([[{"a": "x"}]])),
    "struct<a:string,b:long>": (
        pa.array([{"a": None, "b": 1}, None], pa.struct([("a", pa.null()), ("b", pa.int64())])),
        pa.array([{"a": "x", "b": 2}]),
    ),
}


def rows_by_id(rows: Any) -> list[dict[str, Any]]:
    table = rows if isinstance(rows, pa.Table) else rows.toArrow()
    found: list[dict[str, Any]] = table.sort_by("id").to_pylist()
    return found


def write_pair(folder: Path, pairs: Mapping[str, Sequence[pa.Array]]) -> None:
    """Write a file of two rows and a later one of one row, with the arrays of each pair as a column."""
    write_file(folder / "p=1" / "a.parquet", 1, id=[0, 1], **{name: pair[0] for name, pair in pairs.items()})
    write_file(folder / "p=2" / "b.parquet", 2, id=[2], **{name: pair[1] for name, pair in pairs.items()})


def types_of(table: pt.Table, names: Iterable[str]) -> dict[str, str]:
    return {name: str(table.schema.find_field(name).type) for name in names}


def rows_of_duckdb(folder: Path) -> list[dict[str, Any]]:
    rows = duckdb.sql("SELECT * FROM read_parquet(?, union_by_name = true)", params=[f"{folder}/**/*.parquet"])
    assert rows is not None
    return rows_by_id(rows.to_arrow_table())


def assert_same_rows(rows: list[dict[str, Any]], expected: list[dict[str, Any]], names: Iterable[str]) -> None:
    for name in names:
        # As texts, because NaN is not itself.
        assert str([row[name] for row in rows]) == str([row[name] for row in expected]), name


@pytest.mark.parametrize("is_declared", [False, True])
def test_narrower_types_are_read_as_the_widest(spark: SparkSession, tmp_path: Path, is_declared: bool) -> None:
    names = [f"c{number}" for number in range(len(NARROW_AND_WIDE))]
    types = {name: type_ for name, (type_, _, _) in zip(names, NARROW_AND_WIDE, strict=True)}
    write_pair(tmp_path, {name: pair for name, (_, *pair) in zip(names, NARROW_AND_WIDE, strict=True)})
    if is_declared:
        declare_table(str(tmp_path), {"id": "long", **types, "p": "int"}, ["p"])
    table = open_folder(tmp_path)
    assert types_of(table, names) == types
    rows = rows_by_id(table.read())
    assert_same_rows(rows, rows_of_duckdb(tmp_path), names)
    unread_types = [pa.uint64(), pa.list_(pa.int64())]  # as decimals
    spark_names = [
        name for name, (_, narrow, _) in zip(names, NARROW_AND_WIDE, strict=True) if narrow.type not in unread_types
    ]
    plain_rows = spark.read.schema(table.read(columns=["id", *spark_names]).schema).parquet(str(tmp_path))
    assert_same_rows(rows, rows_by_id(plain_rows), spark_names)


def test_whole_numbers_that_pandas_wrote_as_doubles_with_nulls(spark: SparkSession, tmp_path: Path) -> None:
    pd.DataFrame({"id": [1, 2**53], "n": [3, -(2**53)]}).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"id": [3, 4], "n": [1.0, None]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"'n' is .*, or declare it as double .* takes longs up to 2\*\*53"):
        open_folder(tmp_path)
    declare_table(str(tmp_path), {"id": "long", "n": "double"})
    table = open_folder(tmp_path)
    assert [row["n"] for row in rows_by_id(table.read())] == [3.0, 1.0, None, -(2.0**53)]
    assert table.read("n = 3").count() == table.read("n < -9e15").count() == 1
    write_file(tmp_path / "c.parquet", id=[5], n=[2**53 + 1])
    with pytest.raises(TableError, match=r"'n' is long in c\.parquet, and double in .* beyond 2\*\*53"):
        table.read()
    with pytest.raises(TableError, match=r"numbers beyond 2\*\*53, which a double rounds; write the file anew"):
        table.plan("n = 3")


@pytest.mark.parametrize(("type_", "way_out"), [("date", "of the table$"), ("short", "of the table, or declare int")])
def test_a_type_that_holds_both_is_advised_only_if_there_is_one(tmp_path: Path, type_: str, way_out: str) -> None:
    write_file(tmp_path / "a.parquet", id=pa.array([1], pa.int32()))
    with pytest.raises(TableError, match=f"'id' is int in a.parquet, and {type_} in .*: write the .* type {way_out}"):
        declare_table(str(tmp_path), {"id": type_})


def test_nulls_without_a_type_are_nulls_of_the_type_of_the_others(spark: SparkSession, tmp_path: Path) -> None:
    write_pair(tmp_path, NULLS_AND_VALUES)
    table = open_folder(tmp_path)
    assert types_of(table, NULLS_AND_VALUES) == {name: name for name in NULLS_AND_VALUES}
    expected = {name: [*nulls.to_pylist(), *values.to_pylist()] for name, (nulls, values) in NULLS_AND_VALUES.items()}
    columns = table.read().toArrow().sort_by("id").to_pydict()
    assert {name: columns[name] for name in expected} == expected
    assert table.read("`boolean` IS NULL").count() == table.read("id < 2").count() == 2


def test_a_column_of_nothing_but_nulls_is_a_column_of_texts(spark: SparkSession, tmp_path: Path) -> None:
    pd.DataFrame({"id": [1, 2], "c": [None, None], "p": [1, 2]}).to_parquet(tmp_path, partition_cols=["p"])
    table = open_folder(tmp_path)
    assert str(table.schema.find_field("c").type) == "string"
    assert bounds_of(tmp_path, "c") == {
        "lower": [None] * 2,
        "upper": [None] * 2,
        "null_count": [1] * 2,
        "row_count": [1] * 2,
    }
    assert rows_by_id(table.read()) == [{"id": 1, "c": None, "p": 1}, {"id": 2, "c": None, "p": 2}]
    table.append(pa.table({"id": [3], "c": ["x"], "p": pa.array([1], pa.int32())}))
    assert rows_by_id(table.read())[2] == {"id": 3, "c": "x", "p": 1}
    assert rows_of_duckdb(tmp_path) == rows_by_id(table.read())


@pytest.mark.parametrize(
    ("where", "paths"),
    [
        ("c0 > 5000000000", ["p=2/b.parquet"]),
        ("c0 = -1", ["p=1/a.parquet"]),
        ("c3 >= 1.0", ["p=1/a.parquet", "p=2/b.parquet"]),
        ("c3 < 0.5", ["p=2/b.parquet"]),
        ("c5 > 1.1", ["p=1/a.parquet"]),
        ("c6 < timestamp_ntz'1600-01-01 00:00:00'", ["p=1/a.parquet"]),
    ],
)
def test_bounds_of_narrower_types_prune_and_filter(
    spark: SparkSession, tmp_path: Path, where: str, paths: list[str]
) -> None:
    write_pair(tmp_path, {f"c{number}": pair for number, (_, *pair) in enumerate(NARROW_AND_WIDE)})
    table = open_folder(tmp_path)
    assert table.plan(where).files["path"].to_pylist() == paths
    assert table.read(where, columns=["id"]).count() == 1


def write_hundred_folders(folder: Path, **columns: object) -> None:
    """Write many files, one of which, that is not among the sampled ones, has other columns."""
    for number in range(100):
        write_file(folder / f"p={number}" / "a.parquet", number, id=[number], s=[{"x": 1}])
    write_file(folder / "p=50" / "a.parquet", 50, **{"id": [50], "s": [{"x": 1}], **columns})


@pytest.mark.parametrize(
    ("columns", "description", "read_columns"),
    [
        ({"extra": [5]}, "a column 'extra'", ["id", "p"]),
        ({"s": [{"x": 1, "y": 2}]}, "fields in its column 's', struct<x:long,y:long>,", ["id", "p"]),
    ],
)
def test_a_column_that_no_sampled_footer_has_is_not_dropped_silently(
    spark: SparkSession, tmp_path: Path, columns: dict[str, object], description: str, read_columns: list[str]
) -> None:
    write_hundred_folders(tmp_path, **columns)
    table = open_folder(tmp_path)
    for where in (None, "p = 50", "id = 50"):
        with pytest.raises(TableError, match=rf"^p=50/a\.parquet in {tmp_path} has {description} .*declare_table\("):
            table.read(where)
    with pytest.raises(TableError, match="that the table lacks"):
        table.read_partitions(pa.table({"p": pa.array([50], pa.int32())}))
    assert table.read("p < 50").count() == 50
    assert table.read(columns=read_columns).count() == 100
    schema = {"id": "long", "s": "struct<x:long,y:long>", "extra": "long", "p": "int"}
    declare_table(str(tmp_path), schema, ["p"])
    (row,) = open_folder(tmp_path).read("p = 50").toArrow().to_pylist()
    assert (row["s"]["y"] or row["extra"]) in {2, 5}


def test_a_list_of_columns_is_read_of_files_that_have_more(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(40):
        write_file(tmp_path / "t" / f"p={number}" / "a.parquet", number, id=[number])
    write_file(tmp_path / "t" / "p=9" / "a.parquet", 9, id=[9], extra=[5])
    table = open_folder(tmp_path / "t")
    assert table.schema.names == ("id", "p")
    assert table.read(columns=["id"]).count() == table.read(columns=["id", "p"]).count() == 40
    assert table.read("id % 2 = 1", columns=["p"]).count() == 20
    partitions = pa.table({"p": pa.array([9], pa.int32())})
    assert table.read_partitions(partitions, ["id"]).toArrow()["id"].to_pylist() == [9]
    lake = pt.Lake(str(tmp_path / "lake"))
    lake.adopt(str(tmp_path / "t"), "parquet", name="raw.ids")
    rows: Any = lake.sql("SELECT max(id) AS id FROM raw.ids")
    assert rows.toArrow()["id"].to_pylist() == [39]
    refusal = r"^p=9/a\.parquet in .* has a column 'extra'"
    for query in ("SELECT * FROM raw.ids", "SELECT p, r.* FROM raw.ids r WHERE id = 9"):
        with pytest.raises(TableError, match=refusal):
            lake.sql(query)
    with pytest.raises(TableError, match=refusal):
        table.read("id = 9")
    with pytest.raises(TableError, match=refusal):
        table.read_partitions(partitions)


@pytest.mark.parametrize(
    ("select", "type_"),
    [
        ("INTERVAL 1 DAY", "interval"),
        ("uuid()", "uuid"),
        ("[INTERVAL 1 DAY]", "interval"),
        ("{'x': [uuid()]}", "uuid"),
    ],
)
def test_types_of_duckdb_that_arrow_hides_are_refused(tmp_path: Path, select: str, type_: str) -> None:
    duckdb.execute(f"COPY (SELECT 1::BIGINT AS id, {select} AS \"c.d\") TO '{tmp_path}/a.parquet' (FORMAT parquet)")
    with pytest.raises(pt.SchemaError, match=rf"^column 'c\.d' of a\.parquet in {tmp_path} has type {type_}, which"):
        open_folder(tmp_path)
    with pytest.raises(pt.PartitaError, match=rf"'c\.d' .*{type_}"):
        declare_table(str(tmp_path), {"id": "long", "c.d": "binary"})
    declare_table(str(tmp_path), {"id": "long"})
    assert open_folder(tmp_path).plan("id = 1").files.num_rows == 1


@pytest.mark.parametrize(
    ("select", "type_"),
    [
        ("parse_json('{\"a\": 1}')", "variant"),
        ("array(named_struct('x', parse_json('1')))", "variant"),
        ("INTERVAL 1 DAY", "interval day"),
    ],
)
def test_types_of_spark_that_arrow_hides_are_refused(
    spark: SparkSession, tmp_path: Path, select: str, type_: str
) -> None:
    spark.sql(f"SELECT 1L AS id, {select} AS v").write.parquet(str(tmp_path / "t"))
    with pytest.raises(pt.SchemaError, match=f"^column 'v' of part-.* has type {type_}.*, which is not read"):
        open_folder(tmp_path / "t")


def test_the_annotation_of_a_variant_is_enough(tmp_path: Path) -> None:
    duckdb.execute(f"COPY (SELECT 1 AS id, 5::VARIANT AS v, 1 AS w) TO '{tmp_path}/a.parquet' (FORMAT parquet)")
    with pytest.raises(pt.SchemaError, match=r"'v' of .* has type variant"):
        open_folder(tmp_path)


def test_a_later_file_with_more_columns_adds_them(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "p=1" / "a.parquet", 1, id=[1])
    assert open_folder(tmp_path).schema.names == ("id", "p")
    spark.range(2, 3).selectExpr("id", "'x' AS c", "2 AS p").write.partitionBy("p").mode("append").parquet(
        str(tmp_path)
    )
    assert rows_by_id(open_folder(tmp_path).read()) == [{"id": 1, "c": None, "p": 1}, {"id": 2, "c": "x", "p": 2}]
    assert rows_of_duckdb(tmp_path) == rows_by_id(open_folder(tmp_path).read())
    declare_table(str(tmp_path), {"id": "long", "p": "int"}, ["p"])
    assert open_folder(tmp_path).read().columns == ["id", "p"]


def test_a_definition_that_was_inferred_gives_way_to_a_declared_one(tmp_path: Path) -> None:
    write_file(tmp_path / "p=1" / "a.parquet", id=[1])
    version = load_version(tmp_path)
    keep_inferred_definition(version.storage, TableDefinition("", version.schema, ("p",)))
    declare_table(str(tmp_path), {"id": "long", "more": "string", "p": "string"}, ["p"])
    definition = read_definition(version.storage)
    assert definition is not None
    assert definition.schema == pt.Schema.of({"id": "long", "more": "string", "p": "string"})
    with pytest.raises(TableExists):
        declare_table(str(tmp_path), {"id": "long", "p": "string"}, ["p"])
