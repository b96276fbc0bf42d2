"""An mkdocs hook: every page in docs/adr/ is in the navigation, in the order of its number, without being listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Put the decisions after the pages that mkdocs.yml names."""
    docs = Path(config["docs_dir"])
    decisions = sorted(path.relative_to(docs).as_posix() for path in (docs / "adr").glob("[0-9]*.md"))
    config["nav"].append({"Decisions": ["adr/index.md", *decisions]})
    return config
