"""What a merge's condition says of each side alone, in its author's words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.errors import PartitaError, PredicateError
from partita.formats.merge_clauses import JoinCondition, split_join_condition

KNOWN = {
    "t.id = s.id": JoinCondition(equal_columns=(("id", "id"),)),
    "S.id = t.id and s.`a``b` = t.`k.x`": JoinCondition(equal_columns=(("k.x", "a`b"),)),
    "t.x > 1 AND (t.id = s.id AND t.`a``b`.c like 'x%')": JoinCondition(
        ("`x` > 1", "`a``b`.`c` like 'x%'"), (("id", "id"),)
    ),
    "t.x = 'it''s' /* t.y */ -- t.z": JoinCondition(("`x` = 'it''s'",)),
    r"t . x = '\u0041' and t.s = r'and' ": JoinCondition((r"`x` = '\u0041'", "`s` = r'and'")),
    "t.end = 1 AND CASE WHEN t.a = 1 AND t.b = 2 THEN true END": JoinCondition(
        ("`end` = 1", "CASE WHEN `a` = 1 AND `b` = 2 THEN true END")
    ),
    "t.a between s.b and 2 and t.a between 1 and 2": JoinCondition(("`a` between 1 and 2",)),
    "exists(t.list, x -> x > t.a)": JoinCondition(("exists(`list`, x -> x > `a`)",)),
    "t.a = 1 OR t.id = s.id": JoinCondition(),
    "t.code = to_char(s.k, '000')": JoinCondition(),
    "t.code = concat(s.x, 'it''s')": JoinCondition(),
    "t.code = s.k COLLATE UTF8_LCASE": JoinCondition(),
    "t.code COLLATE UTF8_LCASE = s.k": JoinCondition(),
    "t.code = s.k.f": JoinCondition(),
    "t.code = lower(s.k)": JoinCondition(),
    "code = s.k and t.a <=> s.a": JoinCondition(),
    "t.code = '${x}' and t.id = s.id": JoinCondition(),
}


@pytest.mark.parametrize("on", KNOWN)
def test_conditions_of_each_side_of_a_merge(on: str) -> None:
    assert split_join_condition(on) == KNOWN[on]


@pytest.mark.slow(reason="many random inputs")
def test_long_chains_are_read_and_deep_nesting_is_an_error() -> None:
    assert split_join_condition("t.i = 1" + " AND t.i = 1" * 5_000) == JoinCondition(("`i` = 1",) * 5_001)
    with pytest.raises(PredicateError, match="nested too deeply"):
        split_join_condition("(" * 5_000 + "t.i = 1" + ")" * 5_000)


@pytest.mark.parametrize("on", ["t.id =", "", "ALTER x", "t.id = s.id; t.id = 1", "t.id IN (1,)", "\ud800"])
def test_an_invalid_condition_is_refused(on: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(PredicateError):
        split_join_condition(on)
    assert not caplog.records


PIECES = st.sampled_from(
    [
        "t.i", "s.i", "t.`a b`", "t.", "i", "=", "<=>", "IN", "(", ")", ",", "AND", "OR", "NOT", "BETWEEN", "LIKE",
        "'a%'", "'", "X'0'", "1", "1e999", "NULL", "CAST(", "AS INT)", "COLLATE", "--", "/*", ";", "\\", "\x00",
        "\ud800", "::", "case", "when", "then", "end", "x -> x", "select", "alter", "${a}",
    ]
)  # fmt: skip


@pytest.mark.slow(reason="many random inputs")
@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=10).map(" ".join)))
@settings(max_examples=500)
def test_fuzz_raises_nothing_but_our_errors(on: str) -> None:
    try:
        found = split_join_condition(on)
    except PartitaError:
        return
    assert isinstance(found, JoinCondition)
