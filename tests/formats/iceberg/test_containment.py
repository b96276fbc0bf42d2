"""Iceberg tables whose metadata references files outside the table: none is deleted, and the result says so."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

import partita as pt
from partita.errors import TableError
from partita.formats.containment import REASON_OTHER_TABLE, REASON_OUTSIDE_FOLDER, REASON_SYMBOLIC_LINK
from partita.formats.iceberg.maintenance import expire_snapshots, remove_orphan_files
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.formats.iceberg.store import IcebergTableStore
from tests.formats.iceberg.snapshot_tables import (
    REGION_SPEC,
    append_files,
    commit_change,
    data_file,
    new_table,
    reload_table,
    sqlite_catalog,
    table_ids,
)
from tests.formats.iceberg.snapshot_tables import SCHEMA as TABLE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table as IcebergTable

NOW = timedelta(0)
SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string())])
ROW = pa.table({"id": [1], "region": ["eu"]}, schema=SCHEMA)


@pytest.fixture
def foreign_folder(tmp_path: Path) -> Path:
    """A folder of another owner, with files that a writer of Iceberg tables could have made."""
    folder = tmp_path / "others"
    names = [f"data/00000-0-{uuid4()}.parquet", f"metadata/{uuid4()}-m0.avro", f"metadata/0-{uuid4()}.metadata.json"]
    for name in (*names, f"{uuid4()}.stats", "v1.metadata.json", "notes.txt", "a.parquet"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (1, 1))
    return folder


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """A table of two snapshots, of which the first has a file that the second lacks."""
    created = new_table(tmp_path / "lake")
    first = data_file(created, [{"id": 1, "region": "eu"}])
    append_files(created, first)
    commit_change(
        created,
        SnapshotChange("overwrite", [data_file(created, [{"id": 2, "region": "eu"}])], frozenset({first.file_path})),
    )
    return created


@pytest.fixture(autouse=True)
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def local(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def plant(table: IcebergTable, **changes: Any) -> None:
    """Change the table's current metadata file, as anyone with write access can."""
    path = local(reload_table(table).metadata_location)
    path.write_text(json.dumps(json.loads(path.read_text()) | {k.replace("_", "-"): v for k, v in changes.items()}))


