"""Parsing of conditions with sqlglot, and splitting of its tree together with the tokens of the text."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from partita.algebra.physical_values import is_unicode
from partita.errors import PredicateError

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


@cache
def spark_dialect() -> Any:
    """Return sqlglot's dialect for Spark, with its warnings silenced: Partita or Spark reports the errors."""
    import sqlglot

    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    return sqlglot.Dialect.get_or_raise("spark")


def parse_condition(text: str) -> tuple[Any, list[Token]]:
    """Parse a condition into sqlglot's tree and tokens; raise `PredicateError` for all errors but `RecursionError`."""
    from sqlglot.errors import ParseError, SqlglotError
    from sqlglot.expressions import Condition

    if not is_unicode(text):
        raise PredicateError("the text has a lone surrogate, which is not Unicode")
    try:
        dialect = spark_dialect()
        tokens = dialect.tokenize(text)
        check_intervals(tokens, text)
        trees = dialect.parser().parse(tokens, text)
    except ParseError as error:
        raise _syntax_error(text, error.errors) from None
    except SqlglotError as error:
        raise PredicateError(f"the predicate does not parse: {error}", text, len(text)) from None
    except (RecursionError, PredicateError):
        raise
    except Exception as error:  # noqa: BLE001 - on some nonsense sqlglot fails with errors of any kind
        raise PredicateError(f"the predicate does not parse: {type(error).__name__}", text, 0) from None
    if not tokens:
        raise PredicateError("the predicate is empty", text, 0)
    if len(trees) != 1 or not isinstance(trees[0], Condition):
        raise PredicateError("the text must be a single predicate", text, 0)
    for token, after in pairwise(tokens):
        if token_word(token) == "," and token_word(after) == ")":
            # sqlglot accepts a comma at the end of a list, Spark doesn't.
            raise PredicateError("the predicate does not parse: a list ends with a comma", text, token.start)
    return trees[0], tokens


def check_intervals(tokens: Sequence[Token], text: str) -> None:
    """Raise `PredicateError` for long runs of digits or spaces in a text with an INTERVAL.

    sqlglot's regular expression for literals of intervals takes time quadratic in the length of such a run.
    """
    if not any(token.token_type.name == "INTERVAL" for token in tokens):
        return
    for token in tokens:
        if len(token.text) > _MAX_RUN_LENGTH and _LONG_RUN_PATTERN.search(token.text):
            reason = f"with an INTERVAL, no literal may have more than {_MAX_RUN_LENGTH} digits or spaces in a row"
            raise PredicateError(reason, text, token.start)


_MAX_RUN_LENGTH = 100
_LONG_RUN_PATTERN = re.compile(rf"[\d\s]{{{_MAX_RUN_LENGTH + 1}}}")


def _syntax_error(text: str, errors: Sequence[dict[str, Any]]) -> PredicateError:
    if not errors:
        return PredicateError("the predicate is empty", text, 0)
    first = errors[0]
    lines = text.splitlines(keepends=True) or [""]
    position = (
        sum(map(len, lines[: (first.get("line") or 1) - 1])) + (first.get("col") or 1) - len(first["highlight"] or "x")
    )
    reason = str(first.get("description")).split(" <class")[0].removesuffix(" for")
    return PredicateError(f"the predicate does not parse: {reason}", text, max(0, min(position, len(text))))


def split_conjuncts(node: Any, tokens: list[Token]) -> list[tuple[Any, list[Token]]]:
    """Split a tree into its conjuncts with their tokens; conjuncts whose tokens can't be separated stay together."""
    if type(node).__name__ == "Paren" and is_parenthesized(tokens):
        return split_conjuncts(node.this, tokens[1:-1])
    parts = split_operands(node, tokens) if type(node).__name__ == "And" else None
    if parts is None:
        return [(node, tokens)]
    return [conjunct for part, part_tokens in parts for conjunct in split_conjuncts(part, part_tokens)]


def split_operands(node: Any, tokens: list[Token]) -> list[tuple[Any, list[Token]]] | None:
    """Split a chain of ANDs or ORs into its operands with their tokens; None if the tokens can't be separated."""
    operand_nodes, operand_tokens = list(operands(node)), split_tokens(tokens, type(node).__name__.lower())
    if len(operand_nodes) != len(operand_tokens) or not all(operand_tokens):
        return None
    return list(zip(operand_nodes, operand_tokens, strict=True))


def operands(node: Any) -> Iterator[Any]:
    """Yield the operands of a chain of one operator, from left to right."""
    kind, stack = type(node), [node]
    while stack:
        top = stack.pop()
        if type(top) is kind:
            stack += [top.expression, top.this]
        else:
            yield top


def split_tokens(tokens: list[Token], operator_word: str) -> list[list[Token]]:
    """Split tokens at the operator `operator_word` outside of parentheses, BETWEEN and CASE.

    The tokens stay together if a column has the name of the keyword that ends a CASE.
    """
    depth, betweens, previous = 0, 0, ""
    pieces: list[list[Token]] = [[]]
    for token in tokens:
        text = token_word(token) if previous != "." else ""
        depth += (text in ("(", "[", "case")) - (text in (")", "]", "end"))
        if depth < 0:
            return [tokens]
        betweens += depth == 0 and text == "between"
        if depth == 0 and text == "and" and betweens:
            betweens -= 1
        elif depth == 0 and text == operator_word:
            pieces.append([])
            previous = text
            continue
        pieces[-1].append(token)
        previous = token_word(token)
    return pieces


def token_word(token: Token) -> str:
    """Return a keyword or a mark in lower case, or an empty string for a quoted token."""
    return "" if token.token_type.name in _QUOTED_TOKEN_TYPES else token.text.lower()


_QUOTED_TOKEN_TYPES = ("STRING", "IDENTIFIER", "RAW_STRING", "HEX_STRING", "NATIONAL_STRING")


def is_parenthesized(tokens: list[Token]) -> bool:
    """Return whether the tokens of a node are enclosed in parentheses."""
    return len(tokens) > 1 and token_word(tokens[0]) == "(" and token_word(tokens[-1]) == ")"
