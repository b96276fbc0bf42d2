"""Rows as a table takes them: its columns by name, its types, its rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructType

from partita import errors
from partita.algebra.transforms import PartitionFunction
from partita.errors import ConstraintError, PartitaError, PartitionValueError, PredicateError, SchemaError, TableError
from partita.spark.arrow_types import plain_rows
from partita.spark.scan import frame_of
from partita.spark.schema import find_column, quoted
from partita.spark.session import session
from partita.spark.transforms import apply

__all__ = ["Column", "DataFrame", "DataType", "Rule", "SparkSession", "StructType", "among", "as_frame", "checked",
           "column", "conformed", "filtered", "fits", "is_text", "not_among", "not_null", "only", "partition_values",
           "picked", "renamed", "repacked", "required", "required_sql", "translated", "with_columns",
           "without_empty"]  # fmt: skip

_REFUSED = "refused by the table: "
_LINE = "\n"
_STATE = " SQLSTATE: "
_VALUE = re.compile(
    r"partition column '(?P<column>.*?)': expected (?P<expected>.*?), found (?P<found>.*?)(?: SQLSTATE|$)"
)
"""The text of a `PartitionValueError`."""
_NUMBERS = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds for every row of a table: an SQL condition on its columns, and what it is called."""

    name: str
    condition: str


def as_frame(given: object, spark: SparkSession | None = None) -> DataFrame:
    """Rows that are Spark's, Arrow's or pandas', as a DataFrame."""
    if isinstance(given, DataFrame):
        return given
    if hasattr(given, "sparkSession") and hasattr(given, "mapInArrow"):
        return given  # type: ignore[return-value] # a DataFrame of Spark Connect
    running = spark or session()
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    if isinstance(given, pd.DataFrame):
        given = pa.Table.from_pandas(given, preserve_index=False)
    if isinstance(given, pa.Table):
        return frame_of(running, plain_rows(given))
    raise SchemaError(f"rows are a Spark DataFrame, an Arrow table or a pandas DataFrame, not {type(given).__name__}")


def conformed(rows: DataFrame, schema: StructType, generated: Mapping[str, Column]) -> DataFrame:
    """The rows with the columns of `schema`, found by name without regard to case, in its order and its types.

    A column that is missing is null, or what `generated` makes of the others; one that is given and `generated` as well
    must be the same. Columns that the table doesn't have, and types that don't fit without a loss, are refused before
    anything runs; nulls where none may be fail the query.
    """
    named = _named(rows.schema, schema)
    columns: list[Column] = []
    for f in schema.fields:
        given = named.get(f.name)
        if given is None:
            if f.name not in generated and not f.nullable:
                raise SchemaError(f"column {f.name!r} is missing, and may not be null")
            columns.append(F.lit(None).cast(f.dataType).alias(f.name))
            continue
        found = rows.schema[given].dataType
        if not fits(found, f.dataType):
            raise SchemaError(
                f"column {f.name!r} is {f.dataType.simpleString()} in the table, "
                f"and {found.simpleString()} in the rows; cast it"
            )
        columns.append(F.col(quoted(given)).cast(f.dataType).alias(f.name))
    made = rows.select(*columns)
    for name, value in generated.items():
        if name in named:
            same = F.col(quoted(name)).eqNullSafe(value)
            made = required(made, same, f"column {name!r} is not what it is generated as")
        else:
            made = made.withColumn(name, value.cast(schema[name].dataType))
    return not_null(made, schema)


def column(name: str) -> Column:
    """A column of the rows, whatever its name holds."""
    return F.col(quoted(name))


def with_columns(rows: DataFrame, made: Mapping[str, Column]) -> DataFrame:
    """The rows with some columns made anew."""
    for name, value in made.items():
        rows = rows.withColumn(name, value)
    return rows


def partition_values(
    rows: DataFrame, functions: Sequence[PartitionFunction], prefix: str, *, family: str
) -> list[Column]:
    """A family's functions of rows, under a prefix and their numbers."""
    values = []
    for at, function in enumerate(functions):
        source, data_type = find_column(rows.schema, function.source)
        values.append(apply(function, source, data_type, family=family).alias(f"{prefix}{at}"))
    return values


