"""The rows of a merge: rows of the table with their new values, and rows to insert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, MapType, StringType, StructType

from partita.algebra.schema import NameMatching, matching_names
from partita.errors import SchemaError, value_repr
from partita.spark.constraints import raise_error_sql
from partita.spark.positions import FILE_INDEX, ROW_INDEX
from partita.spark.rewrite import IS_DELETED, group_by_file, multiple_match_error
from partita.spark.schema import has_columns, is_assignable
from partita.spark.sql_text import cast_sql, column_sql, has_function_call, quote_identifier, select_sql, type_sql

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE_ROW_NUMBER = "__partita_source"
"""The column that identifies a row of the source."""
_CLAUSE_NUMBER = "__partita_clause"
_NULL_SOURCE_ROW = "CAST(NULL AS BIGINT)"


@dataclass(frozen=True, slots=True)
class MergeBranch:
    """A clause: its condition in SQL, and the new values in SQL by column; None for a clause that deletes the row."""

    condition: str | None
    values: Mapping[str, str] | None


def number_source_rows(source: DataFrame) -> DataFrame:
    """Add a number to each row of the source, and cache it: another evaluation could number the rows differently."""
    return source.withColumn(SOURCE_ROW_NUMBER, F.monotonically_increasing_id()).persist()


def matched_rows(
    target: DataFrame, source: DataFrame, on: str, branches: Sequence[MergeBranch], schema: StructType
) -> DataFrame:
    """Return a row for each match of a row of the table and a row of the source.

    It has `FILE_INDEX`, `ROW_INDEX`, `SOURCE_ROW_NUMBER`, `IS_DELETED`, which is null if no clause applies, and the
    columns of the table with their new values.
    """
    pairs = target.alias("t").join(source.alias("s"), F.expr(on), "inner")
    return _changed_rows(pairs, branches, schema, f"s.{SOURCE_ROW_NUMBER}")


def rows_unmatched_by_source(
    target: DataFrame, source: DataFrame, on: str, branches: Sequence[MergeBranch], schema: StructType
) -> DataFrame:
    """Return each row of the table that no row of the source matches, with the columns of `matched_rows`."""
    unmatched_rows = target.alias("t").join(source.alias("s"), F.expr(on), "left_anti").alias("t")
    return _changed_rows(unmatched_rows, branches, schema, _NULL_SOURCE_ROW)


def updated_rows(target: DataFrame, values: Mapping[str, str], schema: StructType) -> DataFrame:
    """Return each row with its new values, in the columns of `matched_rows` without `SOURCE_ROW_NUMBER`.

    Names in the values may be qualified with `t`.
    """
    return _changed_rows(target.alias("t"), [MergeBranch(None, values)], schema, None)


def check_single_match(pairs: DataFrame) -> None:
    """Raise `ConstraintError` if a row of the table matches more than once, also if no clause applies to it."""
    if not pairs.groupBy(FILE_INDEX, ROW_INDEX).count().filter("count > 1").isEmpty():
        raise multiple_match_error()


def drop_repeated_rows(pairs: DataFrame, file_count: int) -> DataFrame:
    """Keep one match of each row of the table; the rows are in `file_count` files."""
    return group_by_file(pairs, file_count).dropDuplicates([FILE_INDEX, ROW_INDEX])


def inserted_rows(
    source: DataFrame, pairs: DataFrame, branches: Sequence[MergeBranch], schema: StructType
) -> DataFrame:
    """Return the rows to insert: those of the source that match no row of the table, where a clause applies."""
    unmatched_rows = source.join(pairs.select(SOURCE_ROW_NUMBER).distinct(), SOURCE_ROW_NUMBER, "left_anti").alias("s")
    nulls = {f.name: cast_sql("NULL", f.dataType) for f in schema.fields}
    source_columns = {column_sql(name, "s.") for name in source.columns}
    # In one select, Spark would resolve any other name to a column that is selected beside it.
    if _has_single_clause(branches) and source_columns.issuperset((branches[0].values or {}).values()):
        return _select_new_values(unmatched_rows, [], branches[0].values or {}, schema, nulls)
    rows_with_clause = unmatched_rows.withColumn(_CLAUSE_NUMBER, _clause_number(branches))
    rows_to_insert = rows_with_clause.filter(F.col(_CLAUSE_NUMBER).isNotNull()).alias("s")
    return select_sql(rows_to_insert, _new_values_sql(rows_to_insert, branches, schema, nulls))


def comparable_columns(source: DataFrame) -> dict[str, str]:
    """Return the columns of the source whose bounds can prune the table, by their names in lower case.

    Names that are there twice are left out, and strings with a collation: their minimum and maximum don't bound the
    bytes of equal strings.
    """
    name_counts = Counter(name.casefold() for name in source.columns)
    return {
        f.name.casefold(): f.name
        for f in source.schema.fields
        if name_counts[f.name.casefold()] == 1 and not _is_collated(f.dataType)
    }


def _is_collated(data_type: DataType) -> bool:
    return isinstance(data_type, StringType) and data_type != StringType()


def column_bounds(source: DataFrame, names: Sequence[str]) -> pa.Table:
    """Return the minimum and the maximum of columns of the source in one row: `least_0`, `greatest_0` and so on."""
    columns = []
    for index, name in enumerate(names):
        value = F.col(quote_identifier(name))
        columns += [F.min(value).alias(f"least_{index}"), F.max(value).alias(f"greatest_{index}")]
    return source.agg(*columns).toArrow()


def resolve_assignments(
    values: Mapping[str, str] | None, schema: StructType, source_columns: Sequence[str], matching: NameMatching
) -> dict[str, str]:
    """Return the new values in SQL by the names of the table's columns.

    None takes every column of the table that the source has. Raises `SchemaError` for a column that the table doesn't
    have, or that is set twice.
    """
    for name, text in (values or {}).items():
        if not isinstance(text, str):
            raise SchemaError(
                f"the new value of {name!r} must be SQL text, not {type(text).__name__}: {value_repr(text)}"
            )
    if values is None:
        source_names = _matching_source_columns(schema, source_columns)
        if not source_names:
            raise SchemaError("the source has none of the table's columns; give the values to set")
        return {name: column_sql(source_name, "s.") for name, source_name in source_names.items()}
    names = _columns_by_folded_name(schema)
    assignments = {_assigned_column(name, names, matching): text for name, text in values.items()}
    if len(assignments) < len(values):
        raise SchemaError(f"a column is set twice: {', '.join(values)}")
    return assignments


def _matching_source_columns(schema: StructType, source: Sequence[str]) -> dict[str, str]:
    """Return the name in the source of each column of the table that it has, ignoring case."""
    names, source_names = _columns_by_folded_name(schema), dict[str, str]()
    for source_name in source:
        for name in matching_names(source_name, names.get(source_name.casefold(), ()), NameMatching.EXACT_FIRST):
            if name in source_names:
                raise SchemaError(
                    f"the source has column {name!r} twice, as {source_names[name]!r} and {source_name!r}; "
                    "give the values to set"
                )
            source_names[name] = source_name
    return source_names


def _columns_by_folded_name(schema: StructType) -> dict[str, list[str]]:
    """Return the columns of a schema by their names without case."""
    names: dict[str, list[str]] = {}
    for name in schema.fieldNames():
        names.setdefault(name.casefold(), []).append(name)
    return names


def _assigned_column(name: str, names: Mapping[str, list[str]], matching: NameMatching) -> str:
    candidates = names.get(name.casefold(), [])
    matches = matching_names(name, candidates, matching)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SchemaError(f"{name!r} is ambiguous: the table has {' and '.join(map(repr, matches))}")
    hint = f" but {', '.join(map(repr, candidates))}, and the session is case sensitive" if candidates else ""
    columns = ", ".join(column for same_names in names.values() for column in same_names)
    raise SchemaError(f"the table has no column {name!r}{hint}; its columns are: {columns}")


def _changed_rows(
    rows: DataFrame, branches: Sequence[MergeBranch], schema: StructType, source_row_sql: str | None
) -> DataFrame:
    position_columns = [
        (FILE_INDEX, FILE_INDEX),
        (ROW_INDEX, ROW_INDEX),
        *([] if source_row_sql is None else [(source_row_sql, SOURCE_ROW_NUMBER)]),
    ]
    old_values = {f.name: column_sql(f.name, "t.") for f in schema.fields}
    deletes = {number: str(branch.values is None).lower() for number, branch in enumerate(branches)}
    if _has_single_clause(branches):
        position_columns.append((deletes[0], IS_DELETED))
        return _select_new_values(rows, position_columns, branches[0].values or {}, schema, old_values)
    rows_with_clause = rows.withColumn(_CLAUSE_NUMBER, _clause_number(branches))
    position_columns.append((_clause_case_sql(deletes, cast_sql("NULL", BooleanType())), IS_DELETED))
    return select_sql(
        rows_with_clause, [*position_columns, *_new_values_sql(rows_with_clause, branches, schema, old_values)]
    )


def _has_single_clause(branches: Sequence[MergeBranch]) -> bool:
    """Whether a single clause applies to every row."""
    return len(branches) == 1 and branches[0].condition is None


def _select_new_values(
    rows: DataFrame,
    position_columns: Sequence[tuple[str, str]],
    values: Mapping[str, str],
    schema: StructType,
    defaults: Mapping[str, str],
) -> DataFrame:
    """Select the position columns, then those of the schema: each its new value in SQL, or else its default.

    The rows must have all columns that the values name. The values are selected without casts if they have the types of
    their columns; otherwise a second select casts and checks them.
    """
    texts = [(f"{values[f.name]}\n" if f.name in values else defaults[f.name], f.name) for f in schema.fields]
    selected_rows = select_sql(rows, [*position_columns, *texts])
    value_fields = selected_rows.schema.fields[len(position_columns) :]
    _check_expression_count(len(texts), len(value_fields))
    target_columns = [(f.name, f.dataType) for f in schema.fields]
    # A function may generate several rows from one, which Spark refuses only inside of a cast.
    if has_columns(StructType(value_fields), target_columns) and not has_function_call(*values.values()):
        return selected_rows
    cast_values = [
        (
            _checked_cast_sql(values[f.name], value.dataType, f.name, f.dataType)
            if f.name in values
            else defaults[f.name],
            f.name,
        )
        for f, value in zip(schema.fields, value_fields, strict=True)
    ]
    return select_sql(rows, [*position_columns, *cast_values])


def _check_expression_count(value_count: int, column_count: int) -> None:
    """Raise `SchemaError` if Spark reads other than one column for each value, as for `1, 2`."""
    if column_count != value_count:
        raise SchemaError(
            f"each new value must be one expression; {value_count} were given, and Spark reads {column_count}"
        )


def _clause_number(branches: Sequence[MergeBranch]) -> Column:
    """Return the number of the first clause whose condition is true; null if none is."""
    number: Column = F.lit(None).cast("int")
    for index in reversed(range(len(branches))):
        condition = branches[index].condition
        number = F.lit(index) if condition is None else F.when(F.expr(condition), F.lit(index)).otherwise(number)
    return number


def _clause_case_sql(values: Mapping[int, str], default: str) -> str:
    """Return a CASE over the number of the row's clause; the default for a clause without a value."""
    if not values:
        return default
    cases = (f"WHEN {_CLAUSE_NUMBER} = {number} THEN {value}" for number, value in values.items())
    return f"CASE {' '.join(cases)} ELSE {default} END"


