"""Fuzz one parser with atheris, guided by the coverage of Partita's code: `fuzz_parser.py NAME [options of libFuzzer]`.

A program of its own: atheris takes over the process, and ends it at the first input that raises anything but a
`PartitaError`, or that takes longer than `-timeout` says. The input is then in the current folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))

with atheris.instrument_imports(include=["partita"], enable_loader_override=False):
    from tests.fuzz.parsers import PARSERS, known_inputs, run_parser

NAME = sys.argv[1]


def write_seeds(folder: Path) -> None:
    """The inputs to start from, a file each, as libFuzzer reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(known_inputs(NAME)):
        (folder / f"seed-{number}").write_bytes(seed)
        run_parser(NAME, seed)


def main() -> None:
    """Run the fuzzer until it has had its inputs."""
    corpus = Path("corpus")
    with atheris.instrument_imports(include=["partita"], enable_loader_override=False):
        # What a parser imports when it is first called is instrumented too.
        write_seeds(corpus)
    atheris.Setup([sys.argv[0], str(corpus), *sys.argv[2:]], lambda data: run_parser(NAME, data))
    atheris.Fuzz()


if __name__ == "__main__":
    assert NAME in PARSERS
    main()