def among(rows: DataFrame, values: Sequence[Column], wanted: DataFrame) -> DataFrame:
    """The rows whose values are in the columns of another frame, null being null."""
    return _joined(rows, values, wanted, "left_semi")


def not_among(rows: DataFrame, values: Sequence[Column], wanted: DataFrame) -> DataFrame:
    """The rows whose values are not in the columns of another frame, null being null."""
    return _joined(rows, values, wanted, "left_anti")


def _joined(rows: DataFrame, values: Sequence[Column], wanted: DataFrame, how: str) -> DataFrame:
    names = [f"__partita_wanted_{at}" for at in range(len(values))]
    condition = F.lit(True)
    for value, name in zip(values, names, strict=True):
        condition = condition & value.eqNullSafe(F.col(name))
    return rows.join(F.broadcast(wanted.toDF(*names)), condition, how)


def repacked(rows: DataFrame, size: int) -> DataFrame:
    """The rows in as many tasks as their size in bytes asks for."""
    return rows.repartition(max(1, -(-size // _TASK_BYTES)))


_TASK_BYTES = 128 * 2**20


def is_text(data_type: DataType) -> bool:
    """Whether values of the type can be empty."""
    return isinstance(data_type, spark_types.StringType | spark_types.BinaryType)


def without_empty(rows: DataFrame, names: Iterable[str]) -> DataFrame:
    """The rows with null for what is empty in some columns."""
    return with_columns(rows, {n: F.when(F.octet_length(column(n)) > F.lit(0), column(n)) for n in names})


def only(schema: StructType, names: set[str]) -> StructType:
    """Some columns of a schema, in its order."""
    return StructType([f for f in schema.fields if f.name in names])


def picked(rows: DataFrame, names: Iterable[str]) -> DataFrame:
    """Some columns, in that order."""
    return rows.select(*(quoted(name) for name in names))


def filtered(rows: DataFrame, condition: str) -> DataFrame:
    """The rows that a condition in SQL is true of."""
    return rows.filter(F.expr(condition))


def renamed(rows: DataFrame, before: Iterable[Column], columns: Iterable[tuple[str, str, DataType]]) -> DataFrame:
    """Some columns under other names and as the same types with other names inside, after those of `before`."""
    return rows.select(*before, *(F.col(quoted(old)).cast(type_).alias(new) for old, new, type_ in columns))


def not_null(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows, which fail where a column that may not be null is."""
    for f in schema.fields:
        if not f.nullable:
            rows = required(rows, F.col(quoted(f.name)).isNotNull(), f"column {f.name!r} may not be null")
    return rows


def checked(rows: DataFrame, rules: Iterable[Rule]) -> DataFrame:
    """The rows, which fail where a rule is not true of them."""
    for rule in rules:
        rows = required(rows, F.expr(rule.condition), f"{rule.name} ({rule.condition}) does not hold")
    return rows


def required(rows: DataFrame, condition: Column, problem: str) -> DataFrame:
    """The rows, which fail with `problem` where the condition is false or null."""
    failed = F.raise_error(F.lit(f"{_REFUSED}{problem}")).cast("boolean")
    return rows.filter(F.when(condition, F.lit(True)).otherwise(failed))


def required_sql(rows: DataFrame, condition: str, problem: str) -> DataFrame:
    """The rows, which fail with `problem` where a condition in SQL is false or null."""
    return required(rows, F.expr(condition), f"{problem} ({condition})")


@contextmanager
def translated() -> Iterator[None]:
    """What the rules refuse in a running query, as a `ConstraintError` or a `PartitionValueError`."""
    try:
        yield
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise TableError(f"a file of the table is gone: {_first_line(str(error))}") from error
        raise PredicateError(f"Spark can't make sense of it: {_first_line(str(error))}") from error
    except (PySparkException, Py4JError) as error:
        text = str(error)
        for mark in (_REFUSED, "ConstraintError: "):
            if mark in text:
                problem = text.partition(mark)[2].partition(_LINE)[0].partition(_STATE)[0]
                raise ConstraintError(problem.strip()) from error
        value = _VALUE.search(text)
        if value is not None:
            raise PartitionValueError(value["column"], value["expected"], value["found"]) from error
        own = _raised_by_executor(text)
        if own is not None:
            raise own from error
        if isinstance(error, PythonException):
            lines = [line for line in text.splitlines() if line.strip()]
            raise TableError(f"an executor failed: {lines[-1].strip()}") from error
        raise TableError(f"Spark failed, and nothing was changed: {_problem(text)}") from error


_OWN = re.compile(r"^partita\.errors\.(?P<name>\w+): (?P<text>.*)", re.MULTILINE | re.DOTALL)


def _raised_by_executor(text: str) -> PartitaError | None:
    """The error of Partita's own that the text of a worker's traceback ends with, by its class and its words.

    A class that is made of fields, which the text doesn't have, counts as the one above it.
    """
    found = _OWN.search(text)
    kind = getattr(errors, found["name"], None) if found is not None else None
    if found is None or not isinstance(kind, type) or not issubclass(kind, PartitaError):
        return None
    plain = next(one for one in kind.__mro__ if "__init__" not in vars(one))
    words = found["text"].partition("\n\nJVM stacktrace")[0].partition(_STATE)[0]
    words = words.partition("\n\tat ")[0].strip()
    return plain(f"on an executor: {words}") if issubclass(plain, PartitaError) else TableError(words)


_LOST = re.compile(r"most recent failure: (?:Lost task [^:]*: )?(?P<why>.*)")
_CAUSE = re.compile(r"^Caused by: (?P<why>.*)", re.MULTILINE)


def _problem(text: str) -> str:
    """What the text of an error of the JVM says of a task that was lost, and of the innermost cause."""
    lost, causes = _LOST.search(text), _CAUSE.findall(text)
    if lost is None:
        return _first_line(text)
    return "; ".join(dict.fromkeys([lost["why"].strip(), *causes[-1:]]))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "it says nothing of it")


def fits(found: DataType, wanted: DataType) -> bool:
    """Whether every value of the one type is one of the other."""
    if isinstance(found, spark_types.NullType) or _shape(found) == _shape(wanted):
        return True
    if isinstance(found, _NUMBERS) and isinstance(wanted, _NUMBERS):
        return _NUMBERS.index(type(found)) <= _NUMBERS.index(type(wanted))
    if isinstance(found, spark_types.FloatType) and isinstance(wanted, spark_types.DoubleType):
        return True
    if isinstance(found, spark_types.DecimalType) and isinstance(wanted, spark_types.DecimalType):
        return found.scale <= wanted.scale and found.precision - found.scale <= wanted.precision - wanted.scale
    return isinstance(found, spark_types.VarcharType | spark_types.CharType) and wanted == spark_types.StringType()


def _named(found: StructType, wanted: StructType) -> dict[str, str]:
    """The name in the rows of each column that they have."""
    names = {name.casefold(): name for name in wanted.fieldNames()}
    named: dict[str, str] = {}
    for given in found.fieldNames():
        name = names.get(given.casefold())
        if name is None:
            raise SchemaError(f"the table has no column {given!r}; its columns are: {', '.join(wanted.fieldNames())}")
        if name in named:
            raise SchemaError(f"the rows have column {name!r} twice, as {named[name]!r} and {given!r}")
        named[name] = given
    return named


def _shape(data_type: DataType) -> Any:
    """The type's JSON without what it says of nulls."""
    return _without_nulls(data_type.jsonValue())


def _without_nulls(json: Any) -> Any:
    if isinstance(json, dict):
        skipped = {"nullable", "containsNull", "valueContainsNull", "metadata"}
        return {key: _without_nulls(value) for key, value in json.items() if key not in skipped}
    return [_without_nulls(item) for item in json] if isinstance(json, list) else json
