"""SQL expressions that a table's metadata holds: generated columns, constraints, invariants (ADR 0025).

Spark evaluates them, and others wrote them, so one is taken only if all of this holds:

1. It reads as tokens by a part of Spark's lexical grammar. What Spark may read in another way is refused: comments,
   variables (`${x}`, which Spark replaces first), letters that are ASCII in the other case.
2. Each name before a parenthesis is that of a function of Spark's own that calls no code by its name and reads no file.
3. It holds no query: one could read other tables and files, or run a script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from partita.errors import TableError
from partita.formats.delta.functions import SPARK_FUNCTIONS

_TOKEN = re.compile(
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
_BEFORE_PARENTHESES = frozenset({
    *("all", "both", "by", "character", "dec", "distinct", "else", "escape", "for", "from", "group", "interval", "is"),
    *("leading", "numeric", "order", "over", "partition", "placing", "then", "timestampadd", "timestampdiff"),
    *("trailing", "try_cast", "varchar", "where"),
})  # fmt: skip
"""Words of the grammar, and types, that stand before a parenthesis beside functions, and call nothing of others'."""
_QUERY_STARTS = frozenset({"from", "select", "table", "values", "with"})
_AFTER_COLUMNS = frozenset("),=<>")
"""Marks that no query goes on with after one of its words, so that the word is the name of a column."""


@dataclass(frozen=True, slots=True)
class _Token:
    """A token by the name of its group in `_TOKEN`; `value` is a name without quotes, a word or a mark."""

    kind: str
    value: str

    @property
    def word(self) -> str:
        """A word in lower case; nothing for any other token."""
        return self.value.lower() if self.kind == "word" else ""

    @property
    def mark(self) -> str:
        """A mark; nothing for any other token."""
        return self.value if self.kind == "mark" else ""


def check_expression(text: str, what: str) -> str:
    """Return the expression; refuse one that could run code or a query, and one that can't be read for certain."""
    # In parentheses, for in such it is put into SQL.
    tokens = [_Token("mark", "("), *_tokens(text, what), _Token("mark", ")")]
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.mark == "(") - (token.mark == ")")
        if (depth == 0) != (at + 1 == len(tokens)):
            _refuse(what, "has parentheses that don't match")
        if token.mark == "(":
            _check_called(tokens[:at], what)
            _check_no_query(tokens[at + 1 : at + 3], what)
        if token.word == "using" and not (at and tokens[at - 1].mark == ".") and not _is_column(tokens[at + 1 :]):
            _refuse(what, "holds a query (USING)")
    return text


def _tokens(text: str, what: str) -> Iterator[_Token]:
    if "${" in text:
        _refuse(what, "has a variable (${...}) in it")
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            _refuse(what, f"can't be read from {text[at : at + 20]!r} on")
        kind, found = str(match.lastgroup), match[0]
        if kind == "comment":
            _refuse(what, "has a comment in it")
        at = match.end()
        if kind == "word" and not all(map(_is_safe_in_words, found)):
            _refuse(what, f"can't be read from {found!r} on; put the name of a column in backquotes")
        if kind == "word" and found[-1] in "rR" and text[at : at + 1] in ("'", '"'):
            # Spark may take the letter for the start of a raw string, which ends at another quote.
            _refuse(what, f"can't be read from {found!r} on")
        if kind != "space":
            yield _Token(kind, found[1:-1].replace("``", "`") if kind == "quoted_name" else found)


def _is_safe_in_words(character: str) -> bool:
    """Whether Spark reads a character of a word as it is: it compares words in upper case, where a long s is an S."""
    if character.isascii():
        return True
    cases = {character.upper(), character.lower(), character.casefold()}
    return character.isalpha() and not any(len(case) == 1 and case.isascii() for case in cases)


def _check_called(before: Sequence[_Token], what: str) -> None:
    """Refuse what stands before a parenthesis, if that calls something other than a function of Spark's own."""
    if not before or (before[-1].kind == "mark" and before[-1].mark not in (")", "]")):
        return
    token = before[-1]
    if token.kind not in ("word", "quoted_name"):
        _refuse(what, f"has a parenthesis after {token.value}")
    is_qualified = len(before) > 1 and before[-2].mark == "."
    if is_qualified or not (token.word in _BEFORE_PARENTHESES or token.value.lower() in SPARK_FUNCTIONS):
        _refuse(what, f"calls {token.value}")


def _check_no_query(after: Sequence[_Token], what: str) -> None:
    """Refuse a query by its first word, which stands after a parenthesis."""
    if after and after[0].word in _QUERY_STARTS and not _is_column(after[1:]):
        _refuse(what, f"holds a query ({after[0].value})")


def _is_column(after: Sequence[_Token]) -> bool:
    """Whether the word before these tokens is the name of a column, and no word of a query."""
    return bool(after) and after[0].mark in _AFTER_COLUMNS


def _refuse(what: str, reason: str) -> NoReturn:
    raise TableError(
        f"{what} of the table {reason}, and metadata never runs code: it takes columns, literals and Spark's own "
        "functions but for those that call methods; drop it or write it anew with delta-spark"
    )
