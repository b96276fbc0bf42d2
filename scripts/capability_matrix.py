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
    lines = [f"| | {' | '.join(f.title for f in formats)} |", f"|---|{'---|' * len(formats)}"]
    notes: list[str] = []
    for operation in Operation:
        name = operation.value.replace("_", " ")
        gaps = {f.title: f.gaps[operation] for f in formats if not f.supports(operation)}
        # Formats with the same gap share a note.
        titles_by_gap: dict[Gap, list[str]] = {}
        for title, gap in gaps.items():
            titles_by_gap.setdefault(gap, []).append(title)
        numbers = {gap: len(notes) + index for index, gap in enumerate(titles_by_gap, start=1)}
        notes += [
            f"{numbers[gap]}. *{name}*: {_with_article(' or '.join(titles))} table {gap.reason}; {gap.way_out}."
            for gap, titles in titles_by_gap.items()
        ]
        cells = (f"no ({numbers[gaps[f.title]]})" if f.title in gaps else "yes" for f in formats)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *notes]) + "\n"


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOU' else 'a'} {noun}"


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