def open_lake_table(folder: Path, location: str | None = None) -> pt.Table:
    catalog = {"name": "lake", "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder)}
    return pt.open_table("db.t", format="iceberg", catalog=catalog, location=location)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("how", ["catalog", "lake", "link", "dots", "above"])
def test_a_location_that_is_not_the_tables_is_neither_cleaned_nor_written_to(
    lake: Path, foreign_folder: Path, how: str
) -> None:
    table = pt.Lake(str(lake)).create_table("db.t", SCHEMA, format="iceberg")
    table.append(ROW)
    link = lake / "link"
    link.symlink_to(foreign_folder)
    where = {"link": str(link), "dots": f"{lake}/db/../../others", "above": str(lake)}.get(how, str(foreign_folder))
    plant(cast("IcebergTableStore", table._store).current_version().table, location=f"file://{where}")
    catalog = {"name": "partita", "type": "sql", "uri": f"sqlite:///{lake}/catalog.db"}
    table = (
        pt.Lake(str(lake)).table("db.t") if how == "lake" else pt.open_table("db.t", format="iceberg", catalog=catalog)
    )
    before = tree(foreign_folder), set(tree(lake))
    for do in (
        lambda: table.remove_orphans(NOW),
        lambda: table.expire_snapshots(NOW, 1),
        lambda: table.append(ROW),
        lambda: table.delete("id = 1"),
        lambda: table.evolve(add=["region"]),
    ):
        with pytest.raises(TableError, match="nothing shows that the files at the location are the table's"):
            do()
    assert (tree(foreign_folder), set(tree(lake))) == before
    assert [row.id for row in table.read().collect()] == [1]
    assert table.plan().outside_paths.to_pylist() == ([] if how == "above" else table.plan().files["path"].to_pylist())


@pytest.mark.parametrize(
    "name", ["others/a.parquet", "others/metadata/0.stats", "lake/../others/a.parquet", "link/a.parquet"]
)
def test_statistics_elsewhere_stay(table: IcebergTable, tmp_path: Path, foreign_folder: Path, name: str) -> None:
    (foreign_folder / "metadata" / "0.stats").write_text("x")
    (tmp_path / "link").symlink_to(foreign_folder)
    statistics: dict[str, Any] = {"snapshot-id": table.metadata.snapshots[0].snapshot_id, "file-size-in-bytes": 1}
    statistics["statistics-path"] = f"file://{tmp_path}/{name}"
    more = {"file-footer-size-in-bytes": 1, "blob-metadata": []}
    plant(table, statistics=[{**statistics, **more}], partition_statistics=[statistics])
    before = tree(foreign_folder)
    removed = expire_snapshots(reload_table(table), _now(), 1)
    assert tree(foreign_folder) == before
    assert removed.remaining == {statistics["statistics-path"]: REASON_OUTSIDE_FOLDER}
    assert table_ids(table) == [2]


def _now() -> datetime:
    return datetime.now(UTC) + timedelta(minutes=1)


def test_manifests_and_their_lists_elsewhere_stay(table: IcebergTable, foreign_folder: Path) -> None:
    """Everything that a snapshot names, in files that can be read and lie in another folder."""
    document = json.loads(local(reload_table(table).metadata_location).read_text())
    expired = document["snapshots"][0]
    moved = foreign_folder / "metadata" / local(expired["manifest-list"]).name
    shutil.copy(local(expired["manifest-list"]), moved)
    expired["manifest-list"] = f"file://{moved}"
    plant(table, snapshots=document["snapshots"])
    before = tree(foreign_folder)
    removed = expire_snapshots(reload_table(table), _now(), 1)
    assert tree(foreign_folder) == before
    assert removed.remaining == {f"file://{moved}": REASON_OUTSIDE_FOLDER}
    assert any(path.endswith(".parquet") for path in removed)


@pytest.mark.parametrize("through", ["", "link"])
def test_data_files_elsewhere_stay(lake: Path, foreign_folder: Path, through: str) -> None:
    table = new_table(lake)
    theirs = next((foreign_folder / "data").iterdir())
    folder = local(table.location()) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "link").symlink_to(foreign_folder / "data")
    file = data_file(table, [{"id": 1, "region": "eu"}])
    file[1] = f"file://{folder}/link/{theirs.name}" if through else f"file://{theirs}"
    append_files(table, file)
    assert pt.Table("t", IcebergTableStore(table)).plan().outside_paths.to_pylist() == [file.file_path]
    commit_change(
        table, SnapshotChange("overwrite", [data_file(table, [{"id": 2, "region": "eu"}])], frozenset({file.file_path}))
    )
    before = tree(foreign_folder)
    removed = expire_snapshots(reload_table(table), _now(), 1)
    assert tree(foreign_folder) == before
    assert removed.remaining[file.file_path] == REASON_OUTSIDE_FOLDER
    assert len(removed) > 1


def test_files_of_a_table_in_the_tables_folder_stay(lake: Path) -> None:
    table = new_table(lake)
    inner = local(table.location()) / "data" / "inner"
    (inner / "metadata").mkdir(parents=True)
    (inner / "metadata" / f"0-{uuid4()}.metadata.json").write_text("{}")
    file = data_file(table, [{"id": 1, "region": "eu"}])
    moved = inner / local(file.file_path).name
    local(file.file_path).rename(moved)
    file[1] = f"file://{moved}"
    append_files(table, file)
    commit_change(
        table, SnapshotChange("overwrite", [data_file(table, [{"id": 2, "region": "eu"}])], frozenset({file.file_path}))
    )
    removed = expire_snapshots(reload_table(table), _now(), 1)
    assert moved.exists()
    assert removed.remaining == {file.file_path: REASON_OTHER_TABLE}
    orphans = pt.Table("t", IcebergTableStore(reload_table(table))).remove_orphans(NOW)
    assert moved.exists()
    assert orphans.remaining[str(inner)] == REASON_OTHER_TABLE


def test_an_orphan_behind_a_link_is_kept(table: IcebergTable, foreign_folder: Path) -> None:
    folder = local(table.location())
    (folder / "data" / "link").symlink_to(foreign_folder)
    (folder / "link.parquet").symlink_to(foreign_folder / "a.parquet")
    orphan = folder / "data" / f"00000-0-{uuid4()}.parquet"
    orphan.write_text("x")
    before = tree(foreign_folder)
    removed = open_lake_table(folder.parents[1]).remove_orphans(NOW)
    assert removed == [str(orphan)]
    assert {removed.remaining[str(folder / name)] for name in ("data/link", "link.parquet")} == {REASON_SYMBOLIC_LINK}
    assert tree(foreign_folder) == before


