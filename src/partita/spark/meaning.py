"""Whether a session of Spark reads text as Partita does (ADR 7), and what is refused where it doesn't.

Times need no such rule: Partita reads them in the session's time zone (ADR 24).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from partita.algebra.predicate import Predicate, residuals
from partita.algebra.schema import NameMatching
from partita.errors import TableError
from partita.spark.session import running_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ESCAPES = "spark.sql.parser.escapedStringLiterals"
_DOUBLE_QUOTES = "spark.sql.ansi.doubleQuotedIdentifiers"
_CASE_SENSITIVE = "spark.sql.caseSensitive"
_WORDS = {_CASE_SENSITIVE: ("false",), _DOUBLE_QUOTES: ("false",), _ESCAPES: ("false",)}
"""What makes a name or a literal of a word."""
_VALUES = {"spark.sql.ansi.enabled": ("true",)}
"""What makes a value of a literal."""


def name_matching(spark: SparkSession | None = None) -> NameMatching:
    """Which columns a name finds in a session, or in the one that runs; one that Partita starts finds any case."""
    evaluating = spark or running_session()
    is_sensitive = evaluating is not None and evaluating.conf.get(_CASE_SENSITIVE) == "true"
    return NameMatching.CASE_SENSITIVE if is_sensitive else NameMatching.ANY_CASE


def reads_words_as_we_do(spark: SparkSession) -> bool:
    """Whether names and literals are in a text where Partita finds them; what value a literal has may still differ."""
    return _is_set(spark, _WORDS)


def reads_as_we_do(spark: SparkSession) -> bool:
    """Whether a condition means the same to the session and to Partita."""
    return _is_set(spark, _WORDS) and _is_set(spark, _VALUES)


def _is_set(spark: SparkSession, settings: Mapping[str, tuple[str, ...]]) -> bool:
    return all(spark.conf.get(name) in values for name, values in settings.items())


def check_meaning(predicate: Predicate, spark: SparkSession | None = None) -> None:
    """Refuse a predicate of which the session would read what is left to it another way than Partita reads the rest."""
    said = " ".join((predicate.text or "", *(part.residual for part in residuals(predicate))))
    if "\\" in said or "\\" in predicate.sql():
        _check(_ESCAPES, _WORDS[_ESCAPES], "a backslash in a predicate is an escape", spark)
    if '"' in said:
        _check(_DOUBLE_QUOTES, _WORDS[_DOUBLE_QUOTES], "what stands in double quotes in a predicate is text", spark)


def _check(name: str, values: tuple[str, ...], rule: str, spark: SparkSession | None) -> None:
    running = spark or running_session()
    found = values[0] if running is None else running.conf.get(name)
    if found not in values:
        raise TableError(f"the session has {name} = {found}, and {rule}; set {name} to {values[0]}")
