"""What a column adds to a partition key whose type Spark alone knows, with nothing left to decide a row."""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from partita.algebra.calendar import days_from_civil
from partita.spark.instants import OUTSIDE
from partita.spark.key_pieces import INTEGERS, TAKES, problem, typed_pieces


def untyped_pieces(name: str, label: str, source: Column | str) -> tuple[Column, ...]:
    """The pieces by the column's own type: as for a known one, and three for every type.

    `typeof` is a constant to the optimizer, so one branch is left of each piece; but until then every branch must suit
    every type, which is why each goes through text, or through a function that takes or is chosen for the type.
    """
    column = F.col(source) if isinstance(source, str) else source
    is_named = isinstance(source, str) and re.fullmatch(r"\w+(\.\w+)*", source, re.ASCII)
    if is_named:
        flag, days, micros = (_called(kind, function, str(source)) for kind, function in _FUNCTIONS)
    else:
        # `%s` takes every type, and of dates and timestamps it shows the number that they are kept as.
        flag = column.cast("string") == F.lit("true")
        days = micros = F.format_string("%s", column).try_cast("long")
    boolean = typed_pieces(name, label, flag.cast("boolean"), spark_types.BooleanType())
    date = typed_pieces(name, label, F.date_from_unix_date(days.cast("int")), spark_types.DateType())
    timestamp = typed_pieces(name, label, F.timestamp_micros(micros.cast("long")), spark_types.TimestampType())
    if not is_named:
        date = _chosen(_is_modern(), _date_text(name, label, column), date)
    kind = F.typeof(column)
    text = column.cast("string")
    string = typed_pieces(name, label, text, spark_types.StringType())
    integer = F.when(column.isNotNull(), F.lit(f"{label}i:")), text
    refused = F.concat(F.lit(problem(name, "a column of type ")), kind, F.lit(f" can't be in a key; {TAKES}"))
    pieces: tuple[Column, ...] = (F.raise_error(refused).cast("string"),)
    for is_kind, its in (
        (kind.startswith("string") | kind.startswith("varchar"), string),
        (kind == "timestamp", timestamp),
        (kind == "date", date),
        (kind == "boolean", boolean),
        (kind.isin("void", *INTEGERS), integer),
    ):
        pieces = _chosen(is_kind, its, pieces)
    return pieces


def _chosen(condition: Column, ones: tuple[Column, ...], others: tuple[Column, ...]) -> tuple[Column, ...]:
    pairs = zip(_three(*ones), _three(*others), strict=True)
    return tuple(F.when(condition, one).otherwise(other) for one, other in pairs)


def _three(first: Column, *others: Column) -> tuple[Column, ...]:
    """All pieces as three: a text, and two of bytes."""
    octets = [piece.cast("binary") for piece in others] + [F.lit(b"")] * (2 - len(others))
    # Spark would copy a piece that is put together with no other.
    return first, octets[0], octets[1] if len(octets) == 2 else F.concat(*octets[1:])


def _date_text(name: str, label: str, column: Column) -> tuple[Column, Column]:
    """What may be a date, as Spark writes it: sooner than by its number, and right by today's calendar alone."""
    text = column.cast("string")
    fits = (F.octet_length(text) == F.lit(10)) & (text >= F.lit("0001"))
    outside = F.raise_error(F.concat(F.lit(problem(name, OUTSIDE)), text)).cast("string")
    tagged = F.when(fits, F.lit(f"{label}d:")).when(column.isNotNull(), outside)
    return tagged, text


def _is_modern() -> Column:
    """Whether Spark writes dates by today's calendar, as `spark.sql.legacy.timeParserPolicy` says: a constant to it."""
    return F.date_from_unix_date(F.lit(days_from_civil(1582, 10, 14))).cast("string") == F.lit("1582-10-14")


_FUNCTIONS = (("boolean", "coalesce"), ("date", "unix_date"), ("timestamp", "unix_micros"))
"""What tells the value of a column of that kind, as a truth or a number."""


def _called(kind: str, function: str, source: str) -> Column:
    """What `function` says of a column of that kind; a column of another is never asked, and may be of any.

    The name of a function may be an expression, if that is a constant as the query is analysed.
    """
    column = ".".join(f"`{part}`" for part in source.split("."))
    return F.expr(f"IDENTIFIER(if(typeof({column}) = '{kind}', '{function}', 'isnull'))({column})")
