"""Iceberg tables that share a folder: maintenance of one leaves the files of the others alone."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.statistics import StatisticsFile

import partita as pt
from partita.errors import TableError
from partita.formats.containment import REASON_UNKNOWN_FOLDER, REASON_UNKNOWN_NAME
from partita.formats.iceberg.catalogs import lake_catalog
from partita.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

NOW = timedelta(0)
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


class Catalog:
    """A catalog in SQL, as pyiceberg and Partita open it."""

    def __init__(self, folder: Path, name: str = "c") -> None:
        self.config = {"type": "sql", "uri": f"sqlite:///{folder}/{name}.db", "warehouse": f"file://{folder}/wh"}
        self.name = name
        self.catalog = SqlCatalog(name, **self.config)
        self.catalog.create_namespace_if_not_exists("a")

    def make(self, name: str, **more: Any) -> IcebergTable:
        table = self.catalog.create_table(name, ROWS.schema, **more)
        table.append(ROWS)
        return table

    def open_by_name(self, name: str) -> pt.Table:
        return pt.open_table(name, catalog={"name": self.name, **self.config}, format="iceberg")

    def count(self, name: str) -> int:
        return int(self.catalog.load_table(name).scan().to_arrow().num_rows)


def local(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def orphan(folder: str, name: str = "data") -> Path:
    path = local(folder) / name / f"00000-0-{uuid4()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    return path


def tree(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow(reason="many commits to a table")
@pytest.mark.parametrize("catalogs", [1, 2])
def test_two_tables_with_one_location_keep_their_files(tmp_path: Path, catalogs: int) -> None:
    first = Catalog(tmp_path)
    second = first if catalogs == 1 else Catalog(tmp_path, "other")
    location = f"file://{tmp_path}/shared"
    first.make("a.one", location=location).append(ROWS)
    second.make("a.two", location=location)
    orphan_file = orphan(location)
    before = tree(tmp_path / "shared")
    for holder, name in ((first, "a.one"), (second, "a.two")):
        removed = holder.open_by_name(name).remove_orphans(NOW)
        assert removed == ([str(orphan_file)] if name == "a.one" else [])
        assert any("one" in why or "metadata file" in why or "two" in why for why in removed.remaining.values())
    assert tree(tmp_path / "shared") == before - {orphan_file}
    assert (first.count("a.one"), second.count("a.two")) == (6, 3)


@pytest.mark.slow(reason="two tables for each clean-up")
@pytest.mark.parametrize("catalogs", [1, 2])
@pytest.mark.parametrize("which", ["fork", "source"])
def test_a_fork_and_its_source_keep_their_files(tmp_path: Path, catalogs: int, which: str) -> None:
    """Both go on from the same metadata file, and each has files that the other's metadata doesn't name."""
    first = Catalog(tmp_path)
    second = first if catalogs == 1 else Catalog(tmp_path, "other")
    source = first.make("a.t")
    source.append(ROWS)
    second.catalog.register_table("a.fork", source.metadata_location)
    source.overwrite(ROWS)
    second.catalog.load_table("a.fork").append(ROWS)
    orphan_file = orphan(source.location())
    table = second.open_by_name("a.fork") if which == "fork" else first.open_by_name("a.t")
    assert table.remove_orphans(NOW) == [str(orphan_file)]
    table.expire_snapshots(NOW, 1)
    table.remove_orphans(NOW)
    assert (first.count("a.t"), second.count("a.fork")) == (3, 9)


@pytest.mark.slow(reason="many commits to a table")
@pytest.mark.parametrize("name", ["remove_orphans", "expire_snapshots"])
def test_a_fork_that_has_not_committed_keeps_its_files(tmp_path: Path, name: str) -> None:
    catalog = Catalog(tmp_path)
    source = catalog.make("a.t", properties={"write.metadata.previous-versions-max": "1"})
    catalog.catalog.register_table("a.fork", source.metadata_location)
    source.overwrite(ROWS)
    source.overwrite(ROWS)
    if name == "expire_snapshots":
        removed = catalog.open_by_name("a.t").expire_snapshots(NOW, 1)
        assert all("a.fork" in why for why in removed.remaining.values())
        assert removed.remaining
    else:
        catalog.open_by_name("a.t").remove_orphans(NOW)
    assert (catalog.count("a.t"), catalog.count("a.fork")) == (3, 3)


@pytest.mark.slow(reason="many commits to a table")
def test_metadata_files_that_the_log_let_go_of_are_orphans(tmp_path: Path) -> None:
    """They name expired snapshots, and are the table's own."""
    catalog = Catalog(tmp_path)
    table = catalog.make("a.t", properties={"write.metadata.previous-versions-max": "2"})
    for _ in range(6):
        table.overwrite(ROWS)
    removed = catalog.open_by_name("a.t").expire_snapshots(NOW, 1)
    assert removed.remaining == {}
    assert len([path for path in removed if path.endswith(".parquet")]) == 6
    removed = catalog.open_by_name("a.t").remove_orphans(NOW)
    assert removed.remaining == {}
    assert len(list((local(table.location()) / "metadata").glob("*.metadata.json"))) == 3
    assert catalog.count("a.t") == 3


