"""Names are found as Spark finds them, and other names for the tables never change what an expression means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.errors import PredicateError
from partita.sql.names import Side, rewritten
from partita.sql.words import Piece, read_words

if TYPE_CHECKING:
    import random

    from pyspark.sql import DataFrame, SparkSession

ORDERS = Side((("sales", "orders"), ("orders",)), ("id", "price", "t", "a.b", "Größe"), "t")
NEWS = Side((("n",),), ("id", "cost", "s", "x y"), "s")


def piece(text: str) -> Piece:
    words = read_words(text)
    return Piece(words.source, tuple(words.tokens))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders.id = n.id", "t.id = s.id"),
        ("sales.orders.id = N.ID", "t.id = s.ID"),
        ("`sales` . `orders`.`id`=n. id", "t.`id`=s.id"),
        ("price > cost", "t.price > s.cost"),
        ("t.x = s.y.z", "t.t.x = s.s.y.z"),
        ("orders.t.x.y.z.w.v = 1", "t.t.x.y.z.w.v = 1"),
        ("n.`x y` = `a.b`", "s.`x y` = t.`a.b`"),
        ("GRÖSSE.x = 1", "t.GRÖSSE.x = 1"),
        ("price[0].id = n.s['n.id']", "t.price[0].id = s.s['n.id']"),
        ("'n.id' = \"orders.id\" /* n.id */ AND n.id = 1 -- n.id", "'n.id' = \"orders.id\" /* n.id */ AND s.id = 1"),
        ("exists(cost, x -> x = orders.id AND X > n.id)", "exists(s.cost, x -> x = t.id AND X > s.id)"),
        ("transform(cost, id -> id.id)", "transform(s.cost, id -> id.id)"),
        ("CASE WHEN n.id THEN price END", "CASE WHEN s.id THEN t.price END"),
        ("dateadd(DAY, 1, n.id) > current_date", "dateadd(DAY, 1, s.id) > current_date"),
        ("extract(YEAR FROM n.id) = r'\\'", "extract(YEAR FROM s.id) = r'\\'"),
        ("struct(n.id AS price).price = unheard_of", "struct(s.id AS price).price = unheard_of"),
        ("n.id::int BETWEEN price AND 3", "s.id::int BETWEEN t.price AND 3"),
        ("é + n.id", "é + s.id"),
    ],
)
def test_names_are_replaced(text: str, expected: str) -> None:
    assert rewritten(piece(text), [ORDERS, NEWS]) == expected


def test_swapped_names() -> None:
    target, source = Side((("s",),), ("id", "x"), "t"), Side((("t",),), ("id", "y"), "s")
    assert rewritten(piece("s.id = t.id AND y > x"), [target, source]) == "t.id = s.id AND s.y > t.x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders.id = 1", "id = 1"),
        ("sales.orders.t.x = 1", "t.x = 1"),
        ("t.x = 1 AND orders.t.x = orders . `a.b`", "t.x = 1 AND t.x = `a.b`"),
    ],
)
def test_names_are_left_out(text: str, expected: str) -> None:
    assert rewritten(piece(text), [Side(ORDERS.called, ORDERS.columns)]) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id = 1", "'id' could be more than one column"),
        ("news.id = 1", "there is no 'news.id' here; there is sales.orders.id"),
        ("n.price = 1", "there is no 'n.price'"),
        ("crm.orders.id = 1", "there is no 'crm.orders.id'"),
        ("n.id IN (SELECT id FROM sales.orders)", "a subquery can't stand here"),
        ("EXISTS (SELECT 1)", "a subquery can't stand here"),
        ("n.id = (VALUES (1))", "can't"),
        ("count(*) > 1", "* can't stand here"),
        ("struct(n.*) = 1", "* can't stand here"),
        ("exists(cost, t -> t = orders.id)", "the variable 't' of a lambda would hide 'orders.id'"),
        ("exists(cost, S -> S = n.id)", "the variable 's' of a lambda would hide 'n.id'"),
        ("n.f(1) = 2", "it can't be told what 'n' means here"),
        ("n.id = ", "does not parse"),
        ("n.id = 1 x", "does not parse"),
        ("n.id, price", "does not parse"),
        ("(n.id", "does not parse"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(PredicateError) as caught:
        rewritten(piece(text), [ORDERS, NEWS])
    assert problem in str(caught.value)


def test_a_lambda_may_not_hide_a_name_that_loses_its_table() -> None:
    with pytest.raises(PredicateError, match="would hide"):
        rewritten(piece("exists(price, id -> id = orders.id)"), [Side(ORDERS.called, ORDERS.columns)])


# Names that stand for aliases, columns and fields alike.
POOL = ("t", "s", "id", "x", "o")


class Drawn:
    """Expressions over two tables, drawn from names that collide."""

    def __init__(self, randoms: random.Random) -> None:
        self.random = randoms
        self.aliases = self.random.sample(POOL, 2)
        self.columns = [self.random.sample(POOL, 3) for _ in self.aliases]
        self.structs = [self.random.choice(columns) for columns in self.columns]

    def __str__(self) -> str:
        return f"{self.aliases} with {self.columns}, structs {self.structs}"

    def frames(self, spark: SparkSession) -> list[DataFrame]:
        """A table each, with one column of structs; no two values in all of it are the same."""
        frames = []
        for at, (columns, struct) in enumerate(zip(self.columns, self.structs, strict=True)):
            values = []
            for place, name in enumerate(columns):
                number = 1000 * at + 100 * place
                fields = ", ".join(f"'{field}', {number + i}" for i, field in enumerate(POOL))
                values.append(f"named_struct({fields}) AS {name}" if name == struct else f"{number} AS {name}")
            frames.append(spark.range(1).selectExpr(*values))
        return frames

    def sides(self) -> list[Side]:
        return [
            Side(((alias,),), tuple(columns), becomes)
            for alias, columns, becomes in zip(self.aliases, self.columns, "ts", strict=True)
        ]

    def name(self) -> str:
        """A name of a column, of a field, or of nothing."""
        if self.random.random() < 0.3:
            parts = self.random.choices(POOL, k=self.random.randint(2, 3))
        else:
            at = self.random.randrange(2)
            column = self.random.choice(self.columns[at])
            qualifier = [self.aliases[at]] if self.random.random() < 0.6 else []
            field = [self.random.choice(POOL)] if column == self.structs[at] and self.random.random() < 0.7 else []
            parts = [*qualifier, column, *field]
        return self.random.choice([".", " . "]).join(map(self._spelled, parts))

    def _spelled(self, part: str) -> str:
        return self.random.choice([part, part, part.upper(), f"`{part}`"])

    def expression(self) -> str:
        """Names in all kinds of places; a hash takes them whatever their types."""
        a, b = (f"xxhash64({self.name()}) % 1000" for _ in range(2))
        forms = (a, f"{a} + {b}", f"coalesce(null, {a}, {b})", f"CASE WHEN {a} > {b} THEN {a} END",
                 f"concat('t.id', \"s.x\", {a}) /* t.id */", f"exists(array({a}), v -> v = {b} AND V > 0)",
                 f"hash(struct({self.name()} AS t)) = {b} OR NOT {a} IN ({b}, 1)", f"{a} BETWEEN {b} AND {b} + 1",
                 f"transform(array(named_struct('id', {a})), x -> x.id)",
                 f"named_struct('t', {a}).t = {b}")  # fmt: skip
        return self.random.choice(forms)


@settings(max_examples=4)
@given(randoms=st.randoms(use_true_random=False))
def test_other_names_never_change_the_meaning(spark: SparkSession, randoms: random.Random) -> None:
    """What is rewritten means to Spark what it meant before, or as little; what is refused, Spark refuses as well."""
    drawn = Drawn(randoms)
    target, source = drawn.frames(spark)
    before = target.alias(drawn.aliases[0]).crossJoin(source.alias(drawn.aliases[1]))
    after = target.alias("t").crossJoin(source.alias("s"))
    pairs = []
    for _ in range(25):
        text = drawn.expression()
        made = attempted(text, drawn.sides())
        if isinstance(made, PredicateError):
            assert "would hide" in str(made) or not understands(before, text), f"{text!r} was refused: {made}"
        elif understands(before, text):
            pairs.append((text, made))
        else:
            assert not understands(after, made), f"{text!r} of {drawn} became {made!r}"
    wanted = values(before, [text for text, _ in pairs])
    found = values(after, [made for _, made in pairs])
    for (text, made), x, y in zip(pairs, wanted, found, strict=True):
        assert x == y, f"{text!r} of {drawn} became {made!r}"


def attempted(text: str, sides: list[Side]) -> str | PredicateError:
    try:
        return rewritten(piece(text), sides)
    except PredicateError as error:
        return error


def values(frame: DataFrame, texts: list[str]) -> list[object]:
    columns = [f"{text} AS column_{at}" for at, text in enumerate(texts)]
    return list(frame.selectExpr("1", *columns).collect()[0])[1:]


def understands(frame: DataFrame, text: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        frame.selectExpr(text)
    except AnalysisException:
        return False
    return True
