"""A process that appends to leaves that other processes create and append to at the same time."""

from __future__ import annotations

import sys
import time

import partita as pt
from tests.formats.lance.tables import commit_rows, event_rows

ROUND_COUNT, LEAF_COUNT = 4, 6


def main(uri: str, number: str, begin: str) -> None:
    """Append a row to each leaf, in one write per round."""
    table = pt.open_table(uri, format="lance")
    first = int(number) * ROUND_COUNT * LEAF_COUNT
    time.sleep(max(0.0, float(begin) - time.time()))
    for round_ in range(ROUND_COUNT):
        commit_rows(
            table,
            event_rows(*((first + round_ * LEAF_COUNT + leaf, "2025-12-10", f"C{leaf}") for leaf in range(LEAF_COUNT))),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
