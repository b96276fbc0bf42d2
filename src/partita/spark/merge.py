"""The rows of a merge: which of the table change and to what, and which are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from partita.errors import SchemaError
from partita.spark.rewrite import GONE, matched_twice
from partita.spark.rows import fits, required
from partita.spark.scan import FILE, ROW
from partita.spark.schema import quoted

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE = "__partita_source"
"""The column with the number of a row of the source."""
_CLAUSE = "__partita_clause"


@dataclass(frozen=True, slots=True)
class Branch:
    """A clause: a condition in SQL, and the new values in SQL by column; None for a row that goes."""

    condition: str | None
    values: Mapping[str, str] | None


def numbered(source: DataFrame) -> DataFrame:
    """The source with a number for each row; evaluated once, for the numbers tell rows apart."""
    return source.withColumn(SOURCE, F.monotonically_increasing_id()).persist()


def matched(target: DataFrame, source: DataFrame, on: str, branches: Sequence[Branch], schema: StructType) -> DataFrame:
    """Every pair that matches: `FILE`, `ROW`, `SOURCE`, `GONE` (null where no clause applies), and the row's values."""
    pairs = target.alias("t").join(source.alias("s"), F.expr(on), "inner")
    return _changed(pairs, branches, schema, [F.col(f"s.{SOURCE}").alias(SOURCE)])


def unmatched_by_source(
    target: DataFrame, source: DataFrame, on: str, branches: Sequence[Branch], schema: StructType
) -> DataFrame:
    """Every row of the table that the source does not match, in the same form."""
    alone = target.alias("t").join(source.alias("s"), F.expr(on), "left_anti").alias("t")
    return _changed(alone, branches, schema, [F.lit(None).cast("long").alias(SOURCE)])


def updated(target: DataFrame, values: Mapping[str, str], schema: StructType) -> DataFrame:
    """Every row of the table with new values, in the same form; names may be qualified with `t`."""
    return _changed(target.alias("t"), [Branch(None, values)], schema, [F.lit(None).cast("long").alias(SOURCE)])


def one_match(pairs: DataFrame) -> None:
    """Refuse pairs in which a row of the table is more than once, also those that no clause changes."""
    if not pairs.groupBy(FILE, ROW).count().filter("count > 1").isEmpty():
        raise matched_twice()


def inserted(source: DataFrame, pairs: DataFrame, branches: Sequence[Branch], schema: StructType) -> DataFrame:
    """The new rows: those of the source that are in no pair, where a clause applies."""
    left = source.join(pairs.select(SOURCE).distinct(), SOURCE, "left_anti").alias("s")
    chosen = left.withColumn(_CLAUSE, _clause(branches)).filter(F.col(_CLAUSE).isNotNull()).alias("s")
    columns = [_value(f.name, f.dataType, branches, F.lit(None).cast(f.dataType)) for f in schema.fields]
    return _fitting(chosen.select(*(pair for one in columns for pair in one)), schema)


def plain_columns(source: DataFrame) -> dict[str, str]:
    """The columns of the source by their names in lower case, but for names that are there twice and collated text.

    The least and the greatest text of a collation say nothing of how its equals are spelled.
    """
    folded = [name.casefold() for name in source.columns]
    return {
        f.name.casefold(): f.name
        for f in source.schema.fields
        if folded.count(f.name.casefold()) == 1 and not _is_collated(f.dataType)
    }


def _is_collated(data_type: DataType) -> bool:
    return isinstance(data_type, StringType) and data_type != StringType()


def bounds(source: DataFrame, names: Sequence[str]) -> pa.Table:
    """The least and the greatest of each column of the source: `least_0`, `greatest_0` and so on, in one row."""
    columns = []
    for at, name in enumerate(names):
        value = F.col(quoted(name))
        columns += [F.min(value).alias(f"least_{at}"), F.max(value).alias(f"greatest_{at}")]
    return source.agg(*columns).toArrow()


