"""Whether a Spark session reads SQL text as Partita does (ADR 7); predicates that it reads otherwise are refused.

Time zones need no such check, because Partita reads times in the session's time zone (ADR 24).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from partita.algebra.predicate import Predicate, residuals
from partita.algebra.schema import NameMatching
from partita.errors import TableError
from partita.spark.session import running_session
from partita.spark.sql_text import has_double_quote, has_escape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ESCAPED_LITERALS = "spark.sql.parser.escapedStringLiterals"
_DOUBLE_QUOTED_IDENTIFIERS = "spark.sql.ansi.doubleQuotedIdentifiers"
_CASE_SENSITIVE = "spark.sql.caseSensitive"
_SYNTAX_SETTINGS = {_CASE_SENSITIVE: ("false",), _DOUBLE_QUOTED_IDENTIFIERS: ("false",), _ESCAPED_LITERALS: ("false",)}
"""Settings that decide which tokens are names and which are literals."""
_VALUE_SETTINGS = {"spark.sql.ansi.enabled": ("true",)}
"""Settings that decide which value a literal has."""


def name_matching(spark: SparkSession | None = None) -> NameMatching:
    """Return how a session matches names: this one, or else the running one, or else one that Partita would start."""
    session = spark or running_session()
    is_sensitive = session is not None and session.conf.get(_CASE_SENSITIVE) == "true"
    return NameMatching.CASE_SENSITIVE if is_sensitive else NameMatching.CASE_INSENSITIVE


def has_standard_syntax(spark: SparkSession) -> bool:
    """Whether the session finds the same names and literals in a text as Partita; their values may still differ."""
    return _has_settings(spark, _SYNTAX_SETTINGS)


def has_standard_semantics(spark: SparkSession) -> bool:
    """Whether a condition has the same meaning in the session and in Partita."""
    return _has_settings(spark, _SYNTAX_SETTINGS) and _has_settings(spark, _VALUE_SETTINGS)


def _has_settings(spark: SparkSession, settings: Mapping[str, tuple[str, ...]]) -> bool:
    return all(spark.conf.get(name) in values for name, values in settings.items())


def check_predicate_semantics(predicate: Predicate, spark: SparkSession | None = None) -> None:
    """Raise `TableError` if the session would read a part of the predicate in another way than Partita."""
    texts = [predicate.text or "", *(part.expression for part in residuals(predicate))]
    if has_escape(*texts, predicate.sql()):
        _check_setting(
            _ESCAPED_LITERALS, _SYNTAX_SETTINGS[_ESCAPED_LITERALS], "a backslash in a predicate is an escape", spark
        )
    if has_double_quote(*texts):
        _check_setting(
            _DOUBLE_QUOTED_IDENTIFIERS,
            _SYNTAX_SETTINGS[_DOUBLE_QUOTED_IDENTIFIERS],
            "what stands in double quotes in a predicate is text",
            spark,
        )


def _check_setting(name: str, values: tuple[str, ...], rule: str, spark: SparkSession | None) -> None:
    session = spark or running_session()
    value = values[0] if session is None else session.conf.get(name)
    if value not in values:
        raise TableError(f"the session has {name} = {value}, and {rule}; set {name} to {values[0]}")