@pytest.mark.parametrize("named", ["others", "notes", "linked"])
def test_a_metadata_log_names_no_file_elsewhere(table: IcebergTable, foreign_folder: Path, named: str) -> None:
    """`write.metadata.delete-after-commit.enabled` deletes what falls out of the log."""
    metadata_folder = local(table.location()) / "metadata"
    (metadata_folder / "notes.txt").write_text("mine")
    (metadata_folder / "link").symlink_to(foreign_folder)
    path = {
        "others": foreign_folder / "v1.metadata.json",
        "notes": metadata_folder / "notes.txt",
        "linked": metadata_folder / "link/v1.metadata.json",
    }
    document = json.loads(local(reload_table(table).metadata_location).read_text())
    settings = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    log = [{"metadata-file": f"file://{path[named]}", "timestamp-ms": 1}, *document["metadata-log"]]
    plant(table, metadata_log=log, properties=document["properties"] | settings)
    hostile = reload_table(table)
    append_files(hostile, data_file(hostile, [{"id": 3, "region": "eu"}]))
    assert path[named].exists()
    assert len(list(metadata_folder.glob("*.metadata.json"))) == 2, "those that are the table's went"
    assert table_ids(table) == [2, 3]


def test_a_data_path_counts_where_the_table_has_files(lake: Path, foreign_folder: Path) -> None:
    """A file with the table's id in its name is no proof without a commit that put one there."""
    created = new_table(lake)
    append_files(created, data_file(created, [{"id": 1, "region": "eu"}]))
    mine = f"{created.metadata.table_uuid}-00000-0-{uuid4()}.parquet"
    (foreign_folder / mine).write_text("x")
    plant(created, properties={**created.metadata.properties, "write.data.path": f"file://{foreign_folder}"})
    before = tree(foreign_folder)
    table = open_lake_table(lake)
    assert table.remove_orphans(NOW) == []
    assert tree(foreign_folder) == before
    file = data_file(reload_table(created), [{"id": 2, "region": "eu"}])
    moved = foreign_folder / f"{created.metadata.table_uuid}-{local(file.file_path).name}"
    local(file.file_path).rename(moved)
    file[1] = f"file://{moved}"
    append_files(reload_table(created), file)
    assert table.remove_orphans(NOW) == [str(foreign_folder / mine)]
    assert set(tree(foreign_folder)) == (set(before) - {mine}) | {moved.name}


