"""Write the table of formats and operations into README.md and docs/index.md, from the formats' declarations."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from partita.formats.capabilities import Operation
from partita.formats.registry import table_formats

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "index.md")
_START, _END = "<!-- capabilities: scripts/capability_matrix.py -->\n", "<!-- end of capabilities -->"
_BLOCK = re.compile(f"(?<={re.escape(_START)}).*?(?={re.escape(_END)})", re.DOTALL)


def capability_matrix() -> str:
    """Return the table as Markdown: a row for each operation, a column for each format."""
    formats = table_formats()
    lines = [f"| | {' | '.join(f.title for f in formats)} |", f"|---|{'---|' * len(formats)}"]
    for operation in Operation:
        cells = ("yes" if f.supports(operation) else f"no: {f.gaps[operation].way_out}" for f in formats)
        lines.append(f"| {operation.value.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


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
