"""Bytes as base64url without padding."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_LINE = 57
"""How many bytes Spark writes in a line, where a setting has it break lines; that many leave nothing to pad."""


def base64url(octets: Column) -> Column:
    """The text of a binary; null of null."""
    return F.concat(*base64url_pieces(octets, F.octet_length(octets))).cast("string")


def base64url_pieces(octets: Column, size: Column) -> tuple[Column, Column]:
    """The text's two parts as bytes, which are put together faster: of the first `_LINE` bytes, and of all others.

    The first is null of null. `size` is how many bytes there are, often known more cheaply than from `octets`.
    """
    # What is shared by branches is made once only where it is always needed: hence no branch around the first part.
    # Spark would check a product and a sum for overflow, at a price; shifting a number this small can't.
    times_four = F.shiftleft(F.least(size, F.lit(_LINE)), 2)
    length = F.call_function("div", times_four.bitwiseOR(F.lit(2)), F.lit(3)).cast("int")
    first = F.substring(F.base64(octets).cast("binary"), F.lit(1), length)
    odd = F.contains(first, F.lit(b"+")) | F.contains(first, F.lit(b"/"))
    rest = F.translate(F.base64(F.substring(octets, F.lit(_LINE + 1), size)), "+/=\r\n", "-_").cast("binary")
    return (
        F.when(odd, F.translate(first.cast("string"), "+/", "-_").cast("binary")).otherwise(first),
        F.when(size > F.lit(_LINE), rest).otherwise(F.lit(b"")),
    )
