"""Avro files with numbers that promise more than there is: reading them ends, and ends in a `TableError`."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import TableError
from partita.formats.iceberg.manifests.avro import AvroParts, decode_avro, encode_long, read_parts
from partita.formats.iceberg.transaction.manifests import InMemoryFile, listed_manifests, read_entries
from partita.formats.iceberg.transaction.probing import may_mention
from tests.formats.iceberg.tables import iceberg

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
        decode_avro(AvroParts("x.avro", header, b"s" * 16, ((count, block),)))


class OneFile:
    """As much of a `FileIO` as is needed to read one file's bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def new_input(self, location: str) -> InMemoryFile:
        return InMemoryFile(location, self.data)


def as_io(data: bytes) -> FileIO:
    return OneFile(data)  # type: ignore[return-value] # as much of one as is asked


@pytest.mark.parametrize("number", [2**31, 2**40, -(2**62)])
def test_lengths_of_more_than_there_is_in_a_manifest(tmp_path: Path, number: int) -> None:
    """At every place of it; pyiceberg's compiled decoder alone would read past its end, or crash."""
    table = pt.Lake(str(tmp_path)).create_table("db.t", pa.schema({"id": pa.int64()}), format="iceberg")
    iceberg(table).append(pa.table({"id": [1]}))
    loaded = iceberg(table)
    snapshot = loaded.current_snapshot()
    assert snapshot is not None
    (manifest,) = listed_manifests(loaded.io, snapshot)
    parts = read_parts(loaded.io, manifest.manifest_path)
    ((count, block),) = parts.blocks
    octets = zlib.decompress(block, -15)
    plain = replace(parts, header={**parts.header, b"avro.codec": b"null"})
    assert len(read_entries(as_io(plain.joined([(count, octets)])), manifest)) == 1
    refused = 0
    for at in range(0, len(octets), 2):
        data = plain.joined([(count, octets[:at] + encode_long(number) + octets[at:])])
        try:
            read_entries(as_io(data), manifest)
        except TableError:
            refused += 1
    assert refused > len(octets) // 4
    broken = as_io(parts.joined([(count, b"\xff" * 9)]))
    with pytest.raises(TableError, match=r"m\.avro is not an Avro file"):
        may_mention(broken, "m.avro", frozenset({"file:///a/b/c"}))
