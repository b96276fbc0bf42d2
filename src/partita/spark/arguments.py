"""What callers give to the public functions of Spark: DataFrames, columns and types."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from partita.errors import SchemaError, value_repr
from partita.untrusted_input import is_unicode


def check_frame(df: object) -> None:
    """Raise `SchemaError` for rows that are no DataFrame of Spark."""
    if not isinstance(df, DataFrame):
        raise SchemaError(f"rows are a Spark DataFrame here, not {_type_text(df)}")


def check_column_name(name: object) -> None:
    """Raise `SchemaError` for the name of a new column that is no text."""
    if not is_unicode(name):
        raise SchemaError(f"the name of a column is a text, not {value_repr(name)}")


def to_column(subject: str, column: object) -> Column:
    """Return a column, or the one of a name; raise `SchemaError` with the subject for anything else."""
    if isinstance(column, Column):
        return column
    if isinstance(column, str) and is_unicode(column):
        return F.col(column)
    raise SchemaError(f"{subject} is a Column or the name of one, not {_type_text(column)}")


def check_data_type(subject: str, data_type: object) -> None:
    """Raise `SchemaError` with the subject for anything but a Spark type."""
    if not isinstance(data_type, DataType):
        raise SchemaError(f"{subject} has a Spark type, as in df.schema[...].dataType, not {_type_text(data_type)}")


def _type_text(value: object) -> str:
    """Return a short value as it is written, or else its type: the `repr` of a DataFrame may run a query."""
    return value_repr(value) if value is None or isinstance(value, str | int | float | type) else type(value).__name__