def test_metadata_of_a_lost_race_goes_where_its_manifest_list_is_gone(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    table = catalog.make("a.t")
    document = json.loads(local(table.metadata_location).read_text())
    folder = local(table.location()) / "metadata"
    document["snapshots"][0]["manifest-list"] = f"file://{folder}/snap-1-0-{uuid4()}.avro"
    lost, broken = folder / f"00001-{uuid4()}.metadata.json", folder / f"00001-{uuid4()}.metadata.json"
    lost.write_text(json.dumps(document))
    broken.write_text('{"format-version": 2, "snapsh')
    assert catalog.open_by_name("a.t").remove_orphans(NOW) == sorted(map(str, (lost, broken)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"snapshots": [{"snapshot-id": 1, "manifests": ["x"]}]}, "it is unknown which files it needs"),
        ({"table-uuid": str(uuid4()), "properties": {"write.metadata.path": "/x"}}, "which has its metadata files at"),
    ],
)
def test_metadata_that_does_not_tell_what_it_needs_is_refused(tmp_path: Path, change: Any, why: str) -> None:
    catalog = Catalog(tmp_path)
    table = catalog.make("a.t")
    document = json.loads(local(table.metadata_location).read_text())
    (local(table.location()) / "metadata" / f"0-{uuid4()}.metadata.json").write_text(json.dumps(document | change))
    orphan_file = orphan(table.location())
    with pytest.raises(TableError, match=why):
        catalog.open_by_name("a.t").remove_orphans(NOW)
    assert orphan_file.exists()


@pytest.mark.parametrize("inside", ["data", "", "metadata/more"])
def test_a_data_path_in_another_tables_folder_is_left_alone(tmp_path: Path, inside: str) -> None:
    catalog = Catalog(tmp_path)
    first = catalog.make("a.one")
    folder = f"{first.location()}/{inside}".rstrip("/")
    catalog.make("a.two", properties={"write.data.path": folder})
    orphan(folder, "")
    before = tree(local(first.location()))
    removed = catalog.open_by_name("a.one").remove_orphans(NOW)
    assert removed == []
    assert tree(local(first.location())) == before
    assert set(removed.remaining.values()) == {"the table a.two may have it: its files are in this folder"}
    assert catalog.count("a.two") == 3


def test_files_that_were_added_to_another_table_are_left_alone(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    first, second = catalog.make("a.t"), catalog.make("a.other")
    added, left_behind = orphan(first.location()), orphan(first.location())
    pq.write_table(ROWS, added)
    second.add_files([f"file://{added}"])
    removed = catalog.open_by_name("a.t").remove_orphans(NOW)
    assert list(removed) == [str(left_behind)]
    assert removed.remaining == {str(added): "the table a.other names it: its files may lie in any folder"}
    assert catalog.count("a.other") == 2 * ROWS.num_rows


@pytest.mark.slow(reason="many commits to a table")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("exports/day=1/00000-0-{}.parquet", REASON_UNKNOWN_FOLDER),
        ("00000-0-{}.parquet", REASON_UNKNOWN_FOLDER),
        ("staging/part-00000-{}-c000.snappy.parquet", REASON_UNKNOWN_NAME),
        ("data/part-00000-{}.c000.snappy.parquet", REASON_UNKNOWN_NAME),
        ("data/p=1/00000-0-{}-0-00001.parquet", None),
        ("metadata/{}-m0.avro", None),
    ],
)
def test_data_sets_of_others_in_the_folder_of_a_table_stay(tmp_path: Path, name: str, reason: str | None) -> None:
    catalog = Catalog(tmp_path)
    path = local(catalog.make("a.t").location()) / name.format(uuid4())
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(ROWS, path)
    removed = catalog.open_by_name("a.t").remove_orphans(NOW)
    assert path.exists() == (reason is not None)
    assert (list(removed), removed.remaining) == (([str(path)], {}) if reason is None else ([], {str(path): reason}))


