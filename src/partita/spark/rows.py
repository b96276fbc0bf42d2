"""Rows as a table takes them: its columns by name, its types, its rules."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
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
from partita.errors import (
    ConstraintError,
    PartitaError,
    PartitionValueError,
    PredicateError,
    SchemaError,
    StorageError,
    TableError,
)
from partita.spark.arrow_types import plain_rows
from partita.spark.nullability import required_fields, required_fields_of_null_structs
from partita.spark.object_stores import missing_file_system
from partita.spark.scan import frame_of
from partita.spark.schema import cast_sql, column_sql, find_column, has_columns, quoted, select_sql, text_sql
from partita.spark.session import session
from partita.spark.transforms import apply

__all__ = ["Column", "DataFrame", "DataType", "Rule", "SparkSession", "StructType", "Violation", "among", "as_frame",
           "checked", "column", "conformed", "filtered", "fits", "is_text", "not_among", "not_null",
           "null_struct_violations", "null_violations", "only", "partition_values", "picked", "refuse_violations",
           "refused_sql", "renamed", "repacked", "required_sql", "rule_violations", "translated", "with_columns",
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


@dataclass(frozen=True, slots=True)
class Violation:
    """A condition that no row of a table may meet, as a Column or in SQL, and what the error says where one does."""

    condition: Column | str
    problem: str


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
        given = _arrow_of_pandas(given)
    if isinstance(given, pa.Table):
        return frame_of(running, plain_rows(given))
    raise SchemaError(f"rows are a Spark DataFrame, an Arrow table or a pandas DataFrame, not {type(given).__name__}")


def _arrow_of_pandas(given: pd.DataFrame) -> pa.Table:
    """Rows of pandas as Arrow's; columns of objects may hold values of several types, which is refused by name."""
    repeated = given.columns[given.columns.duplicated()]
    if len(repeated):
        raise SchemaError(f"the pandas DataFrame has column {repeated[0]!r} more than once; give one another name")
    try:
        return pa.Table.from_pandas(given, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = "; ".join(str(argument) for argument in error.args)
        raise SchemaError(
            f"column {_mixed_column(given)!r} of the pandas DataFrame can't become one of a table: {reason}; give it "
            "values of one type, as by astype"
        ) from error


def _mixed_column(given: pd.DataFrame) -> object:
    """The first column that Arrow can't make one of; None where each can be."""
    for name in given.columns:
        try:
            pa.Array.from_pandas(given[name])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return name
    return None


def conformed(rows: DataFrame, schema: StructType, generated: Mapping[str, Column]) -> DataFrame:
    """The rows with the columns of `schema`, found by name without regard to case, in its order and its types.

    A column that is missing is null, or what `generated` makes of the others; one that is given and `generated` as well
    must be the same. Columns that the table doesn't have, and types that don't fit without a loss, are refused before
    anything runs; nulls where none may be fail the query.
    """
    named = _named(rows.schema, schema)
    types = {f.name: f.dataType for f in rows.schema.fields}
    columns: list[tuple[str, str]] = []
    for f in schema.fields:
        given = named.get(f.name)
        if given is None:
            if f.name not in generated and not f.nullable:
                raise SchemaError(f"column {f.name!r} is missing, and may not be null")
            columns.append((cast_sql("NULL", f.dataType), f.name))
            continue
        found = types[given]
        if not fits(found, f.dataType):
            raise SchemaError(
                f"column {f.name!r} is {f.dataType.simpleString()} in the table, "
                f"and {found.simpleString()} in the rows; cast it"
            )
        columns.append((cast_sql(column_sql(given), f.dataType), f.name))
    missing = {name: value.cast(schema[name].dataType) for name, value in generated.items() if name not in named}
    differing = [
        Violation(~F.col(quoted(name)).eqNullSafe(value), f"column {name!r} is not what it is generated as")
        for name, value in generated.items()
        if name in named
    ]
    is_ready = has_columns(rows.schema, [(f.name, f.dataType) for f in schema.fields])
    ready = rows if is_ready else select_sql(rows, columns)
    return refuse_violations(with_columns(ready, missing), [*differing, *null_violations(schema)])


def column(name: str) -> Column:
    """A column of the rows, whatever its name holds."""
    return F.col(quoted(name))


def with_columns(rows: DataFrame, made: Mapping[str, Column]) -> DataFrame:
    """The rows with some columns made anew."""
    return rows.withColumns(dict(made)) if made else rows


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
    wanted = list(names)
    if rows.columns == wanted:
        return rows
    return select_sql(rows, [(column_sql(name), name) for name in wanted])


def filtered(rows: DataFrame, condition: str) -> DataFrame:
    """The rows that a condition in SQL is true of."""
    return rows.filter(F.expr(condition))


def renamed(rows: DataFrame, before: Mapping[str, Column], columns: Iterable[tuple[str, str, DataType]]) -> DataFrame:
    """Some columns under other names and as the same types with other names inside, after those of `before`."""
    given = list(columns)
    is_renamed = any(old != new for old, new, _ in given)
    if not before and not is_renamed and has_columns(rows.schema, [(old, type_) for old, _, type_ in given]):
        return rows
    stored = [(cast_sql(column_sql(old), type_), new) for old, new, type_ in given]
    made = rows.select("*", *(value.alias(name) for name, value in before.items())) if before else rows
    return select_sql(made, [*((name, name) for name in before), *stored])


def not_null(rows: DataFrame, schema: StructType) -> DataFrame:
    """Fail the query where a required field of the schema is null in the rows."""
    return refuse_violations(rows, null_violations(schema))


def checked(rows: DataFrame, rules: Iterable[Rule]) -> DataFrame:
    """Fail the query where a rule is not true of the rows."""
    return refuse_violations(rows, rule_violations(rules))


def null_violations(schema: StructType) -> list[Violation]:
    """List a violation for each required field of the schema, at every depth."""
    return [Violation(f.violation, f"column {f.path!r} may not be null") for f in required_fields(schema)]


def null_struct_violations(schema: StructType) -> list[Violation]:
    """List a violation for each required field inside of a column, which a struct that is null violates too."""
    names = set(schema.fieldNames())
    fields = (field for field in required_fields_of_null_structs(schema) if field.path not in names)
    return [Violation(f.violation, f"column {f.path!r} may not be null") for f in fields]


def rule_violations(rules: Iterable[Rule]) -> list[Violation]:
    """List a violation for each rule; a rule that is null is violated too."""
    return [Violation(_is_not_true(rule.condition), f"{rule.name} ({rule.condition}) does not hold") for rule in rules]


def refuse_violations(rows: DataFrame, violations: Iterable[Violation]) -> DataFrame:
    """Fail the query with the problem of the first violation that a row meets.

    All are one filter: Spark takes minutes to plan a chain of hundreds of them.
    """
    groups = groupby(violations, key=lambda violation: isinstance(violation.condition, str))
    problems = [problem for is_sql, group in groups for problem in (_in_sql if is_sql else _in_columns)(group)]
    if not problems:
        return rows
    problem = F.coalesce(*problems)
    failed = F.raise_error(F.concat(F.lit(_REFUSED), problem)).cast("boolean")
    # Spark moves no filter that is not deterministic: below an anti join it would check rows that the join leaves out.
    is_right = problem.isNull() & (F.spark_partition_id() >= F.lit(0))
    return rows.filter(F.when(is_right, F.lit(True)).otherwise(failed))


def _in_sql(violations: Iterable[Violation]) -> list[Column]:
    """The problem of the first violation whose condition in SQL is true; null where none is."""
    cases = (f"WHEN {violation.condition} THEN {text_sql(violation.problem)}" for violation in violations)
    return [F.expr(f"CASE {' '.join(cases)} END")]


def _in_columns(violations: Iterable[Violation]) -> list[Column]:
    """The problem of each violation whose condition is true."""
    return [F.when(v.condition, F.lit(v.problem)) for v in violations if not isinstance(v.condition, str)]


def refused_sql(problem: str) -> str:
    """An expression in SQL that fails the query with a `ConstraintError`."""
    return f"raise_error({text_sql(_REFUSED + problem)})"


def _is_not_true(condition: str) -> Column:
    return ~F.coalesce(F.expr(condition), F.lit(False))


def required_sql(rows: DataFrame, condition: str, problem: str) -> DataFrame:
    """The rows, which fail with `problem` where a condition in SQL is false or null."""
    return refuse_violations(rows, [Violation(_is_not_true(condition), f"{problem} ({condition})")])


@contextmanager
def translated() -> Iterator[None]:
    """What the rules refuse in a running query, as a `ConstraintError` or a `PartitionValueError`."""
    try:
        yield
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise TableError(
                f"a file of the table is gone: {_missing_path(error)}; restore it, or the table"
            ) from error
        raise PredicateError(f"Spark can't make sense of it: {_first_line(str(error))}") from error
    except (PySparkException, Py4JError) as error:
        text = str(error)
        missing = missing_file_system(text)
        if missing is not None:
            raise StorageError(missing) from error
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
        if _has_other_python(text):
            raise TableError(
                f"Spark's Python workers can't run what Partita sends them ({_python_problem(text)}); before the "
                "session starts, set the environment variable PYSPARK_PYTHON (with spark-submit: spark.pyspark.python) "
                f"to a Python {sys.version_info[0]}.{sys.version_info[1]} that has pyarrow, such as {sys.executable}"
            ) from error
        unreadable = _UNREADABLE.search(text)
        if unreadable is not None:
            raise TableError(
                f"a data file of the table is damaged or gone, and nothing was changed: {unreadable['path']}: "
                f"{_problem(text)}"
            ) from error
        if isinstance(error, PythonException):
            lines = [line for line in text.splitlines() if line.strip()]
            raise TableError(f"an executor failed: {lines[-1].strip()}") from error
        raise TableError(f"Spark failed, and nothing was changed: {_problem(text)}") from error


def _missing_path(error: AnalysisException) -> str:
    """The path that Spark didn't find."""
    found = (error.getMessageParameters() or {}).get("path")
    return found or _first_line(str(error))


_OTHER_PYTHON = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\][^\n]*|(?:ModuleNotFoundError|ImportError)[^\n]*|"
    r"\[(?:UNSUPPORTED_PACKAGE_VERSION|PACKAGE_NOT_INSTALLED)\][^\n]*|Cannot run program [^\n]*"
)
"""What a worker, or Spark that starts one, says of a Python that lacks something."""


