"""Write the table of formats and operations into README.md and docs/index.md, from the formats' declarations."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from partita.formats.capabilities import Gap, Operation
from partita.formats.registry import table_formats

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "index.md")
_START, _END = "<!-- capabilities: scripts/capability_matrix.py -->\n", "<!-- end of capabilities -->"
_BLOCK = re.compile(f"(?<={re.escape(_START)}).*?(?={re.escape(_END)})", re.DOTALL)


def capability_matrix() -> str:
    """Return Markdown: a table with a row per operation and a column per format, and a note about each gap."""
    formats = table_formats()
    # Formats and operations with the same gap share a note.
    operations: dict[Gap, list[str]] = {}
    titles: dict[Gap, list[str]] = {}
    rows = [f"| | {' | '.join(f.title for f in formats)} |", f"|---|{'---|' * len(formats)}"]
    for operation in Operation:
        name = operation.value.replace("_", " ")
        cells = ["yes"] * len(formats)
        for column, table_format in enumerate(formats):
            gap = table_format.gaps.get(operation)
            if gap is not None:
                _append_new(operations.setdefault(gap, []), name)
                _append_new(titles.setdefault(gap, []), table_format.title)
                cells[column] = f"no ({list(operations).index(gap) + 1})"
        rows.append(f"| {name} | {' | '.join(cells)} |")
    notes = [
        f"{number}. *{', '.join(names)}*: {_subject(titles[gap])} {gap.reason}; {gap.way_out}."
        for number, (gap, names) in enumerate(operations.items(), start=1)
    ]
    return "\n".join([*rows, "", *notes]) + "\n"


def _append_new(texts: list[str], text: str) -> None:
    if text not in texts:
        texts.append(text)


def _subject(titles: list[str]) -> str:
    formats = " or ".join(filter(None, [", ".join(titles[:-1]), titles[-1]]))
    return f"{'an' if formats[0] in 'AEIOU' else 'a'} {formats} table"


def with_matrix(page: str) -> str:
    """Return a page with the current table between its markers."""
    return _BLOCK.sub(lambda _: capability_matrix(), page, count=1)


def main() -> int:
    """Update the pages."""
    for page in PAGES:
        page.write_text(with_matrix(page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