@pytest.mark.usefixtures("spark")
def test_a_table_with_its_metadata_elsewhere_is_cleaned_once_its_location_is_confirmed(
    tmp_path: Path, lake: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    settings = {"write.metadata.path": f"file://{elsewhere}"}
    table = pt.Lake(str(lake)).create_table("db.t", SCHEMA, format="iceberg", properties=settings)
    for _ in range(3):
        table.append(ROW)
    table.delete("id = 1")
    orphan = lake / "db" / "t" / "data" / f"00000-0-{uuid4()}.parquet"
    orphan.write_text("x")
    catalog = {"name": "partita", "type": "sql", "uri": f"sqlite:///{lake}/catalog.db"}
    doubtful = pt.open_table("db.t", format="iceberg", catalog=catalog)
    refused: list[Callable[[], object]] = [
        lambda: doubtful.remove_orphans(NOW),
        lambda: doubtful.expire_snapshots(NOW, 1),
    ]
    for do in refused:
        with pytest.raises(TableError, match=r"confirm it: open_table\(\.\.\., location=\.\.\.\)"):
            do()
    doubtful.append(ROW)
    confirmed = pt.open_table("db.t", format="iceberg", catalog=catalog, location=str(lake / "db" / "t"))
    assert confirmed.remove_orphans(NOW) == [str(orphan)]
    manifests = len(list(elsewhere.glob("*.avro")))
    removed = confirmed.expire_snapshots(NOW, 1)
    assert len(list(elsewhere.glob("*.avro"))) < manifests
    assert removed.remaining == {}
    assert [row.id for row in confirmed.read().collect()] == [1]
    assert pt.Lake(str(lake)).table("db.t").remove_orphans(NOW) == [], "a lake's own table is in its folder"


@pytest.mark.parametrize("path", ["data/../../../others/a.parquet", "data/../data/a.parquet"])
def test_data_files_with_dots_in_their_paths_are_refused(lake: Path, path: str) -> None:
    table = new_table(lake)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    file[1] = f"{table.location()}/{path}"
    append_files(table, file)
    with pytest.raises(TableError, match=r"the manifest .* names the file .*\.\..*not read"):
        open_lake_table(lake).plan()


def test_manifests_with_dots_in_their_paths_are_refused(table: IcebergTable, lake: Path) -> None:
    document = json.loads(local(reload_table(table).metadata_location).read_text())
    current = document["snapshots"][-1]
    head, _, name = current["manifest-list"].rpartition("/")
    current["manifest-list"] = f"{head}/../metadata/{name}"
    plant(table, snapshots=document["snapshots"])
    with pytest.raises(TableError, match=r"snapshot \d+ names the file .*\.\."):
        open_lake_table(lake).plan()


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the buckets of an object store, behind pyiceberg's own way to one."""
    store = SubTreeFileSystem(str(tmp_path / "store"), LocalFileSystem())

    def initialize(io: PyArrowFileIO, scheme: str, netloc: str | None = None) -> Any:
        return store if scheme.startswith("s3") else real(io, scheme, netloc)

    real = PyArrowFileIO._initialize_fs
    monkeypatch.setattr(PyArrowFileIO, "_initialize_fs", initialize)
    for folder in ("data", "metadata"):  # an object store needs none
        (tmp_path / "store" / "wh" / "lake" / "t" / folder).mkdir(parents=True)
    return tmp_path / "store" / "wh"


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_table_in_an_object_store_is_cleaned_below_its_prefix(lake: Path, bucket: Path, scheme: str) -> None:
    catalog = sqlite_catalog(lake)
    table = catalog.create_table("db.t", TABLE_SCHEMA, location=f"{scheme}://wh/lake/t", partition_spec=REGION_SPEC)
    first = data_file(table, [{"id": 1, "region": "eu"}])
    append_files(table, first)
    commit_change(
        table,
        SnapshotChange("overwrite", [data_file(table, [{"id": 2, "region": "eu"}])], frozenset({first.file_path})),
    )
    uuid = uuid4()
    orphan = bucket / "lake" / "t" / "data" / f"00000-0-{uuid}.parquet"
    for name in ("t2/data", "t/in/data", "others/data"):
        (bucket / "lake" / name).mkdir(parents=True)
        (bucket / "lake" / name / f"{uuid4()}.parquet").write_text("x")
    (bucket / "lake" / "t" / "in" / "metadata").mkdir()
    (bucket / "lake" / "t" / "in" / "metadata" / "1.metadata.json").write_text("{}")
    before = tree(bucket)
    orphan.write_text("x")
    removed = remove_orphan_files(reload_table(table), -60)
    assert removed == [f"s3://wh/lake/t/data/{orphan.name}"]
    assert removed.remaining == {"s3://wh/lake/t/in": REASON_OTHER_TABLE}
    assert tree(bucket) == before
    expired = expire_snapshots(reload_table(table), _now(), 1)
    assert first.file_path in expired
    assert expired.remaining == {}
    deleted = {f"{scheme}://wh/{path}" for path in set(before) - set(tree(bucket))}
    assert deleted == set(expired)


def test_a_prefix_that_is_not_the_tables_is_left_alone(lake: Path, bucket: Path) -> None:
    catalog = sqlite_catalog(lake)
    table = catalog.create_table("db.t", TABLE_SCHEMA, location="s3://wh/lake/t", partition_spec=REGION_SPEC)
    append_files(table, data_file(table, [{"id": 1, "region": "eu"}]))
    theirs = bucket / "lake" / "others" / "data" / f"{uuid4()}.parquet"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("x")
    path = bucket / reload_table(table).metadata_location.removeprefix("s3://wh/")
    for location in ("s3://wh/lake/others", "s3://wh/lake", "s3://wh/lake/t/../others"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"location": location}))
        with pytest.raises(TableError, match="nothing shows that the files at the location are the table's"):
            remove_orphan_files(reload_table(table), -60)
    assert theirs.exists()
