"""The rows of a merge: which of the table change and to what, and which are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, MapType, StringType, StructType

from partita.algebra.schema import NameMatching, matching_names
from partita.errors import SchemaError, value_repr
from partita.spark.rewrite import GONE, group_by_file, matched_twice
from partita.spark.rows import fits, refused_sql
from partita.spark.scan import FILE, ROW
from partita.spark.schema import cast_sql, column_sql, has_columns, quoted, select_sql, type_sql

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE = "__partita_source"
"""The column with the number of a row of the source."""
_CLAUSE = "__partita_clause"
_NO_SOURCE = "CAST(NULL AS BIGINT)"


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
    return _changed(pairs, branches, schema, f"s.{SOURCE}")


def unmatched_by_source(
    target: DataFrame, source: DataFrame, on: str, branches: Sequence[Branch], schema: StructType
) -> DataFrame:
    """Every row of the table that the source does not match, in the same form."""
    alone = target.alias("t").join(source.alias("s"), F.expr(on), "left_anti").alias("t")
    return _changed(alone, branches, schema, _NO_SOURCE)


def updated(target: DataFrame, values: Mapping[str, str], schema: StructType) -> DataFrame:
    """Every row of the table with new values, in the same form without `SOURCE`; names may be qualified with `t`."""
    return _changed(target.alias("t"), [Branch(None, values)], schema, None)


def one_match(pairs: DataFrame) -> None:
    """Refuse pairs in which a row of the table is more than once, also those that no clause changes."""
    if not pairs.groupBy(FILE, ROW).count().filter("count > 1").isEmpty():
        raise matched_twice()


def without_repeated_rows(pairs: DataFrame, files: int) -> DataFrame:
    """Keep one of the pairs of each row of the table; the rows are in so many files."""
    return group_by_file(pairs, files).dropDuplicates([FILE, ROW])


def inserted(source: DataFrame, pairs: DataFrame, branches: Sequence[Branch], schema: StructType) -> DataFrame:
    """The new rows: those of the source that are in no pair, where a clause applies."""
    left = source.join(pairs.select(SOURCE).distinct(), SOURCE, "left_anti").alias("s")
    nulls = {f.name: cast_sql("NULL", f.dataType) for f in schema.fields}
    own = {column_sql(name, "s.") for name in source.columns}
    # Spark would take any other name for that of a column beside it, which the source doesn't have.
    if _has_one_outcome(branches) and own.issuperset((branches[0].values or {}).values()):
        return _with_values(left, [], branches[0].values or {}, schema, nulls)
    chosen = left.withColumn(_CLAUSE, _clause(branches)).filter(F.col(_CLAUSE).isNotNull()).alias("s")
    return select_sql(chosen, _new_values(chosen, branches, schema, nulls))


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


def resolved(
    values: Mapping[str, str] | None, schema: StructType, source: Sequence[str], matching: NameMatching
) -> dict[str, str]:
    """New values by the table's own spelling of the columns; None takes every column that the source has."""
    for name, text in (values or {}).items():
        if not isinstance(text, str):
            raise SchemaError(f"the new value of {name!r} is SQL text, not {type(text).__name__}: {value_repr(text)}")
    if values is None:
        mine = _source_columns(schema, source)
        if not mine:
            raise SchemaError("the source has none of the table's columns; say which to set")
        return {name: column_sql(given, "s.") for name, given in mine.items()}
    names = _by_folded_name(schema)
    assigned = {_assigned_column(name, names, matching): text for name, text in values.items()}
    if len(assigned) < len(values):
        raise SchemaError(f"a column is set twice: {', '.join(values)}")
    return assigned


def _source_columns(schema: StructType, source: Sequence[str]) -> dict[str, str]:
    """The names in the source of those of the table's columns that it has, without regard to case."""
    names, found = _by_folded_name(schema), dict[str, str]()
    for given in source:
        for name in matching_names(given, names.get(given.casefold(), ()), NameMatching.EXACT_FIRST):
            if name in found:
                raise SchemaError(
                    f"the source has column {name!r} twice, as {found[name]!r} and {given!r}; say what to set"
                )
            found[name] = given
    return found


def _by_folded_name(schema: StructType) -> dict[str, list[str]]:
    """The columns that differ by case alone, by what they share."""
    names: dict[str, list[str]] = {}
    for name in schema.fieldNames():
        names.setdefault(name.casefold(), []).append(name)
    return names


def _assigned_column(name: str, names: Mapping[str, list[str]], matching: NameMatching) -> str:
    alike = names.get(name.casefold(), [])
    found = matching_names(name, alike, matching)
    if len(found) == 1:
        return found[0]
    if found:
        raise SchemaError(f"{name!r} is ambiguous: the table has {' and '.join(map(repr, found))}")
    hint = f" but {', '.join(map(repr, alike))}, and the session is case sensitive" if alike else ""
    known = ", ".join(each for same in names.values() for each in same)
    raise SchemaError(f"the table has no column {name!r}{hint}; its columns are: {known}")


