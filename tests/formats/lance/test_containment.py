"""Lance tables whose manifest or log points out of the table: nothing there is read, changed or deleted."""

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
from partita.formats.containment import OTHER_NAME, OUTSIDE, YOUNG
from partita.formats.lance.log import Intent
from partita.formats.lance.namespace import deregister, register
from tests.formats.lance.tables import EVENTS, events, make, rows_of, seeds_tree, store_of, write
from tests.formats.lance.test_namespace import BY_COUNTRY

if TYPE_CHECKING:
    from collections.abc import Callable

    from partita.formats.lance.table import LanceTable

YEARS_AGO = 1_000_000_000


@pytest.fixture
def table(tmp_path: Path) -> LanceTable:
    made = make(tmp_path / "lake", EVENTS, ["country"], "t")
    write(made, events((1, "2025-12-10", "US")))
    return made


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """A data set of somebody else's, with the columns of a leaf."""
    path = tmp_path / "lake" / "others.lance"
    lance.write_dataset(events((7, "2025-12-10", "FR")).drop(["country"]), str(path))
    return path


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def move_leaf(table: LanceTable, location: str) -> None:
    """Let the manifest say that the leaf of the US is elsewhere."""
    root = store_of(table).state().root
    deregister(root, ["country=US"])
    register(root, [(("country=US",), location)])


def age(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (YEARS_AGO, YEARS_AGO))


