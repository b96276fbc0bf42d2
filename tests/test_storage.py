"""A folder on a local disk, and one in obstore's in-memory store, which takes the same path as S3."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

from partita.errors import PartitaError, StorageError
from partita.storage import Storage
from partita.storage.object_store import open_object_store

ODD_NAMES = [
    "plain.txt",
    "a b",
    " leading",
    "trailing ",
    "100%",
    "a%20b",
    "a%2Fb",
    "region=US%2FEast/day=2025-01-15/part.parquet",
    "é/日本/🎵",
    "e\u0301",
    "#?*[]{}^~|\"<>\\'`;&$!",
    ".hidden",
    "a.",
    "x" * 255,
]
DISK_ONLY_NAMES = ["tab\there", "new\nline", "\x01\x7f"]


@pytest.fixture(params=["disk", "objects"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return Storage.from_uri(tmp_path / "table" if request.param == "disk" else f"memory:///{uuid4()}")


@pytest.fixture
def disk(tmp_path: Path) -> Storage:
    return Storage.from_uri(tmp_path / "table")


def test_get_returns_what_put_wrote(storage: Storage) -> None:
    storage.put("a/b", b"one")
    assert storage.get("a/b") == b"one"
    storage.put("a/b", b"")
    assert storage.get("a/b") == b""


def test_missing_files(storage: Storage) -> None:
    assert storage.get("a/b") is None
    assert not storage.exists("a/b")
    assert list(storage.list_paths("a")) == []
    storage.put("a", b"a file")
    assert storage.get("a/b") is None
    assert list(storage.list_paths("a")) == []


def test_move_gives_a_file_another_path_once(storage: Storage) -> None:
    storage.put("a/b", b"one")
    storage.move("a/b", "c/d/e=1")
    storage.move("a/b", "c/d/e=1")
    assert list(storage.list_paths()) == [("c/d/e=1", 3)]
    assert storage.get("c/d/e=1") == b"one"


def test_move_stays_in_the_folder(disk: Storage, tmp_path: Path) -> None:
    disk.put("a/b", b"one")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "table" / "link").symlink_to(tmp_path / "elsewhere")
    for path in ("../elsewhere/b", "link/b"):
        with pytest.raises(StorageError):
            disk.move("a/b", path)
    assert disk.get("a/b") == b"one"


def test_the_folders_in_a_folder(storage: Storage) -> None:
    for path in ("a/b/c", "a/d", "e/_log/0", "f"):
        storage.put(path, b"x")
    assert storage.list_folders() == ["a", "e"]
    assert storage.list_folders("a") == ["b"]
    assert storage.list_folders("e") == ["_log"]
    assert storage.list_folders("f") == storage.list_folders("nothing") == []


def test_put_if_absent_keeps_an_existing_file(storage: Storage) -> None:
    assert storage.put_if_absent("log/0.json", b"first")
    assert not storage.put_if_absent("log/0.json", b"second")
    assert storage.get("log/0.json") == b"first"
    assert list(storage.list_paths("log")) == [("log/0.json", 5)]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_is_kept_as_it_is(storage: Storage, name: str) -> None:
    assert storage.put_if_absent(name, b"x")
    assert storage.get(name) == b"x"
    assert storage.exists(name)
    assert list(storage.list_paths()) == [(name, 1)]
    storage.delete([name])
    assert list(storage.list_paths()) == []


@pytest.mark.parametrize("name", DISK_ONLY_NAMES)
def test_names_that_only_a_disk_takes(disk: Storage, name: str) -> None:
    assert disk.put_if_absent(name, b"x")
    assert list(disk.list_paths()) == [(name, 1)]
    with pytest.raises(StorageError, match="can't write"):
        Storage.from_uri(f"memory:///{uuid4()}").put(name, b"x")


def test_names_on_disk_are_the_names_given(disk: Storage) -> None:
    disk.put_if_absent("a%2Fb/c d", b"x")
    assert Path(disk.uri, "a%2Fb", "c d").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "a\0b"])
def test_no_path_leads_out_of_the_folder(disk: Storage, name: str) -> None:
    for attempt in (disk.get, disk.exists, lambda path: disk.put(path, b""), lambda path: disk.delete([path])):
        with pytest.raises(StorageError, match="not a path inside"):
            attempt(name)


def test_a_list_is_sorted_and_starts_after_a_path(storage: Storage) -> None:
    for name in ("log/2", "log/10", "log/1", "logs/0", "log/sub/x", "other"):
        storage.put(name, b"abc")
    assert [path for path, _ in storage.list_paths("log")] == ["log/1", "log/10", "log/2", "log/sub/x"]
    assert list(storage.list_paths("log", after="log/10")) == [("log/2", 3), ("log/sub/x", 3)]
    assert len(list(storage.list_paths())) == 6


def test_delete_skips_missing_files(storage: Storage) -> None:
    storage.put("a", b"")
    storage.delete(["nothing", "a/b/c", "a"])
    storage.delete([])
    assert not storage.exists("a")


def test_files_have_sizes_and_times(storage: Storage) -> None:
    storage.put("b/c", b"12")
    storage.put("a", b"1")
    files = storage.list_files()
    assert [(file.path, file.size, file.is_link) for file in files] == [("a", 1, False), ("b/c", 2, False)]
    assert all(abs(file.modified_time - storage.modified_time(file.path)) < 1 for file in files)
    assert [file.path for file in storage.list_files("b")] == ["b/c"]
    assert not storage.list_files("nothing")


def test_no_link_is_followed_by_a_listing_or_a_deletion(disk: Storage, tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.mkdir()
    (others / "x").write_text("outside")
    disk.put("a/x", b"ours")
    Path(disk.uri, "out").symlink_to(others)
    Path(disk.uri, "a", "back").symlink_to(Path(disk.uri))
    Path(disk.uri, "file").symlink_to(others / "x")
    assert [path for path, _ in disk.list_paths()] == ["a/x", "file"]
    assert [file.path for file in disk.list_files() if file.is_link] == ["a/back", "file", "out"]
    assert sorted(disk.list_links()) == ["a/back", "file", "out"]
    assert disk.list_links("a") == ["a/back"]
    disk.delete(["out/x", "a/back/a/x", "a/x", "file", "a/none"])
    assert (others / "x").read_text() == "outside"
    assert list(disk.list_paths()) == []


def test_no_file_is_written_behind_a_link_out_of_the_folder(disk: Storage, tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    disk.put("a/x", b"ours")
    Path(disk.uri, "out").symlink_to(tmp_path / "others")
    Path(disk.uri, "in").symlink_to(Path(disk.uri, "a"))
    with pytest.raises(StorageError, match="symbolic link that leads out"):
        disk.open_output("out/sub/y")
    assert not list((tmp_path / "others").iterdir())
    with disk.open_output("in/y") as file:
        file.write(b"1")
    assert disk.get("a/y") == b"1"


def test_a_folder_behind_a_link_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    storage = Storage.from_uri(tmp_path / "link")
    storage.put("a", b"1")
    assert [path for path, _ in storage.list_paths()] == ["a"]
    storage.delete(["a"])
    assert list(storage.list_paths()) == []


def test_parquet_goes_through(storage: Storage) -> None:
    table = pa.table({"x": range(10_000), "s": [f"text {i}" for i in range(10_000)]})
    with storage.open_output("data/a b%/part 0.parquet") as out:
        pq.write_table(table, out)
    with storage.open_input("data/a b%/part 0.parquet") as file:
        assert pq.read_table(file, columns=["x"])["x"].to_pylist() == list(range(10_000))
    [(path, size)] = storage.list_paths("data")
    assert (path, size) == ("data/a b%/part 0.parquet", len(storage.get(path) or b""))


def test_open_output_refuses_an_existing_file(storage: Storage) -> None:
    storage.put("x", b"kept")
    with pytest.raises(StorageError, match="exists"):
        storage.open_output("x")
    assert storage.get("x") == b"kept"


def test_open_input_of_a_missing_file(storage: Storage) -> None:
    with pytest.raises(StorageError, match="can't read 'nothing'"):
        storage.open_input("nothing")


def test_errors_are_partitas_and_the_systems(disk: Storage) -> None:
    disk.put("file", b"")
    with pytest.raises(StorageError, match="can't write 'file/below'") as caught:
        disk.put("file/below", b"")
    assert isinstance(caught.value, PartitaError)
    assert isinstance(caught.value, OSError)
    assert caught.value.__cause__ is not None


def test_temporary_files_of_a_killed_writer_are_not_listed(disk: Storage) -> None:
    disk.put("log/0.json", b"{}")
    Path(disk.uri, "log", ".partita-of-a-killed-one").write_bytes(b"{")
    assert [path for path, _ in disk.list_paths("log")] == ["log/0.json"]


@pytest.mark.slow(reason="processes that are killed")
def test_a_killed_writer_leaves_no_partial_file(disk: Storage) -> None:
    writer = multiprocessing.get_context("spawn").Process(target=put_forever, args=(disk,))
    writer.start()
    while len(list(disk.list_paths("log"))) < 3:
        assert writer.is_alive()
    writer.kill()
    writer.join()
    assert {size for _, size in disk.list_paths("log")} == {LARGE_FILE_BYTES}


LARGE_FILE_BYTES = 1 << 20


def put_forever(storage: Storage) -> None:
    for index in count():
        storage.put_if_absent(f"log/{index}", bytes(LARGE_FILE_BYTES))
        storage.put(f"log/again {index % 3}", bytes(LARGE_FILE_BYTES))


def test_no_temporary_file_is_left(disk: Storage) -> None:
    disk.put_if_absent("a", b"1")
    disk.put_if_absent("a", b"2")
    disk.put("a", b"3")
    assert [path.name for path in Path(disk.uri).iterdir()] == ["a"]


def test_one_thread_of_many_wins(storage: Storage) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: storage.put_if_absent("log/0.json", b"%d" % i), range(64)))
    assert won.count(True) == 1
    assert storage.get("log/0.json") == b"%d" % won.index(True)


@pytest.mark.slow(reason="eight processes")
def test_one_process_of_many_wins(disk: Storage) -> None:
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        won = pool.starmap(put_all, [(disk, b"%d" % i) for i in range(8)])
    for index in range(20):
        winners = [i for i, versions in enumerate(won) if versions[index]]
        assert [disk.get(f"log/{index}.json")] == [b"%d" % i * 1000 for i in winners]


def put_all(storage: Storage, mark: bytes) -> list[bool]:
    return [storage.put_if_absent(f"log/{index}.json", mark * 1000) for index in range(20)]


def test_a_storage_is_a_value() -> None:
    storage = Storage.from_uri("s3://bucket/a b/", {"aws_region": "eu-west-1", "aws_endpoint": "http://localhost"})
    assert storage.options == (("aws_endpoint", "http://localhost"), ("aws_region", "eu-west-1"))
    assert pickle.loads(pickle.dumps(storage)) == storage  # noqa: S301 - pickled here
    assert hash(storage) == hash(Storage.from_uri("s3a://bucket/a b", dict(storage.options)))


@pytest.mark.parametrize(
    ("given", "uri", "location"),
    [
        ("/a/b/", "/a/b", "/a/b/x%2Fy z"),
        ("/a/./b/../c", "/a/c", "/a/c/x%2Fy z"),
        ("/", "/", "/x%2Fy z"),
        ("/a%20b", "/a%20b", "/a%20b/x%2Fy z"),
        ("file:///a%20b/c", "/a b/c", "/a b/c/x%2Fy z"),
        ("s3://bucket/t/", "s3://bucket/t", "s3a://bucket/t/x%2Fy z"),
        ("s3a://bucket/t", "s3://bucket/t", "s3a://bucket/t/x%2Fy z"),
        ("gs://bucket/t", "gs://bucket/t", "gs://bucket/t/x%2Fy z"),
        (
            "abfss://box@account.dfs.core.windows.net/t",
            "abfss://box@account.dfs.core.windows.net/t",
            "abfss://box@account.dfs.core.windows.net/t/x%2Fy z",
        ),
    ],
)
def test_the_uri_of_a_storage(given: str, uri: str, location: str) -> None:
    storage = Storage.from_uri(given)
    assert storage.uri == uri
    assert storage.hadoop_location("x%2Fy z") == location
    assert storage.is_local == uri.startswith("/")


def test_azure_has_its_account_in_the_options() -> None:
    storage = Storage.from_uri("az://box/t", {"azure_storage_account_name": "account"})
    assert storage.hadoop_location("x") == "abfss://box@account.dfs.core.windows.net/t/x"
    with pytest.raises(StorageError, match="azure_storage_account_name"):
        Storage.from_uri("az://box/t").hadoop_location("x")


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Storage.from_uri("tables/t").uri == str(tmp_path / "tables" / "t")
    assert Storage.from_uri(Path("t")).hadoop_location() == str(tmp_path / "t")


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(StorageError, match="nowhere://x"):
        Storage.from_uri("nowhere://x").get("y")


def test_options_are_those_of_the_store_and_of_its_client() -> None:
    given = {"aws_endpoint": "http://127.0.0.1:9", "AWS_REGION": "us-east-1", "aws_allow_http": "true", "timeout": "1s"}
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y"}
    store = open_object_store("s3://bucket/t", tuple({**given, **keys}.items()))
    assert isinstance(store, S3Store)
    assert store.client_options == {"allow_http": "true", "timeout": "1s"}
    assert store.config.get("endpoint") == "http://127.0.0.1:9"


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(StorageError, match="nonsense"):
        Storage.from_uri("s3://bucket/t", {"nonsense": "x"}).get("y")
