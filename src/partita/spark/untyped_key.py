"""What a column adds to a partition key whose type Spark alone knows, with nothing left to decide a row."""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from partita.spark.key_pieces import INTEGERS, TAKES, problem, typed_pieces


def untyped_pieces(name: str, label: str, source: Column | str) -> tuple[Column, ...]:
    """The pieces by the column's own type: as for a known one, and three for every type.

    `typeof` is a constant to the optimizer, so one branch is left of each piece; but until then every branch must suit
    every type, which is why each goes through text, or through a function that takes or is chosen for the type.
    """
    column = F.col(source) if isinstance(source, str) else source
    if isinstance(source, str) and re.fullmatch(r"\w+(\.\w+)*", source, re.ASCII):
        flag, days, micros = (_called(kind, function, source) for kind, function in _FUNCTIONS)
    else:
        # `%s` takes every type, and of dates and timestamps it shows the number that they are kept as.
        flag = column.cast("string") == F.lit("true")
        days = micros = F.format_string("%s", column).try_cast("long")
    boolean = typed_pieces(name, label, flag.cast("boolean"), spark_types.BooleanType())
    date = typed_pieces(name, label, F.date_from_unix_date(days.cast("int")), spark_types.DateType())
    timestamp = typed_pieces(name, label, F.timestamp_micros(micros.cast("long")), spark_types.TimestampType())
    kind = F.typeof(column)
    text = column.cast("string")
    string = typed_pieces(name, label, text, spark_types.StringType())
    integer = F.when(column.isNotNull(), F.lit(f"{label}i:")), text
    refused = F.concat(F.lit(problem(name, "a column of type ")), kind, F.lit(f" can't be in a key; {TAKES}"))
    pieces = _three(F.raise_error(refused).cast("string"))
    for is_kind, its in (
        (kind.startswith("string") | kind.startswith("varchar"), string),
        (kind == "timestamp", timestamp),
        (kind == "date", date),
        (kind == "boolean", boolean),
        (kind.isin("void", *INTEGERS), integer),
    ):
        pieces = tuple(F.when(is_kind, one).otherwise(other) for one, other in zip(_three(*its), pieces, strict=True))
    return pieces


def _three(first: Column, *others: Column) -> tuple[Column, ...]:
    """All pieces as three: a text, and two of bytes."""
    octets = [piece.cast("binary") for piece in others]
    last = F.concat(*octets[1:]) if len(octets) > 1 else F.lit(b"")
    return first, octets[0] if octets else F.lit(b""), last


_FUNCTIONS = (("boolean", "coalesce"), ("date", "unix_date"), ("timestamp", "unix_micros"))
"""What tells the value of a column of that kind, as a truth or a number."""


def _called(kind: str, function: str, source: str) -> Column:
    """What `function` says of a column of that kind; a column of another is never asked, and may be of any.

    The name of a function may be an expression, if that is a constant as the query is analysed.
    """
    column = ".".join(f"`{part}`" for part in source.split("."))
    return F.expr(f"IDENTIFIER(if(typeof({column}) = '{kind}', '{function}', 'isnull'))({column})")
