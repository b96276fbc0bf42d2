"""The change feed of a folder whose partition types are inferred: keys never change without a word."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import partita as pt
from partita.errors import TableError
from partita.formats.parquet import declare_table
from tests.formats.parquet.folders import open_folder, write_file

if TYPE_CHECKING:
    from pathlib import Path

    from partita.formats.change_feed import ChangeFeed


def write_folders(folder: Path, texts: list[str]) -> str:
    """Write a file in a folder for each text of `p`, and return the cursor after them."""
    for text in texts:
        write_file(folder / f"p={text}" / "q=x" / "a.parquet", id=[1])
    return open_folder(folder).change_feed().cursor


def changed_values(feed: ChangeFeed) -> list[object]:
    return [value for commit in feed.commits for value in commit.partitions["p"].to_pylist()]


@pytest.mark.parametrize(
    ("texts", "added", "message"),
    [
        (["1", "2"], "abc", "was int at the cursor, and is inferred as string since p=abc/q=x was added"),
        (["1", "2"], "007", "was int at the cursor, and is inferred as string since p=007/q=x was added"),
        (["1", "2"], "9223372036854775808", r"was int at the cursor, and is inferred as decimal\(38,0\) since p=9"),
        (["2025-01-15"], "latest", "was date at the cursor, and is inferred as string since p=latest/q=x was added"),
    ],
)
def test_a_folder_that_changes_an_inferred_type_is_refused(
    tmp_path: Path, texts: list[str], added: str, message: str
) -> None:
    cursor = write_folders(tmp_path, texts)
    other_cursor = write_folders(tmp_path, [added])
    with pytest.raises(TableError, match=f"'p' of {tmp_path} {message}"):
        open_folder(tmp_path).change_feed(cursor)
    with pytest.raises(TableError, match=r"declare_table\(uri, schema, partition_by\)"):
        open_folder(tmp_path).change_feed(cursor)
    shutil.rmtree(tmp_path / f"p={added}")
    assert changed_values(open_folder(tmp_path).change_feed(cursor)) == []
    with pytest.raises(
        TableError, match=f"was .* at the cursor, and is inferred as .* since p={added}/q=x was removed"
    ):
        open_folder(tmp_path).change_feed(other_cursor)


def test_a_declared_type_is_the_way_out_and_the_feed_starts_anew(tmp_path: Path) -> None:
    cursor = write_folders(tmp_path, ["1"])
    write_folders(tmp_path, ["abc"])
    declare_table(str(tmp_path), {"id": "long", "p": "string", "q": "string"}, ["p", "q"])
    feed = open_folder(tmp_path).change_feed(cursor)
    assert sorted(map(str, changed_values(feed))) == ["1", "abc"]
    shutil.rmtree(tmp_path / "_partita_table")
    assert changed_values(open_folder(tmp_path).change_feed(feed.cursor)) != []
    shutil.rmtree(tmp_path / "p=abc")
    with pytest.raises(
        TableError, match="was string at the cursor, and is inferred as int since p=abc/q=x was removed"
    ):
        open_folder(tmp_path).change_feed(feed.cursor)


def test_a_lost_definition_of_another_type_is_refused(tmp_path: Path) -> None:
    write_folders(tmp_path, ["1"])
    declare_table(str(tmp_path), {"id": "long", "p": "string", "q": "string"}, ["p", "q"])
    cursor = open_folder(tmp_path).change_feed().cursor
    shutil.rmtree(tmp_path / "_partita_table")
    with pytest.raises(
        TableError, match="was string at the cursor, and is inferred as int since its definition was removed"
    ):
        open_folder(tmp_path).change_feed(cursor)


def test_greater_integers_continue_a_feed_because_their_keys_are_the_same(tmp_path: Path) -> None:
    cursor = write_folders(tmp_path, ["1", "2"])
    write_folders(tmp_path, ["3000000000"])
    table = open_folder(tmp_path)
    assert str(table.schema.find_field("p").type) == "long"
    assert changed_values(table.change_feed(cursor)) == [3000000000]


@pytest.mark.parametrize("type_", ["byte", "short", "int", "long"])
def test_a_declaration_of_the_inferred_keys_changes_no_partition(tmp_path: Path, type_: str) -> None:
    cursor = write_folders(tmp_path, ["1", "2"])
    declare_table(str(tmp_path), {"id": "long", "p": type_, "q": "string"}, ["p", "q"])
    feed = open_folder(tmp_path).change_feed(cursor)
    assert changed_values(feed) == []
    write_folders(tmp_path, ["3"])
    assert changed_values(open_folder(tmp_path).change_feed(cursor)) == [3]
    assert changed_values(open_folder(tmp_path).change_feed(feed.cursor)) == [3]
    (tmp_path / "_partita_table" / "definition.json").unlink()
    declare_table(str(tmp_path), {"id": "long", "p": type_, "q": "string"}, ["p", "q"])
    assert sorted(map(str, changed_values(open_folder(tmp_path).change_feed(feed.cursor)))) == ["1", "2", "3"]


def test_a_cursor_of_an_earlier_version_has_the_size_of_integers(tmp_path: Path) -> None:
    cursor = write_folders(tmp_path, ["3000000000"])
    assert "p int" in cursor
    write_folders(tmp_path, ["1"])
    assert changed_values(open_folder(tmp_path).change_feed(cursor.replace("p int", "p long"))) == [1]


def test_a_cursor_with_more_columns_starts_anew(tmp_path: Path) -> None:
    cursor = write_folders(tmp_path / "t", ["1"])
    (tmp_path / "t" / "p=1").rename(tmp_path / "u")
    assert len(open_folder(tmp_path / "u").change_feed(cursor.replace("p=1/", "")).commits[0].partitions) == 1


def test_a_type_that_changed_for_an_unknown_reason_is_refused_without_a_guess(tmp_path: Path) -> None:
    cursor = write_folders(tmp_path, ["1"]).replace("p int", "p date")
    with pytest.raises(TableError, match=r"'p' .* was date at the cursor, and is inferred as int now, so the keys"):
        open_folder(tmp_path).change_feed(cursor)


def test_a_column_that_had_only_nulls_gets_its_type(tmp_path: Path) -> None:
    cursor = write_folders(tmp_path, ["__HIVE_DEFAULT_PARTITION__"])
    write_folders(tmp_path, ["1"])
    assert {None, 1} == set(changed_values(open_folder(tmp_path).change_feed(cursor)))


@pytest.mark.slow(reason="many commits to a table")
def test_the_observation_of_a_source_whose_keys_would_change_is_refused(tmp_path: Path) -> None:
    write_folders(tmp_path / "clicks", ["1"])
    lake = pt.Lake(str(tmp_path / "lake"))
    source = lake.adopt(str(tmp_path / "clicks"), "parquet", name="clicks")
    lake.register(source)
    keys = lake.status("clicks")["partition_key"].to_pylist()
    write_folders(tmp_path / "clicks", ["abc"])
    (observation,) = lake.observe()
    assert observation.error is not None
    assert "was int at the cursor, and is inferred as string since p=abc/q=x was added" in observation.error
    assert lake.status("clicks")["partition_key"].to_pylist() == keys == ["p=i:1,q=s:eA"]
    shutil.rmtree(tmp_path / "clicks" / "p=abc")
    assert lake.observe() == []
