"""Expressions of Spark SQL as text: names, literals, types and casts, quoted so that any name or value is safe.

Scans and writes of tables with hundreds of columns are built from text instead of Columns: each step of a Column is a
call to the JVM, and text takes a tenth of the time.

Spark replaces `${...}` in the text of an expression by a variable of the session, inside of quotes too. Names and
values that contain it are written in hexadecimal, or given to Spark outside of the text.

The functions at the end look for single characters in the text of users. They are not a parser: each may say yes
without need, which then costs one more select, or a setting that the session must have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as spark_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


def quote_identifier(name: str) -> str:
    """Return a name in backquotes."""
    return f"`{name.replace('`', '``')}`"


def column_sql(name: str, qualifier: str = "") -> str:
    """Return a reference to a column of any name; `qualifier` stands before it, such as `t.`."""
    text = f"{qualifier}{quote_identifier(name)}"
    return f"IDENTIFIER({string_literal_sql(text)})" if "${" in name else text


def string_literal_sql(value: str) -> str:
    """Return a string literal; characters that settings of the session give a meaning are written in hexadecimal."""
    return f"'{value}'" if _is_plain_text(value) else f"CAST(X'{value.encode().hex()}' AS STRING)"


_is_plain_text = re.compile(r"[A-Za-z0-9_/:.=%+ -]*").fullmatch


def type_sql(data_type: DataType) -> str:
    """Return a type in SQL, whose fields are all nullable there."""
    if isinstance(data_type, spark_types.StructType):
        return f"STRUCT<{', '.join(f'{quote_identifier(f.name)}: {type_sql(f.dataType)}' for f in data_type.fields)}>"
    if isinstance(data_type, spark_types.ArrayType):
        return f"ARRAY<{type_sql(data_type.elementType)}>"
    if isinstance(data_type, spark_types.MapType):
        return f"MAP<{type_sql(data_type.keyType)}, {type_sql(data_type.valueType)}>"
    # The session decides what TIMESTAMP means (`spark.sql.timestampType`).
    return "TIMESTAMP_LTZ" if isinstance(data_type, spark_types.TimestampType) else data_type.simpleString()


def cast_sql(value: str, data_type: DataType) -> str:
    """Return a cast of an expression to a type, whose fields are all nullable after it."""
    return f"CAST({value} AS {type_sql(data_type)})"


def select_sql(rows: DataFrame, columns: Iterable[tuple[str, str]]) -> DataFrame:
    """Select expressions in SQL, each with the name of its column."""
    expressions, names = zip(*columns, strict=True)
    if has_variable(*names):
        return rows.selectExpr(*expressions).toDF(*names)
    return rows.selectExpr(
        *(f"{sql} AS {quote_identifier(name)}" for sql, name in zip(expressions, names, strict=True))
    )


def alias_names(names: Sequence[str], is_plain: Callable[[str], object]) -> list[str]:
    """Return the names with an alias by position in place of each name that is not plain, or looks like an alias."""
    return [
        name if is_plain(name) and not name.lower().startswith(_ALIAS_PREFIX) else f"{_ALIAS_PREFIX}{index}"
        for index, name in enumerate(names)
    ]


_ALIAS_PREFIX = "__partita_column_"


def has_variable(*texts: str) -> bool:
    """Whether Spark might replace a part of one of the texts by a variable (`${...}`)."""
    return any("$" in text for text in texts)


def has_function_call(*texts: str) -> bool:
    """Whether one of the texts might call a function: it has a parenthesis."""
    return any("(" in text for text in texts)


def has_escape(*texts: str) -> bool:
    """Whether one of the texts might have an escape in a string literal: it has a backslash."""
    return any("\\" in text for text in texts)


def has_double_quote(*texts: str) -> bool:
    """Whether one of the texts might have something in double quotes, which is a string or a name."""
    return any('"' in text for text in texts)
