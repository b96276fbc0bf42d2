"""What a merge's condition says of each side alone, in its author's words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.errors import PartitaError, PredicateError
from partita.formats.merge import Sides, sides

KNOWN = {
    "t.id = s.id": Sides(equal=(("id", "id"),)),
    "S.id = t.id and s.`a``b` = t.`k.x`": Sides(equal=(("k.x", "a`b"),)),
    "t.x > 1 AND (t.id = s.id AND t.`a``b`.c like 'x%')": Sides(("`x` > 1", "`a``b`.`c` like 'x%'"), (("id", "id"),)),
    "t.x = 'it''s' /* t.y */ -- t.z": Sides(("`x` = 'it''s'",)),
    r"t . x = '\u0041' and t.s = r'and' ": Sides((r"`x` = '\u0041'", "`s` = r'and'")),
    "t.end = 1 AND CASE WHEN t.a = 1 AND t.b = 2 THEN true END": Sides(
        ("`end` = 1", "CASE WHEN `a` = 1 AND `b` = 2 THEN true END")
    ),
    "t.a between s.b and 2 and t.a between 1 and 2": Sides(("`a` between 1 and 2",)),
    "exists(t.list, x -> x > t.a)": Sides(("exists(`list`, x -> x > `a`)",)),
    "t.a = 1 OR t.id = s.id": Sides(),
    "t.code = to_char(s.k, '000')": Sides(),
    "t.code = concat(s.x, 'it''s')": Sides(),
    "t.code = s.k COLLATE UTF8_LCASE": Sides(),
    "t.code COLLATE UTF8_LCASE = s.k": Sides(),
    "t.code = s.k.f": Sides(),
    "t.code = lower(s.k)": Sides(),
    "code = s.k and t.a <=> s.a": Sides(),
    "t.code = '${x}' and t.id = s.id": Sides(),
}


@pytest.mark.parametrize("on", KNOWN)
def test_what_is_known_of_each_side(on: str) -> None:
    assert sides(on) == KNOWN[on]


def test_long_chains_are_read_and_deep_nesting_is_an_error() -> None:
    assert sides("t.i = 1" + " AND t.i = 1" * 5_000) == Sides(("`i` = 1",) * 5_001)
    with pytest.raises(PredicateError, match="nested too deeply"):
        sides("(" * 5_000 + "t.i = 1" + ")" * 5_000)


@pytest.mark.parametrize("on", ["t.id =", "", "ALTER x", "t.id = s.id; t.id = 1", "t.id IN (1,)", "\ud800"])
def test_what_is_no_condition_is_refused(on: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(PredicateError):
        sides(on)
    assert not caplog.records


PIECES = st.sampled_from(
    [
        "t.i", "s.i", "t.`a b`", "t.", "i", "=", "<=>", "IN", "(", ")", ",", "AND", "OR", "NOT", "BETWEEN", "LIKE",
        "'a%'", "'", "X'0'", "1", "1e999", "NULL", "CAST(", "AS INT)", "COLLATE", "--", "/*", ";", "\\", "\x00",
        "\ud800", "::", "case", "when", "then", "end", "x -> x", "select", "alter", "${a}",
    ]
)  # fmt: skip


@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=10).map(" ".join)))
@settings(max_examples=500)
def test_fuzz_raises_nothing_but_our_errors(on: str) -> None:
    try:
        found = sides(on)
    except PartitaError:
        return
    assert isinstance(found, Sides)
