"""`partita key encode`: what people type, as canonical text."""

from __future__ import annotations

import json
import shlex
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita import PartitionKey
from partita.cli.dimension_text import key_from_line, key_type_name
from tests.cli.terminal import CommandOutcome, CommandRunner
from tests.vectors import load_vectors

VALID: list[dict[str, Any]] = load_vectors("identity")["valid"]

WORDS = {
    "date=2025-01-15 region=us-east": "date=d:2025-01-15,region=s:dXMtZWFzdA",
    "region=us-east date=2025-01-15": "date=d:2025-01-15,region=s:dXMtZWFzdA",
    # without a type
    "date=0001-01-01": "date=d:0001-01-01",
    "a=": "a=s:",
    "a=b=c": "a=s:Yj1j",
    "a=1.5": "a=s:MS41",
    "a=a:b": "a=s:YTpi",
    "a=i:007": "a=s:aTowMDc",
    "a=2025-01": "a=s:MjAyNS0wMQ",
    "a=\uff12\uff10\uff12\uff15-01-15": "a=s:77yS77yQ77yS77yVLTAxLTE1",
    # with one
    "count:int=42": "count=i:42",
    "count:i=-42": "count=i:-42",
    "count:long=+7": "count=i:7",
    "month:int=007": "month=i:7",
    "active:bool=true": "active=b:true",
    "active:b=false": "active=b:false",
    "day:date=2025-01-15": "day=d:2025-01-15",
    "day:d=2025-01-15": "day=d:2025-01-15",
    "missing:null": "missing=n:null",
    "missing:n": "missing=n:null",
    "missing:null=null": "missing=n:null",
    "region:string=2025-01-15": "region=s:MjAyNS0wMS0xNQ",
    "region:str=42": "region=s:NDI",
    "region:s=": "region=s:",
    "region:s=s:dGVzdA": "region=s:czpkR1Z6ZEE",
    "ts:timestamp=2025-01-15T10:30:00Z": "ts=t:2025-01-15T10:30:00.000000Z",
    "ts:t=2025-01-15T10:30:00.5+02:00": "ts=t:2025-01-15T08:30:00.500000Z",
    "ts:t=20250115T103000Z": "ts=t:2025-01-15T10:30:00.000000Z",
    "ts:t=2025-01-15T10:30-0230": "ts=t:2025-01-15T13:00:00.000000Z",
    "ts:t=2025-01-15T10:30:00.123456000Z": "ts=t:2025-01-15T10:30:00.123456Z",
    "'ts:t=2025-01-15 10:30Z'": "ts=t:2025-01-15T10:30:00.000000Z",
}

REFUSED = {
    # without a type, what could be more than one thing
    "count=42": "'42' needs a type; write count:int=42 or count:string=42",
    "count=-7": "needs a type",
    "active=true": "'true' needs a type; write active:bool=true or active:string=true",
    "active=False": "needs a type",
    "a=null": "'null' needs a type; write a:null or a:string=null",
    "ts=2025-01-15T10:30:00Z": "needs a type; write ts:timestamp=2025-01-15T10:30:00Z",
    "date=2025-02-30": "the date 2025-02-30 does not exist",
    "date=0000-01-01": "the date 0000-01-01 does not exist",
    "date=d:2025-01-15": "'d:2025-01-15' is canonical text already",
    "date=d:2025-01-15,region=s:dXMtZWFzdA": "is canonical text already",
    # with one
    "a:float=1.5": "'float' is not a type; the types are string, int, bool, date, timestamp, null",
    "a:=x": "'' is not a type",
    "a:int=": "'' is not an int",
    "a:int=4_2": "'4_2' is not an int",
    "a:int=٣": "is not an int",
    "a:int=9223372036854775808": "9223372036854775808 is over 64 bits",
    f"a:int={'9' * 5000}": "an int of 5000 digits does not fit into 64 bits",
    "a:bool=True": "'True' is not a bool",
    "a:date=20250115": "'20250115' is not a date; write YYYY-MM-DD",
    "a:timestamp=2025-01-15": "'2025-01-15' is not a timestamp; write ISO 8601 with an offset",
    "a:timestamp=2025-01-15T10:30:00": "has no time zone; append Z",
    "a:timestamp=2025-01-15T10:30:00.1234567Z": "is finer than a microsecond",
    "a:timestamp=2025-01-15T25:30:00Z": "does not exist",
    "a:timestamp=0001-01-01T00:00:00+01:00": "outside the years 0001 to 9999",
    "a:null=x": "the type null takes no value, not 'x'; write a:null",
    # names
    "region": "the value is missing; write region=VALUE, or region:null for null",
    "region:string": "the value is missing",
    "Region=x": "a name is a lower-case letter",
    "=x": "a name is a lower-case letter",
    "a=x a=y": "given twice",
}