CHANGES: dict[str, Callable[[LanceTable], Any]] = {
    "read": rows_of,
    "append": lambda t: write(t, events((2, "2025-12-10", "US"))),
    "compact": lambda t: t.compact(),
    "index": lambda t: t.index("id"),
    "add_column": lambda t: t.add_column(pa.field("note", pa.string())),
    "repair": lambda t: t.repair(),
    "outside": lambda t: t.plan().outside,
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize(
    "location", ["../others.lance", "a/../../others.lance", "ABSOLUTE", "link.lance", "link/others.lance"]
)
def test_a_leaf_outside_of_the_table_is_refused(table: LanceTable, others: Path, what: str, location: str) -> None:
    Path(table.uri, "link.lance").symlink_to(others)
    Path(table.uri, "link").symlink_to(others.parent)
    move_leaf(table, str(others) if location == "ABSOLUTE" else location)
    before = tree(others)
    with pytest.raises(TableError, match="nothing outside is read or changed"):
        CHANGES[what](table)
    assert tree(others) == before


@pytest.mark.usefixtures("spark")
def test_rows_outside_of_the_table_are_not_deleted(table: LanceTable, others: Path) -> None:
    move_leaf(table, "../others.lance")
    before = tree(others)
    for change in (
        lambda: table.delete("id = 7"),
        lambda: table.update({"id": "id + 1"}),
        lambda: table.read().count(),
    ):
        with pytest.raises(pt.PartitaError, match="nothing outside is read or changed"):
            change()
    assert tree(others) == before


def test_a_leaf_outside_of_the_table_can_be_taken_out_of_it(table: LanceTable, others: Path) -> None:
    move_leaf(table, "../others.lance")
    before = tree(others)
    left = table.cleanup(timedelta(0)).left
    assert list(left) == ["../others.lance"]
    assert table.drop_partition("country = 'US'") == 1
    table.cleanup(timedelta(0))
    assert tree(others) == before
    assert table.partitions().num_rows == 0


def test_a_write_that_was_not_ended_can_not_reach_outside(table: LanceTable, others: Path) -> None:
    """The log has what is still to be done, and whoever opens the table does it."""
    store = store_of(table)
    leaf = {"id": "country=FR", "names": ["country=FR"], "location": "../others.lance", "kind": "replace",
            "make": False, "new": [], "fields": {}, "before": {}, "after": {}, "columns": None}  # fmt: skip
    intent = Intent(store.state().version + 1, "w", "append", 0, {}, (leaf,))
    assert store.log.begin(intent)
    before = tree(others)
    again = pt.open_table(table.uri, format="lance")
    assert rows_of(again) == [1]
    assert tree(others) == before
    assert "undone" in again.history()["operation"][0].as_py()


def test_the_log_can_not_name_what_a_clean_up_deletes(table: LanceTable, others: Path) -> None:
    write(table, events((2, "2025-12-10", "FR")))
    table.drop_partition("country = 'FR'")
    log = sorted((others.parent / "t" / "_partita" / "log").glob("*.done.json"))
    document = json.loads(log[-1].read_text())
    document["leaves"] = [["..$others", 0, None, None]]
    log[-1].write_text(json.dumps(document))
    before = tree(others)
    removed = pt.open_table(table.uri, format="lance").remove_orphans(timedelta(0))
    assert tree(others) == before
    assert list(removed.left) == ["../others.lance"]


@pytest.mark.parametrize("inside", ["data/more", "more", "_deletions"])
def test_a_clean_up_follows_no_link_in_a_leaf(table: LanceTable, others: Path, inside: str) -> None:
    for number in range(2, 5):
        write(table, events((number, "2025-12-10", "US")))
    link = Path(table.uri, "country=US.lance", inside)
    link.symlink_to(others / "data")
    age(others)
    before = tree(others)
    removed = table.cleanup(timedelta(0))
    assert tree(others) == before
    assert any("country=US.lance" in path for path in removed.left)
    with pytest.raises(TableError, match=f"symbolic link in it, {inside}"):
        table.compact()
    with pytest.raises(TableError, match=f"symbolic link in it, {inside}"):
        write(table, events((9, "2025-12-10", "US")))
    assert tree(others) == before
    link.unlink()
    assert table.cleanup(timedelta(0))
    assert rows_of(table) == [1, 2, 3, 4]


def test_what_is_not_lances_in_a_dropped_partition_stays(tmp_path: Path) -> None:
    table = seeds_tree(tmp_path)
    table.drop_partition("country = 'CN'")
    leaf = tmp_path / "my_partitioned_table" / "event_date=2025-12-10" / "country=CN.lance"
    (leaf / "data" / "notes.txt").write_text("mine")
    age(leaf)
    time.sleep(0.01)
    removed = table.cleanup(timedelta(0))
    assert [str(path.relative_to(leaf)) for path in leaf.rglob("*") if path.is_file()] == ["data/notes.txt"]
    reason = "its name is none of those that Partita knows writers of this format to give"
    assert removed.left == {"event_date=2025-12-10/country=CN.lance/data/notes.txt": reason}


def test_only_files_of_lance_hold_up_the_end_of_a_dropped_partition(tmp_path: Path) -> None:
    table = seeds_tree(tmp_path)
    table.drop_partition("country = 'CN'")
    leaf = tmp_path / "my_partitioned_table" / "event_date=2025-12-10" / "country=CN.lance"
    age(leaf)
    written = leaf / "data" / f"{uuid4().hex}.lance"
    written.write_text("of a write that runs")
    (leaf / "data" / "notes.txt").write_text("mine")
    time.sleep(0.01)
    removed = table.cleanup(timedelta(0))
    place = "event_date=2025-12-10/country=CN.lance/data"
    assert removed.left == {f"{place}/{written.name}": YOUNG}
    written.unlink()
    assert table.cleanup(timedelta(0)).left == {f"{place}/notes.txt": OTHER_NAME}
    assert [path.name for path in leaf.rglob("*") if path.is_file()] == ["notes.txt"]


def test_a_leaf_that_is_a_clone_keeps_its_source_whole(table: LanceTable, others: Path) -> None:
    """Lance's shallow clones have files in another data set: they are read, and never changed there."""
    path = Path(table.uri, "country=FR.lance")
    source = lance.dataset(str(others))
    source.shallow_clone(str(path), source.version)
    table.repair()
    age(others)
    before = tree(others)
    assert rows_of(table) == [1, 7]
    assert table.plan("country = 'FR'").outside.to_pylist() == [str(others)]
    assert table.plan("country = 'US'").outside.to_pylist() == []
    write(table, events((8, "2025-12-10", "FR")))
    table.compact()
    table.cleanup(timedelta(0))
    assert tree(others) == before
    assert rows_of(table) == [1, 7, 8]


def test_a_data_file_can_not_be_named_out_of_its_leaf(table: LanceTable, others: Path) -> None:
    [name] = [path.name for path in (others / "data").iterdir()]
    leaf = lance.dataset(f"{table.uri}/country=US.lance")
    document = leaf.get_fragments()[0].metadata.to_json()
    document["files"][0]["path"] = f"../../../others.lance/data/{name}"
    hostile = lance.LanceOperation.Append([lance.fragment.FragmentMetadata.from_json(json.dumps(document))])
    lance.LanceDataset.commit(leaf, hostile, read_version=leaf.version)
    with pytest.raises(pa.ArrowInvalid, match="Not found"):  # Lance escapes the path
        rows_of(table)
    assert Path(others, "data", name).exists()


def test_a_log_that_is_another_tables_is_refused(table: LanceTable) -> None:
    other = make(Path(table.uri).parent, EVENTS, ["country"], "other")
    (Path(table.uri) / "_partita").rename(Path(table.uri) / "old")
    write(other, events((2, "2025-12-10", "US")))
    before = tree(Path(other.uri))
    (Path(table.uri) / "_partita").symlink_to(Path(other.uri) / "_partita")
    with pytest.raises(TableError, match="the log '_partita/log' is behind a symbolic link"):
        pt.open_table(table.uri, format="lance")
    with pytest.raises(TableError, match="the log '_partita/log' is behind a symbolic link"):
        write(table, events((3, "2025-12-10", "US")))
    assert tree(Path(other.uri)) == before


def test_what_lies_beside_the_table_is_written_to_and_not_cleaned_up(tmp_path: Path) -> None:
    """A namespace above may have leaves anywhere in its folder; the user opened the table's own."""
    namespace = connect("dir", {"root": str(tmp_path)})
    namespace.create_namespace(CreateNamespaceRequest(id=["theirs"], properties=BY_COUNTRY))
    beside = tmp_path / "somewhere"
    lance.write_dataset(events((1, "2025-12-10", "US")).drop(["country"]), str(beside))
    namespace.register_table(RegisterTableRequest(id=["theirs", "country=US"], location="somewhere"))
    table = pt.open_table(str(tmp_path / "theirs"), format="lance")
    for number in range(2, 5):
        write(table, events((number, "2025-12-10", "US"), (number + 10, "2025-12-10", "FR")))
    before = tree(beside), tree(tmp_path / "__manifest")
    removed = table.remove_orphans(timedelta(0))
    assert (tree(beside), tree(tmp_path / "__manifest")) == before
    assert removed.left == dict.fromkeys(["somewhere", "__manifest"], OUTSIDE)
    assert any("country=FR.lance" in path for path in removed)
    assert rows_of(table) == [1, 2, 3, 4, 12, 13, 14]


def test_a_location_confirms_iceberg_tables_alone(table: LanceTable) -> None:
    with pytest.raises(TableError, match="location says nothing"):
        pt.open_table(table.uri, format="lance", location=table.uri)
