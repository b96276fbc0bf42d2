"""Stage 4: the directory as `add.path` has it, a relative URI by RFC 2396 as Java quotes one."""

from __future__ import annotations

import re

_QUOTED = re.compile(
    r"[^A-Za-z0-9_\-!.~'()*:@&=+$,;/\u00a1-\U0010ffff]"
    r"|[\u0080-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
"""All of ASCII but what a path may hold, and of the rest just control characters and spaces."""


def uri_encoded(path: str) -> str:
    """The path with everything that a URI can't hold as `%XX` of its UTF-8; `%` itself is quoted once more."""
    return _QUOTED.sub(lambda match: "".join(f"%{octet:02X}" for octet in match[0].encode()), path)


def uri_decoded(path: str) -> str:
    """The path of which `uri_encoded`, or any other writer, made that URI."""
    octets = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), path.encode())
    return octets.decode()
