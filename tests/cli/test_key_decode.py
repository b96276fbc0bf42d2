"""`partita key decode` and `partita key id`: canonical text as values, and as ids."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cli.terminal import CommandOutcome, CommandRunner
from tests.vectors import load_vectors

VECTORS = load_vectors("identity")
VALID: list[dict[str, Any]] = VECTORS["valid"]
INVALID: list[dict[str, Any]] = VECTORS["invalid"]
ASSET: str = VECTORS["asset_id"]

KEY = "active=b:true,at=t:2025-01-15T10:30:00.000000Z,count=i:-42,date=d:2025-01-15,missing=n:null,region=s:dXMtZWFzdA"
SHOWN = """\
active   bool       true
at       timestamp  2025-01-15T10:30:00.000000Z
count    int        -42
date     date       2025-01-15
missing  null       null
region   string     us-east
"""


def test_a_key_is_shown_as_lines(partita: CommandRunner) -> None:
    assert partita("key", "decode", KEY) == CommandOutcome(0, SHOWN, "")


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("a=s:", '""'),
        ("a=s:w7w", "ü"),
        ("a=s:YQpi", '"a\\nb"'),
        ("a=s:IGE", '" a"'),
        ("a=s:ImEi", '"\\"a\\""'),
        ("a=s:G1szMW0", '"\\u001b[31m"'),
        ("a=s:4oCuYQ", '"\\u202ea"'),
    ],
)
def test_text_that_can_t_be_printed_is_quoted(partita: CommandRunner, key: str, shown: str) -> None:
    assert partita("key", "decode", key).out == f"a  string  {shown}\n"


def test_many_keys_are_blocks(partita: CommandRunner) -> None:
    expected = "a  int  1\n\n(the empty key)\n\nb  int  2\n"
    assert partita("key", "decode", "a=i:1", "", "b=i:2") == CommandOutcome(0, expected, "")
    assert partita("key", "decode", stdin="a=i:1\n\nb=i:2\n") == CommandOutcome(0, expected, "")
    assert partita("key", "decode", "-", stdin="a=i:1\r\n\r\nb=i:2") == CommandOutcome(0, expected, "")


def test_json(partita: CommandRunner) -> None:
    assert partita("key", "decode", "--json", "a=i:1,b=n:null", "").out == (
        '{"key": "a=i:1,b=n:null", "dimensions": [{"name": "a", "type": "int", "value": 1}, '
        '{"name": "b", "type": "null", "value": null}]}\n'
        '{"key": "", "dimensions": []}\n'
    )


def test_the_first_wrong_line_ends_it(partita: CommandRunner) -> None:
    code, out, err = partita("key", "decode", "--json", stdin="a=i:1\na=i:01\na=i:2\n")
    assert (code, len(out.splitlines())) == (2, 1)
    assert err.startswith("partita: line 2: not a canonical partition key, at position 5: an int is decimal digits")
    assert "\n  a=i:01\n       ^\n" in err


@pytest.mark.parametrize("row", range(len(VALID)))
def test_the_vectors(partita: CommandRunner, row: int) -> None:
    key, dimensions = VALID[row]["key"], sorted(VALID[row]["dimensions"], key=lambda d: d["name"])
    decoded = json.loads(partita("key", "decode", "--json", key).out)
    assert decoded == {"key": key, "dimensions": [_as_in_the_key(d) for d in dimensions]}, f"row {row}"


def _as_in_the_key(dimension: dict[str, Any]) -> dict[str, Any]:
    """The vectors have timestamps as people write them."""
    if dimension["type"] != "timestamp":
        return dimension
    instant = datetime.fromisoformat(dimension["value"]).astimezone(UTC)
    return dimension | {"value": f"{instant.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"}


@pytest.mark.parametrize("row", range(len(INVALID)))
def test_the_invalid_vectors(partita: CommandRunner, row: int) -> None:
    code, out, err = partita("key", "decode", INVALID[row]["key"])
    assert (code, out) == (2, ""), f"row {row}"
    assert err.startswith("partita: not a canonical partition key, at position "), f"row {row}"


@pytest.mark.parametrize("row", range(len(VALID)))
def test_the_ids_of_the_vectors(partita: CommandRunner, row: int) -> None:
    assert partita("key", "id", ASSET, VALID[row]["key"]).out == f"{VALID[row]['id']}\n", f"row {row}"


def test_ids_of_lines(partita: CommandRunner) -> None:
    keys = "".join(f"{row['key']}\n" for row in VALID)
    ids = "".join(f"{row['id']}\n" for row in VALID)
    assert partita("key", "id", ASSET, stdin=keys) == CommandOutcome(0, ids, "")


def test_an_id_as_json(partita: CommandRunner) -> None:
    assert json.loads(partita("key", "id", ASSET, VALID[0]["key"], "--json").out) == {
        "asset": ASSET,
        "key": VALID[0]["key"],
        "id": VALID[0]["id"],
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["", "a=i:1"], "an asset's id must be a non-empty string"),
        (["orders", "date=2025-01-15"], "a value is a type tag of one letter"),
        (["orders"], "one key per line on standard input"),
    ],
)
def test_refused_ids(partita: CommandRunner, words: list[str], message: str) -> None:
    code, out, err = partita("key", "id", *words)
    assert (code, out) == (2, "")
    assert message in err
