"""Specs as text (`day(ts), bucket(16, user_id), country`) and as the JSON of seed 001, section 3.1."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn, cast

from partita.algebra.functions import bucket, function, identity, truncate
from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec
from partita.algebra.transforms import PartitionFunction, default_name
from partita.errors import SpecError, SpecFormatError, caret, value_repr
from partita.untrusted import parse_json

HASH_NAME = "murmur3_32"
"""What `properties` says of the hash behind bucket and hash."""

_WIDTHS = {"bucket": "num_buckets", "truncate": "width"}
_TIMES = ("year", "month", "day", "hour")
_NAMES = {name: name for name in ("identity", *_TIMES, *_WIDTHS, "hash", "void")} | {f"{t}s": t for t in _TIMES}


def parse_spec(source: str | Sequence[object], schema: Schema, family: str, spec_id: int = 0) -> PartitionSpec:
    """The spec that a text, or the JSON of a Lance namespace (as text or as a list), says.

    The text is functions with commas between: `day(ts), bucket(16, user_id), truncate(3, name) AS letters, country`.
    Names with other characters stand in backquotes; `bucket(user_id, 16)` and Spark's `days(ts)` are read as well.
    """
    if not isinstance(source, str):
        return PartitionSpec.of(_from_json(source), schema, family, spec_id)
    if source.lstrip().startswith("["):
        return PartitionSpec.of(_from_json(_loads(source)), schema, family, spec_id)
    return PartitionSpec.of(_Reader(source).functions(), schema, family, spec_id)


def spec_json(spec: PartitionSpec) -> str:
    """`lance.partitioning.partition_columns` of the spec: the seed's strings for numbers, and the hash by name."""
    return json.dumps([_json_column(f) for f in (field.function for field in spec.fields)], ensure_ascii=False)


def _json_column(f: PartitionFunction) -> dict[str, object]:
    if f.name != default_name(f.source, f.transform):
        raise SpecError(f"{f}: the JSON of a Lance namespace has no place for a field's own name")
    properties: dict[str, str] = {}
    if f.transform.width is not None:
        properties[_WIDTHS[f.transform.name]] = str(f.transform.width)
    if f.transform.name in ("bucket", "hash"):
        properties["hash"] = HASH_NAME
    column: dict[str, object] = {"name": f.source, "function": f.transform.name}
    return column | ({"properties": properties} if properties else {})


def _loads(text: str) -> object:
    try:
        return parse_json(text)
    except ValueError as error:
        raise SpecFormatError(f"partition columns are not JSON: {error}") from None


def _from_json(document: object) -> Iterator[PartitionFunction]:
    if not isinstance(document, Sequence) or isinstance(document, str | bytes):
        raise SpecFormatError(f"partition columns are a JSON array, not {type(document).__name__}")
    for column in document:
        if isinstance(column, str | PartitionFunction):
            yield identity(column) if isinstance(column, str) else column
        elif isinstance(column, Mapping):
            yield _from_json_column(cast("Mapping[str, object]", column))
        else:
            raise SpecFormatError(f"a partition column is a JSON object, not {value_repr(column)}")


_CALL = re.compile(r"([a-z]+)(?:\(\s*([0-9]+)\s*\))?")


def _from_json_column(column: Mapping[str, object]) -> PartitionFunction:
    source = column.get("name")
    if not isinstance(source, str) or not source:
        raise SpecFormatError(f"a partition column needs a 'name': {dict(column)!r}")
    call = column.get("function", "identity")
    match = _CALL.fullmatch(call) if isinstance(call, str) else None
    properties = column.get("properties") or {}
    if match is None or not isinstance(properties, Mapping):
        raise SpecFormatError(f"partition column {source!r}: {call!r} with {properties!r} is not a function")
    used = properties.get("hash", HASH_NAME)
    if used != HASH_NAME:
        raise SpecFormatError(f"partition column {source!r}: Partita computes {HASH_NAME}, not {value_repr(used)}")
    width = match[2] if match[2] is not None else properties.get(_WIDTHS.get(match[1], ""))
    return _call(match[1], source, _whole(width))


def _whole(given: object) -> object:
    return int(given) if isinstance(given, str) and re.fullmatch("[0-9]{1,10}", given) else given


def _call(name: str, source: str, width: object) -> PartitionFunction:
    if name in _WIDTHS and width is None:
        raise SpecFormatError(f"{name} of {source!r} needs its {_WIDTHS[name]}: {name}(16, {source})")
    if name not in _WIDTHS and width is not None:
        raise SpecFormatError(f"{name} of {source!r} takes no number")
    if name == "bucket":
        return bucket(source, cast("int", width))
    if name == "truncate":
        return truncate(source, cast("int", width))
    if name not in _NAMES:
        raise SpecFormatError(f"no partition function {name!r}; there are {', '.join(sorted(set(_NAMES.values())))}")
    return function(_NAMES[name], source)


_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+)(?!\w)|(?P<name>[^\W\d][\w.]*)|`(?P<quoted>(?:[^`]|``)+)`|(?P<mark>[(),]))"
)


class _Reader:
    """Reads functions from text, one token ahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def functions(self) -> Iterator[PartitionFunction]:
        while self._peek() is not None:
            yield self._function()
            if self._peek() is not None:
                self._mark(",")
                if self._peek() is None:
                    self._fail("a partition function is missing after the comma")

    def _function(self) -> PartitionFunction:
        start = self.at
        name = self._name()
        token = self._peek()
        read = self._arguments(name, start) if token is not None and token["mark"] == "(" else identity(name)
        token = self._peek()
        if token is not None and (token["name"] or "").lower() == "as":
            self._take(token)
            return read.alias(self._name())
        return read

    def _arguments(self, name: str, start: int) -> PartitionFunction:
        self._mark("(")
        source: str | None = None
        width: int | None = None
        while True:
            token = self._peek()
            if token is not None and token["number"] is not None and width is None:
                width = int(self._take(token)["number"][:20])
            elif source is None:
                source = self._name()
            else:
                self._fail("a partition function takes one column and at most one number")
            token = self._peek()
            if token is None or token["mark"] != ",":
                break
            self._mark(",")
        self._mark(")")
        try:
            return _call(name.lower() if name.lower() not in _NAMES else _NAMES[name.lower()], source or "", width)
        except SpecError as error:
            raise self._error(str(error), start) from None

    def _name(self) -> str:
        token = self._peek()
        if token is None or token["mark"] is not None or token["number"] is not None:
            self._fail("a name is missing")
        taken = self._take(token)
        return taken["name"] if taken["name"] is not None else taken["quoted"].replace("``", "`")

    def _mark(self, mark: str) -> None:
        token = self._peek()
        if token is None or token["mark"] != mark:
            self._fail(f"{mark!r} is missing")
        self._take(token)

    def _peek(self) -> re.Match[str] | None:
        if not self.text[self.at :].strip():
            return None
        token = _TOKEN.match(self.text, self.at)
        if token is None:
            self._fail("this is not a name, a number, a comma or a parenthesis")
        return token

    def _take(self, token: re.Match[str] | None) -> re.Match[str]:
        token = cast("re.Match[str]", token)
        self.at = token.end()
        return token

    def _fail(self, reason: str) -> NoReturn:
        raise self._error(reason, self.at)

    def _error(self, reason: str, position: int) -> SpecFormatError:
        position += len(self.text[position:]) - len(self.text[position:].lstrip())
        return SpecFormatError(f"{reason}\n{caret(self.text, position)}")
