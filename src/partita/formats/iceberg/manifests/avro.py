"""Avro files as Arrow tables whose columns, and fields of structs, are called by their Iceberg ids: `f100`.

The names that a writer gave are taken out of the file's header before it is decoded: they may be such as Avro has no
letters for, and older writers have others for the same field (specification, "Avro"; ids are what counts).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partita.errors import StorageError, TableError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO

_MAGIC = b"Obj\x01"
_SYNC = 16


def read_avro(io: FileIO, location: str) -> pa.Table:
    """The records of an Avro file, in order, each column under its id."""
    from datafusion import SessionContext

    data = _bytes(io, location)
    with _refused_as_broken(location), tempfile.TemporaryDirectory(prefix="partita-") as folder:
        # DataFusion opens paths alone.
        file = Path(folder, "records.avro")
        renamed, size = _renamed(data)
        file.write_bytes(renamed)
        table = SessionContext().read_avro(str(file)).to_arrow_table().combine_chunks()
        if table.num_rows != size:
            raise ValueError(f"{table.num_rows} of its {size} records can be read")
        return table


def _bytes(io: FileIO, location: str) -> bytes:
    try:
        with io.new_input(location).open() as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise StorageError(f"can't read {location}: {error}") from error


@contextmanager
def _refused_as_broken(location: str) -> Iterator[None]:
    try:
        yield
    except TableError:
        raise
    except Exception as error:  # DataFusion raises nothing narrower
        reason = str(error).partition("\n")[0]
        raise TableError(f"{location} is not an Avro file that a table's metadata could be in: {reason}") from error


# --- the header


@dataclass(slots=True)
class _Cursor:
    """A place in a file."""

    data: bytes
    at: int = 0

    def long(self) -> int:
        """The next number: seven bits a byte, the sign last (Avro specification, "Binary Encoding")."""
        shift, number = 0, 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)

    def octets(self) -> bytes:
        """The next run of bytes."""
        length = self.long()
        found = self.data[self.at : self.at + length]
        self.at += length
        return found


def _renamed(data: bytes) -> tuple[bytes, int]:
    """The same file, each field under its id, and how many records it has."""
    if not data.startswith(_MAGIC):
        raise ValueError("it has no header")
    cursor = _Cursor(data, len(_MAGIC))
    header: dict[bytes, bytes] = {}
    while (size := cursor.long()) != 0:
        if size < 0:
            size = -size
            cursor.long()
        for _ in range(size):
            key = cursor.octets()
            header[key] = cursor.octets()
    schema = _by_ids(json.loads(header[b"avro.schema"]))
    kept = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": header.get(b"avro.codec", b"null")}
    return _MAGIC + _map(kept) + data[cursor.at :], _counted(cursor)


def _counted(cursor: _Cursor) -> int:
    """How many records there are from here on; a file that was cut is refused, for DataFusion reads what is left."""
    data, records = cursor.data, 0
    sync = data[cursor.at : cursor.at + _SYNC]
    cursor.at += _SYNC
    while cursor.at < len(data):
        records += cursor.long()
        size = cursor.long()
        cursor.at += size + _SYNC
        if data[cursor.at - _SYNC : cursor.at] != sync:
            raise ValueError("it is cut, or broken in the middle")
    return records


def _map(entries: Mapping[bytes, bytes]) -> bytes:
    pairs = b"".join(_run(key) + _run(value) for key, value in entries.items())
    return _long(len(entries)) + pairs + _long(0)


def _run(octets: bytes) -> bytes:
    return _long(len(octets)) + octets


def _long(number: int) -> bytes:
    rest = number << 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))


def _by_ids(schema: Any) -> Any:
    """An Avro schema whose fields have their ids as names; one that has none is counted."""
    names: dict[str, Any] = {}
    unnamed = count()

    def renamed(type_: Any) -> Any:
        if isinstance(type_, list):
            return [renamed(branch) for branch in type_]
        if isinstance(type_, str):
            # A type that was defined before is spelled out again, under a name of its own.
            return renamed(names[type_]) if type_ in names else type_
        kind = type_["type"]
        if isinstance(kind, dict | list):
            return renamed(kind)
        if kind in ("record", "fixed", "enum"):
            names[type_.get("name", "")] = type_
            made = {**type_, "name": f"t{next(unnamed)}"}
            made.pop("namespace", None)
            if kind == "record":
                fields = (_field(f, renamed(f["type"])) for f in type_["fields"])
                # A record without fields, the partition of a table that has none, takes no bytes and is none to Arrow.
                made["fields"] = [f for f in fields if not _is_empty(f["type"])]
            return made
        inner = {"array": "items", "map": "values"}.get(kind)
        return {**type_, inner: renamed(type_[inner])} if inner is not None else type_

    return renamed(schema)


def _is_empty(type_: Any) -> bool:
    return isinstance(type_, dict) and type_["type"] == "record" and not type_["fields"]


def _field(field: Mapping[str, Any], type_: Any) -> dict[str, Any]:
    number = field.get("field-id")
    return {"name": field["name"] if number is None else f"f{number}", "type": type_}