JSON_LINES = {
    "{}": "",
    '{"region": "us-east", "x": null}': "region=s:dXMtZWFzdA,x=n:null",
    '{"count": 42, "active": true}': "active=b:true,count=i:42",
    '{"date": {"type": "date", "value": "2025-01-15"}}': "date=d:2025-01-15",
    '{"date": "2025-01-15"}': "date=s:MjAyNS0wMS0xNQ",
    '{"n": {"type": "int", "value": 42}}': "n=i:42",
    '{"n": {"type": "i", "value": "42"}}': "n=i:42",
    '{"n": {"type": "string", "value": "42"}}': "n=s:NDI",
    '{"n": {"type": "null"}}': "n=n:null",
    '{"n": {"type": "null", "value": null}}': "n=n:null",
    '{"n": {"type": "bool", "value": false}}': "n=b:false",
    '  {"a": "two\\nlines"}': "a=s:dHdvCmxpbmVz",
}

REFUSED_JSON = {
    '{"a": 1,}': "not JSON: ",
    '{"a": 1} x': "not JSON: Extra data",
    '{"a": NaN}': "not JSON: NaN",
    '{"a": 1.0}': "float can't be in a key",
    '{"a": [1]}': "list can't be in a key",
    '{"a": 1, "a": 2}': "partition key dimension 'a': given twice",
    f'{{"a": {"9" * 5000}}}': "does not fit into 64 bits",
    '{"a": 9223372036854775808}': "over 64 bits",
    '{"a": {"value": "x"}}': "None is not a type",
    '{"a": {"type": ["int"], "value": 1}}': "['int'] is not a type",
    '{"a": {"type": "int"}}': "a typed value is an object such as",
    '{"a": {"type": "int", "value": 1, "unit": "s"}}': "a typed value is an object such as",
    '{"a": {"type": "int", "value": null}}': "null does not have the type int",
    '{"a": {"type": "int", "value": true}}': "true does not have the type int",
    '{"a": {"type": "string", "value": 42}}': "42 does not have the type string",
    '{"a": {"type": "null", "value": 0}}': "0 does not have the type null",
    '{"a": "\\ud800"}': "a lone surrogate",
    '{"a": ' * 100_000: "nested too deeply",
}


@pytest.mark.parametrize("words", WORDS)
def test_words(partita: CommandRunner, words: str) -> None:
    assert partita("key", "encode", *shlex.split(words)) == CommandOutcome(0, f"{WORDS[words]}\n", "")


@pytest.mark.parametrize("words", WORDS)
def test_words_on_standard_input(partita: CommandRunner, words: str) -> None:
    assert partita("key", "encode", stdin=words).out == f"{WORDS[words]}\n"


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: words[:40])
def test_refused_words(partita: CommandRunner, words: str) -> None:
    code, out, err = partita("key", "encode", *words.split())
    assert (code, out) == (2, "")
    assert err.startswith("partita: partition key dimension ")
    assert REFUSED[words] in err