def resolved(values: Mapping[str, str] | None, schema: StructType, source: StructType) -> dict[str, str]:
    """New values by the table's own spelling of the columns; None takes every column that the source has."""
    names = {name.casefold(): name for name in schema.fieldNames()}
    for name, text in (values or {}).items():
        if not isinstance(text, str):
            raise SchemaError(f"the new value of {name!r} is SQL text, not {type(text).__name__}: {text!r}")
    if values is None:
        mine = {names[n.casefold()]: n for n in source.fieldNames() if n.casefold() in names}
        if not mine:
            raise SchemaError("the source has none of the table's columns; say which to set")
        return {name: f"s.{quoted(given)}" for name, given in mine.items()}
    for name in values:
        if name.casefold() not in names:
            raise SchemaError(f"the table has no column {name!r}; its columns are: {', '.join(names.values())}")
    if len({n.casefold() for n in values}) < len(values):
        raise SchemaError(f"a column is set twice: {', '.join(values)}")
    return {names[name.casefold()]: text for name, text in values.items()}


def _changed(rows: DataFrame, branches: Sequence[Branch], schema: StructType, beside: list[Column]) -> DataFrame:
    chosen = rows.withColumn(_CLAUSE, _clause(branches))
    gone = F.lit(None).cast("boolean")
    for at, branch in enumerate(branches):
        gone = F.when(F.col(_CLAUSE) == at, F.lit(branch.values is None)).otherwise(gone)
    columns = [_value(f.name, f.dataType, branches, F.col(f"t.{quoted(f.name)}")) for f in schema.fields]
    place = [F.col(FILE), F.col(ROW), *beside, gone.alias(GONE)]
    return _fitting(chosen.select(*place, *(pair for one in columns for pair in one)), schema)


def _clause(branches: Sequence[Branch]) -> Column:
    """The number of the first clause whose condition is true; null where none is."""
    found: Column = F.lit(None).cast("int")
    for at in reversed(range(len(branches))):
        condition = branches[at].condition
        found = F.lit(at) if condition is None else F.when(F.expr(condition), F.lit(at)).otherwise(found)
    return found


def _value(name: str, data_type: DataType, branches: Sequence[Branch], old: Column) -> tuple[Column, ...]:
    """The column's new value, whether one was lost to the column's type, and nested values as they are given."""
    value, lost = old, F.lit(False)
    any_set = False
    whole: list[Column] = []
    for at, branch in enumerate(branches):
        text = None if branch.values is None else branch.values.get(name)
        if text is None:
            continue
        any_set = True
        given = F.expr(text)
        taken = given.try_cast(data_type)
        here = F.col(_CLAUSE) == at
        if isinstance(data_type, ArrayType | MapType | StructType):
            whole.append(given.alias(f"{_GIVEN}{at}_{name}"))
            taken = given.cast(data_type)
        value = F.when(here, taken).otherwise(value)
        lost = F.when(here, given.isNotNull() & taken.isNull()).otherwise(lost)
    return (value.alias(name), lost.alias(_lost(name)), *whole) if any_set else (value.alias(name),)


def _fitting(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows, which fail where a new value does not fit its column's type.

    Nested values must have the type, with the names of fields in its order: a cast would take fields by their place,
    and make null of what does not fit inside.
    """
    beside = [name for name in rows.columns if name.startswith((_GIVEN, _LOST))]
    for f in schema.fields:
        for name in beside:
            found = rows.schema[name].dataType
            is_given = name.startswith(_GIVEN) and name.removeprefix(_GIVEN).partition("_")[2] == f.name
            if is_given and not fits(found, f.dataType):
                wanted, given = f.dataType.simpleString(), found.simpleString()
                raise SchemaError(f"column {f.name!r} is {wanted} in the table, and its new value is {given}")
        if _lost(f.name) in beside:
            problem = f"a new value of column {f.name!r} does not fit {f.dataType.simpleString()}"
            rows = required(rows, ~F.col(quoted(_lost(f.name))), problem)
    return rows.drop(*beside)


_GIVEN = "__partita_given_"
_LOST = "__partita_lost_"


def _lost(name: str) -> str:
    return f"{_LOST}{name}"
