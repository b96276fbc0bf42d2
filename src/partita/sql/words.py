"""A statement's text as tokens, read from left to right; whatever is not as expected is an error that points at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from sqlglot.errors import SqlglotError

from partita.algebra.condition import check_intervals, spark_dialect
from partita.algebra.plain import is_unicode
from partita.errors import PredicateError

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

DIALECT = spark_dialect()

_NO_NAMES = frozenset("()[]{}.,;=*") | {"as", "from", "on", "select", "set", "using", "when", "where"}
"""What is no name without quotes: words that may stand right after one, and marks."""
_OPEN = {"L_PAREN", "L_BRACKET", "L_BRACE", "CASE"}
_CLOSE = {"R_PAREN", "R_BRACKET", "R_BRACE", "END"}


@dataclass(frozen=True, slots=True)
class Name:
    """A name of one part or more, and where it starts in the text."""

    parts: tuple[str, ...]
    start: int

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a statement's text, by its tokens."""

    source: str
    tokens: tuple[Token, ...]

    @property
    def start(self) -> int:
        """Where it starts."""
        return self.tokens[0].start

    @property
    def stop(self) -> int:
        """Where it ends; the character there is not a part of it."""
        return self.tokens[-1].end + 1

    @property
    def text(self) -> str:
        """What it says, without comments around it."""
        return self.source[self.start : self.stop]

    def fail(self, reason: str, position: int | None = None) -> NoReturn:
        """Refuse it, pointing at a place in the text."""
        raise PredicateError(reason, self.source, self.start if position is None else position)

    def split(self, *words: str) -> list[Piece]:
        """What lies between those words that stand outside of all parentheses and CASEs; empty parts are refused."""
        pieces: list[list[Token]] = [[]]
        for token, is_outside in outside(self.tokens):
            if is_outside and word_of(token) in words:
                pieces.append([])
            else:
                pieces[-1].append(token)
        if not all(pieces):
            self.fail(f"something is missing around {' or '.join(map(repr, words))}")
        return [Piece(self.source, tuple(piece)) for piece in pieces]


class Words:
    """The tokens of one statement."""

    def __init__(self, source: str, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = list(tokens)
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        """The next word in lower case, or the next mark; empty for what stands in quotes, and at the end."""
        at = self.at + ahead
        return word_of(self.tokens[at]) if at < len(self.tokens) else ""

    def accept(self, *words: str) -> bool:
        """Go past those words if they come next."""
        found = all(self.peek(ahead) == word for ahead, word in enumerate(words))
        if found:
            self.at += len(words)
        return found

    def expect(self, *words: str) -> None:
        """Go past those words, which must come next."""
        for word in words:
            if not self.accept(word):
                self.fail(f"{word.upper()} is expected here")

    def end(self) -> None:
        """Nothing may come after this."""
        if self.at < len(self.tokens):
            self.fail("this is not understood here")

    def name(self) -> Name:
        """A name with its dots."""
        start = self.position
        parts = [self.part()]
        while self.accept("."):
            parts.append(self.part())
        return Name(tuple(parts), start)

    def part(self) -> str:
        """One part of a name."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        kind = None if token is None else token.token_type.name
        if token is None or kind in ("STRING", "NUMBER") or not token.text or word_of(token) in _NO_NAMES:
            self.fail("a name is expected here")
        self.at += 1
        return str(token.text)

    def alias(self) -> str | None:
        """`AS name`, or a name alone; None where no name comes next."""
        if self.accept("as"):
            return self.part()
        return None if self.at == len(self.tokens) or self.peek() in _NO_NAMES else self.part()

    def until(self, *words: str) -> Piece:
        """What comes before any of those words outside of all parentheses, or before the end; it can't be nothing."""
        taken: list[Token] = []
        for token, is_outside in outside(self.tokens[self.at :]):
            if is_outside and word_of(token) in words and not (taken and word_of(taken[-1]) == "."):
                break
            taken.append(token)
        if not taken:
            self.fail("something is missing here")
        self.at += len(taken)
        return Piece(self.source, tuple(taken))

    def inside(self) -> Piece:
        """What stands in the parentheses that come next."""
        self.expect("(")
        piece = self.until(")")
        self.expect(")")
        return piece

    @property
    def position(self) -> int:
        """Where the next token starts."""
        return self.tokens[self.at].start if self.at < len(self.tokens) else len(self.source)

    def fail(self, reason: str) -> NoReturn:
        """Refuse the statement, pointing at the next token."""
        raise PredicateError(reason, self.source, self.position)


def read_words(text: str) -> Words:
    """The tokens of the one statement in a text."""
    if not isinstance(text, str):
        raise PredicateError(f"a statement is SQL text, not {type(text).__name__}")
    if not is_unicode(text):
        raise PredicateError("a lone surrogate in the text is not Unicode")
    if "${" in text:
        # Spark would put a variable in its place, in names and literals too.
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
    return Words(text, tokens)


def word_of(token: Token) -> str:
    """A word in lower case, or a mark; nothing for what stands in quotes."""
    quoted = token.token_type.name in ("STRING", "IDENTIFIER", "RAW_STRING", "HEX_STRING", "NATIONAL_STRING")
    return "" if quoted else " ".join(str(token.text).lower().split())


def outside(tokens: Sequence[Token]) -> Iterator[tuple[Token, bool]]:
    """Each token, and whether it stands outside of all parentheses and CASEs, as what opens one does."""
    depth = 0
    before = ""
    for token in tokens:
        kind = token.token_type.name if before != "." else ""
        yield token, depth <= 0
        depth += (kind in _OPEN) - (kind in _CLOSE)
        before = word_of(token)