def _changed(rows: DataFrame, branches: Sequence[Branch], schema: StructType, source: str | None) -> DataFrame:
    place = [(FILE, FILE), (ROW, ROW), *([] if source is None else [(source, SOURCE)])]
    old = {f.name: column_sql(f.name, "t.") for f in schema.fields}
    gone = {at: str(branch.values is None).lower() for at, branch in enumerate(branches)}
    if _has_one_outcome(branches):
        return _with_values(rows, [*place, (gone[0], GONE)], branches[0].values or {}, schema, old)
    chosen = rows.withColumn(_CLAUSE, _clause(branches))
    place.append((_by_clause(gone, cast_sql("NULL", BooleanType())), GONE))
    return select_sql(chosen, [*place, *_new_values(chosen, branches, schema, old)])


def _has_one_outcome(branches: Sequence[Branch]) -> bool:
    """Whether a single clause applies to every row, so that no value hangs on which one applies."""
    return len(branches) == 1 and branches[0].condition is None


def _with_values(
    rows: DataFrame,
    place: Sequence[tuple[str, str]],
    values: Mapping[str, str],
    schema: StructType,
    defaults: Mapping[str, str],
) -> DataFrame:
    """Select the columns of `place`, then those of the schema: each the new value in SQL, or else its default.

    The rows have all columns that the values name. Values that have the types of their columns are selected as they
    are; others are cast in a second select.
    """
    texts = [(f"{values[f.name]}\n" if f.name in values else defaults[f.name], f.name) for f in schema.fields]
    given = select_sql(rows, [*place, *texts])
    found = given.schema.fields[len(place) :]
    if len(found) != len(texts):
        raise SchemaError(f"a new value is one expression; here are {len(texts)}, and Spark makes {len(found)} of them")
    wanted = [(f.name, f.dataType) for f in schema.fields]
    # A function may make several rows of one, which Spark refuses inside of a cast only.
    if has_columns(StructType(found), wanted) and not any("(" in text for text in values.values()):
        return given
    fitting = [
        (_fitting(values[f.name], value.dataType, f.name, f.dataType) if f.name in values else defaults[f.name], f.name)
        for f, value in zip(schema.fields, found, strict=True)
    ]
    return select_sql(rows, [*place, *fitting])


def _clause(branches: Sequence[Branch]) -> Column:
    """The number of the first clause whose condition is true; null where none is."""
    found: Column = F.lit(None).cast("int")
    for at in reversed(range(len(branches))):
        condition = branches[at].condition
        found = F.lit(at) if condition is None else F.when(F.expr(condition), F.lit(at)).otherwise(found)
    return found


def _by_clause(values: Mapping[int, str], default: str) -> str:
    """The value in SQL of the row's clause, and the default where there is none for it."""
    if not values:
        return default
    cases = (f"WHEN {_CLAUSE} = {at} THEN {value}" for at, value in values.items())
    return f"CASE {' '.join(cases)} ELSE {default} END"


def _new_values(
    rows: DataFrame, branches: Sequence[Branch], schema: StructType, defaults: Mapping[str, str]
) -> list[tuple[str, str]]:
    """The columns of changed rows in SQL: what the row's clause sets, and the default where it sets nothing."""
    assigned = [
        (f, at, branch.values[f.name])
        for f in schema.fields
        for at, branch in enumerate(branches)
        if branch.values is not None and f.name in branch.values
    ]
    values: dict[str, dict[int, str]] = {}
    for (f, at, text), found in zip(assigned, _types_of(rows, [text for _, _, text in assigned]), strict=True):
        values.setdefault(f.name, {})[at] = _fitting(text, found, f.name, f.dataType)
    return [(_by_clause(values.get(f.name, {}), defaults[f.name]), f.name) for f in schema.fields]


def _types_of(rows: DataFrame, texts: Sequence[str]) -> list[DataType]:
    """The types of expressions in SQL."""
    found = rows.selectExpr(*texts).schema.fields if texts else []
    if len(found) != len(texts):
        raise SchemaError(f"a new value is one expression; here are {len(texts)}, and Spark makes {len(found)} of them")
    return [f.dataType for f in found]


def _fitting(text: str, found: DataType, name: str, wanted: DataType) -> str:
    """A new value in SQL as the column's type; the query fails where the value does not fit it.

    Nested values must have the type, with the names of fields in its order: a cast would take fields by their place,
    and make null of what does not fit inside.
    """
    value = f"({text}\n)"  # The text may end with a comment.
    if fits(found, wanted):
        return cast_sql(value, wanted)
    if isinstance(wanted, ArrayType | MapType | StructType):
        raise SchemaError(
            f"column {name!r} is {wanted.simpleString()} in the table, and its new value is {found.simpleString()}"
        )
    taken = f"try_cast({value} AS {type_sql(wanted)})"
    refused = refused_sql(f"a new value of column {name!r} does not fit {wanted.simpleString()}")
    return f"CASE WHEN {value} IS NOT NULL AND {taken} IS NULL THEN {refused} ELSE {taken} END"
