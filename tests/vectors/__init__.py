"""The vectors that pin Partita's meaning, as JSON next to this file; each says in `source` where its rows come from."""

import json
from pathlib import Path
from typing import Any


def load_vectors(name: str) -> dict[str, Any]:
    """The vectors of `name`.json."""
    vectors: dict[str, Any] = json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))
    return vectors
