"""Avro files as Arrow tables whose columns, and fields of structs, are called by their Iceberg ids: `f100`.

The names that a writer gave are taken out of the file's header before it is decoded: they may be such as Avro has no
letters for, and older writers have others for the same field (specification, "Avro"; ids are what counts).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.avro.codecs import KNOWN_CODECS

from partita.errors import StorageError, TableError
from partita.kept import Kept
from partita.untrusted import parse_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO

_MAGIC = b"Obj\x01"
_SYNC = 16
_LONG_BITS = 63
"""A number has ten bytes of seven bits at most."""
_MAX_TYPES = 100_000
"""Types of a schema once those that are named twice are spelled out; names that name names double at each step."""


_MORE = 1 << 30
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class AvroParts:
    """An Avro file in its parts (Avro specification, "Object Container Files").

    `blocks` are the numbers of records and the bytes of the blocks, which are compressed as the header says.
    """

    location: str
    header: Mapping[bytes, bytes]
    sync: bytes
    blocks: tuple[tuple[int, bytes], ...]

    @property
    def size(self) -> int:
        """How many records there are."""
        return sum(size for size, _ in self.blocks)

    def records(self) -> bytes:
        """The bytes of the records."""
        name = _codec(self.header).decode()
        if name not in KNOWN_CODECS:
            raise ValueError(f"it is compressed with {name!r}")
        codec = KNOWN_CODECS[name]
        return b"".join(octets if codec is None else codec.decompress(octets) for _, octets in self.blocks)

    def in_one_block(self) -> bytes:
        """The same file with one block, which isn't compressed."""
        header = {**self.header, _CODEC: b"null"}
        return _file(header, self.sync, [(self.size, self.records())] if self.size else [])

    def joined(self, blocks: Iterable[tuple[int, bytes]]) -> bytes:
        """A file with the same header, and those blocks."""
        return _file(self.header, self.sync, blocks)


_recent: Kept[str, tuple[AvroParts, pa.Table]] = Kept(1 << 26)
"""What was read last: a change reads first what it looks at, and then writes it anew."""


def read_avro(io: FileIO, location: str) -> pa.Table:
    """The records of an Avro file, in order, each column under its id."""
    parts = read_parts(io, location)
    records = decode_avro(parts)
    _recent.keep(location, (parts, records), records.nbytes + sum(len(octets) for _, octets in parts.blocks))
    return records


def read_records(io: FileIO, location: str) -> tuple[AvroParts, pa.Table]:
    """The parts and the records of an Avro file that never changes; it isn't read again where it just was."""
    found = _recent.find(location)
    if found is not None:
        return found
    parts = read_parts(io, location)
    return parts, decode_avro(parts)


def read_parts(io: FileIO, location: str) -> AvroParts:
    """The parts of an Avro file; one that was cut is refused, for DataFusion would read what is left."""
    data = _bytes(io, location)
    with _refused_as_broken(location):
        return _parts(location, data)


def read_octets(io: FileIO, location: str) -> bytes:
    """The bytes of all records of an Avro file."""
    parts = read_parts(io, location)
    with _refused_as_broken(location):
        return parts.records()


