"""The text of a statement as tokens, read from left to right; errors point at the token that is not expected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from sqlglot.errors import SqlglotError

from partita.algebra.physical_values import is_unicode
from partita.algebra.sql_condition import check_intervals, spark_dialect
from partita.errors import PredicateError

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

DIALECT = spark_dialect()

_NON_NAME_KEYWORDS = frozenset("()[]{}.,;=*") | {"as", "from", "on", "select", "set", "using", "when", "where"}
"""Keywords and symbols that may follow a name, and are no names without quotes."""
_OPENING_TOKENS = {"L_PAREN", "L_BRACKET", "L_BRACE", "CASE"}
_CLOSING_TOKENS = {"R_PAREN", "R_BRACKET", "R_BRACE", "END"}


@dataclass(frozen=True, slots=True)
class QualifiedName:
    """A name of one part or more, and its position in the text."""

    parts: tuple[str, ...]
    start: int

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class SqlFragment:
    """A part of the text of a statement, given by its tokens."""

    source: str
    tokens: tuple[Token, ...]

    @property
    def start(self) -> int:
        """The position of its first character."""
        return self.tokens[0].start

    @property
    def stop(self) -> int:
        """The position after its last character."""
        return self.tokens[-1].end + 1

    @property
    def text(self) -> str:
        """Its text, without comments before or after it."""
        return self.source[self.start : self.stop]

    def fail(self, reason: str, position: int | None = None) -> NoReturn:
        """Raise `PredicateError` with a caret at a position in the text, or at the start of the fragment."""
        raise PredicateError(reason, self.source, self.start if position is None else position)

    def split(self, *keywords: str) -> list[SqlFragment]:
        """Split at keywords that are outside of all parentheses and CASEs; raise `PredicateError` for an empty part."""
        parts: list[list[Token]] = [[]]
        for token, is_outside in with_nesting_flag(self.tokens):
            if is_outside and keyword_of(token) in keywords:
                parts.append([])
            else:
                parts[-1].append(token)
        if not all(parts):
            self.fail(f"something is missing around {' or '.join(map(repr, keywords))}")
        return [SqlFragment(self.source, tuple(tokens)) for tokens in parts]


class TokenStream:
    """The tokens of one statement, and the index of the next one."""

    def __init__(self, source: str, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = list(tokens)
        self.index = 0

    def peek(self, ahead: int = 0) -> str:
        """Return the next keyword or symbol as `keyword_of` does; empty at the end of the statement."""
        index = self.index + ahead
        return keyword_of(self.tokens[index]) if index < len(self.tokens) else ""

    def accept(self, *keywords: str) -> bool:
        """Skip these keywords if they come next, and return whether they did."""
        is_next = all(self.peek(ahead) == keyword for ahead, keyword in enumerate(keywords))
        if is_next:
            self.index += len(keywords)
        return is_next

    def expect(self, *keywords: str) -> None:
        """Skip these keywords; raise `PredicateError` if they don't come next."""
        for keyword in keywords:
            if not self.accept(keyword):
                self.fail(f"{keyword.upper()} is expected here")

    def expect_end(self) -> None:
        """Raise `PredicateError` if tokens are left."""
        if self.index < len(self.tokens):
            self.fail("this is not understood here")

    def read_name(self) -> QualifiedName:
        """Read a name with its dots."""
        start = self.position
        parts = [self.read_name_part()]
        while self.accept("."):
            parts.append(self.read_name_part())
        return QualifiedName(tuple(parts), start)

    def read_name_part(self) -> str:
        """Read one part of a name."""
        token = self.tokens[self.index] if self.index < len(self.tokens) else None
        kind = None if token is None else token.token_type.name
        if token is None or kind in ("STRING", "NUMBER") or not token.text or keyword_of(token) in _NON_NAME_KEYWORDS:
            self.fail("a name is expected here")
        self.index += 1
        return str(token.text)

    def read_alias(self) -> str | None:
        """Read `AS name` or a name alone; None if no name comes next."""
        if self.accept("as"):
            return self.read_name_part()
        return None if self.index == len(self.tokens) or self.peek() in _NON_NAME_KEYWORDS else self.read_name_part()

    def read_until(self, *keywords: str) -> SqlFragment:
        """Read up to one of these keywords outside of all parentheses, or to the end; raise if nothing is there."""
        tokens: list[Token] = []
        for token, is_outside in with_nesting_flag(self.tokens[self.index :]):
            if is_outside and keyword_of(token) in keywords and not (tokens and keyword_of(tokens[-1]) == "."):
                break
            tokens.append(token)
        if not tokens:
            self.fail("something is missing here")
        self.index += len(tokens)
        return SqlFragment(self.source, tuple(tokens))

    def read_parenthesized(self) -> SqlFragment:
        """Read the fragment inside of the parentheses that come next."""
        self.expect("(")
        fragment = self.read_until(")")
        self.expect(")")
        return fragment

    @property
    def position(self) -> int:
        """The position of the next token, or of the end of the text."""
        return self.tokens[self.index].start if self.index < len(self.tokens) else len(self.source)

    def fail(self, reason: str) -> NoReturn:
        """Raise `PredicateError` with a caret at the next token."""
        raise PredicateError(reason, self.source, self.position)


def tokenize_statement(text: str) -> TokenStream:
    """Return the tokens of a text with one statement; raise `PredicateError` for none or several."""
    if not isinstance(text, str):
        raise PredicateError(f"a statement is SQL text, not {type(text).__name__}")
    if not is_unicode(text):
        raise PredicateError("a lone surrogate in the text is not Unicode")
    if "${" in text:
        # Spark would replace it by a variable of the session, in names and literals too.
        raise PredicateError("variables can't be used here; put the value itself into the text", text, text.index("${"))
    try:
        tokens = DIALECT.tokenize(text)
    except SqlglotError:
        raise PredicateError("the statement does not parse: a quote or a comment has no end", text, len(text)) from None
    check_intervals(tokens, text)
    while tokens and tokens[-1].token_type.name == "SEMICOLON":
        tokens.pop()
    if not tokens:
        raise PredicateError("there is no statement in the text")
    for token in tokens:
        if token.token_type.name == "SEMICOLON":
            raise PredicateError("there is more than one statement in the text; run them one by one", text, token.start)
    return TokenStream(text, tokens)


def keyword_of(token: Token) -> str:
    """Return the text of a keyword, symbol or unquoted name in lower case; empty for text in quotes."""
    is_quoted = token.token_type.name in ("STRING", "IDENTIFIER", "RAW_STRING", "HEX_STRING", "NATIONAL_STRING")
    return "" if is_quoted else " ".join(str(token.text).lower().split())


def with_nesting_flag(tokens: Sequence[Token]) -> Iterator[tuple[Token, bool]]:
    """Yield each token with whether it is outside of all parentheses and CASEs; a token that opens one is outside."""
    depth = 0
    previous_keyword = ""
    for token in tokens:
        # After a dot, `end` and `case` are names.
        kind = token.token_type.name if previous_keyword != "." else ""
        yield token, depth <= 0
        depth += (kind in _OPENING_TOKENS) - (kind in _CLOSING_TOKENS)
        previous_keyword = keyword_of(token)
