"""Whatever a parser is given is read, or refused by a `PartitaError`: known inputs here, and random ones by atheris."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fuzz.parsers import PARSERS, input_bytes, known_inputs, run_parser
from tests.vectors import load_vectors

INPUTS = load_vectors("fuzz")["inputs"]
RUNS = 1_000_000
"""How many inputs `make prove` tries, all parsers together."""
SHARES = {
    "delta_commit": 0.05, "delta_statistics": 0.05, "delta_last_checkpoint": 0.05, "iceberg_manifest": 0.2,
    "predicate": 0.5, "lance_name": 0.5, "key_column": 0.5, "sql_statement": 0.5,
}  # fmt: skip
"""The share of a parser that is slower than others, relative to theirs."""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", range(len(INPUTS)))
def test_a_known_input_is_read_or_refused(number: int) -> None:
    run_parser(INPUTS[number]["parser"], input_bytes(INPUTS[number]))


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_has_inputs_to_start_from(name: str) -> None:
    assert known_inputs(name)


def runs_of(name: str) -> int:
    """How many random inputs a parser gets: all of them together are `RUNS` or more."""
    whole = sum(SHARES.get(other, 1.0) for other in PARSERS)
    return int(RUNS * SHARES.get(name, 1.0) / whole) + 1


def test_a_million_inputs_are_tried() -> None:
    assert sum(map(runs_of, PARSERS)) >= RUNS


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed; `make prove` installs it")
@pytest.mark.parametrize("name", PARSERS)
def test_random_inputs_are_read_or_refused(name: str, tmp_path: Path) -> None:
    """In a process of its own, which ends at the first input that breaks a parser or takes over ten seconds."""
    program = Path(__file__).with_name("fuzz_parser.py")
    options = [f"-runs={runs_of(name)}", "-timeout=10", "-rss_limit_mb=4096", "-max_len=2048", "-print_final_stats=1"]
    done = subprocess.run(
        [sys.executable, str(program), name, *options], cwd=tmp_path, capture_output=True, check=False, timeout=1100,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    told = done.stderr.decode("utf-8", "replace")
    assert done.returncode == 0, f"{told[-6000:]}\nthe input is a row for tests/vectors/fuzz.json"
