"""The lengths of CHAR(n) and VARCHAR(n) values, checked at every depth of a column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from partita.algebra.types import CharType, ListType, LogicalType, MapType, StructType, VarcharType
from partita.errors import TableError
from partita.spark.constraints import Violation
from partita.spark.sql_text import quote_identifier

_CHAR_AS_STRING = "spark.sql.legacy.charVarcharAsString"


def length_violations(columns: Mapping[str, LogicalType]) -> list[Violation]:
    """List a violation for each CHAR(n) and VARCHAR(n) in some columns: a value of more than n characters.

    Spaces count, as they do for delta-spark.
    """
    return [
        Violation(condition, f"a value of column {path!r} is longer than {str(type_).upper()} takes")
        for name, column_type in columns.items()
        for path, type_, condition in _length_limits(name, quote_identifier(name), column_type, 0)
    ]


def _length_limits(path: str, value: str, type_: LogicalType, depth: int) -> Iterator[tuple[str, LogicalType, str]]:
    """Yield each CHAR or VARCHAR inside a value: its path, its type, and the SQL that is true if it is too long."""
    if isinstance(type_, CharType | VarcharType):
        yield path, type_, f"length({value}) > {type_.length}"
    elif isinstance(type_, StructType):
        for field in type_.fields:
            yield from _length_limits(
                f"{path}.{field.name}", f"{value}.{quote_identifier(field.name)}", field.type, depth
            )
    elif isinstance(type_, ListType):
        yield from _item_length_limits(f"{path}.element", value, type_.element, depth)
    elif isinstance(type_, MapType):
        yield from _item_length_limits(f"{path}.key", f"map_keys({value})", type_.key, depth)
        yield from _item_length_limits(f"{path}.value", f"map_values({value})", type_.value, depth)


def _item_length_limits(
    path: str, array: str, type_: LogicalType, depth: int
) -> Iterator[tuple[str, LogicalType, str]]:
    item = f"item{depth}"
    for inner, limited_type, condition in _length_limits(path, item, type_, depth + 1):
        yield inner, limited_type, f"exists({array}, {item} -> {condition})"


def with_text_lengths(rows: DataFrame, lengths: Mapping[str, Mapping[str, str]]) -> DataFrame:
    """Add the metadata of CHAR(n) and VARCHAR(n) columns to rows, by which Spark pads and compares their values.

    Raises `TableError` if the session treats CHAR as STRING: it would not see the spaces that Partita plans with.
    """
    if not lengths:
        return rows
    if (rows.sparkSession.conf.get(_CHAR_AS_STRING, "false") or "").lower() == "true":
        raise TableError(
            f"the session has {_CHAR_AS_STRING} = true, and values of CHAR columns are read and compared with spaces "
            f"up to their length; set {_CHAR_AS_STRING} to false"
        )
    columns = ((name, F.col(quote_identifier(name))) for name in rows.columns)
    return rows.select(*(c.alias(n, metadata=dict(lengths[n])) if n in lengths else c for n, c in columns))
