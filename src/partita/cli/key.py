"""`partita key`: canonical keys from what people type, back to values, and ids.

Each line of standard input is one key, and so is each line that comes out: an empty one is the empty key, that of an
asset without partitions. The first line that is wrong ends it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import KeyValue, tagged
from partita.cli.dimension import TYPES, key_of_line, key_of_words, type_name
from partita.cli.page import page
from partita.errors import PartitaError

ABOUT = """
A partition's key is its typed values under their names, in one canonical text:
the same partition has the same key in every language and table format. Its id
is a hash of the asset's id and that text.
"""
EXAMPLES = (
    "partita key encode date=2025-01-15 region=us-east",
    "partita key decode date=d:2025-01-15,region=s:dXMtZWFzdA",
    "partita key id orders date=d:2025-01-15,region=s:dXMtZWFzdA",
)

_ENCODE = f"""
Print the canonical text of a key. A dimension is NAME:TYPE=VALUE, or NAME:null.

types, and their other names:
{"".join(f"  {name:<9}  {', '.join(aliases)}{chr(10)}" for name, aliases in TYPES.items())}
A timestamp is ISO 8601 with a zone. Without a type, YYYY-MM-DD is a date and
other text a string; what could be taken for an int, a bool, a timestamp, null
or canonical text is refused: write count:int=42 or count:string=42.

Without dimensions, or with '-', each line of standard input is a key: the same
words, quoted as in a shell, or a JSON object. There a string is a string, and
{{"type": "date", "value": "2025-01-15"}} gives a type. An empty line is the empty
key. The first line that is wrong ends it with exit code 2.
"""
_ENCODE_EXAMPLES = (
    "partita key encode date=2025-01-15 region=us-east",
    "partita key encode count:int=42 active:bool=true missing:null",
    "partita key encode ts:timestamp=2025-01-15T10:30:00+02:00",
    "partita key encode < keys.txt",
    """echo '{"region": "us-east", "count": 42}' | partita key encode --json""",
)
_DECODE = """
Print the dimensions of a canonical key: name, type and value, one a line, and
an empty line between keys. Text that is not printable is quoted as in JSON.
Without keys, or with '-', each line of standard input is a key.
"""
_DECODE_EXAMPLES = (
    "partita key decode date=d:2025-01-15,region=s:dXMtZWFzdA",
    "partita key decode --json < keys.txt",
)
_ID = """
Print the id of a partition: 'part_' and 32 hexadecimal digits, from the asset's
id and the partition's canonical key. Without keys, or with '-', each line of
standard input is a key. The key of an asset without partitions is ''.
"""
_ID_EXAMPLES = (
    "partita key id orders date=d:2025-01-15,region=s:dXMtZWFzdA",
    "partita key encode date=2025-01-15 | partita key id orders",
    "partita key id reports ''",
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita key`."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    encode = commands.add_parser("encode", **page("typed values to canonical text", _ENCODE, *_ENCODE_EXAMPLES))
    encode.add_argument("dimensions", nargs="*", metavar="DIMENSION", help="NAME=VALUE, NAME:TYPE=VALUE or NAME:null")
    encode.set_defaults(run=_encode)

    decode = commands.add_parser("decode", **page("canonical text to typed values", _DECODE, *_DECODE_EXAMPLES))
    decode.add_argument("keys", nargs="*", metavar="KEY", help="a canonical key")
    decode.set_defaults(run=_decode)

    named = commands.add_parser("id", **page("the id of an asset's partition", _ID, *_ID_EXAMPLES))
    named.add_argument("asset", metavar="ASSET", help="the asset's id")
    named.add_argument("keys", nargs="*", metavar="KEY", help="a canonical key")
    named.set_defaults(run=_id)

    for command in (encode, decode, named):
        command.add_argument("--json", action="store_true", help="one JSON object for each key")
        command.set_defaults(parser=command)


def _encode(arguments: argparse.Namespace) -> int:
    shown = _json_key if arguments.json else str
    if _from_stdin(arguments, arguments.dimensions):
        return _print(shown(key) for key in _keys_of_lines(key_of_line))
    return _print([shown(key_of_words(arguments.dimensions))])


def _decode(arguments: argparse.Namespace) -> int:
    keys = _canonical_keys(arguments)
    return _print(map(_json_key, keys) if arguments.json else _blocks(keys))


def _id(arguments: argparse.Namespace) -> int:
    def shown(key: PartitionKey) -> str:
        found = key.id(arguments.asset)
        return _json({"asset": arguments.asset, "key": str(key), "id": found}) if arguments.json else found

    return _print(map(shown, _canonical_keys(arguments)))


def _canonical_keys(arguments: argparse.Namespace) -> Iterable[PartitionKey]:
    if _from_stdin(arguments, arguments.keys):
        return _keys_of_lines(PartitionKey.parse)
    return map(PartitionKey.parse, arguments.keys)


def _from_stdin(arguments: argparse.Namespace, given: list[str]) -> bool:
    """Whether keys are to be read; it is an error where a person would sit and wait for nothing."""
    if given:
        return given == ["-"]
    if sys.stdin is None or sys.stdin.isatty():
        arguments.parser.error("give a key as arguments, or one on each line of standard input")
    return True


def _keys_of_lines(read: Callable[[str], PartitionKey]) -> Iterator[PartitionKey]:
    for number, line in enumerate(sys.stdin, 1):
        try:
            yield read(line.removesuffix("\n").removesuffix("\r"))
        except PartitaError as error:
            error.add_note(f"line {number}")
            raise


def _print(lines: Iterable[str]) -> int:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    return 0


def _blocks(keys: Iterable[PartitionKey]) -> Iterator[str]:
    for number, key in enumerate(keys):
        yield f"\n{_block(key)}" if number else _block(key)


def _block(key: PartitionKey) -> str:
    if not key:
        return "(the empty key)"
    rows = [(name, type_name(value), _readable(value)) for name, value in key.items()]
    wide, wide_type = (max(len(row[at]) for row in rows) for at in (0, 1))
    return "\n".join(f"{name:<{wide}}  {type_:<{wide_type}}  {text}" for name, type_, text in rows)


def _readable(value: KeyValue) -> str:
    if not isinstance(value, str):
        return _text(value)
    is_plain = value.isprintable() and value.strip() == value and value[:1] not in ("", '"')
    return value if is_plain else json.dumps(value)


def _text(value: KeyValue) -> str:
    """A value as the key has it, without the tag."""
    return tagged(value)[2:]


def _json_key(key: PartitionKey) -> str:
    dimensions = [{"name": name, "type": type_name(value), "value": _json_value(value)} for name, value in key.items()]
    return _json({"key": str(key), "dimensions": dimensions})


def _json_value(value: KeyValue) -> object:
    return value if value is None or isinstance(value, str | int) else _text(value)


def _json(document: object) -> str:
    return json.dumps(document, ensure_ascii=False)
