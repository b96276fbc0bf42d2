"""Specs as text (`day(ts), bucket(16, user_id), country`) and as the JSON of Lance namespaces."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn, cast

from partita.algebra.partition_functions import identity, partition_function
from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec
from partita.algebra.transforms import TRANSFORMS, PartitionFunction, find_transform
from partita.errors import SpecError, SpecFormatError, caret_lines, value_repr
from partita.untrusted_input import parse_json

HASH_NAME = "murmur3_32"
"""The name of the hash function of bucket and hash in `properties`."""


def parse_spec(source: str | Sequence[object], schema: Schema, family: str, spec_id: int = 0) -> PartitionSpec:
    """Parse a spec from text, or from the JSON of a Lance namespace (as text or as a list).

    The text lists functions: `day(ts), bucket(16, user_id), truncate(3, name) AS letters, country`. Names with special
    characters are quoted with backquotes; `bucket(user_id, 16)` and Spark's `days(ts)` are accepted too. Raises
    `SpecFormatError` if it does not parse.
    """
    if not isinstance(source, str):
        return PartitionSpec.of(_functions_from_json(source), schema, family, spec_id)
    if source.lstrip().startswith("["):
        return PartitionSpec.of(_functions_from_json(_load_json(source)), schema, family, spec_id)
    return PartitionSpec.of(_SpecParser(source).parse_functions(), schema, family, spec_id)


def spec_to_json(spec: PartitionSpec) -> str:
    """Return the spec as the JSON of `lance.partitioning.partition_columns`, with numbers as strings."""
    return json.dumps([_column_to_json(f) for f in (field.function for field in spec.fields)], ensure_ascii=False)


def _column_to_json(f: PartitionFunction) -> dict[str, object]:
    transform = f.transform
    if f.name != transform.default_field_name(f.source):
        raise SpecError(f"{f}: the JSON of a Lance namespace can't hold an alias of a partition field")
    properties: dict[str, str] = {}
    if transform.parameter_name is not None:
        properties[transform.parameter_name] = str(transform.parameter)
    if transform.is_hashed:
        properties["hash"] = HASH_NAME
    column: dict[str, object] = {"name": f.source, "function": transform.name}
    return column | ({"properties": properties} if properties else {})


def _load_json(text: str) -> object:
    try:
        return parse_json(text)
    except ValueError as error:
        raise SpecFormatError(f"partition columns must be JSON: {error}") from None


def _functions_from_json(document: object) -> Iterator[PartitionFunction]:
    if not isinstance(document, Sequence) or isinstance(document, str | bytes):
        raise SpecFormatError(f"partition columns must be a JSON array, not {type(document).__name__}")
    for column in document:
        if isinstance(column, str | PartitionFunction):
            yield identity(column) if isinstance(column, str) else column
        elif isinstance(column, Mapping):
            yield _function_from_json(cast("Mapping[str, object]", column))
        else:
            raise SpecFormatError(f"a partition column must be a JSON object, not {value_repr(column)}")


_CALL_PATTERN = re.compile(r"([a-z]+)(?:\(\s*([0-9]+)\s*\))?")


def _function_from_json(column: Mapping[str, object]) -> PartitionFunction:
    source = column.get("name")
    if not isinstance(source, str) or not source:
        raise SpecFormatError(f"a partition column needs a 'name': {dict(column)!r}")
    call = column.get("function", "identity")
    match = _CALL_PATTERN.fullmatch(call) if isinstance(call, str) else None
    properties = column.get("properties") or {}
    if match is None or not isinstance(properties, Mapping):
        raise SpecFormatError(f"partition column {source!r}: {call!r} with {properties!r} is not a function")
    hash_name = properties.get("hash", HASH_NAME)
    if hash_name != HASH_NAME:
        raise SpecFormatError(f"partition column {source!r}: the hash must be {HASH_NAME}, not {value_repr(hash_name)}")
    transform = find_transform(match[1])
    parameter_name = None if transform is None else transform.parameter_name
    parameter = match[2] if match[2] is not None else properties.get(parameter_name)
    return _make_function(match[1], source, _to_integer(parameter))


def _to_integer(number: object) -> object:
    return int(number) if isinstance(number, str) and re.fullmatch("[0-9]{1,10}", number) else number


def _make_function(name: str, source: str, parameter: object) -> PartitionFunction:
    transform = find_transform(name)
    if transform is None:
        names = ", ".join(sorted(transform.name for transform in TRANSFORMS))
        raise SpecFormatError(f"unknown partition function {name!r}; use one of {names}")
    if transform.parameter_name is not None and parameter is None:
        example = f"{transform.name}(16, {source})"
        raise SpecFormatError(f"{transform.name} of {source!r} needs its {transform.parameter_name}: {example}")
    if transform.parameter_name is None and parameter is not None:
        raise SpecFormatError(f"{transform.name} of {source!r} takes no number")
    return partition_function(transform, source, parameter)


_TOKEN_PATTERN = re.compile(
    r"\s*(?:(?P<number>[0-9]+)(?!\w)|(?P<name>[^\W\d][\w.]*)|`(?P<quoted>(?:[^`]|``)+)`|(?P<mark>[(),]))"
)


class _SpecParser:
    """Parser of partition functions with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def parse_functions(self) -> Iterator[PartitionFunction]:
        while self._peek_token() is not None:
            yield self._parse_function()
            if self._peek_token() is not None:
                self._expect_mark(",")
                if self._peek_token() is None:
                    self._raise_error("a partition function is missing after the comma")

    def _parse_function(self) -> PartitionFunction:
        start = self.position
        name = self._parse_name()
        token = self._peek_token()
        is_call = token is not None and token["mark"] == "("
        function = self._parse_arguments(name, start) if is_call else identity(name)
        token = self._peek_token()
        if token is not None and (token["name"] or "").lower() == "as":
            self._take_token(token)
            return function.alias(self._parse_name())
        return function

    def _parse_arguments(self, name: str, start: int) -> PartitionFunction:
        self._expect_mark("(")
        source: str | None = None
        parameter: int | None = None
        while True:
            token = self._peek_token()
            if token is not None and token["number"] is not None and parameter is None:
                parameter = int(self._take_token(token)["number"][:20])
            elif source is None:
                source = self._parse_name()
            else:
                self._raise_error("a partition function takes one column and at most one number")
            token = self._peek_token()
            if token is None or token["mark"] != ",":
                break
            self._expect_mark(",")
        self._expect_mark(")")
        try:
            return _make_function(name.lower(), source or "", parameter)
        except SpecError as error:
            raise self._format_error(str(error), start) from None

    def _parse_name(self) -> str:
        token = self._peek_token()
        if token is None or token["mark"] is not None or token["number"] is not None:
            self._raise_error("a name is missing")
        name_token = self._take_token(token)
        return name_token["name"] if name_token["name"] is not None else name_token["quoted"].replace("``", "`")

    def _expect_mark(self, mark: str) -> None:
        token = self._peek_token()
        if token is None or token["mark"] != mark:
            self._raise_error(f"{mark!r} is missing")
        self._take_token(token)

    def _peek_token(self) -> re.Match[str] | None:
        if not self.text[self.position :].strip():
            return None
        token = _TOKEN_PATTERN.match(self.text, self.position)
        if token is None:
            self._raise_error("a name, a number, a comma or a parenthesis is expected")
        return token

    def _take_token(self, token: re.Match[str] | None) -> re.Match[str]:
        token = cast("re.Match[str]", token)
        self.position = token.end()
        return token

    def _raise_error(self, reason: str) -> NoReturn:
        raise self._format_error(reason, self.position)

    def _format_error(self, reason: str, position: int) -> SpecFormatError:
        position += len(self.text[position:]) - len(self.text[position:].lstrip())
        return SpecFormatError(f"{reason}\n{caret_lines(self.text, position)}")
