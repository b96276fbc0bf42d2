"""Whether a session of Spark reads text as Partita does (ADR 7), and what is refused where it doesn't."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession

from partita.algebra.predicate import Predicate, residuals
from partita.algebra.schema import Schema
from partita.algebra.types import INSTANTS, ListType, LogicalType, MapType, StructType
from partita.errors import TableError

_ESCAPES = "spark.sql.parser.escapedStringLiterals"
_DOUBLE_QUOTES = "spark.sql.ansi.doubleQuotedIdentifiers"
_ZONE = "spark.sql.session.timeZone"
_WORDS = {"spark.sql.caseSensitive": ("false",), _DOUBLE_QUOTES: ("false",), _ESCAPES: ("false",)}
"""What makes a name or a literal of a word."""
_VALUES = {_ZONE: ("UTC", "Etc/UTC", "Z"), "spark.sql.ansi.enabled": ("true",)}
"""What makes a value of a literal."""


def reads_words_as_we_do(spark: SparkSession) -> bool:
    """Whether names and literals are in a text where Partita finds them; what value a literal has may still differ."""
    return _is_set(spark, _WORDS)


def reads_as_we_do(spark: SparkSession) -> bool:
    """Whether a condition means the same to the session and to Partita."""
    return _is_set(spark, _WORDS) and _is_set(spark, _VALUES)


def _is_set(spark: SparkSession, settings: Mapping[str, tuple[str, ...]]) -> bool:
    return all(spark.conf.get(name) in values for name, values in settings.items())


def check_meaning(predicate: Predicate, schema: Schema, spark: SparkSession | None = None) -> None:
    """Refuse a predicate of which the session would read what is left to it another way than Partita reads the rest."""
    left = [part.residual for part in residuals(predicate)]
    check_times(left, schema, spark)
    said = " ".join((predicate.text or "", *left))
    if "\\" in said or "\\" in predicate.sql():
        _check(_ESCAPES, _WORDS[_ESCAPES], "a backslash in a predicate is an escape", spark)
    if '"' in said:
        _check(_DOUBLE_QUOTES, _WORDS[_DOUBLE_QUOTES], "what stands in double quotes in a predicate is text", spark)


def check_times(texts: Iterable[str], schema: Schema, spark: SparkSession | None = None) -> None:
    """Refuse texts that speak of times, where the session has another zone than UTC."""
    if any(_speaks_of_time(text, schema) for text in texts):
        _check(_ZONE, _VALUES[_ZONE], "a condition on times is read in UTC", spark)


def _check(name: str, values: tuple[str, ...], rule: str, spark: SparkSession | None) -> None:
    running = spark or SparkSession.getActiveSession()
    found = values[0] if running is None else running.conf.get(name)
    if found not in values:
        raise TableError(f"the session has {name} = {found}, and {rule}; set {name} to {values[0]}")


def _speaks_of_time(text: str, schema: Schema) -> bool:
    folded = text.casefold()
    return "timestamp" in folded or any(_has_time(f.type) and _is_named(f.name, folded) for f in schema)


def _is_named(name: str, text: str) -> bool:
    """Whether the name is a word of the text, in quotes or without."""
    word = re.escape(name.replace("`", "``").casefold())
    return re.search(rf"(?<!\w){word}(?!\w)", text) is not None


def _has_time(type_: LogicalType) -> bool:
    if isinstance(type_, StructType):
        return any(_has_time(f.type) for f in type_.fields)
    if isinstance(type_, ListType):
        return _has_time(type_.element)
    if isinstance(type_, MapType):
        return _has_time(type_.key) or _has_time(type_.value)
    return type_.kind in INSTANTS
