"""Which files of a folder are data files, and what is refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import partita as pt
from partita.errors import SpecError, TableError, TableExists, TableMissing
from partita.formats.nested_tables import enclosing_table_folder
from partita.formats.parquet import declare_table
from partita.formats.parquet.footers import stored_types_by_file
from partita.storage import LocalStorage
from tests.formats.parquet.folders import bounds_of, load_version, open_folder, write_file

if TYPE_CHECKING:
    from pathlib import Path


def test_hidden_files_are_ignored_and_parquet_files_are_known_by_their_content(tmp_path: Path) -> None:
    write_file(tmp_path / "p=1" / "a.parquet", id=[1])
    write_file(tmp_path / "p=1" / "000000_0", id=[2])
    write_file(tmp_path / "_c=1" / "x.parquet", id=[3]).rename(tmp_path / "p=1" / ".hidden.parquet")
    (tmp_path / "_c=1").rmdir()
    for hidden in ("_temporary/0/p=1/b.parquet", "_SUCCESS", "p=1/_metadata", "p=1/.a.parquet.crc", ".git/x.parquet"):
        path = tmp_path / hidden
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not Parquet")
    (tmp_path / "notes.txt").write_text("of somebody else")
    (tmp_path / "p=1_$folder$").touch()
    table = open_folder(tmp_path)
    assert sorted(table.plan().files["path"].to_pylist()) == ["p=1/000000_0", "p=1/a.parquet"]
    assert table.partitions().select(["key", "rows"]).to_pylist() == [{"key": "p=i:1", "rows": 2}]


def test_a_folder_without_partitions_and_with_plain_subfolders(tmp_path: Path) -> None:
    write_file(tmp_path / "2024" / "a.parquet", id=[1])
    write_file(tmp_path / "b.parquet", id=[2, 3])
    table = open_folder(tmp_path)
    assert table.spec.names == ()
    assert table.partitions().select(["files", "rows"]).to_pylist() == [{"files": 2, "rows": 3}]


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ("b.parquet", "not partitioned alike"),
        ("p=1/q=2/b.parquet", "not partitioned alike"),
        ("q=1/b.parquet", "not partitioned alike"),
        ("sub/p=1/b.parquet", "not partitioned alike"),
        ("p=1/sub/_delta_log/0.json", "another table in it"),
        ("_delta_log/00000000000000000000.json", "format='delta'"),
        ("metadata/v1.metadata.json", "format='iceberg'"),
        ("__manifest/x", "format='lance'"),
        (".hoodie/hoodie.properties", "Hudi"),
    ],
)
def test_what_is_no_plain_folder_is_refused(tmp_path: Path, other: str, text: str) -> None:
    write_file(tmp_path / "p=1" / "a.parquet", id=[1])
    write_file(tmp_path / other, id=[2])
    with pytest.raises(TableError, match=text):
        open_folder(tmp_path)


@pytest.mark.parametrize("part", ["p=1", "p=1/q=2", "data", "data/p=1"])
@pytest.mark.parametrize("log", ["_delta_log/00000000000000000000.json", "metadata/v1.metadata.json"])
def test_a_part_of_a_table_is_refused(tmp_path: Path, part: str, log: str) -> None:
    write_file(tmp_path / part / "a.parquet", id=[1])
    assert open_folder(tmp_path / part).plan().files.num_rows == 1
    (tmp_path / log).parent.mkdir()
    (tmp_path / log).write_text("{}")
    with pytest.raises(TableError, match=f"a part of the table {tmp_path}, which"):
        open_folder(tmp_path / part)


@pytest.mark.parametrize(
    ("uri", "outer"),
    [
        ("/data", None),
        ("s3://data", None),
        ("s3://bucket/p=1", "s3://bucket"),
        ("/lake/a=b/t", None),
        ("/lake/t/p=1/q=2", "/lake/t"),
        ("memory:///t/data/p=1", "memory:///t"),
    ],
)
def test_the_folder_that_another_may_be_a_part_of(monkeypatch: pytest.MonkeyPatch, uri: str, outer: str | None) -> None:
    monkeypatch.setattr("partita.formats.nested_tables.is_table_folder", lambda _: True)
    assert enclosing_table_folder(LocalStorage(uri)) == outer


def test_links_are_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "t" / "p=1" / "a.parquet", id=[1])
    write_file(tmp_path / "elsewhere" / "b.parquet", id=[2])
    (tmp_path / "t" / "p=2").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TableError, match="symbolic link"):
        open_folder(tmp_path / "t")


def test_columns_that_differ_in_case_alone_are_refused_by_file_or_folder(tmp_path: Path) -> None:
    write_file(tmp_path / "t" / "p=1" / "a.parquet", id=[1], ID=[2])
    write_file(tmp_path / "u" / "p=1" / "P=1" / "a.parquet", id=[1])
    with pytest.raises(pt.SchemaError, match=r"^p=1/a\.parquet in .*/t: columns 'id' and 'ID' .*; rename one"):
        open_folder(tmp_path / "t")
    with pytest.raises(pt.SchemaError, match=r"^the folder p=1/P=1 in .*/u: columns 'p' and 'P' .*; rename one"):
        open_folder(tmp_path / "u")


@pytest.mark.parametrize("column", [[{"a": 1, "A": 2}], [[{"b": {"a": 1, "A": 2}}]]])
def test_fields_that_differ_in_case_alone_are_refused_by_file_and_column(tmp_path: Path, column: object) -> None:
    write_file(tmp_path / "a.parquet", 1, id=[1], s=column)
    write_file(tmp_path / "b.parquet", 2, id=[1])
    with pytest.raises(pt.SchemaError, match=r"^a\.parquet in .*, column 's': columns 'a' and 'A' .*; rename one"):
        open_folder(tmp_path)
    with pytest.raises(pt.SchemaError, match=r"^column 's': columns 'a' and 'A' "):
        pt.Lake(str(tmp_path / "l")).create_table("t", {"s": "array<struct<a:int,A:int>>"}, format="parquet")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([1], pa.timestamp("ns")), "coerce_timestamps='us'"),
        (pa.array([1.5], pa.float16()), "halffloat to float, others"),
        (pa.array([1], pa.time64("us")), "to a number or a text"),
    ],
)
def test_a_column_that_is_not_read_can_be_left_out(tmp_path: Path, column: pa.Array, text: str) -> None:
    write_file(tmp_path / "a.parquet", id=[1], other=column, s=pa.array([{"x": 1, "other": column[0]}]))
    way_out = rf"{text}.*, or leave the column out of a declared schema: partita\..*declare_table\("
    with pytest.raises(pt.SchemaError, match=way_out):
        open_folder(tmp_path)
    with pytest.raises(pt.SchemaError, match=way_out):
        declare_table(str(tmp_path), {"id": "long", "other": "string"})
    declare_table(str(tmp_path), {"id": "long", "s": "struct<x:long>"})
    assert open_folder(tmp_path).plan("id = 1").files.num_rows == 1


def test_a_folder_without_parquet_files(tmp_path: Path) -> None:
    with pytest.raises(TableMissing):
        open_folder(tmp_path / "nothing")
    (tmp_path / "data.csv").write_text("id\n1\n")
    with pytest.raises(TableError, match=r"no Parquet files, only others such as data\.csv"):
        open_folder(tmp_path)


def test_a_file_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"is a file.*open the folder that holds it"):
        open_folder(write_file(tmp_path / "a.parquet", id=[1]))


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    file = write_file(tmp_path / "p=1" / "a.parquet", id=[1])
    file.parent.rename(os.fsdecode(os.fsencode(tmp_path) + b"/p=\xff"))
    with pytest.raises(TableError, match=r"'p=.udcff/a\.parquet' .* is not UTF-8"):
        open_folder(tmp_path)


def test_columns_of_files_are_joined_by_name(tmp_path: Path) -> None:
    write_file(tmp_path / "p=a" / "old.parquet", 1, ID=[1], p=["in the file"], note=pa.nulls(1))
    write_file(tmp_path / "p=b" / "new.parquet", 2, id=[2], extra=[{"x": 1}], note=["text"])
    table = open_folder(tmp_path)
    assert {field.name: str(field.type) for field in table.schema} == {
        "id": "long", "extra": "struct<x:long>", "note": "string", "p": "string",
    }  # fmt: skip
    assert bounds_of(tmp_path, "id")["lower"] == [1, 2]
    assert bounds_of(tmp_path, "note")["upper"] == [None, "text"]
    assert set(load_version(tmp_path).statistics(["id", "note", "extra", "p"], None)) == {"id", "note"}


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([1.5]), "'id' is long in p=a/a.parquet, and double in p=b/b.parquet"),
        (
            pa.array([1], pa.timestamp("ns")),
            "timestamp.ns.*cast it, a timestamp to microseconds .coerce_timestamps='us'",
        ),
        (pa.array([1], pa.time64("us")), "'id' of p=b/b.parquet .* has type time"),
    ],
)
def test_conflicting_and_unreadable_types_are_refused_by_file(tmp_path: Path, column: pa.Array, text: str) -> None:
    write_file(tmp_path / "p=a" / "a.parquet", 1, id=[1])
    write_file(tmp_path / "p=b" / "b.parquet", 2, id=column)
    with pytest.raises((TableError, pt.SchemaError), match=text):
        open_folder(tmp_path)


def test_a_file_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"]), tmp_path / "a.parquet")
    with pytest.raises(TableError, match=r"a\.parquet in .* has 2 columns called 'id'"):
        open_folder(tmp_path)


def test_a_type_that_no_sampled_footer_has_is_refused_when_its_statistics_are_read(tmp_path: Path) -> None:
    for number in range(40):
        write_file(tmp_path / f"p={number}" / "a.parquet", number, id=["x"] if number == 9 else [number])
    table = open_folder(tmp_path)
    assert table.plan("p = 3 AND id = 3").files.num_rows == 1
    with pytest.raises(TableError, match=r"'id' is string in p=9/a\.parquet"):
        table.plan("id = 3")


def test_files_are_read_whose_structs_lack_fields(tmp_path: Path) -> None:
    inner = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.struct([("z", pa.string())])))])
    write_file(tmp_path / "a.parquet", s=pa.array([{"x": 1, "y": [{"z": "a"}]}], inner))
    write_file(tmp_path / "b.parquet", s=pa.array([{"x": 1}], pa.struct([("x", pa.int32())])))
    declare_table(str(tmp_path), {"s": "struct<x:int,y:array<struct<z:string>>,more:int>"})
    write_file(tmp_path / "c.parquet", s=pa.array([{"x": 1, "y": [{"z": 1}]}]))
    version = load_version(tmp_path)
    stored_types_by_file(version.storage, version.data_files[:2], version.stored_columns)
    with pytest.raises(TableError, match=r"'s' is struct<.*> in c\.parquet"):
        stored_types_by_file(version.storage, version.data_files, version.stored_columns)


def test_a_damaged_footer_is_named(tmp_path: Path) -> None:
    write_file(tmp_path / "a.parquet", id=[1])
    (tmp_path / "b.parquet").write_bytes(b"PAR1 is not enough")
    with pytest.raises(pt.PartitaError, match=r"b\.parquet"):
        open_folder(tmp_path)


def test_a_definition_says_the_types(tmp_path: Path) -> None:
    write_file(tmp_path / "day=2025-01-15" / "code=007" / "a.parquet", id=[1])
    assert [str(f.type) for f in open_folder(tmp_path).schema] == ["long", "date", "string"]
    schema = {"id": "long", "more": "string", "day": "date", "code": "int"}
    declare_table(str(tmp_path), schema, ["day", "code"])
    table = open_folder(tmp_path)
    assert table.schema == pt.Schema.of(schema)
    assert table.partitions()["key"].to_pylist() == ["code=i:7,day=d:2025-01-15"]
    with pytest.raises(TableExists, match=r"delete its _partita_table/definition\.json to declare it anew"):
        declare_table(str(tmp_path), schema, ["day", "code"])


@pytest.mark.parametrize(
    ("schema", "partition_by", "text"),
    [
        (
            {"id": "long", "p": "int"},
            ["p"],
            "the text 'x' in the name of a folder in .*; rename the folder, or declare",
        ),
        (
            {"id": "long", "q": "int"},
            ["q"],
            "such as p=x/a.parquet, are partitioned by p.*; move them elsewhere, or decl",
        ),
        ({"id": "long", "p": "string"}, [], "are partitioned by p"),
        (
            {"id": "timestamp", "p": "string"},
            ["p"],
            "'id' is long in p=x/a.parquet, and timestamp in the table .*: write",
        ),
        ({"ID": "int", "p": "string"}, ["p"], "'ID' is long in p=x/a.parquet, and int in the table"),
    ],
)
def test_a_definition_that_does_not_fit_the_files_is_refused(
    tmp_path: Path, schema: dict[str, str], partition_by: list[str], text: str
) -> None:
    write_file(tmp_path / "p=x" / "a.parquet", id=[1])
    with pytest.raises(pt.PartitaError, match=text):
        declare_table(str(tmp_path), schema, partition_by)
    assert not (tmp_path / "_partita_table").exists()


@pytest.mark.parametrize("type_", ["binary", "struct<x:int>", "array<int>"])
def test_what_no_folder_can_be_named_after_is_refused(tmp_path: Path, type_: str) -> None:
    with pytest.raises(SpecError, match=f"can't be partitioned by 'p' of type {type_.partition('<')[0][:5]}|list"):
        pt.Lake(str(tmp_path)).create_table("t", {"id": "long", "p": type_}, format="parquet", partition_by=["p"])
    assert pt.Lake(str(tmp_path)).tables() == []


def test_a_new_table_is_not_put_among_the_files_of_others(tmp_path: Path) -> None:
    write_file(tmp_path / "t" / "a.parquet", id=[1])
    lake = pt.Lake(str(tmp_path))
    with pytest.raises(TableError, match="has files already"):
        lake.create_table("t", {"id": "long"}, format="parquet")
    with pytest.raises(TableError, match="no properties"):
        lake.create_table("u", {"id": "long"}, format="parquet", properties={"compression": "zstd"})
    assert lake.tables() == []