@pytest.mark.parametrize("line", JSON_LINES)
def test_json_lines(partita: CommandRunner, line: str) -> None:
    assert partita("key", "encode", stdin=f"{line}\n") == CommandOutcome(0, f"{JSON_LINES[line]}\n", "")


@pytest.mark.parametrize("line", REFUSED_JSON, ids=lambda line: line[:40])
def test_refused_json_lines(partita: CommandRunner, line: str) -> None:
    code, out, err = partita("key", "encode", stdin=f"{line}\n")
    assert (code, out) == (2, "")
    assert err.startswith("partita: line 1: ")
    assert REFUSED_JSON[line] in err


def test_json_out(partita: CommandRunner) -> None:
    line = partita("key", "encode", "--json", "date=2025-01-15", "name=ü", "n:int=7", "ts:t=2025-01-15T10:30Z").out
    assert line == (
        '{"key": "date=d:2025-01-15,n=i:7,name=s:w7w,ts=t:2025-01-15T10:30:00.000000Z", "dimensions": ['
        '{"name": "date", "type": "date", "value": "2025-01-15"}, '
        '{"name": "n", "type": "int", "value": 7}, '
        '{"name": "name", "type": "string", "value": "ü"}, '
        '{"name": "ts", "type": "timestamp", "value": "2025-01-15T10:30:00.000000Z"}]}\n'
    )


def test_many_lines(partita: CommandRunner) -> None:
    lines = 'date=2025-01-15 region=us-east\n\n"region=two words" n:int=1\r\n{"n": 2}'
    expected = "date=d:2025-01-15,region=s:dXMtZWFzdA\n\nn=i:1,region=s:dHdvIHdvcmRz\nn=i:2\n"
    assert partita("key", "encode", stdin=lines) == CommandOutcome(0, expected, "")
    assert partita("key", "encode", "-", stdin=lines).out == expected


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("count=42", "partition key dimension 'count': '42' needs a type"),
        ('{"a": }', 'the line is not JSON: Expecting value\n  {"a": }\n        ^\n'),
        ("'a=b", "can't split the line into words: No closing quotation"),
    ],
)
def test_the_first_wrong_line_ends_it(partita: CommandRunner, bad: str, message: str) -> None:
    code, out, err = partita("key", "encode", stdin=f"a=b\n{bad}\na=c\n")
    assert (code, out) == (2, "a=s:Yg\n")
    assert err.startswith(f"partita: line 2: {message}")


def test_a_line_that_is_not_utf8_is_refused(partita: CommandRunner) -> None:
    code, out, err = partita("key", "encode", stdin=b"a=b\na=\xff\n")
    assert (code, out) == (2, "a=s:Yg\n")
    assert err.startswith("partita: line 2: partition key dimension 'a': a lone surrogate")


def test_nothing_from_a_terminal_is_refused(partita: CommandRunner) -> None:
    code, out, err = partita("key", "encode")
    assert (code, out) == (2, "")
    assert "one key per line on standard input" in err


def test_no_lines_are_no_keys(partita: CommandRunner) -> None:
    assert partita("key", "encode", stdin="") == CommandOutcome(0, "", "")


@pytest.mark.parametrize("row", range(len(VALID)))
def test_the_vectors(partita: CommandRunner, row: int) -> None:
    dimensions = {d["name"]: {"type": d["type"], "value": d["value"]} for d in VALID[row]["dimensions"]}
    line = json.dumps(dimensions)
    assert partita("key", "encode", stdin=f"{line}\n").out == f"{VALID[row]['key']}\n", f"row {row}"


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.dates(),
    st.datetimes(timezones=st.just(UTC)),
    st.text(),
)


@given(st.dictionaries(st.from_regex("[a-z][a-z0-9_]*", fullmatch=True), VALUES))
def test_a_key_spelled_out_is_that_key(values: dict[str, Any]) -> None:
    key = PartitionKey(values)
    words = [f"{name}:{key_type_name(value)}={_value_text(value)}" for name, value in key.items()]
    assert key_from_line(shlex.join(words)) == key


def _value_text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
