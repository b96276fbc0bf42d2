"""Base64url without padding, as Columns."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_LINE_BYTES = 57
"""The bytes in a line if a setting makes Spark break lines; a multiple of 3, so a full line has no padding."""


def base64url(octets: Column) -> Column:
    """Return the base64url text of a binary; null for null."""
    return F.concat(*base64url_pieces(octets, F.octet_length(octets))).cast("string")


def base64url_pieces(octets: Column, byte_count: Column) -> tuple[Column, Column]:
    """Return the text in two parts as bytes, for the first `_LINE_BYTES` bytes and the others; the first may be null.

    Spark concatenates bytes faster than strings. `byte_count` is the length of `octets`, which a caller often has from
    a cheaper expression.
    """
    # Spark evaluates an expression that branches share only once if it is always needed, so the first part is outside
    # of the branches. It checks sums and products for overflow, which takes time; shifting this small number is safe.
    times_four = F.shiftleft(F.least(byte_count, F.lit(_LINE_BYTES)), 2)
    length = F.call_function("div", times_four.bitwiseOR(F.lit(2)), F.lit(3)).cast("int")
    first = F.substring(F.base64(octets).cast("binary"), F.lit(1), length)
    has_other_characters = F.contains(first, F.lit(b"+")) | F.contains(first, F.lit(b"/"))
    rest = F.translate(F.base64(F.substring(octets, F.lit(_LINE_BYTES + 1), byte_count)), "+/=\r\n", "-_").cast(
        "binary"
    )
    return (
        F.when(has_other_characters, F.translate(first.cast("string"), "+/", "-_").cast("binary")).otherwise(first),
        F.when(byte_count > F.lit(_LINE_BYTES), rest).otherwise(F.lit(b"")),
    )
