"""Names are resolved as in Spark, and other qualifiers never change what an expression means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.errors import PredicateError
from partita.sql.name_resolution import TableScope, qualify_columns
from partita.sql.tokens import SqlFragment, tokenize_statement

if TYPE_CHECKING:
    import random

    from pyspark.sql import DataFrame, SparkSession

ORDERS = TableScope((("sales", "orders"), ("orders",)), ("id", "price", "t", "a.b", "Größe"), "t")
NEWS = TableScope((("n",),), ("id", "cost", "s", "x y"), "s")


def fragment(text: str) -> SqlFragment:
    tokens = tokenize_statement(text)
    return SqlFragment(tokens.source, tuple(tokens.tokens))


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
def test_qualifiers_are_replaced(text: str, expected: str) -> None:
    assert qualify_columns(fragment(text), [ORDERS, NEWS]) == expected


def test_swapped_names() -> None:
    target, source = TableScope((("s",),), ("id", "x"), "t"), TableScope((("t",),), ("id", "y"), "s")
    assert qualify_columns(fragment("s.id = t.id AND y > x"), [target, source]) == "t.id = s.id AND s.y > t.x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders.id = 1", "id = 1"),
        ("sales.orders.t.x = 1", "t.x = 1"),
        ("t.x = 1 AND orders.t.x = orders . `a.b`", "t.x = 1 AND t.x = `a.b`"),
    ],
)
def test_qualifiers_are_removed(text: str, expected: str) -> None:
    assert qualify_columns(fragment(text), [TableScope(ORDERS.qualifiers, ORDERS.columns)]) == expected


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
        ("n.f(1) = 2", "it is not clear what 'n' means here"),
        ("n.id = ", "does not parse"),
        ("n.id = 1 x", "does not parse"),
        ("n.id, price", "does not parse"),
        ("(n.id", "does not parse"),
    ],
)
def test_unresolvable_names_are_refused(text: str, problem: str) -> None:
    with pytest.raises(PredicateError) as caught:
        qualify_columns(fragment(text), [ORDERS, NEWS])
    assert problem in str(caught.value)


def test_a_lambda_may_not_hide_a_name_that_loses_its_table() -> None:
    with pytest.raises(PredicateError, match="would hide"):
        qualify_columns(
            fragment("exists(price, id -> id = orders.id)"), [TableScope(ORDERS.qualifiers, ORDERS.columns)]
        )


# Names of aliases, columns and fields.
POOL = ("t", "s", "id", "x", "o")


class RandomExpressions:
    """Random expressions over two tables, with names that collide."""

    def __init__(self, randoms: random.Random) -> None:
        self.random = randoms
        self.aliases = self.random.sample(POOL, 2)
        self.columns = [self.random.sample(POOL, 3) for _ in self.aliases]
        self.structs = [self.random.choice(columns) for columns in self.columns]

    def __str__(self) -> str:
        return f"{self.aliases} with {self.columns}, structs {self.structs}"

    def frames(self, spark: SparkSession) -> list[DataFrame]:
        """Return the two tables, each with one column of structs; all values are different."""
        frames = []
        for index, (columns, struct) in enumerate(zip(self.columns, self.structs, strict=True)):
            values = []
            for position, name in enumerate(columns):
                number = 1000 * index + 100 * position
                fields = ", ".join(f"'{field}', {number + i}" for i, field in enumerate(POOL))
                values.append(f"named_struct({fields}) AS {name}" if name == struct else f"{number} AS {name}")
            frames.append(spark.range(1).selectExpr(*values))
        return frames

    def scopes(self) -> list[TableScope]:
        return [
            TableScope(((alias,),), tuple(columns), output_qualifier)
            for alias, columns, output_qualifier in zip(self.aliases, self.columns, "ts", strict=True)
        ]

    def name(self) -> str:
        """Return the name of a column or a field, or one that doesn't exist."""
        if self.random.random() < 0.3:
            parts = self.random.choices(POOL, k=self.random.randint(2, 3))
        else:
            index = self.random.randrange(2)
            column = self.random.choice(self.columns[index])
            qualifier = [self.aliases[index]] if self.random.random() < 0.6 else []
            field = [self.random.choice(POOL)] if column == self.structs[index] and self.random.random() < 0.7 else []
            parts = [*qualifier, column, *field]
        return self.random.choice([".", " . "]).join(map(self._spelling, parts))

    def _spelling(self, part: str) -> str:
        return self.random.choice([part, part, part.upper(), f"`{part}`"])

    def expression(self) -> str:
        """Return an expression with names in many positions; a hash takes values of any type."""
        a, b = (f"xxhash64({self.name()}) % 1000" for _ in range(2))
        forms = (a, f"{a} + {b}", f"coalesce(null, {a}, {b})", f"CASE WHEN {a} > {b} THEN {a} END",
                 f"concat('t.id', \"s.x\", {a}) /* t.id */", f"exists(array({a}), v -> v = {b} AND V > 0)",
                 f"hash(struct({self.name()} AS t)) = {b} OR NOT {a} IN ({b}, 1)", f"{a} BETWEEN {b} AND {b} + 1",
                 f"transform(array(named_struct('id', {a})), x -> x.id)",
                 f"named_struct('t', {a}).t = {b}")  # fmt: skip
        return self.random.choice(forms)


@settings(max_examples=4)
@given(randoms=st.randoms(use_true_random=False))
def test_other_qualifiers_never_change_the_meaning(spark: SparkSession, randoms: random.Random) -> None:
    """Spark evaluates the edited expression to the same value, and refuses what Partita refuses."""
    expressions = RandomExpressions(randoms)
    target, source = expressions.frames(spark)
    before = target.alias(expressions.aliases[0]).crossJoin(source.alias(expressions.aliases[1]))
    after = target.alias("t").crossJoin(source.alias("s"))
    pairs = []
    for _ in range(25):
        text = expressions.expression()
        edited = qualified_or_error(text, expressions.scopes())
        if isinstance(edited, PredicateError):
            assert "would hide" in str(edited) or not understands(before, text), f"{text!r} was refused: {edited}"
        elif understands(before, text):
            pairs.append((text, edited))
        else:
            assert not understands(after, edited), f"{text!r} of {expressions} became {edited!r}"
    expected = values(before, [text for text, _ in pairs])
    actual = values(after, [edited for _, edited in pairs])
    for (text, edited), expected_value, value in zip(pairs, expected, actual, strict=True):
        assert expected_value == value, f"{text!r} of {expressions} became {edited!r}"


def qualified_or_error(text: str, scopes: list[TableScope]) -> str | PredicateError:
    try:
        return qualify_columns(fragment(text), scopes)
    except PredicateError as error:
        return error


def values(frame: DataFrame, texts: list[str]) -> list[object]:
    columns = [f"{text} AS column_{index}" for index, text in enumerate(texts)]
    return list(frame.selectExpr("1", *columns).collect()[0])[1:]


def understands(frame: DataFrame, text: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        frame.selectExpr(text)
    except AnalysisException:
        return False
    return True
