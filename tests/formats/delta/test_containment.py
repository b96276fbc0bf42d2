"""Delta tables with symbolic links in their folders: nothing behind a link is deleted or written."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import partita as pt
from partita.errors import StorageError, TableError
from partita.formats.containment import (
    REASON_OTHER_TABLE,
    REASON_SYMBOLIC_LINK,
    REASON_TOO_YOUNG,
    REASON_UNKNOWN_FOLDER,
    REASON_UNKNOWN_NAME,
)
from partita.formats.delta.maintenance import REASON_UNKNOWN_FEATURE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

NOW = timedelta(0)
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*values: tuple[int, str]) -> pa.Table:
    return pa.table({"id": [n for n, _ in values], "p": [p for _, p in values]}, schema=SCHEMA)


def write_orphan(folder: Path) -> Path:
    """Write a file as a killed writer of Partita leaves it."""
    path = folder / f"part-00000-0-{uuid4()}.c000.snappy.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (1, 1))
    return path


def folder_contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_clean_up_follows_no_links(tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="delta", partition_by=["p"])
    others, folder = tmp_path / "others", Path(table.uri)
    theirs = write_orphan(others)
    write_orphan(others / "deep")
    for name, target in {"p=a": others, "p=b": others / "deep", "back": folder, "none": tmp_path / "none"}.items():
        (folder / name).symlink_to(target)
    (folder / theirs.name).symlink_to(theirs)
    orphan = write_orphan(folder / "p=c")
    young = write_orphan(folder / "p=c")
    os.utime(young)
    (folder / "notes.txt").write_text("mine")
    write_orphan(folder / "inner" / "_delta_log")
    before = folder_contents(others)
    removed = table.remove_orphans(timedelta(hours=1))
    assert removed == [f"p=c/{orphan.name}"]
    assert folder_contents(others) == before
    assert removed.remaining == {
        **dict.fromkeys(["p=a", "p=b", "back", "none", theirs.name], REASON_SYMBOLIC_LINK),
        "inner": REASON_OTHER_TABLE, "notes.txt": REASON_UNKNOWN_NAME, f"p=c/{young.name}": REASON_TOO_YOUNG,
    }  # fmt: skip


UUID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
NAMES = {
    f"p=a b/part-00000-0-{UUID}.c000.snappy.parquet": None,
    f"any/part-00000-0-{UUID}.c000.snappy.parquet": None,
    f"p=a%20b/part-00000-{UUID}.c000.snappy.parquet": None,
    f"p=a/part-00001-{UUID}-c000.zstd.parquet": None,
    f"p=a/0-{UUID}-0.parquet": None,
    f"_change_data/p=a/cdc-00000-{UUID}.c000.snappy.parquet": None,
    f"deletion_vector_{UUID}.bin": None,
    f"ab/deletion_vector_{UUID}.bin": None,
    f"p=a/.part-00002-{UUID}-c000.zstd.parquet.crc": None,
    f"part-00001-{UUID}-c000.zstd.parquet": REASON_UNKNOWN_FOLDER,
    f"export/part-00001-{UUID}-c000.snappy.parquet": REASON_UNKNOWN_FOLDER,
    f"p=a/q=b/part-00001-{UUID}-c000.snappy.parquet": REASON_UNKNOWN_FOLDER,
    f"q=a/part-00001-{UUID}-c000.snappy.parquet": REASON_UNKNOWN_FOLDER,
    f"ab/part-00001-{UUID}-c000.snappy.parquet": REASON_UNKNOWN_FOLDER,
    f"ab/cd/deletion_vector_{UUID}.bin": REASON_UNKNOWN_FOLDER,
    "report.parquet": REASON_UNKNOWN_NAME,
    "p=a/notes.txt": REASON_UNKNOWN_NAME,
    "_change_data/mine.parquet": REASON_UNKNOWN_NAME,
}


@pytest.mark.parametrize("is_known", [True, False])
def test_files_of_other_writers_are_orphans_where_these_put_them(tmp_path: Path, *, is_known: bool) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="delta", partition_by=["p"])
    if not is_known:
        log = Path(table.uri, "_delta_log", f"{1:020}.json")
        features = {"readerFeatures": [], "writerFeatures": ["appendOnly", "somethingNew"]}
        log.write_text(json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}))
    for name in NAMES:
        path = Path(table.uri, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    removed = table.remove_orphans(NOW)
    expected = dict(NAMES)
    if not is_known:
        unnamed = [name for name, why in NAMES.items() if why != REASON_UNKNOWN_NAME and f"-0-{UUID}.c000" not in name]
        expected |= dict.fromkeys(unnamed, REASON_UNKNOWN_FEATURE)
    assert sorted(removed) == sorted(name for name, why in expected.items() if why is None)
    assert removed.remaining == {name: why for name, why in expected.items() if why is not None}


def test_files_of_other_writers_that_the_log_names_stay(spark: SparkSession, tmp_path: Path) -> None:
    """Removed files, change data and deletion vectors of delta-spark stay while the log or a checkpoint has them."""
    folder = tmp_path / "t"
    properties = "'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true'"
    name = f"delta.`{folder}`"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({properties})")
    for statement in (
        "INSERT INTO {0} SELECT /*+ COALESCE(1) */ id, 'a b' FROM range(100)",
        "DELETE FROM {0} WHERE id < 3",
        "UPDATE {0} SET id = id + 1000 WHERE id = 50",
        "DELETE FROM {0}",
    ):
        spark.sql(statement.format(name))
    before = {path for path in folder_contents(folder) if not path.startswith("_delta_log/")}
    assert any("deletion_vector_" in path for path in before)
    assert any(path.startswith("_change_data/") for path in before)
    table = pt.open_table(str(folder), format="delta")
    assert table.remove_orphans(NOW) == []
    orphan = folder / "p=a b" / f"part-00000-{UUID}.c000.snappy.parquet"
    orphan.write_text("x")
    assert table.remove_orphans(NOW) == [f"p=a b/{orphan.name}"]
    assert {path for path in folder_contents(folder) if not path.startswith("_delta_log/")} == before
    assert spark.read.format("delta").option("versionAsOf", 2).load(str(folder)).count() == 97
    # Only the checkpoint names what a removed commit named.
    DeltaTable(str(folder)).create_checkpoint()
    for version in range(3):
        (folder / "_delta_log" / f"{version:020}.json").unlink()
    removed = set(pt.open_table(str(folder), format="delta").remove_orphans(NOW))
    assert all(path.startswith("_change_data/") for path in removed if not path.endswith(".crc"))


def test_a_log_that_lacks_commits_tells_of_no_orphans(tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="delta")
    orphan = write_orphan(Path(table.uri))
    first = Path(table.uri, "_delta_log", f"{0:020}.json")
    first.rename(first.with_name(f"{3:020}.json"))
    with pytest.raises(TableError, match="the log lacks the commits"):
        table.remove_orphans(NOW)
    assert orphan.exists()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "path", ["{0}/t/../others/x.parquet", "file:{0}/t/%2e%2e/others/x.parquet", "{0}/t/link/x.parquet"]
)
def test_an_absolute_path_that_leaves_the_table_by_dots_or_a_link_is_not_read(tmp_path: Path, path: str) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="delta")
    (tmp_path / "others").mkdir()
    pq.write_table(rows((1, "a")), tmp_path / "others" / "x.parquet")
    Path(table.uri, "link").symlink_to(tmp_path / "others")
    size = (tmp_path / "others" / "x.parquet").stat().st_size
    log = Path(table.uri, "_delta_log", f"{1:020}.json")

    def add(path: str) -> None:
        action = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
        log.write_text(json.dumps({"add": action}))

    add(f"{tmp_path}/others/x.parquet")
    clone = pt.open_table(table.uri, format="delta")
    assert clone.read().count() == 1
    assert len(clone.plan().outside_paths) == 1
    add(path.format(tmp_path))
    again = pt.open_table(table.uri, format="delta")
    changes: list[Callable[[], object]] = [lambda: again.read().count(), lambda: again.update({"id": "2"}, "id = 1")]
    for change in changes:
        with pytest.raises(TableError, match=r"'\.\.' or a symbolic link in its path leads out of the table's folder"):
            change()
    assert len(again.plan().outside_paths) == 1


@pytest.mark.usefixtures("spark")
def test_no_row_is_written_behind_a_link_out_of_the_table(tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="delta", partition_by=["p"])
    (tmp_path / "others").mkdir()
    Path(table.uri, "p=a").symlink_to(tmp_path / "others")
    with pytest.raises(StorageError, match="symbolic link that leads out of"):
        table.append(rows((1, "a"), (2, "b")))
    assert not list((tmp_path / "others").iterdir())
    assert table.plan().files.num_rows == 0


def test_a_log_that_is_another_tables_is_refused(tmp_path: Path) -> None:
    other = pt.Lake(str(tmp_path)).create_table("other", SCHEMA, format="delta")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "_delta_log").symlink_to(Path(other.uri, "_delta_log"))
    with pytest.raises(TableError, match="the log '_delta_log' is behind a symbolic link out of"):
        pt.open_table(str(tmp_path / "t"), format="delta")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    assert pt.open_table(str(tmp_path / "link"), format="delta").version == 0


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", ["/{0}", "file:/{0}", "file:///{0}"])
def test_a_file_that_the_log_names_by_its_whole_path_is_no_orphan(tmp_path: Path, form: str) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="delta")
    table.append(rows((1, "a")))
    log = Path(table.uri, "_delta_log", f"{1:020}.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    [add] = [action["add"] for action in actions if "add" in action]
    file = Path(table.uri, add["path"])
    add["path"] = form.format(str(file)[1:])
    log.write_text("\n".join(map(json.dumps, actions)))
    again = pt.open_table(table.uri, format="delta")
    assert again.remove_orphans(NOW) == []
    assert file.exists()
    assert len(again.plan().outside_paths) <= 1


CALLS = {
    "constraint": "reflect--x\r(",
    "generated": "ref${no.such.setting}lect(",
    "invariant": "java_method--x\\\ny\n(",
}
"""Calls of methods in forms that Spark parses, and that a search for the name and a parenthesis misses."""


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("where", CALLS)
def test_an_expression_in_metadata_runs_no_code(tmp_path: Path, where: str) -> None:
    text = f"{CALLS[where]}'java.lang.System', 'setProperty', 'partita.hostile', 'yes') IS NULL"
    table = pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="delta")
    table.append(rows((1, "a")))
    log = Path(table.uri, "_delta_log", f"{0:020}.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    [metadata] = [action["metaData"] for action in actions if "metaData" in action]
    schema = json.loads(metadata["schemaString"])
    if where == "constraint":
        metadata["configuration"]["delta.constraints.c"] = text
    elif where == "generated":
        schema["fields"][1]["metadata"] = {"delta.generationExpression": f"CAST({text} AS STRING)"}
    else:
        schema["fields"][1]["metadata"] = {"delta.invariants": json.dumps({"expression": {"expression": text}})}
    metadata["schemaString"] = json.dumps(schema)
    [protocol] = [action["protocol"] for action in actions if "protocol" in action]
    protocol |= {"minReaderVersion": 1, "minWriterVersion": 4}
    protocol.pop("readerFeatures", None)
    protocol.pop("writerFeatures", None)
    log.write_text("\n".join(map(json.dumps, actions)))
    again = pt.open_table(table.uri, format="delta")
    changes: list[Callable[[], object]] = [
        lambda: again.append(rows((2, "b")).select(["id"])),
        lambda: again.update({"id": "id + 1"}),
    ]
    for change in changes:
        with pytest.raises(pt.PartitaError, match="metadata never runs code"):
            change()
    assert again.read().count() == 1