def _has_other_python(text: str) -> bool:
    return _OTHER_PYTHON.search(text) is not None


def _python_problem(text: str) -> str:
    found = _OTHER_PYTHON.search(text)
    return "" if found is None else found[0].partition(_STATE)[0].strip()


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


_UNREADABLE = re.compile(r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file (?P<path>\S+?)\.?\s")
"""How Spark says that it can't read a file of a scan."""
_LOST = re.compile(r"most recent failure: (?:Lost task [^:]*: )?(?P<why>.*)")
_CAUSE = re.compile(r"^Caused by: (?P<why>.*)", re.MULTILINE)


def _problem(text: str) -> str:
    """What the text of an error of the JVM says of a task that was lost, and of the innermost cause."""
    lost, causes = _LOST.search(text), _CAUSE.findall(text)
    if lost is None:
        return causes[-1].strip() if causes else _first_line(text)
    return "; ".join(dict.fromkeys([lost["why"].strip(), *causes[-1:]]))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "it says nothing of it")


def fits(found: DataType, wanted: DataType) -> bool:
    """Whether every value of the one type is one of the other; fields of structs have the same names and order."""
    if isinstance(found, spark_types.NullType) or _shape(found) == _shape(wanted):
        return True
    if isinstance(found, StructType) and isinstance(wanted, StructType):
        same_names = found.fieldNames() == wanted.fieldNames()
        return same_names and all(fits(f.dataType, w.dataType) for f, w in zip(found, wanted, strict=True))
    if isinstance(found, spark_types.ArrayType) and isinstance(wanted, spark_types.ArrayType):
        return fits(found.elementType, wanted.elementType)
    if isinstance(found, spark_types.MapType) and isinstance(wanted, spark_types.MapType):
        return fits(found.keyType, wanted.keyType) and fits(found.valueType, wanted.valueType)
    if isinstance(found, _NUMBERS) and isinstance(wanted, _NUMBERS):
        return _NUMBERS.index(type(found)) <= _NUMBERS.index(type(wanted))
    if isinstance(found, spark_types.FloatType) and isinstance(wanted, spark_types.DoubleType):
        return True
    if isinstance(found, spark_types.DecimalType) and isinstance(wanted, spark_types.DecimalType):
        return found.scale <= wanted.scale and found.precision - found.scale <= wanted.precision - wanted.scale
    return False


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
    """The type's JSON without what it says of nulls, and of the lengths and collations of texts."""
    return _without_nulls(data_type.jsonValue())


def _without_nulls(json: Any) -> Any:
    if isinstance(json, dict):
        skipped = {"nullable", "containsNull", "valueContainsNull", "metadata"}
        return {key: _without_nulls(value) for key, value in json.items() if key not in skipped}
    if isinstance(json, list):
        return [_without_nulls(item) for item in json]
    return "string" if isinstance(json, str) and _TEXTS.fullmatch(json) else json


_TEXTS = re.compile(r"(var)?char\(\d+\)|string collate \w+")
"""Text of a limited length or of a collation is text; how long it may be is for the table to say."""
