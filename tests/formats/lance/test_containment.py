"""If the manifest or log of a Lance table points out of it, nothing there is read, changed or deleted."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from lance_namespace import CreateNamespaceRequest, RegisterTableRequest, connect

import partita as pt
from partita.errors import TableError
from partita.formats.containment import REASON_OUTSIDE_FOLDER, REASON_TOO_YOUNG, REASON_UNKNOWN_NAME
from partita.formats.lance.log import WriteIntent
from partita.formats.lance.namespace import deregister_leaves, register_leaves
from tests.formats.lance.tables import (
    EVENT_SCHEMA,
    column_values,
    commit_rows,
    create_lance_table,
    create_seed_table,
    event_rows,
    table_store,
)
from tests.formats.lance.test_namespace import BY_COUNTRY

if TYPE_CHECKING:
    from collections.abc import Callable

    from partita.formats.lance.lance_table import LanceTable

YEARS_AGO = 1_000_000_000


@pytest.fixture
def table(tmp_path: Path) -> LanceTable:
    table_ = create_lance_table(tmp_path / "lake", EVENT_SCHEMA, ["country"], "t")
    commit_rows(table_, event_rows((1, "2025-12-10", "US")))
    return table_


@pytest.fixture
def outside_dataset(tmp_path: Path) -> Path:
    """A dataset outside of the table, with the columns of a leaf."""
    path = tmp_path / "lake" / "others.lance"
    lance.write_dataset(event_rows((7, "2025-12-10", "FR")).drop(["country"]), str(path))
    return path


def folder_contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def move_leaf(table: LanceTable, location: str) -> None:
    """Change the location of the leaf of the US in the manifest."""
    root = table_store(table).current_version().root
    deregister_leaves(root, ["country=US"])
    register_leaves(root, [(("country=US",), location)])


def make_old(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (YEARS_AGO, YEARS_AGO))


CHANGES: dict[str, Callable[[LanceTable], Any]] = {
    "read": column_values,
    "append": lambda t: commit_rows(t, event_rows((2, "2025-12-10", "US"))),
    "compact": lambda t: t.compact(),
    "index": lambda t: t.create_index("id"),
    "add_column": lambda t: t.add_column(pa.field("note", pa.string())),
    "repair": lambda t: t.repair(),
    "outside": lambda t: t.plan().outside_paths,
}


@pytest.mark.slow(reason="a table for each place of a leaf")
@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize(
    "location", ["../others.lance", "a/../../others.lance", "ABSOLUTE", "link.lance", "link/others.lance"]
)
def test_a_leaf_outside_of_the_table_is_refused(
    table: LanceTable, outside_dataset: Path, what: str, location: str
) -> None:
    Path(table.uri, "link.lance").symlink_to(outside_dataset)
    Path(table.uri, "link").symlink_to(outside_dataset.parent)
    move_leaf(table, str(outside_dataset) if location == "ABSOLUTE" else location)
    before = folder_contents(outside_dataset)
    with pytest.raises(TableError, match="nothing outside is read or changed"):
        CHANGES[what](table)
    assert folder_contents(outside_dataset) == before


@pytest.mark.usefixtures("spark")
def test_rows_outside_of_the_table_are_not_deleted(table: LanceTable, outside_dataset: Path) -> None:
    move_leaf(table, "../others.lance")
    before = folder_contents(outside_dataset)
    for change in (
        lambda: table.delete("id = 7"),
        lambda: table.update({"id": "id + 1"}),
        lambda: table.read().count(),
    ):
        with pytest.raises(pt.PartitaError, match="nothing outside is read or changed"):
            change()
    assert folder_contents(outside_dataset) == before


def test_a_leaf_outside_of_the_table_can_be_taken_out_of_it(table: LanceTable, outside_dataset: Path) -> None:
    move_leaf(table, "../others.lance")
    before = folder_contents(outside_dataset)
    left = table.cleanup(timedelta(0)).remaining
    assert list(left) == ["../others.lance"]
    assert table.drop_partition("country = 'US'") == 1
    table.cleanup(timedelta(0))
    assert folder_contents(outside_dataset) == before
    assert table.partitions().num_rows == 0


def test_a_write_that_was_not_ended_can_not_reach_outside(table: LanceTable, outside_dataset: Path) -> None:
    """Opening the table finishes the write of the log."""
    store = table_store(table)
    leaf = {"id": "country=FR", "names": ["country=FR"], "location": "../others.lance", "kind": "replace",
            "make": False, "new": [], "fields": {}, "before": {}, "after": {}, "columns": None}  # fmt: skip
    intent = WriteIntent(store.current_version().version + 1, "w", "append", 0, {}, (leaf,))
    assert store.log.begin_write(intent)
    before = folder_contents(outside_dataset)
    again = pt.open_table(table.uri, format="lance")
    assert column_values(again) == [1]
    assert folder_contents(outside_dataset) == before
    assert "undone" in again.history()["operation"][0].as_py()


def test_the_log_can_not_name_what_a_clean_up_deletes(table: LanceTable, outside_dataset: Path) -> None:
    commit_rows(table, event_rows((2, "2025-12-10", "FR")))
    table.drop_partition("country = 'FR'")
    log = sorted((outside_dataset.parent / "t" / "_partita" / "log").glob("*.done.json"))
    document = json.loads(log[-1].read_text())
    document["leaves"] = [["..$others", 0, None, None]]
    log[-1].write_text(json.dumps(document))
    before = folder_contents(outside_dataset)
    removed = pt.open_table(table.uri, format="lance").remove_orphans(timedelta(0))
    assert folder_contents(outside_dataset) == before
    assert list(removed.remaining) == ["../others.lance"]


@pytest.mark.parametrize("inside", ["data/more", "more", "_deletions"])
def test_a_clean_up_follows_no_link_in_a_leaf(table: LanceTable, outside_dataset: Path, inside: str) -> None:
    for number in range(2, 5):
        commit_rows(table, event_rows((number, "2025-12-10", "US")))
    link = Path(table.uri, "country=US.lance", inside)
    link.symlink_to(outside_dataset / "data")
    make_old(outside_dataset)
    before = folder_contents(outside_dataset)
    removed = table.cleanup(timedelta(0))
    assert folder_contents(outside_dataset) == before
    assert any("country=US.lance" in path for path in removed.remaining)
    with pytest.raises(TableError, match=f"symbolic link in it, {inside}"):
        table.compact()
    with pytest.raises(TableError, match=f"symbolic link in it, {inside}"):
        commit_rows(table, event_rows((9, "2025-12-10", "US")))
    assert folder_contents(outside_dataset) == before
    link.unlink()
    assert table.cleanup(timedelta(0))
    assert column_values(table) == [1, 2, 3, 4]


def test_files_of_others_in_a_dropped_partition_are_kept(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    table.drop_partition("country = 'CN'")
    leaf = tmp_path / "my_partitioned_table" / "event_date=2025-12-10" / "country=CN.lance"
    (leaf / "data" / "notes.txt").write_text("mine")
    make_old(leaf)
    time.sleep(0.01)
    removed = table.cleanup(timedelta(0))
    assert [str(path.relative_to(leaf)) for path in leaf.rglob("*") if path.is_file()] == ["data/notes.txt"]
    reason = "no writer of this format that Partita knows gives such names"
    assert removed.remaining == {"event_date=2025-12-10/country=CN.lance/data/notes.txt": reason}


@pytest.mark.slow(reason="many commits to a table")
def test_only_files_of_lance_hold_up_the_end_of_a_dropped_partition(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    table.drop_partition("country = 'CN'")
    leaf = tmp_path / "my_partitioned_table" / "event_date=2025-12-10" / "country=CN.lance"
    make_old(leaf)
    written = leaf / "data" / f"{uuid4().hex}.lance"
    written.write_text("of a write that runs")
    (leaf / "data" / "notes.txt").write_text("mine")
    time.sleep(0.01)
    removed = table.cleanup(timedelta(0))
    data_folder = "event_date=2025-12-10/country=CN.lance/data"
    assert removed.remaining == {f"{data_folder}/{written.name}": REASON_TOO_YOUNG}
    written.unlink()
    assert table.cleanup(timedelta(0)).remaining == {f"{data_folder}/notes.txt": REASON_UNKNOWN_NAME}
    assert [path.name for path in leaf.rglob("*") if path.is_file()] == ["notes.txt"]


def test_a_leaf_that_is_a_clone_keeps_its_source_whole(table: LanceTable, outside_dataset: Path) -> None:
    """Shallow clones have files in another dataset: they are read, and never changed there."""
    path = Path(table.uri, "country=FR.lance")
    source = lance.dataset(str(outside_dataset))
    source.shallow_clone(str(path), source.version)
    table.repair()
    make_old(outside_dataset)
    before = folder_contents(outside_dataset)
    assert column_values(table) == [1, 7]
    assert table.plan("country = 'FR'").outside_paths.to_pylist() == [str(outside_dataset)]
    assert table.plan("country = 'US'").outside_paths.to_pylist() == []
    commit_rows(table, event_rows((8, "2025-12-10", "FR")))
    table.compact()
    table.cleanup(timedelta(0))
    assert folder_contents(outside_dataset) == before
    assert column_values(table) == [1, 7, 8]


def test_a_data_file_can_not_be_named_out_of_its_leaf(table: LanceTable, outside_dataset: Path) -> None:
    [name] = [path.name for path in (outside_dataset / "data").iterdir()]
    leaf = lance.dataset(f"{table.uri}/country=US.lance")
    document = leaf.get_fragments()[0].metadata.to_json()
    document["files"][0]["path"] = f"../../../others.lance/data/{name}"
    hostile = lance.LanceOperation.Append([lance.fragment.FragmentMetadata.from_json(json.dumps(document))])
    lance.LanceDataset.commit(leaf, hostile, read_version=leaf.version)
    with pytest.raises(pa.ArrowInvalid, match="Not found"):  # Lance escapes the path
        column_values(table)
    assert Path(outside_dataset, "data", name).exists()


def test_a_log_that_is_another_tables_is_refused(table: LanceTable) -> None:
    other = create_lance_table(Path(table.uri).parent, EVENT_SCHEMA, ["country"], "other")
    (Path(table.uri) / "_partita").rename(Path(table.uri) / "old")
    commit_rows(other, event_rows((2, "2025-12-10", "US")))
    before = folder_contents(Path(other.uri))
    (Path(table.uri) / "_partita").symlink_to(Path(other.uri) / "_partita")
    with pytest.raises(TableError, match="the log '_partita/log' is behind a symbolic link"):
        pt.open_table(table.uri, format="lance")
    with pytest.raises(TableError, match="the log '_partita/log' is behind a symbolic link"):
        commit_rows(table, event_rows((3, "2025-12-10", "US")))
    assert folder_contents(Path(other.uri)) == before


def test_leaves_outside_of_the_table_are_written_to_and_not_cleaned_up(tmp_path: Path) -> None:
    """A namespace above the table may have leaves outside of the table's folder, which the user didn't open."""
    namespace = connect("dir", {"root": str(tmp_path)})
    namespace.create_namespace(CreateNamespaceRequest(id=["theirs"], properties=BY_COUNTRY))
    beside = tmp_path / "somewhere"
    lance.write_dataset(event_rows((1, "2025-12-10", "US")).drop(["country"]), str(beside))
    namespace.register_table(RegisterTableRequest(id=["theirs", "country=US"], location="somewhere"))
    table = pt.open_table(str(tmp_path / "theirs"), format="lance")
    for number in range(2, 5):
        commit_rows(table, event_rows((number, "2025-12-10", "US"), (number + 10, "2025-12-10", "FR")))
    before = folder_contents(beside), folder_contents(tmp_path / "__manifest")
    removed = table.remove_orphans(timedelta(0))
    assert (folder_contents(beside), folder_contents(tmp_path / "__manifest")) == before
    assert removed.remaining == dict.fromkeys(["somewhere", "__manifest"], REASON_OUTSIDE_FOLDER)
    assert any("country=FR.lance" in path for path in removed)
    assert column_values(table) == [1, 2, 3, 4, 12, 13, 14]


def test_a_location_confirms_iceberg_tables_alone(table: LanceTable) -> None:
    with pytest.raises(TableError, match="location has no effect"):
        pt.open_table(table.uri, format="lance", location=table.uri)
