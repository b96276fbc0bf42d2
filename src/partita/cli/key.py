"""`partita key`: encode and decode canonical keys, and print partition ids.

Each line of standard input is one key, and each key is printed on one line. An empty line is the empty key, which an
asset without partitions has. The command ends at the first invalid line.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import KeyValue, canonical_value_text
from partita.cli.dimension_text import KEY_TYPES, key_from_line, key_from_words, key_type_name
from partita.cli.help_page import help_page
from partita.errors import PartitaError

DESCRIPTION = """
A partition key is the canonical text of a partition's named, typed values. The
same partition has the same key in every language and table format. The id of a
partition is a hash of the asset's id and this text.
"""
EXAMPLES = (
    "partita key encode date=2025-01-15 region=us-east",
    "partita key decode date=d:2025-01-15,region=s:dXMtZWFzdA",
    "partita key id orders date=d:2025-01-15,region=s:dXMtZWFzdA",
)

_ENCODE_DESCRIPTION = f"""
Print the canonical text of a key. Write a dimension as NAME:TYPE=VALUE, or as
NAME:null.

{"".join(f"  {name:<9}  {', '.join(aliases)}{chr(10)}" for name, aliases in KEY_TYPES.items())}
types and their aliases: A timestamp is ISO 8601 with an offset. Without a type,
YYYY-MM-DD is a date and other text is a string. Text that looks like an int, a
bool, a timestamp, null or a canonical key needs a type: write count:int=42 or
count:string=42.

Without arguments, or with '-', each line of standard input is a key:
dimensions, quoted as in a shell, or a JSON object. In JSON a string is a
string, and {{"type": "date", "value": "2025-01-15"}} is a value with a type. An
empty line is the empty key. The first invalid line ends the command with exit
code 2.
"""
_ENCODE_EXAMPLES = (
    "partita key encode date=2025-01-15 region=us-east",
    "partita key encode count:int=42 active:bool=true missing:null",
    "partita key encode ts:timestamp=2025-01-15T10:30:00+02:00",
    "partita key encode < keys.txt",
    """echo '{"region": "us-east", "count": 42}' | partita key encode --json""",
)
_DECODE_DESCRIPTION = """
Print the dimensions of canonical keys, one per line, with name, type and value,
and an empty line between keys. Text that is not printable is quoted as in JSON.
Without keys, or with '-', each line of standard input is a key.
"""
_DECODE_EXAMPLES = (
    "partita key decode date=d:2025-01-15,region=s:dXMtZWFzdA",
    "partita key decode --json < keys.txt",
)
_ID_DESCRIPTION = """
Print the ids of partitions: 'part_' and 32 hexadecimal digits, computed from
the asset's id and the canonical key. Without keys, or with '-', each line of
standard input is a key. The key of an asset without partitions is ''.
"""
_ID_EXAMPLES = (
    "partita key id orders date=d:2025-01-15,region=s:dXMtZWFzdA",
    "partita key encode date=2025-01-15 | partita key id orders",
    "partita key id reports ''",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita key`."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    encode = commands.add_parser(
        "encode", **help_page("print the canonical key of typed values", _ENCODE_DESCRIPTION, *_ENCODE_EXAMPLES)
    )
    encode.add_argument("dimensions", nargs="*", metavar="DIMENSION", help="NAME=VALUE, NAME:TYPE=VALUE or NAME:null")
    encode.set_defaults(run=_encode_keys)

    decode = commands.add_parser(
        "decode", **help_page("print the typed values of canonical keys", _DECODE_DESCRIPTION, *_DECODE_EXAMPLES)
    )
    decode.add_argument("keys", nargs="*", metavar="KEY", help="a canonical key")
    decode.set_defaults(run=_decode_keys)

    print_id = commands.add_parser("id", **help_page("print the ids of partitions", _ID_DESCRIPTION, *_ID_EXAMPLES))
    print_id.add_argument("asset", metavar="ASSET", help="id of the asset")
    print_id.add_argument("keys", nargs="*", metavar="KEY", help="a canonical key")
    print_id.set_defaults(run=_print_ids)

    for command in (encode, decode, print_id):
        command.add_argument("--json", action="store_true", help="print one JSON object per key")
        command.set_defaults(parser=command)


def _encode_keys(arguments: argparse.Namespace) -> int:
    key_line = _key_json if arguments.json else str
    if _is_stdin_input(arguments, arguments.dimensions):
        return _print_lines(key_line(key) for key in _keys_from_stdin(key_from_line))
    return _print_lines([key_line(key_from_words(arguments.dimensions))])


def _decode_keys(arguments: argparse.Namespace) -> int:
    keys = _canonical_keys(arguments)
    return _print_lines(map(_key_json, keys) if arguments.json else _key_blocks(keys))


def _print_ids(arguments: argparse.Namespace) -> int:
    def id_line(key: PartitionKey) -> str:
        partition_id = key.id(arguments.asset)
        if not arguments.json:
            return partition_id
        return _json_text({"asset": arguments.asset, "key": str(key), "id": partition_id})

    return _print_lines(map(id_line, _canonical_keys(arguments)))


def _canonical_keys(arguments: argparse.Namespace) -> Iterable[PartitionKey]:
    if _is_stdin_input(arguments, arguments.keys):
        return _keys_from_stdin(PartitionKey.parse)
    return map(PartitionKey.parse, arguments.keys)


def _is_stdin_input(arguments: argparse.Namespace, words: list[str]) -> bool:
    """Return whether keys come from stdin; it is a usage error if that is a terminal and no key was given."""
    if words:
        return words == ["-"]
    if sys.stdin is None or sys.stdin.isatty():
        arguments.parser.error("give a key as arguments, or one key per line on standard input")
    return True


def _keys_from_stdin(parse: Callable[[str], PartitionKey]) -> Iterator[PartitionKey]:
    for number, line in enumerate(sys.stdin, 1):
        try:
            yield parse(line.removesuffix("\n").removesuffix("\r"))
        except PartitaError as error:
            error.add_note(f"line {number}")
            raise


def _print_lines(lines: Iterable[str]) -> int:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    return 0


def _key_blocks(keys: Iterable[PartitionKey]) -> Iterator[str]:
    for number, key in enumerate(keys):
        yield f"\n{_key_block(key)}" if number else _key_block(key)


def _key_block(key: PartitionKey) -> str:
    if not key:
        return "(the empty key)"
    rows = [(name, key_type_name(value), _readable_text(value)) for name, value in key.items()]
    name_width, type_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{name:<{name_width}}  {type_:<{type_width}}  {text}" for name, type_, text in rows)


def _readable_text(value: KeyValue) -> str:
    if not isinstance(value, str):
        return _canonical_text_without_tag(value)
    is_plain = value.isprintable() and value.strip() == value and value[:1] not in ("", '"')
    return value if is_plain else json.dumps(value)


def _canonical_text_without_tag(value: KeyValue) -> str:
    """Return the canonical text of a value without its type tag."""
    return canonical_value_text(value)[2:]


def _key_json(key: PartitionKey) -> str:
    dimensions = [
        {"name": name, "type": key_type_name(value), "value": _json_value(value)} for name, value in key.items()
    ]
    return _json_text({"key": str(key), "dimensions": dimensions})


def _json_value(value: KeyValue) -> object:
    return value if value is None or isinstance(value, str | int) else _canonical_text_without_tag(value)


def _json_text(document: object) -> str:
    return json.dumps(document, ensure_ascii=False)