def _new_values_sql(
    rows: DataFrame, branches: Sequence[MergeBranch], schema: StructType, defaults: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return the columns of changed rows in SQL: the value that the row's clause sets, or else the default."""
    assignments = [
        (f, number, branch.values[f.name])
        for f in schema.fields
        for number, branch in enumerate(branches)
        if branch.values is not None and f.name in branch.values
    ]
    types = _expression_types(rows, [text for _, _, text in assignments])
    values: dict[str, dict[int, str]] = {}
    for (f, number, text), value_type in zip(assignments, types, strict=True):
        values.setdefault(f.name, {})[number] = _checked_cast_sql(text, value_type, f.name, f.dataType)
    return [(_clause_case_sql(values.get(f.name, {}), defaults[f.name]), f.name) for f in schema.fields]


def _expression_types(rows: DataFrame, texts: Sequence[str]) -> list[DataType]:
    """Return the types of expressions in SQL."""
    fields = rows.selectExpr(*texts).schema.fields if texts else []
    _check_expression_count(len(texts), len(fields))
    return [f.dataType for f in fields]


def _checked_cast_sql(text: str, value_type: DataType, name: str, target_type: DataType) -> str:
    """Return a cast of a new value to the type of its column; a value that doesn't fit fails the query.

    Raises `SchemaError` for a nested value of another type: a cast would match fields by position, and replace nested
    values that don't fit by null.
    """
    value = f"({text}\n)"  # The text may end with a comment.
    if is_assignable(value_type, target_type):
        return cast_sql(value, target_type)
    if isinstance(target_type, ArrayType | MapType | StructType):
        raise SchemaError(
            f"column {name!r} is {target_type.simpleString()} in the table, and its new value is "
            f"{value_type.simpleString()}; cast it"
        )
    cast = f"try_cast({value} AS {type_sql(target_type)})"
    error = raise_error_sql(f"a new value of column {name!r} does not fit {target_type.simpleString()}")
    return f"CASE WHEN {value} IS NOT NULL AND {cast} IS NULL THEN {error} ELSE {cast} END"
