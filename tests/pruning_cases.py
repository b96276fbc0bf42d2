"""Random tables, specs and predicates, for properties that must hold for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from partita.algebra.partition_functions import bucket, day, hash, hour, identity, month, truncate, year  # noqa: A004
from partita.algebra.predicate import Comparison, Not, Predicate, Residual, all_of, any_of, col, to_predicate
from partita.algebra.transforms import PartitionFunction, TransformFamily
from partita.arrow.schema import to_logical_type
from partita.errors import TransformError

COLUMN_TYPES: dict[str, Any] = {
    "b": pa.bool_(),
    "y": pa.int8(),
    "i": pa.int32(),
    "l": pa.int64(),
    "f": pa.float32(),
    "x": pa.float64(),
    "m": pa.decimal128(6, 2),
    "w": pa.decimal128(25, 3),
    "d": pa.date32(),
    "ts": pa.timestamp("us", "UTC"),
    "n": pa.timestamp("us"),
    "s": pa.string(),
    "z": pa.binary(),
}
"""A column of each type."""

_TIMESTAMPS = [
    datetime(1, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001 - half of them stay without a zone
    datetime(1969, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001
    datetime(1970, 1, 1),  # noqa: DTZ001
    datetime(2024, 2, 29, 7, 30),  # noqa: DTZ001
    datetime(2024, 3, 1, 7, 59, 59),  # noqa: DTZ001
    datetime(2025, 12, 10, 10, 0),  # noqa: DTZ001
    datetime(2025, 12, 31, 23),  # noqa: DTZ001
    datetime(9999, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001
]
_INTS = [-(2**31) + 8, -11, -10, -1, 0, 1, 5, 9, 10, 11, 2**31 - 1]
COLUMN_VALUES: dict[str, list[Any]] = {
    "b": [True, False],
    "y": [-120, -1, 0, 1, 9, 10, 127],
    "i": _INTS,
    "l": [*_INTS, -(2**63) + 9, 2**53, 2**53 + 1, 2**63 - 1],
    "f": [
        float("-inf"),
        -1.5,
        -0.0,
        0.0,
        0.5,
        1.0000001192092896,
        1.0000002384185791,
        1.5,
        16777216.0,
        3.4028234663852886e38,
        float("inf"),
        float("nan"),
    ],
    "x": [float("-inf"), -1.5, -0.0, 0.0, 5e-324, 0.1, 1.5, 1.7976931348623157e308, float("inf"), float("nan")],
    "m": [Decimal(t) for t in ("-9999.90", "-10.65", "-0.01", "0.00", "0.01", "1.50", "10.65", "9999.99")],
    "w": [
        Decimal(t)
        for t in ("-9999999999999999999999.990", "-1.000", "0.000", "0.001", "1.400", "12345678901234567890.123")
    ],
    "d": [m.date() for m in _TIMESTAMPS],
    "ts": [m.replace(tzinfo=UTC) for m in _TIMESTAMPS],
    "n": _TIMESTAMPS,
    "s": [
        "",
        "a",
        "ab",
        "abc",
        "abcd",
        "abd",
        "b",
        "B",
        "é",
        "日本語",
        "日本",
        "\U0001f389",
        "a'b\\%_",
        "\U0010ffff",
        "\ud7ff",
    ],
    "z": [b"", b"\x00", b"a", b"ab", b"abc", b"\xff", b"\xff\xff"],
}
"""Few values for each column, so that rows and literals often meet, with the ends of every type among them, as
far down as truncate can floor them."""


@dataclass(frozen=True)
class PruningCase:
    """A table, how it is partitioned, and predicates on it."""

    family: TransformFamily
    functions: list[PartitionFunction]
    table: Any
    predicates: list[Predicate]


@st.composite
def pruning_cases(
    draw: st.DrawFn, *, predicates: int, families: Sequence[TransformFamily] = tuple(TransformFamily)
) -> PruningCase:
    """A case with so many predicates, of one of these families."""
    names = draw(st.lists(st.sampled_from(list(COLUMN_TYPES)), min_size=1, max_size=4, unique=True))
    family = draw(st.sampled_from(families))
    rows = draw(st.integers(1, 25))
    table = pa.table({n: pa.array([draw(_column_value(n)) for _ in range(rows)], COLUMN_TYPES[n]) for n in names})
    possible = [f for n in names for f in _partition_functions(n) if _is_legal(f, family)]
    functions = draw(st.lists(st.sampled_from(possible), max_size=4, unique_by=lambda f: f.name)) if possible else []
    chosen = [draw(predicate_strategy(names)) for _ in range(predicates)]
    return PruningCase(family, functions, table, chosen)


def _column_value(name: str) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), *[st.sampled_from(COLUMN_VALUES[name])] * 3)


def _partition_functions(name: str) -> list[PartitionFunction]:
    widths = [truncate(name, w) for w in (1, 2, 10)]
    named = [w.alias(f"{w.name}_{w.transform.parameter}") for w in widths]
    return [identity(name), year(name), month(name), day(name), hour(name), bucket(name, 4), hash(name), *named]


def _is_legal(function: PartitionFunction, family: TransformFamily) -> bool:
    try:
        function.transform.check_type(to_logical_type(COLUMN_TYPES[function.source]), family)
    except TransformError:
        return False
    return True


def predicate_strategy(names: list[str]) -> st.SearchStrategy[Predicate]:
    """A predicate on columns of these names, now and then with parts that only Spark can evaluate."""
    leaves = st.one_of(*(_column_predicates(n) for n in names))
    return st.recursive(leaves, _combined_predicates, max_leaves=6)


def _combined_predicates(parts: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    several = st.lists(parts, min_size=2, max_size=3)
    return st.one_of(several.map(all_of), several.map(any_of), parts.map(Not))


def _column_predicates(name: str) -> st.SearchStrategy[Predicate]:
    literal = st.sampled_from(COLUMN_VALUES[name])
    perhaps_null = st.one_of(literal, literal, literal, st.none())
    compare = st.builds(
        lambda op, v: _comparison(name, op, v), st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]), perhaps_null
    )
    kinds: list[st.SearchStrategy[Predicate]] = [
        compare,
        compare,
        st.lists(perhaps_null, min_size=1, max_size=4).map(lambda vs: col(name).isin(*vs)),
        st.tuples(literal, literal).map(lambda ends: col(name).between(*ends)),
        st.sampled_from([col(name).is_null(), col(name).is_not_null()]),
        st.just(Residual(f"coalesce(hash(`{name}`) % 2 = 0, NULL)")),
    ]
    if name == "b":
        kinds.append(st.just(to_predicate(col(name))))
    if name == "s":
        kinds.append(st.sampled_from(["", "a", "ab", "abc", "日", "\U0010ffff"]).map(col(name).startswith))
    return st.one_of(kinds)


def _comparison(name: str, op: str, value: Any) -> Predicate:
    return col(name).eq_null_safe(value) if op == "<=>" else Comparison(name, op, value)


def has_residual(bound: Predicate) -> bool:
    """Whether some part of a predicate is left to Spark."""
    if isinstance(bound, Not):
        return has_residual(bound.operand)
    return isinstance(bound, Residual) or any(map(has_residual, getattr(bound, "operands", ())))
