"""Avro files with counts and lengths beyond the data: reading them ends, with a `TableError`."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import TableError
from partita.formats.iceberg.manifests.avro import AvroContainer, decode_records, encode_long, read_container
from partita.formats.iceberg.manifests.copy import may_contain_paths
from partita.formats.iceberg.manifests.entries import read_manifest_entries, read_snapshot_manifests
from tests.formats.iceberg.tables import pyiceberg_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.io import FileIO

HUGE = encode_long(2**40)


def record(type_: object) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": type_, "field-id": 1}]}


def array(items: object) -> dict[str, Any]:
    return record({"type": "array", "items": items, "element-id": 2})


EMPTY = {"type": "record", "name": "e", "fields": []}
FIXED = {"type": "fixed", "name": "f", "size": 0}


@pytest.mark.parametrize(
    ("schema", "count", "block"),
    [
        (record("null"), 2**40, b"x"), (record(EMPTY), 2**40, b"x"), (record(FIXED), 2**40, b"x"),
        (record("long"), 2**40, b"x"), (record("long"), -1, b"x"), (record("bytes"), 1, HUGE),
        (record("long"), 1, b"xx"), (record("long"), 0, b"x"), (record("long"), 3, b"xx"),
        (array("null"), 1, HUGE), (array(EMPTY), 1, HUGE), (array(FIXED), 1, encode_long(2**30)),
        (array("long"), 1, HUGE), (array("long"), 1, encode_long(-(2**63)) + b"\x02"),
        (record({"type": "map", "values": "null"}), 1, HUGE),
    ],
)  # fmt: skip
def test_counts_of_more_than_there_is(schema: dict[str, Any], count: int, block: bytes) -> None:
    header = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": b"null"}
    with pytest.raises(TableError, match=r"x\.avro is not an Avro file"):
        decode_records(AvroContainer("x.avro", header, b"s" * 16, ((count, block),)))


class OneFile:
    """As much of a `FileIO` as is needed to read the bytes of one file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def new_input(self, _: str) -> OneFile:
        return self

    def open(self) -> BytesIO:
        return BytesIO(self.data)


def as_io(data: bytes) -> FileIO:
    return OneFile(data)  # type: ignore[return-value] # as much of one as is asked


@pytest.mark.slow(reason="many random or large manifests")
@pytest.mark.parametrize("number", [2**31, 2**40, -(2**62)])
def test_lengths_of_more_than_there_is_in_a_manifest(tmp_path: Path, number: int) -> None:
    """A wrong length at every position; pyiceberg's compiled decoder alone would read past the end, or crash."""
    table = pt.Lake(str(tmp_path)).create_table("db.t", pa.schema({"id": pa.int64()}), format="iceberg")
    pyiceberg_table(table).append(pa.table({"id": [1]}))
    loaded = pyiceberg_table(table)
    snapshot = loaded.current_snapshot()
    assert snapshot is not None
    (manifest,) = read_snapshot_manifests(loaded.io, snapshot)
    container = read_container(loaded.io, manifest.manifest_path)
    ((count, block),) = container.blocks
    data = zlib.decompress(block, -15)
    uncompressed = replace(container, header={**container.header, b"avro.codec": b"null"})
    assert len(read_manifest_entries(as_io(uncompressed.file_with_blocks([(count, data)])), manifest)) == 1
    refused = 0
    for position in range(0, len(data), 2):
        file_data = uncompressed.file_with_blocks([(count, data[:position] + encode_long(number) + data[position:])])
        try:
            read_manifest_entries(as_io(file_data), manifest)
        except TableError:
            refused += 1
    assert refused > len(data) // 4
    broken = as_io(container.file_with_blocks([(count, b"\xff" * 9)]))
    with pytest.raises(TableError, match=r"m\.avro is not an Avro file"):
        may_contain_paths(broken, "m.avro", frozenset({"file:///a/b/c"}))
