"""Stage 4: the path of a file as a relative URI in `add.path`, by RFC 2396 as Java quotes it."""

from __future__ import annotations

import re

_QUOTED_CHARACTERS = re.compile(
    r"[^A-Za-z0-9_\-!.~'()*:@&=+$,;/\u00a1-\U0010ffff]"
    r"|[\u0080-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
"""All ASCII characters that a URI path can't hold; of the others, control characters and spaces."""


def encode_uri(path: str) -> str:
    """Quote the characters that a URI can't hold as `%XX` of their UTF-8 bytes; `%` is quoted too."""
    return _QUOTED_CHARACTERS.sub(lambda match: "".join(f"%{octet:02X}" for octet in match[0].encode()), path)


def decode_uri(path: str) -> str:
    """Decode the percent escapes of a URI path, of any writer; raise `UnicodeDecodeError` if they are not UTF-8."""
    octets = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), path.encode())
    return octets.decode()
