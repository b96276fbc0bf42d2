"""Partition values as Spark Columns: stages 1 and 2 of `partita.formats.partition_texts` without a Python worker.

Only the text of a float may differ from that of `partita.formats.partition_texts`: Java 17 formats some floats with
more digits than they need (`4.9E-324`, `8.089999999999999E21`), and Spark has no other way. Such a text is parsed to
the same number, so the driver shortens it when it writes the log, once per partition.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from partita.algebra.calendar import MICROS_PER_DAY
from partita.algebra.types import FLOAT_KINDS, INTEGER_KINDS, DecimalType, TypeKind
from partita.errors import PartitionValueError
from partita.spark.datetimes import long_literal, time_of_day_pieces, utc_date
from partita.spark.decimals import decimal_text
from partita.spark.schema import logical_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def partition_text(column: Column, data_type: DataType, name: str) -> Column:
    """Return the text of a partition column for `add.partitionValues`; null for null, `""` and empty bytes.

    Raises `PartitionValueError`, naming the column by `name`, for a type that Delta doesn't partition by. A value that
    Delta can't store (text with U+0000, bytes that are not UTF-8) fails the query with the message of that error.
    """
    type_ = logical_type(data_type)
    if isinstance(type_, DecimalType):
        text = _decimal_column_text(column, type_.scale)
    elif type_.kind in _UTF8_EXPECTATIONS:
        text = _checked_text(column, name, _UTF8_EXPECTATIONS[type_.kind])
    elif type_.kind in _TEXT_RULES:
        text = _TEXT_RULES[type_.kind](column)
    else:
        raise PartitionValueError(name, "a type that Delta partitions by", str(type_))
    return text.alias(name)


def _cast_to_string(column: Column) -> Column:
    return column.cast("string")


def _decimal_column_text(column: Column, scale: int) -> Column:
    """Return a decimal with all digits, as `-0.50`."""
    text = column.cast("string")
    # Outside of ANSI mode Spark writes numbers below a millionth with an exponent; the others have all digits anyway.
    return F.when(F.contains(text, F.lit("E")), decimal_text(column, scale)).otherwise(text) if scale > 6 else text


def _date_text(column: Column) -> Column:
    """Return a date as `2025-01-15`, `+10000-01-01`, `-0001-12-31`."""
    is_usual = column.between(F.lit(date(1582, 10, 15)), F.lit(date(9999, 12, 31)))
    # Spark casts other dates by `spark.sql.legacy.timeParserPolicy`, which may give two days the same text.
    year = F.year(column)
    sign = F.when(year > F.lit(9999), F.lit("+")).when(year < F.lit(0), F.lit("-")).otherwise(F.lit(""))
    far_text = F.format_string("%s%04d-%02d-%02d", sign, F.abs(year), F.month(column), F.day(column))
    return F.when(is_usual, column.cast("string")).when(column.isNotNull(), far_text)


def _timestamp_text(column: Column) -> Column:
    """Return a timestamp of any year as `2025-01-15T10:30:00.000000Z`."""
    micros = F.unix_micros(column)
    # Never negative, unlike `%`.
    return F.concat(_date_text(utc_date(micros)), *time_of_day_pieces(F.pmod(micros, long_literal(MICROS_PER_DAY))))


def _timestamp_ntz_text(column: Column) -> Column:
    """Return a timestamp without a zone, of any year, as `2025-01-15 10:30:00.000000`."""
    text = column.cast("string")
    # Spark leaves out trailing zeros: the text has no fraction, or a point and up to six digits.
    fraction_length = F.octet_length(text) - F.octet_length(F.substring_index(text, ".", 1))
    return F.concat(text, F.substring(F.lit(".000000"), fraction_length + F.lit(1), F.lit(7)))


_TEXT_RULES: dict[TypeKind, Callable[[Column], Column]] = {
    **dict.fromkeys({TypeKind.BOOLEAN, *INTEGER_KINDS, *FLOAT_KINDS}, _cast_to_string),
    TypeKind.DATE: _date_text,
    TypeKind.TIMESTAMP: _timestamp_text,
    TypeKind.TIMESTAMP_NTZ: _timestamp_ntz_text,
}

_UTF8_EXPECTATIONS = {TypeKind.STRING: "text that is UTF-8", TypeKind.BINARY: "bytes that are UTF-8"}
_NUL = "\0"


def _checked_text(column: Column, name: str, expectation: str) -> Column:
    """Return the text of a string or of bytes; the query fails for text that no path or no JSON can hold."""
    text = column.cast("string")
    nul = F.concat(
        F.lit(_error_message(name, "text that a path can hold", "U+0000 at ")),
        (F.instr(text, _NUL) - F.lit(1)).cast("string"), F.lit(" of '"), _escaped_text(text), F.lit("'"),
    )  # fmt: skip
    octets = F.concat(F.lit(_error_message(name, expectation, "X'")), _hex_preview(text.cast("binary")), F.lit("'"))
    return (
        F.when(~F.is_valid_utf8(text), F.raise_error(octets))
        .when(F.contains(text, F.lit(_NUL)), F.raise_error(nul))
        .when(F.octet_length(text) > F.lit(0), text)
    )


def _error_message(name: str, expected: str, actual: str) -> str:
    return str(PartitionValueError(name, expected, actual))


def _hex_preview(octets: Column) -> Column:
    more = F.when(F.octet_length(octets) > F.lit(40), F.lit("…")).otherwise(F.lit(""))
    return F.concat(F.hex(F.substring(octets, 1, 40)), more)


_NAMED_ESCAPES = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}


def _escaped_text(text: Column) -> Column:
    """Return the text as Python's `unicode_escape` encodes it."""
    return F.array_join(F.transform(F.split(text, ""), _escaped_character), "")


def _escaped_character(character: Column) -> Column:
    code = F.ascii(character)
    text = F.when(character.rlike(r"^[ -\[\]-~]$"), character)
    for plain, escape in _NAMED_ESCAPES.items():
        text = text.when(character == F.lit(plain), F.lit(escape))
    for form, end in ((r"\x%02x", 1 << 8), (r"\u%04x", 1 << 16)):
        text = text.when(code < F.lit(end), F.format_string(form, code))
    return text.otherwise(F.format_string(r"\U%08x", code))
