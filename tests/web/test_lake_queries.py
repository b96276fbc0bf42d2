"""Questions on relations that stay open: asked anew they say what the lake says, and never less than was recorded."""

from __future__ import annotations

from datetime import timedelta

import pytest

import partita as pt
from partita.algebra.key import PartitionKey
from partita.assets.planner import PlanRequest
from partita.errors import UnknownAsset
from partita.lake import Lake
from partita.status.duckdb_sql import Sql
from partita.web import lake_queries as kept_open
from partita.web.lake_queries import LakeQueries

ONE = PartitionKey.of(n=1)


@pytest.fixture
def chain(lake: Lake) -> Lake:
    """Three assets, each made from the one before; the first was made anew after the second."""
    names = ("first", "second", "third")
    upstream: list[pt.Asset] = []
    for name in names:
        asset = pt.asset(name=name, partitions=pt.static("n", [1, 2]), upstream=upstream, code_version="1")(print)
        lake.register(asset)
        upstream = [asset]
    for name in (*names, "first"):
        lake.record(name, ONE, outcome="succeeded", code_version="1")
    return lake


def plan_rows(plan: pt.RunPlan) -> tuple[list[object], ...]:
    return plan.partitions.to_pylist(), plan.blocked.to_pylist()


@pytest.mark.slow(reason="dozens of questions to a lake and to its cache")
def test_cached_relations_answer_as_the_lake_does(chain: Lake) -> None:
    asking = LakeQueries(chain)
    asking.refresh()
    opened = asking._cached_reader
    for name in ("second", "first", "third", "second"):
        assert asking.why(name, ONE).document() == chain.why(name, ONE).document()
        for select in ((name,), (f"+{name}",), ()):
            ours, theirs = asking.plan(PlanRequest(select=select)), chain.plan(select=select)
            assert plan_rows(ours) == plan_rows(theirs)
            assert (ours.input_digests, ours.request) == (theirs.input_digests, theirs.request)
    assert asking._cached_reader is opened


@pytest.mark.slow(reason="several status queries")
def test_recorded_events_count_at_once(chain: Lake) -> None:
    asking = LakeQueries(chain)
    assert len(asking.plan(PlanRequest(select=("third",), states=("missing",)))) == 0
    chain.record("second", {"n": 2}, outcome="succeeded", code_version="1")
    assert len(asking.plan(PlanRequest(select=("third",), states=("missing",)))) == 1
    chain.record("third", ONE, outcome="failed", error="no disk")
    assert "no disk" in str(asking.why("third", ONE))


@pytest.mark.slow(reason="several status queries")
def test_relations_that_are_old_are_opened_anew(chain: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    asking = LakeQueries(chain)
    before = asking.plan(PlanRequest(select=("third",)))
    assert asking.plan(PlanRequest(select=("third",))).made_at == before.made_at
    monkeypatch.setattr(kept_open, "MAX_READER_AGE", timedelta(0))
    assert asking.plan(PlanRequest(select=("third",))).made_at > before.made_at


@pytest.mark.slow(reason="several status queries")
def test_a_borrowed_reader_blocks_no_other_query_and_errors_are_not_cached(chain: Lake) -> None:
    asking = LakeQueries(chain)
    with asking._borrow_reader() as held:
        assert asking.why("second", ONE).document() == chain.why("second", ONE).document()
        assert held.count_rows(Sql("true")) == 0
    with pytest.raises(UnknownAsset):
        asking.why("nothing", ONE)
    assert asking.why("second", ONE).document() == chain.why("second", ONE).document()
    asking.close()
