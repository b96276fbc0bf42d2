"""Avro files by pyiceberg's reader and writer, without what is wrong in them."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import (
    _SCHEMA_KEY,
    MAGIC,
    META_SCHEMA,
    SYNC_SIZE,
    AvroFile,
    AvroFileHeader,
    AvroOutputFile,
    Block,
)
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.typedef import StructProtocol
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

D = TypeVar("D", bound=StructProtocol)


class ExactFile(AvroFile[D]):
    """A file whose doubles are read as what they are: pyiceberg's compiled decoder takes them for floats."""

    def _read_block(self) -> int:
        if '"double"' not in self.header.meta[_SCHEMA_KEY]:
            return super()._read_block()
        if self.block and self.decoder.read(SYNC_SIZE) != self.header.sync:
            raise ValueError(f"{self.input_file.location} is damaged between its blocks")
        count = self.decoder.read_int()
        octets = self.decoder.read_bytes()
        codec = self.header.compression_codec()
        decoder = StreamingBinaryDecoder(octets if codec is None else codec.decompress(octets))
        self.block = Block(reader=self.reader, block_records=count, block_decoder=decoder)
        return count


class NamedOnce(AvroOutputFile[D]):
    """A file in whose schema no type is defined twice under one name.

    pyiceberg names a decimal after its digits: two partition fields of one type make a schema that Avro refuses.
    """

    def _write_header(self) -> None:
        schema = AvroSchemaConversion().iceberg_to_avro(self.file_schema, schema_name=self.schema_name)
        named_once(schema, set())
        text = json.dumps(schema)
        header = AvroFileHeader(MAGIC, {**self.metadata, _SCHEMA_KEY: text}, self.sync_bytes)
        construct_writer(META_SCHEMA).write(self.encoder, header)


def named_once(schema: Any, seen: set[str]) -> None:
    """Give each type of a schema's JSON that has a name a name of its own, in place."""
    if isinstance(schema, list):
        for part in schema:
            named_once(part, seen)
    elif isinstance(schema, dict):
        if schema.get("type") == "fixed":
            schema["name"] = _new(schema["name"], seen)
        for part in schema.values():
            named_once(part, seen)


def _new(name: str, seen: set[str]) -> str:
    found, number = name, 1
    while found in seen:
        number += 1
        found = f"{name}_{number}"
    seen.add(found)
    return found