def read_all_parts(io: FileIO, locations: Sequence[str]) -> list[AvroParts]:
    """The parts of several files, which are read at the same time."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda location: read_parts(io, location), locations))


def decode_avro(parts: AvroParts) -> pa.Table:
    """The records of an Avro file, in order, each column under its id."""
    with _refused_as_broken(parts.location):
        return _decoded([parts])


def decode_together(files: Sequence[AvroParts]) -> Iterator[tuple[list[int], pa.Table]]:
    """The records of several files, those of one schema in one table: the files' places, and their records in order.

    DataFusion takes a millisecond for a file however small it is.
    """
    groups: dict[tuple[bytes, bytes], list[int]] = {}
    for at, parts in enumerate(files):
        groups.setdefault((parts.header[_SCHEMA], _codec(parts.header)), []).append(at)
    for places in groups.values():
        together = [files[at] for at in places]
        try:
            yield places, _decoded(together)
        except Exception:
            for parts in together:
                decode_avro(parts)
            raise


def _decoded(files: Sequence[AvroParts]) -> pa.Table:
    from datafusion import SessionConfig, SessionContext

    first, size = files[0], sum(parts.size for parts in files)
    octets = b"".join(parts.records() for parts in files)
    if not 0 <= size <= len(octets) or (octets and not size):
        raise ValueError(f"it has {len(octets)} bytes for {size} records")
    parsed = parse_json(first.header[_SCHEMA])
    check_sizes(parsed)
    schema = json.dumps(_by_ids(parsed)).encode()
    header = {_SCHEMA: schema, _CODEC: b"null"}
    with tempfile.TemporaryDirectory(prefix="partita-") as folder:
        # DataFusion opens paths alone. It never ends where a block has bytes after its last record, so there is one
        # block, which promises more records than there are: with a batch of all records, what is left is read as more.
        file = Path(folder, "records.avro")
        file.write_bytes(_file(header, first.sync, [(size + _MORE, octets)] if size else []))
        config = SessionConfig().with_batch_size(max(1, size))
        table = SessionContext(config).read_avro(str(file)).to_arrow_table().combine_chunks()
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
            if self.at >= len(self.data) or shift > _LONG_BITS:
                raise ValueError("it is cut, or broken in the middle")
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)

    def octets(self) -> bytes:
        """The next run of bytes."""
        length = self.length()
        found = self.data[self.at : self.at + length]
        self.at += length
        return found

    def length(self) -> int:
        """The next number, as that of bytes of which so many are left."""
        length = self.long()
        if not 0 <= length <= len(self.data) - self.at:
            raise ValueError("it is cut, or broken in the middle")
        return length


_SCHEMA, _CODEC = b"avro.schema", b"avro.codec"


def _codec(header: Mapping[bytes, bytes]) -> bytes:
    return header.get(_CODEC, b"null")


def _parts(location: str, data: bytes) -> AvroParts:
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
    sync = data[cursor.at : cursor.at + _SYNC]
    cursor.at += _SYNC
    return AvroParts(location, header, sync, tuple(_blocks(cursor, sync)))


def _blocks(cursor: _Cursor, sync: bytes) -> Iterator[tuple[int, bytes]]:
    while cursor.at < len(cursor.data):
        size, octets = cursor.long(), cursor.octets()
        cursor.at += _SYNC
        if cursor.data[cursor.at - _SYNC : cursor.at] != sync:
            raise ValueError("it is cut, or broken in the middle")
        yield size, octets


def _file(header: Mapping[bytes, bytes], sync: bytes, blocks: Iterable[tuple[int, bytes]]) -> bytes:
    pieces = [_MAGIC, _map(header), sync]
    for size, octets in blocks:
        pieces += (encode_long(size), _run(octets), sync)
    return b"".join(pieces)


def _map(entries: Mapping[bytes, bytes]) -> bytes:
    pairs = b"".join(_run(key) + _run(value) for key, value in entries.items())
    return encode_long(len(entries)) + pairs + encode_long(0)


def _run(octets: bytes) -> bytes:
    return encode_long(len(octets)) + octets


def encode_long(number: int) -> bytes:
    """A number as Avro writes it: the sign last, seven bits a byte, the lowest first."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))


def _by_ids(schema: Any) -> Any:
    """An Avro schema whose fields have their ids as names; one that has none is counted."""
    names: dict[str, Any] = {}
    unnamed = count()

    seen = count()

    def renamed(type_: Any) -> Any:
        if next(seen) > _MAX_TYPES:
            raise ValueError("its schema has too many types")
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


def check_sizes(schema: Any) -> None:
    """Refuse an Avro schema with records or items that take no bytes: of such a few bytes can name any number."""
    if not _takes_bytes(schema, {}, count()):
        raise ValueError("its records take no bytes")


def _takes_bytes(type_: Any, named: dict[str, bool], seen: Iterator[int]) -> bool:
    """Whether each value of a type takes a byte at least; the same is refused of what is inside of it."""
    if next(seen) > _MAX_TYPES:
        raise ValueError("its schema has too many types")
    if isinstance(type_, list):
        for branch in type_:
            _takes_bytes(branch, named, seen)
        return True
    if isinstance(type_, str):
        return named.get(type_, type_ != "null")
    kind = type_["type"]
    if isinstance(kind, dict | list):
        return _takes_bytes(kind, named, seen)
    if kind in ("array", "map"):
        if not _takes_bytes(type_["items" if kind == "array" else "values"], named, seen) and kind == "array":
            raise ValueError("it has lists of items that take no bytes")
        return True
    if kind == "record":
        takes = [_takes_bytes(f["type"], named, seen) for f in type_["fields"]]
        found = any(takes)
    else:
        found = kind != "null" and not (kind == "fixed" and type_["size"] == 0)
    named[type_.get("name", "")] = found
    return found


def _is_empty(type_: Any) -> bool:
    return isinstance(type_, dict) and type_["type"] == "record" and not type_["fields"]


def _field(field: Mapping[str, Any], type_: Any) -> dict[str, Any]:
    number = field.get("field-id")
    return {"name": field["name"] if number is None else f"f{number}", "type": type_}
