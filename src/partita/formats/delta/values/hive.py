"""Stage 3: the directory, by Hive's rules for names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

NULL = "__HIVE_DEFAULT_PARTITION__"
"""The directory of null, and of the empty string and empty bytes, which Delta can't tell from it."""

_LOOKS_NULL = f"%5F{NULL[1:]}"
"""The directory of the text that null's is called: the same once it is unescaped, and one of its own."""

LONGEST = 255
"""Bytes that a file system takes for one name."""

_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")


def directory(columns: Iterable[tuple[str, str | None]]) -> str:
    """`region=US%2FEast/day=2025-01-15` of the columns' texts, in order."""
    return "/".join(_segment(name, text) for name, text in columns)


def escaped(text: str) -> str:
    """The characters that a directory's name can't hold as `%XX`; spaces and all beyond ASCII stay."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescaped(text: str) -> str:
    """The text of which `escaped` made that one."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def _segment(name: str, text: str | None) -> str:
    segment = f"{escaped(name)}={_LOOKS_NULL if text == NULL else NULL if text is None else escaped(text)}"
    return segment if len(segment.encode()) <= LONGEST else _hashed(name, text or "")


def _hashed(name: str, text: str) -> str:
    """A name short enough for the file system; the log has the value."""
    digits = sha256(f"{name}={text}".encode()).hexdigest()[:32]
    return f"{escaped(name)[:100]}=__PARTITA_SHA256__{digits}"