def test_a_table_that_can_not_be_read_is_listed(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    first, second = catalog.make("a.one"), catalog.make("a.two")
    local(second.metadata_location).unlink()
    orphan_file = orphan(first.location())
    removed = catalog.open_by_name("a.one").remove_orphans(NOW)
    assert removed == [str(orphan_file)]
    assert "can't be read" in removed.remaining["a.two"]


# --- new tables


@pytest.mark.parametrize("form", ["iceberg", "delta", "lance"])
@pytest.mark.parametrize("how", ["renamed", "dropped", "other catalog"])
def test_no_table_is_made_in_the_folder_of_another(tmp_path: Path, how: str, form: str) -> None:
    lake = pt.Lake(str(tmp_path / "lake"))
    lake.create_table("x.a", ROWS.schema, format="iceberg")
    catalog = lake_catalog(Storage.from_uri(tmp_path / "lake"))
    if how == "renamed":
        catalog.rename_table("x.a", "x.b")
    elif how == "dropped":
        catalog.drop_table("x.a")
    else:
        config = {"name": "o", "type": "sql", "uri": f"sqlite:///{tmp_path}/o.db", "warehouse": str(tmp_path)}
        lake = pt.Lake(str(tmp_path / "lake"), catalog=config)
    with pytest.raises(TableError, match=r"has the metadata of an Iceberg table that isn't called x\.a"):
        lake.create_table("x.a", ROWS.schema, format=form)


@pytest.mark.parametrize("form", ["iceberg", "delta"])
@pytest.mark.parametrize("key", ["write.data.path", "write.metadata.path"])
def test_no_table_has_its_files_in_the_folder_of_another(tmp_path: Path, form: str, key: str) -> None:
    lake = pt.Lake(str(tmp_path))
    lake.create_table("x.a", ROWS.schema, format=form)
    for folder in ("x/a", "x/a/data"):
        with pytest.raises(TableError, match=rf"{key} of x\.b would put files into the folder of the table at .*/x/a,"):
            lake.create_table("x.b", ROWS.schema, format="iceberg", properties={key: f"file://{tmp_path}/{folder}"})
    lake.create_table("x.b", ROWS.schema, format="iceberg", properties={key: f"file://{tmp_path}/x/b/own"})
    lake.create_table("x.c", ROWS.schema, format="iceberg", properties={key: f"file://{tmp_path}/shared"})


# --- what expired snapshots name


@pytest.mark.parametrize(("first", "then"), [("file://", ""), ("", "file:"), ("/", "")])
def test_a_live_file_stays_whichever_way_its_path_is_written(tmp_path: Path, first: str, then: str) -> None:
    catalog = Catalog(tmp_path)
    table = catalog.catalog.create_table("a.t", ROWS.schema)
    file = local(table.location()) / "data" / f"00000-0-{uuid4()}.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(ROWS, file)
    table.add_files([f"{first}{file}"])
    table.delete("id > 0")
    table.add_files([f"{then}{file}"])
    removed = catalog.open_by_name("a.t").expire_snapshots(NOW, 1)
    assert file.exists()
    assert removed
    assert catalog.count("a.t") == 3


@pytest.mark.parametrize("named", ["data", "manifest list", "manifest", "metadata", "log", "other"])
def test_statistics_that_name_other_files_delete_none(tmp_path: Path, named: str) -> None:
    catalog = Catalog(tmp_path)
    table = catalog.make("a.t")
    table.append(ROWS)
    old, new = table.snapshots()
    other = orphan(table.location())
    path = {
        "data": table.inspect.files()["file_path"][0].as_py(),
        "manifest list": new.manifest_list,
        "manifest": new.manifests(table.io)[0].manifest_path,
        "metadata": table.metadata_location,
        "log": table.metadata.metadata_log[-1].metadata_file,
        "other": f"file://{other}",
    }[named]
    statistics = {"snapshot-id": old.snapshot_id, "statistics-path": path, "file-size-in-bytes": 1}
    with table.update_statistics() as update:
        more = {"file-footer-size-in-bytes": 1, "blob-metadata": []}
        update.set_statistics(StatisticsFile.model_validate({**statistics, **more}))
    removed = catalog.open_by_name("a.t").expire_snapshots(NOW, 1)
    assert removed == [old.manifest_list]
    assert removed.remaining == ({path: REASON_UNKNOWN_NAME} if named == "other" else {})
    assert local(path).exists()
    assert catalog.count("a.t") == 6


# --- reading


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("how", ["file", "folder", "inside"])
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_files_behind_a_link_out_of_the_table_are_refused(tmp_path: Path, how: str, mode: str) -> None:
    catalog = Catalog(tmp_path)
    table = catalog.make("a.t", properties={"write.update.mode": mode, "write.delete.mode": mode})
    file = local(table.inspect.files()["file_path"][0].as_py())
    target = (file.parents[1] if how == "inside" else tmp_path) / "moved"
    if how == "folder":
        file.parent.rename(target)
        file.parent.symlink_to(target)
    else:
        file.rename(target)
        file.symlink_to(target)
    opened = catalog.open_by_name("a.t")
    if how == "inside":
        assert opened.read().count() == 3
        assert opened.plan().outside_paths.to_pylist() == []
        return
    assert len(opened.plan().outside_paths) == 1
    for do in (
        lambda: opened.read("id > 1").collect(),
        lambda: opened.update({"id": "id + 1"}, "id = 1"),
        lambda: opened.delete("id = 1"),
    ):
        with pytest.raises(TableError, match="a symbolic link in its path leads out of the table's folder"):
            do()
    assert len(catalog.catalog.load_table("a.t").snapshots()) == 1
