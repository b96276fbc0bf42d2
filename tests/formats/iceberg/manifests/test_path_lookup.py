"""Paths looked for in the bytes of manifests."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.formats.iceberg.manifests.copy import _has_any_text, common_prefix, may_contain_paths
from partita.formats.iceberg.snapshot_change import SnapshotChange
from tests.formats.iceberg.snapshot_tables import (
    append_files,
    check_totals,
    commit_change,
    copy_data_file,
    data_file,
    live_files,
    manifest_list,
    new_table,
    read_avro,
)


@pytest.mark.parametrize("codec", ["deflate", "null"])
def test_a_path_that_is_there_is_found(tmp_path: Path, codec: str) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    files = [copy_data_file(file, f"{file.file_path}-{uuid4()}") for _ in range(600)]
    append_files(table, *files)
    [manifest] = manifest_list(table)
    header, entries = read_avro(table, manifest["manifest_path"])
    copy = tmp_path / "copy.avro"
    with copy.open("wb") as out:
        fastavro.writer(out, json.loads(header["avro.schema"]), entries, codec=codec, sync_interval=1000)

    def may_contain(*paths: str) -> bool:
        return may_contain_paths(table.io, f"file://{copy}", frozenset(paths))

    assert all(may_contain(each.file_path) for each in files[::60])
    assert may_contain(f"{file.file_path}-no", files[7].file_path)
    assert may_contain(files[0].file_path, files[599].file_path, f"{file.file_path}-{uuid4()}")
    assert not may_contain(f"{file.file_path}-{uuid4()}")
    assert not may_contain(*(f"{file.file_path}-{uuid4()}" for _ in range(50)))
    # Texts with nothing in common aren't looked for.
    assert may_contain("a", "b")


LETTERS = st.text("ab/", max_size=6).map(str.encode)


@given(LETTERS, st.frozensets(LETTERS, min_size=1, max_size=4), st.text("ab/", max_size=40).map(str.encode))
def test_texts_are_found_wherever_they_lie(start: bytes, ends: frozenset[bytes], block: bytes) -> None:
    texts = frozenset(start + end for end in ends)
    common = common_prefix(min(texts), max(texts))
    assert all(text.startswith(common) for text in texts)
    lengths = sorted({len(text) for text in texts})
    assert _has_any_text(block, common, lengths, texts) == any(text in block for text in texts)


@pytest.mark.slow(reason="many commits to a table")
def test_large_manifests_lose_only_what_goes(tmp_path: Path) -> None:
    table = new_table(tmp_path, properties={"commit.manifest.target-size-bytes": "8000"})
    file = data_file(table, [{"id": 1, "region": "eu"}])
    files = [copy_data_file(file, f"{file.file_path}-{uuid4()}") for _ in range(2500)]
    for start in range(0, 2500, 625):
        append_files(table, *files[start : start + 625])
    before = {m["manifest_path"] for m in manifest_list(table)}
    removed_paths = frozenset({files[3].file_path, files[2499].file_path})
    commit_change(table, SnapshotChange("delete", removed_data_files=removed_paths))
    assert [path for path, _, _ in live_files(table)] == sorted({f.file_path for f in files} - removed_paths)
    after = {m["manifest_path"] for m in manifest_list(table) if m["added_files_count"]}
    assert len(before - after) == 2
    check_totals(table)
