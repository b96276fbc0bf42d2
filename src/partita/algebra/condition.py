"""A condition's text as sqlglot's tree over its tokens, and the parts that both can be taken apart into."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from partita.algebra.plain import is_unicode
from partita.errors import PredicateError

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


@cache
def spark_dialect() -> Any:
    """Sqlglot's reader of Spark's SQL, silent: what it can't make sense of is an error of ours or Spark's."""
    import sqlglot

    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    return sqlglot.Dialect.get_or_raise("spark")


def read_condition(text: str) -> tuple[Any, list[Token]]:
    """Sqlglot's tree and tokens; its errors end here, but for a `RecursionError`."""
    from sqlglot.errors import ParseError, SqlglotError
    from sqlglot.expressions import Condition

    if not is_unicode(text):
        raise PredicateError("a lone surrogate in the text is not Unicode")
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
        raise PredicateError("there is no predicate in the text", text, 0)
    if len(trees) != 1 or not isinstance(trees[0], Condition):
        raise PredicateError("this is not one predicate", text, 0)
    for token, after in pairwise(tokens):
        if word_of(token) == "," and word_of(after) == ")":
            # To sqlglot a list may end with a comma, to Spark it may not.
            raise PredicateError("the predicate does not parse: a list ends with a comma", text, token.start)
    return trees[0], tokens


def check_intervals(tokens: Sequence[Token], text: str) -> None:
    """Refuse long runs of digits or spaces in a text with an INTERVAL.

    sqlglot searches literals of intervals by a regular expression that takes time quadratic in such a run.
    """
    if not any(token.token_type.name == "INTERVAL" for token in tokens):
        return
    for token in tokens:
        if len(token.text) > _LONGEST_RUN and _LONG_RUN.search(token.text):
            reason = f"beside an INTERVAL, no literal may have over {_LONGEST_RUN} digits or spaces in a row"
            raise PredicateError(reason, text, token.start)


_LONGEST_RUN = 100
_LONG_RUN = re.compile(rf"[\d\s]{{{_LONGEST_RUN + 1}}}")


def _syntax_error(text: str, errors: Sequence[dict[str, Any]]) -> PredicateError:
    if not errors:
        return PredicateError("there is no predicate in the text", text, 0)
    first = errors[0]
    lines = text.splitlines(keepends=True) or [""]
    position = (
        sum(map(len, lines[: (first.get("line") or 1) - 1])) + (first.get("col") or 1) - len(first["highlight"] or "x")
    )
    reason = str(first.get("description")).split(" <class")[0].removesuffix(" for")
    return PredicateError(f"the predicate does not parse: {reason}", text, max(0, min(position, len(text))))


def conjuncts_of(node: Any, tokens: list[Token]) -> list[tuple[Any, list[Token]]]:
    """The parts that all must be true, each with its tokens; where those can't be told apart, several as one."""
    if type(node).__name__ == "Paren" and is_wrapped(tokens):
        return conjuncts_of(node.this, tokens[1:-1])
    parts = operands_of(node, tokens) if type(node).__name__ == "And" else None
    if parts is None:
        return [(node, tokens)]
    return [found for part, piece in parts for found in conjuncts_of(part, piece)]


def operands_of(node: Any, tokens: list[Token]) -> list[tuple[Any, list[Token]]] | None:
    """What a run of ANDs or ORs holds together, each with its tokens; None where those can't be told apart."""
    found, pieces = list(operands(node)), split(tokens, type(node).__name__.lower())
    if len(found) != len(pieces) or not all(pieces):
        return None
    return list(zip(found, pieces, strict=True))


def operands(node: Any) -> Iterator[Any]:
    """The operands of a run of one operator, from left to right."""
    kind, stack = type(node), [node]
    while stack:
        top = stack.pop()
        if type(top) is kind:
            stack += [top.expression, top.this]
        else:
            yield top


def split(tokens: list[Token], word: str) -> list[list[Token]]:
    """The tokens between the operators `word` that stand outside all parentheses, BETWEENs and CASEs.

    Where a column is called like the word that ends a CASE, all of them stay together.
    """
    depth, betweens, before = 0, 0, ""
    pieces: list[list[Token]] = [[]]
    for token in tokens:
        text = word_of(token) if before != "." else ""
        depth += (text in ("(", "[", "case")) - (text in (")", "]", "end"))
        if depth < 0:
            return [tokens]
        betweens += depth == 0 and text == "between"
        if depth == 0 and text == "and" and betweens:
            betweens -= 1
        elif depth == 0 and text == word:
            pieces.append([])
            before = text
            continue
        pieces[-1].append(token)
        before = word_of(token)
    return pieces


def word_of(token: Token) -> str:
    """A keyword or a mark; nothing for what stands in quotes."""
    return "" if token.token_type.name in _QUOTED else token.text.lower()


_QUOTED = ("STRING", "IDENTIFIER", "RAW_STRING", "HEX_STRING", "NATIONAL_STRING")


def is_wrapped(tokens: list[Token]) -> bool:
    """Whether parentheses stand around the tokens of one node."""
    return len(tokens) > 1 and word_of(tokens[0]) == "(" and word_of(tokens[-1]) == ")"
