"""Which files lie below a folder, and which of them a table may delete."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from partita.errors import TableError
from partita.formats.containment import (
    REASON_OTHER_TABLE,
    REASON_SHARED_FOLDER,
    REASON_SYMBOLIC_LINK,
    REASON_TOO_YOUNG,
    REASON_UNKNOWN_NAME,
    FolderListing,
    FolderLocation,
    absolute_paths,
    check_inside,
    check_no_parent_segments,
    plain_location,
)
from partita.storage import Storage, StoredFile

LOCATIONS = {
    "/x/a": "/x/a",
    "file:/x/a": "/x/a",
    "file:///x/a": "/x/a",
    "file://localhost/x/a": "/x/a",
    "s3a://bucket/x": "s3://bucket/x",
    "s3n://bucket/x": "s3://bucket/x",
    "S3://bucket/X": "s3://bucket/X",
    "abfs://c@account/x": "abfss://c@account/x",
    "gs://bucket/a%2Fb": "gs://bucket/a%2Fb",
}


@pytest.mark.parametrize(("given", "plain"), LOCATIONS.items())
def test_a_location_has_one_form(given: str, plain: str) -> None:
    assert plain_location(given) == plain


INSIDE = {
    "/t/a": "a",
    "file:///t/a/b": "a/b",
    "/t/./a": "a",
    "/t/x/../a": "a",
    "/t/x/../../t/a": "a",
    "/t2/a": None,
    "/t": None,
    "/t/": None,
    "/t/..": None,
    "/t/../a": None,
    "a": None,
    "s3://t/a": None,
}


@pytest.mark.parametrize(("path", "relative"), INSIDE.items())
def test_paths_inside_of_a_local_folder(path: str, relative: str | None) -> None:
    assert FolderLocation.from_uri("/t").relative_path(path) == relative
    assert FolderLocation.from_uri("file:///t/").relative_path(path) == relative


OBJECTS = {
    "s3://b/t/a": "a",
    "s3a://b/t/a/b": "a/b",
    "s3://b/t2/a": None,
    "s3://b/t": None,
    "s3://b/t/../a": None,
    "s3://b/t/./a": None,
    "s3://c/t/a": None,
    "/b/t/a": None,
}


@pytest.mark.parametrize(("path", "relative"), OBJECTS.items())
def test_paths_inside_of_a_prefix(path: str, relative: str | None) -> None:
    assert FolderLocation.from_uri("s3a://b/t/").relative_path(path) == relative


def test_links_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "t" / "out").symlink_to(tmp_path / "other")
    (tmp_path / "again").symlink_to(tmp_path / "t")
    place = FolderLocation.from_uri(str(tmp_path / "again"))
    assert place.relative_path(f"{tmp_path}/t/a") == "a"
    assert place.relative_path(f"{tmp_path}/again/a") == "a"
    assert place.relative_path(f"{tmp_path}/t/out/a") is None
    assert place.outside_paths([f"{tmp_path}/t/a", f"{tmp_path}/t/out/a"]) == [f"{tmp_path}/t/out/a"]
    check_inside(str(tmp_path / "again"), "a/b", "the leaf")
    for path in ("out", "out/a", "../other", "/other", "", "a//b", "a/", "."):
        with pytest.raises(TableError, match="nothing outside is read or changed"):
            check_inside(str(tmp_path / "t"), path, "the leaf")


def test_links_out_of_a_folder_are_seen(tmp_path: Path) -> None:
    (tmp_path / "t" / "sub").mkdir(parents=True)
    for name in ("other", "t/own", "t/sub/own"):
        (tmp_path / name).write_text("x")
    (tmp_path / "t" / "out").symlink_to(tmp_path / "other")
    (tmp_path / "t" / "in").symlink_to(tmp_path / "t" / "own")
    (tmp_path / "t" / "up").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path / "t")
    for root in ("t", "again"):
        place = FolderLocation.from_uri(f"file://{tmp_path}/{root}")
        for path in ("own", "in", "sub/own", "gone"):
            assert not place.has_link_outside(f"{tmp_path}/{root}/{path}")
        for path in ("out", "up/other", "up/gone"):
            assert place.has_link_outside(f"file:{tmp_path}/{root}/{path}")
        assert not place.has_link_outside(f"{tmp_path}/other"), "it is outside, and says so"
    assert not FolderLocation.from_uri("s3://b/t").has_link_outside("s3://b/t/a")


def test_paths_of_one_file_have_one_canonical_form(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "again").symlink_to(tmp_path / "t")
    place = FolderLocation.from_uri("s3://b/t")
    forms = [f"{start}{tmp_path}/{end}" for start in ("", "file:", "file://") for end in ("t/a", "again/a", "t//a")]
    assert {place.canonical_path(path) for path in forms} == {f"{tmp_path}/t/a"}
    assert {place.canonical_path(f"{scheme}://b/a") for scheme in ("s3", "s3a", "s3n")} == {"s3://b/a"}


def test_checksums_of_hadoop_go_with_their_files() -> None:
    files = ("a.x", ".a.x.crc", "p/b.x", "p/.b.x.crc", "p/.gone.x.crc", ".notes.crc", ".c.txt.crc", "c.txt")
    listing = FolderListing.from_files([StoredFile(path, 1, 1.0) for path in files], "delta")
    removed = listing.orphan_files(lambda path: path == "a.x", lambda path: path.endswith(".x"), 2)
    assert sorted(removed) == ["p/.b.x.crc", "p/.gone.x.crc", "p/b.x"]
    assert removed.remaining == {".notes.crc": REASON_UNKNOWN_NAME, "c.txt": REASON_UNKNOWN_NAME}
    assert listing.deletable_files(["p/b.x", "c.txt"], lambda path: path.endswith(".x")) == ["p/b.x", "p/.b.x.crc"]


def test_paths_with_dots_are_refused() -> None:
    check_no_parent_segments(pa.array(["/a/b..c/d", "/a/...", "/a/..b", "..c/x", None]), "the manifest m")
    for path in ("/a/../b", "../b", "/a/..", "s3://b/../c"):
        with pytest.raises(TableError, match=r"the manifest m names the file .*\.\."):
            check_no_parent_segments(pa.array(["/a/b", path]), "the manifest m")


def test_absolute_paths() -> None:
    paths = ["a.parquet", "p=1/a.parquet", "/x/a.parquet", "file:/x/a", "s3://b/a", "p=a:/b"]
    assert absolute_paths(pa.array(paths)).to_pylist() == ["/x/a.parquet", "file:/x/a", "s3://b/a"]


def tree(folder: Path) -> FolderListing:
    """Files, a link to a file, links to folders in and out of it, and another table."""
    for name in ("own.x", "young.x", "named.x", "notes.txt", "sub/own.x", "table/_delta_log/0.json", "table/own.x"):
        path = folder / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (1, 1))
    (folder / "other").mkdir()
    (folder / "other" / "own.x").write_text("theirs")
    (folder / "t" / "out").symlink_to(folder / "other")
    (folder / "t" / "in").symlink_to(folder / "t" / "sub")
    (folder / "t" / "link.x").symlink_to(folder / "other" / "own.x")
    os.utime(folder / "t" / "young.x")
    return FolderListing.from_files(Storage.from_uri(folder / "t").list_files(), "delta")


def test_orphans_are_listed_named_by_nobody_old_and_of_an_own_name(tmp_path: Path) -> None:
    removed = tree(tmp_path).orphan_files(lambda path: path == "named.x", lambda path: path.endswith(".x"), 2)
    assert removed == ["own.x", "sub/own.x"]
    assert removed.remaining == {
        "in": REASON_SYMBOLIC_LINK,
        "link.x": REASON_SYMBOLIC_LINK,
        "out": REASON_SYMBOLIC_LINK,
        "table": REASON_OTHER_TABLE,
        "notes.txt": REASON_UNKNOWN_NAME,
        "young.x": REASON_TOO_YOUNG,
    }


def test_files_that_a_table_names_are_removable_where_they_are_listed(tmp_path: Path) -> None:
    asked = ["own.x", "notes.txt", "gone.x", "table/own.x", "out/own.x", "link.x", "in/own.x"]
    removed = tree(tmp_path).deletable_files(asked, lambda path: path.endswith(".x"))
    assert removed == ["own.x"]
    assert removed.remaining == {
        "notes.txt": REASON_UNKNOWN_NAME,
        "table/own.x": REASON_OTHER_TABLE,
        "out/own.x": REASON_SYMBOLIC_LINK,
        "link.x": REASON_SYMBOLIC_LINK,
        "in/own.x": REASON_SYMBOLIC_LINK,
    }


def test_objects_are_listed_alike() -> None:
    listing = FolderListing.from_files(
        [StoredFile("a.x", 1, 1.0), StoredFile("t/metadata/0.metadata.json", 1, 1.0)], "delta"
    )
    assert (list(listing.files), list(listing.nested_tables)) == (["a.x"], ["t"])


@pytest.mark.parametrize(
    "mark", ["_delta_log/0.json", "metadata/0.metadata.json", "__manifest/x", "_versions/1.manifest"]
)
@pytest.mark.parametrize("form", ["delta", "iceberg", "lance"])
def test_a_folder_of_two_tables_is_left_alone(mark: str, form: str) -> None:
    own = {"delta": ("_delta_log/",), "iceberg": ("metadata/",), "lance": ("__manifest/", "_versions/")}[form]
    listing = FolderListing.from_files([StoredFile("a.x", 1, 1.0), StoredFile(mark, 1, 1.0)], form)
    assert listing.is_shared == (not mark.startswith(own))
    removed = listing.deletable_files(["a.x"], lambda path: path.endswith(".x"))
    assert removed == ([] if listing.is_shared else ["a.x"])
    assert listing.orphan_files(lambda _: False, lambda path: path.endswith(".x"), 2) == removed
    assert removed.remaining == ({"a.x": REASON_SHARED_FOLDER} if listing.is_shared else {})
