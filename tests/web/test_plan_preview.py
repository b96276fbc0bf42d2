"""Plans that are looked at: the same as `lake.plan` makes, narrowed to what was chosen, with every value as text."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from starlette.datastructures import QueryParams

import partita as pt
from partita.assets.run_plan import narrow_plan
from partita.lake import Lake
from partita.web.access_control import AccessPolicy
from partita.web.plan_preview import MAX_SHOWN_PARTITIONS, PlanPreviewQuery, PlanPreviews, read_plan_query
from partita.web.site import Site
from tests.web.lakes import HOSTILE_ASSET, HOSTILE_TEXT

if TYPE_CHECKING:
    from starlette.testclient import TestClient


def plan(client: TestClient, **query: Any) -> dict[str, Any]:
    answer = client.get("/api/plan", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.slow(reason="several status queries")
def test_a_plan_is_the_one_that_the_lake_makes(client: TestClient, sample_lake: Lake) -> None:
    shown, made = plan(client), sample_lake.plan()
    assert (shown["partitions"], shown["held_back"]) == (len(made), made.blocked.num_rows)
    assert [one["asset"] for one in shown["assets"]] == list(made.assets)
    assert shown["batches"] == len(made.batches)
    assert shown["needs"] == ["missing", "stale", "failed"]
    assert shown["may_run"] is False
    sales = next(one for one in shown["assets"] if one["asset"] == "daily_sales")
    assert len(sales["rows"]) == MAX_SHOWN_PARTITIONS < sales["partitions"]
    assert sum(sales["reasons"].values()) >= sales["partitions"]


@pytest.mark.slow(reason="several status queries")
def test_it_is_asked_for_by_words_needs_and_a_predicate(client: TestClient, sample_lake: Lake) -> None:
    shown = plan(client, words="raw_orders  daily_sales", need=["missing"], where="date >= '2026-07-26'")
    made = sample_lake.plan(select=["raw_orders", "daily_sales"], missing=True, where="date >= '2026-07-26'")
    assert (shown["partitions"], shown["select"]) == (len(made), ["raw_orders", "daily_sales"])
    assert shown["time_zone"] == made.time_zone
    assert plan(client, select=["+report"])["partitions"] == len(sample_lake.plan(select="+report"))


@pytest.mark.slow(reason="several status queries")
def test_it_is_narrowed_to_what_was_chosen_on_a_map(client: TestClient, sample_lake: Lake, site: Site) -> None:
    everything = plan(client, asset="daily_sales")
    assert (everything["partitions"], everything["chosen"]) == (len(sample_lake.plan(select="daily_sales")), None)
    first = site.snapshots.latest.asset("daily_sales").layout.across.first
    box = f"{first + 42},{first + 43},3,3"
    rows = client.get("/api/partitions", params={"asset": "daily_sales", "selected": box}).json()["rows"]
    chosen = plan(client, asset="daily_sales", selected=box)
    assert chosen["chosen"] == len(rows) == 2
    assert [row["key"] for row in chosen["assets"][0]["rows"]] == [row["key"] for row in rows]
    reason = {"asset": "daily_sales", "reason": "CODE_CHANGED"}
    changed = plan(client, **reason)
    assert changed["partitions"] == client.get("/api/partitions", params=reason).json()["total"] == 6
    failed = plan(client, asset="daily_sales", state=["failed", "running"], where="region = 'us'")
    assert failed["partitions"] == 3


@pytest.mark.slow(reason="several status queries")
@pytest.mark.parametrize("asset", ["a", "a+", "tag:x"])
def test_the_plan_of_an_asset_is_of_no_other(tmp_path: Path, asset: str) -> None:
    lake = Lake(str(tmp_path / "lake"))
    first = pt.asset(name="a", tags=["x"])(print)
    below = pt.asset(name="b", upstream=[first])(print)
    lake.register(first, below, *(pt.asset(name=name)(print) for name in ("a+", "tag:x")))
    site = Site.of(lake, AccessPolicy("a-token-of-the-tests", port=8765))
    _, plan = site.plans.make_plan(read_plan_query(QueryParams({"asset": asset})))
    assert plan.assets == (asset,)


@pytest.mark.slow(reason="several status queries")
def test_a_selection_outside_of_the_map_chooses_nothing(client: TestClient) -> None:
    nowhere = {"asset": "daily_sales", "selected": "900000,900000,0,0"}
    assert client.get("/api/partitions", params=nowhere).json()["total"] == 0
    assert (plan(client, **nowhere)["chosen"], plan(client, **nowhere)["partitions"]) == (0, 0)


def test_current_partitions_are_not_planned(client: TestClient) -> None:
    assert plan(client, asset="raw_orders", state="current")["partitions"] == 0


@pytest.mark.slow(reason="several status queries")
def test_narrowed_plans_have_full_batches(sample_lake: Lake) -> None:
    made = sample_lake.plan(select="daily_sales", batch_partitions=10)
    keys = made.partitions["partition_key"].combine_chunks().take(pa.array(range(0, len(made), 2)))
    cut = narrow_plan(made, "daily_sales", keys)
    assert cut.partitions["partition_key"].to_pylist() == keys.to_pylist()
    assert {len(batch.keys) for batch in cut.batches[:-1]} == {10}
    assert cut.request["chosen"] == len(keys)
    assert cut.partitions.schema == made.partitions.schema
    assert len(narrow_plan(made, "report", keys)) == 0


@pytest.mark.slow(reason="several status queries")
@pytest.mark.parametrize(
    "query",
    [{"select": "nothing"}, {"need": "old"}, {"where": "nonsense ("}, {"asset": "daily_sales", "selected": "1"}],
)
def test_a_plan_error_is_shown(client: TestClient, query: dict[str, str]) -> None:
    answer = client.get("/api/plan", params=query)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
    page = client.get("/plan/preview", params=query, headers={"HX-Request": "true"})
    assert page.status_code == 400
    assert 'role="alert"' in page.text


def test_an_asset_that_is_not_there_has_no_plan(client: TestClient) -> None:
    assert client.get("/plan", params={"asset": "nothing"}).status_code == 404
    assert client.get("/api/plan", params={"asset": "nothing", "selected": "0,1,0,1"}).status_code in {400, 404}


@pytest.mark.parametrize(
    "question",
    [
        PlanPreviewQuery(),
        PlanPreviewQuery(("a", "+b"), ("stale",), "x = 1", allow_missing=True),
    ],
)
def test_a_question_survives_its_url(client: TestClient, question: PlanPreviewQuery) -> None:
    assert read_plan_query(QueryParams(question.query_string())) == question


def test_a_view_survives_the_url_of_its_plan() -> None:
    url = "asset=a&selected=0%2C1%2C2%2C3&state=failed&state=running&reason=CODE_CHANGED&where=x+%3D+1&allow_missing=1"
    question = read_plan_query(QueryParams(url))
    assert question.has_map_selection
    assert question.needs == ()
    assert read_plan_query(QueryParams(question.query_string())) == question


@pytest.mark.slow(reason="several status queries")
def test_hostile_names_are_text(client: TestClient) -> None:
    page = client.get("/plan/preview").text
    assert HOSTILE_ASSET in unescape(page)
    assert "<script>document" not in page
    assert "<img" not in page
    held = client.get("/plan/preview", params={"select": "daily_sales"}).text
    assert "<img" not in held
    asked = client.get("/plan", params={"words": HOSTILE_TEXT, "where": HOSTILE_TEXT}).text
    assert "<img" not in asked
    assert HOSTILE_TEXT in unescape(asked)


@pytest.mark.slow(reason="several status queries")
def test_a_page_that_may_not_run_has_no_button(client: TestClient) -> None:
    page = client.get("/plan/preview").text
    assert "Run this plan" not in page
    assert "partita ui --allow-run" in page


@pytest.mark.slow(reason="several status queries")
def test_the_last_few_plans_are_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partita.web.plan_preview.MAX_CACHED_PLANS", 1)
    plans = PlanPreviews(site.snapshots)
    numbers = [plans.make_plan(PlanPreviewQuery(("report",)))[0] for _ in range(2)]
    assert plans.plan_by_id(numbers[-1]) is plans.plan_by_id(numbers[-1])
    with pytest.raises(Exception, match="404"):
        plans.plan_by_id(numbers[0])
