"""A process that appends to leaves which others make and append to at the same time."""

from __future__ import annotations

import sys
import time

import partita as pt
from tests.formats.lance.tables import events, write

ROUNDS, LEAVES = 4, 6


def main(uri: str, number: str, begin: str) -> None:
    """Append each row to its leaf, one write a round."""
    table = pt.open_table(uri, format="lance")
    first = int(number) * ROUNDS * LEAVES
    time.sleep(max(0.0, float(begin) - time.time()))
    for round_ in range(ROUNDS):
        write(table, events(*((first + round_ * LEAVES + leaf, "2025-12-10", f"C{leaf}") for leaf in range(LEAVES))))


if __name__ == "__main__":
    main(*sys.argv[1:])
