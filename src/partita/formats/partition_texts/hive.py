"""Stage 3: the partition directory, by Hive's escaping rules."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
"""The directory name of null, and of the empty string and empty bytes, which Delta can't distinguish from null."""

_ESCAPED_NULL_DIRECTORY = f"%5F{NULL_DIRECTORY[1:]}"
"""The directory name of the text `__HIVE_DEFAULT_PARTITION__`, escaped to differ from that of null."""

MAX_NAME_BYTES = 255
"""Maximum length of a file name in bytes."""

_ESCAPED_CHARACTERS = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")


def partition_directory(columns: Iterable[tuple[str, str | None]]) -> str:
    """Return the directory of a partition, as `region=US%2FEast/day=2025-01-15`, from names and texts in order."""
    return "/".join(_short_segment(name, text) for name, text in columns)


def escape_name(text: str) -> str:
    """Escape the characters that a directory name can't hold as `%XX`; spaces and non-ASCII characters stay."""
    return _ESCAPED_CHARACTERS.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescape_name(text: str) -> str:
    """Reverse `escape_name`."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def directory_segment(name: str, text: str | None) -> str:
    """Return the name of a folder, as `region=US%2FEast`; it may be too long for a file system."""
    return f"{escape_name(name)}={_directory_value(text)}"


def _short_segment(name: str, text: str | None) -> str:
    segment = directory_segment(name, text)
    return segment if len(segment.encode()) <= MAX_NAME_BYTES else _hashed_segment(name, text or "")


def _directory_value(text: str | None) -> str:
    if text is None:
        return NULL_DIRECTORY
    return _ESCAPED_NULL_DIRECTORY if text == NULL_DIRECTORY else escape_name(text)


def _hashed_segment(name: str, text: str) -> str:
    """Return a directory name with a hash of a value that is too long for the file system; the log has the value."""
    digits = sha256(f"{name}={text}".encode()).hexdigest()[:32]
    return f"{escape_name(name)[:100]}=__PARTITA_SHA256__{digits}"
