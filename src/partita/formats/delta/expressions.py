"""Check the SQL expressions of a table's metadata: generated columns, constraints, invariants (ADR 25).

Spark evaluates them, and another writer may have written them, so an expression must meet all of these conditions:

1. It consists of tokens of a part of Spark's lexical grammar. What Spark may read differently is refused: comments,
   variables (`${x}`, which Spark substitutes first), letters whose upper or lower case is ASCII.
2. Each name before a parenthesis is a built-in function of Spark that neither calls code by its name nor reads a file.
3. It contains no query, which could read other tables and files, or run a script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from partita.errors import TableError
from partita.formats.delta.allowed_functions import ALLOWED_SPARK_FUNCTIONS

_TOKEN_PATTERN = re.compile(
    r"""
      (?P<space>[ \t\r\n\v\f]+)
    | (?P<comment>--|/\*)
    | (?P<raw_string>[rR](?:'[^']*'|"[^"]*"))
    | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<quoted_name>`(?:[^`]|``)*`)
    | (?P<word>\w+)
    | (?P<mark>[()\[\]<>=!+\-*/%&|^~.,:])
    """,
    re.DOTALL | re.VERBOSE,
)
_WORDS_BEFORE_PARENTHESES = frozenset({
    *("all", "both", "by", "character", "dec", "distinct", "else", "escape", "for", "from", "group", "interval", "is"),
    *("leading", "numeric", "order", "over", "partition", "placing", "then", "timestampadd", "timestampdiff"),
    *("trailing", "try_cast", "varchar", "where"),
})  # fmt: skip
"""Keywords and types that may stand before a parenthesis and call nothing."""
_QUERY_STARTS = frozenset({"from", "select", "table", "values", "with"})
_MARKS_AFTER_COLUMNS = frozenset("),=<>")
"""Marks that never follow the first word of a query, so that the word before one of them is a column name."""


@dataclass(frozen=True, slots=True)
class _Token:
    """A token; `kind` is the name of its group in `_TOKEN_PATTERN`, `value` its text, of a quoted name unquoted."""

    kind: str
    value: str

    @property
    def word(self) -> str:
        """The word in lower case; empty for any other token."""
        return self.value.lower() if self.kind == "word" else ""

    @property
    def mark(self) -> str:
        """The mark; empty for any other token."""
        return self.value if self.kind == "mark" else ""


def check_expression(text: str, subject: str) -> str:
    """Return an expression; raise `TableError` if it could run code or a query, or can't be tokenized safely.

    `subject` names the expression in the error message.
    """
    # It is put into SQL in parentheses.
    tokens = [_Token("mark", "("), *_tokens(text, subject), _Token("mark", ")")]
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.mark == "(") - (token.mark == ")")
        if (depth == 0) != (index + 1 == len(tokens)):
            _refuse_expression(subject, "has parentheses that don't match")
        if token.mark == "(":
            _check_function_call(tokens[:index], subject)
            _check_no_query(tokens[index + 1 : index + 3], subject)
        is_qualified = index > 0 and tokens[index - 1].mark == "."
        if token.word == "using" and not is_qualified and not _is_column_name(tokens[index + 1 :]):
            _refuse_expression(subject, "holds a query (USING)")
    return text


def expression_names(text: str, subject: str) -> frozenset[str]:
    """Return the words and quoted names of an expression, casefolded: columns, fields, functions, keywords, numbers.

    A column that the expression reads is always among them, even one whose name is also a keyword. So are texts in
    double quotes, which are names in a session with `spark.sql.ansi.doubleQuotedIdentifiers`.
    """
    return frozenset(
        token.value.strip('"').casefold()
        for token in _tokens(text, subject)
        if token.kind in ("word", "quoted_name") or token.value.startswith('"')
    )


def _tokens(text: str, subject: str) -> Iterator[_Token]:
    if "${" in text:
        _refuse_expression(subject, "has a variable (${...}) in it")
    position = 0
    while position < len(text):
        match = _TOKEN_PATTERN.match(text, position)
        if match is None:
            _refuse_expression(subject, f"can't be read from {text[position : position + 20]!r} on")
        kind, token = str(match.lastgroup), match[0]
        if kind == "comment":
            _refuse_expression(subject, "has a comment in it")
        position = match.end()
        if kind == "word" and not all(map(_is_safe_word_character, token)):
            _refuse_expression(subject, f"can't be read from {token!r} on; put the name of a column in backquotes")
        if kind == "word" and token[-1] in "rR" and text[position : position + 1] in ("'", '"'):
            # Spark may take the letter for the start of a raw string, which ends at another quote.
            _refuse_expression(subject, f"can't be read from {token!r} on")
        if kind != "space":
            yield _Token(kind, token[1:-1].replace("``", "`") if kind == "quoted_name" else token)


def _is_safe_word_character(character: str) -> bool:
    """Whether a character of a word stays itself in upper and lower case; in upper case a long s (U+017F) is an S."""
    if character.isascii():
        return True
    cases = {character.upper(), character.lower(), character.casefold()}
    return character.isalpha() and not any(len(case) == 1 and case.isascii() for case in cases)


def _check_function_call(tokens_before: Sequence[_Token], subject: str) -> None:
    """Refuse a call of anything but an allowed function; `tokens_before` are those before the parenthesis."""
    if not tokens_before or (tokens_before[-1].kind == "mark" and tokens_before[-1].mark not in (")", "]")):
        return
    token = tokens_before[-1]
    if token.kind not in ("word", "quoted_name"):
        _refuse_expression(subject, f"has a parenthesis after {token.value}")
    is_qualified = len(tokens_before) > 1 and tokens_before[-2].mark == "."
    if is_qualified or not (token.word in _WORDS_BEFORE_PARENTHESES or token.value.lower() in ALLOWED_SPARK_FUNCTIONS):
        _refuse_expression(subject, f"calls {token.value}")


def _check_no_query(tokens_after: Sequence[_Token], subject: str) -> None:
    """Refuse a query, which begins with one of a few words after a parenthesis."""
    if tokens_after and tokens_after[0].word in _QUERY_STARTS and not _is_column_name(tokens_after[1:]):
        _refuse_expression(subject, f"holds a query ({tokens_after[0].value})")


def _is_column_name(tokens_after: Sequence[_Token]) -> bool:
    """Whether the word before these tokens is a column name, and not a word of a query."""
    return bool(tokens_after) and tokens_after[0].mark in _MARKS_AFTER_COLUMNS


def _refuse_expression(subject: str, reason: str) -> NoReturn:
    raise TableError(
        f"{subject} of the table {reason}, and metadata never runs code: it takes columns, literals and Spark's own "
        "functions but for those that call methods; drop it or define it again with delta-spark"
    )
