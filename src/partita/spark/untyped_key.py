"""What a column adds to a partition key whose type Spark alone knows, with nothing left to decide a row."""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from partita.spark.instants import OUTSIDE
from partita.spark.key_pieces import INTEGERS, TAKES, problem, typed_pieces


def untyped_pieces(name: str, label: str, source: Column | str) -> tuple[Column, ...]:
    """The pieces by the column's own type: as for a known one, and three for every type.

    `typeof` is a constant to the optimizer, so one branch is left of each piece; but until then every branch must suit
    every type, which is why each goes through text, or through a function that is chosen by the type.
    """
    column = F.col(source) if isinstance(source, str) else source
    if isinstance(source, str) and re.fullmatch(r"\w+(\.\w+)*", source, re.ASCII):
        boolean, date, timestamp = _by_function(name, label, source)
    else:
        boolean, date, timestamp = _by_text(name, label, column)
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


def _by_function(name: str, label: str, source: str) -> tuple[tuple[Column, ...], ...]:
    """A boolean, a date and a timestamp in that column, if it is one."""
    boolean = _called("boolean", "coalesce", source).cast("boolean")
    date = F.date_from_unix_date(_called("date", "unix_date", source).cast("int"))
    timestamp = F.timestamp_micros(_called("timestamp", "unix_micros", source).cast("long"))
    return (
        typed_pieces(name, label, boolean, spark_types.BooleanType()),
        typed_pieces(name, label, date, spark_types.DateType()),
        typed_pieces(name, label, timestamp, spark_types.TimestampType()),
    )


def _called(kind: str, function: str, source: str) -> Column:
    """What `function` says of a column of that kind; a column of another is never asked, and may be of any.

    The name of a function may be an expression, if that is a constant as the query is analysed.
    """
    column = ".".join(f"`{part}`" for part in source.split("."))
    return F.expr(f"IDENTIFIER(if(typeof({column}) = '{kind}', '{function}', 'isnull'))({column})")


def _by_text(name: str, label: str, column: Column) -> tuple[tuple[Column, ...], ...]:
    """The same of a column that has no name to be called by."""
    known = column.isNotNull()
    return (
        (F.when(known, F.lit(f"{label}b:")), column.cast("string")),
        (F.when(known, F.lit(f"{label}d:")), _date(name, column)),
        (F.when(known, F.lit(f"{label}t:")), _timestamp(name, column)),
    )


def _date(name: str, column: Column) -> Column:
    # The text stands in every branch, so that it is made once.
    text = column.cast("string")
    fits = (F.octet_length(text) == F.lit(10)) & (text >= F.lit("0001"))
    moved = (text == F.lit(_AFTER_GAP)) & (
        _stored(column) != F.unix_date(F.lit(_AFTER_GAP).cast("date")).cast("string")
    )
    return _unless_wrong(name, text, fits=fits, moved=moved, octets=text.cast("binary"))


def _timestamp(name: str, column: Column) -> Column:
    """JSON takes every type, and formats in the zone that it is told."""
    form = {"timeZone": "UTC", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'", "ignoreNullFields": "true"}
    json = F.to_json(F.struct(column.alias("t")), form)
    has_size = F.octet_length(json) == len('{"t":"0001-01-01T00:00:00.000000Z"}')
    fits = column.isNull() | (has_size & (json >= F.lit('{"t":"0001')))
    told = F.substring(json, 7, 27).cast("timestamp")
    moved = json.startswith(F.lit(f'{{"t":"{_AFTER_GAP}')) & (_stored(column) != F.unix_micros(told).cast("string"))
    # A null's JSON is `{}`, whose 7th byte on is empty.
    octets = F.substring(json.cast("binary"), 7, 27)
    return _unless_wrong(name, json, fits=fits, moved=moved, octets=octets)


def _stored(column: Column) -> Column:
    """The number that Spark keeps a date or a timestamp as; `%s` takes every type and formats none."""
    return F.format_string("%s", column)


_AFTER_GAP = "1582-10-15"
"""The text that Spark gives ten other days too, where a setting has it follow the calendar of their time."""
_MOVED = "a day of October 1582 that spark.sql.legacy.timeParserPolicy=LEGACY takes for another; give the column's type"


def _unless_wrong(name: str, text: Column, *, fits: Column, moved: Column, octets: Column) -> Column:
    far = F.raise_error(F.concat(F.lit(problem(name, OUTSIDE)), text)).cast("binary")
    other_day = F.raise_error(F.lit(problem(name, _MOVED))).cast("binary")
    return F.when(~fits, far).when(moved, other_day).otherwise(octets)
