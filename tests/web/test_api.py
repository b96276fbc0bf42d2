"""The JSON behind the pages: as its document says, and the same as `lake.status` tells."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from starlette.routing import Route

from partita.cli.status_grid import GridCell, grid_lines
from partita.errors import PredicateError
from partita.lake import Lake
from partita.status.states import COMMON_STATE_FILTERS, MARK_LEGEND, MARKS
from partita.web.access_control import AccessMiddleware
from partita.web.api import OPERATIONS
from partita.web.openapi import SCHEMAS, openapi_document
from tests.web.json_schema import schema_violations
from tests.web.lakes import ERROR_TEXT, HOSTILE_ASSET, HOSTILE_TEXT

if TYPE_CHECKING:
    from starlette.testclient import TestClient

KEY = "date=d:2026-06-21,region=s:dXM"
ASKED: dict[str, list[dict[str, Any]]] = {
    "version": [{}],
    "refresh": [{}],
    "overview": [{}, {"q": "sales"}, {"q": "nothing has this"}],
    "asset": [{"asset": "daily_sales"}, {"asset": HOSTILE_ASSET}, {"asset": "unregistered"}],
    "heatmap": [
        {"asset": "daily_sales"},
        {"asset": "report"},
        {"asset": "clicks", "columns": "5", "rows": "2"},
        {"asset": "shards", "state": "missing"},
    ],
    "partitions": [
        {"asset": "daily_sales"},
        {"asset": "daily_sales", "limit": "3", "after": "10"},
        {"asset": "report"},
    ],
    "partition": [
        {"asset": "daily_sales", "key": KEY},
        {"asset": "report", "key": ""},
        {"asset": "raw_orders", "key": "date=d:1999-01-01"},
    ],
    "why": [{"asset": "daily_sales", "key": KEY}, {"asset": "report", "key": ""}],
    "history": [{"asset": "daily_sales", "key": KEY}, {"asset": HOSTILE_ASSET, "key": ""}],
    "files": [{"asset": "daily_sales", "key": "date=d:2026-06-06,region=s:dXM"}, {"asset": "report", "key": ""}],
    "table": [{"name": "web.sales"}, {"name": "web.orders"}],
    "plan": [
        {},
        {"select": "report"},
        {"words": "+daily_sales shards", "need": "missing", "where": "date >= '2026-07-25'"},
        {"asset": "daily_sales", "state": "failed", "selected": "20600,20660,0,3"},
        {"asset": HOSTILE_ASSET, "allow_missing": "1"},
    ],
    # What runs is in test_runs.
    **{name: [] for name in ("run", "run_status", "cancel", "run_events")},
}


@pytest.mark.slow(reason="several status queries")
@pytest.mark.parametrize(("operation", "query"), [(o, q) for o in OPERATIONS for q in ASKED[o.name]])
def test_responses_match_the_openapi_document(client: TestClient, operation: Any, query: dict[str, str]) -> None:
    answer = client.request(operation.method, operation.path, params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert list(schema_violations(answer.json(), SCHEMAS[operation.response_schema], SCHEMAS)) == []
    assert set(query) <= {parameter.name for parameter in operation.parameters}


def test_the_document_has_every_route_of_the_api(client: TestClient, app: AccessMiddleware) -> None:
    routed = {
        (route.path, method.lower())
        for route in app.app.routes  # type: ignore[attr-defined] # it is a Starlette
        if isinstance(route, Route) and route.path.startswith("/api/") and route.path != "/api/openapi.json"
        for method in (route.methods or set()) - {"HEAD"}
    }
    said = client.get("/api/openapi.json").json()
    assert said == openapi_document()
    assert {(path, method) for path, methods in said["paths"].items() for method in methods} == routed
    names = [one["operationId"] for methods in said["paths"].values() for one in methods.values()]
    assert len(set(names)) == len(names)


def test_every_referenced_schema_is_defined() -> None:
    text = str(openapi_document())
    named = {part.partition("'")[0] for part in text.split("#/components/schemas/")[1:]}
    assert named == set(SCHEMAS)


def test_marks_are_those_of_the_grid() -> None:
    counts, glyphs, _ = grid_lines("shards", [GridCell("", number) for number in range(len(MARKS))])
    assert counts == "shards: " + ", ".join(f"1 {mark.label}" for mark in MARKS)
    assert glyphs.strip() == "".join(mark.glyph for mark in MARKS)
    assert MARK_LEGEND.split("  ") == [f"{mark.glyph} {mark.label}" for mark in MARKS]


@pytest.mark.slow(reason="several status queries")
def test_counts_are_those_of_the_lake(client: TestClient, sample_lake: Lake) -> None:
    counted = {row.pop("asset_key"): row for row in sample_lake.status_counts().to_pylist()}
    shown = {asset["asset"]: asset for asset in client.get("/api/overview").json()["assets"]}
    assert {name: {"partitions": one["partitions"], **one["states"]} for name, one in shown.items()} == counted
    assert all(sum(one["marks"].values()) == one["partitions"] for one in shown.values())


def test_the_overview_lists_assets_that_need_attention(client: TestClient) -> None:
    attention = client.get("/api/overview").json()["attention"]
    assert attention[0]["asset"] == "daily_sales"
    assert attention[0]["marks"] == {
        "failed": 4, "retry-failed": 3, "stale": 30, "missing": 34, "unknown": 0, "running": 2,
    }  # fmt: skip
    assert "unregistered" not in {one["asset"] for one in attention}


@pytest.mark.parametrize(
    ("q", "found"),
    [("SALES", {"daily_sales"}), ("web.", {"daily_sales", "raw_orders"}), ("<script>", {HOSTILE_ASSET}), ("%", set())],
)
def test_search_is_in_names_and_tables(client: TestClient, q: str, found: set[str]) -> None:
    assert {asset["asset"] for asset in client.get("/api/overview", params={"q": q}).json()["assets"]} == found


# --- the heat map


def cells(found: dict[str, Any]) -> dict[tuple[str, str], dict[str, int]]:
    """The bins that aren't empty, by their labels."""
    width = len(found["across"]["labels"])
    return {
        (found["down"]["labels"][at // width], found["across"]["labels"][at % width]): {
            state: n for state, n in zip(found["states"], found["mixes"][mix], strict=True) if n
        }
        for at, mix in enumerate(found["cells"])
        if mix
    }


def test_time_goes_across_and_the_rest_down(client: TestClient) -> None:
    found = client.get("/api/heatmap", params={"asset": "daily_sales"}).json()
    assert (found["across"]["name"], found["across"]["step"], found["down"]["name"]) == ("date", 1, "region")
    assert found["across"]["labels"][0] == "2026-05-30"
    assert found["across"]["labels"][-1] == "2026-07-30"
    shown = cells(found)
    assert shown["region=us", "2026-05-30"] == {"unexpected": 1}
    assert shown["region=eu", "2026-06-01"] == {"stale": 1}
    assert shown["region=us", "2026-07-11"] == {"retry-failed": 1}
    assert shown["region=ap", "2026-07-25"] == {"running": 1}
    assert shown["region=eu", "2026-07-22"] == {"failed": 1}
    assert shown["region=us", "2026-07-30"] == {"missing": 1}
    assert ("region=eu", "2026-05-30") not in shown


def test_days_alone_wrap_by_month_and_hours_by_day(client: TestClient) -> None:
    days = client.get("/api/heatmap", params={"asset": "raw_orders"}).json()
    assert days["down"]["labels"] == ["2026-06", "2026-07"]
    assert days["across"]["labels"] == [str(n) for n in range(1, 32)]
    assert ("2026-06", "31") not in cells(days)
    hours = client.get("/api/heatmap", params={"asset": "clicks"}).json()
    assert hours["down"]["labels"][0] == "2026-07-01"
    assert cells(hours)["2026-07-02", "03:00"] == {"missing": 1}


def test_one_dimension_that_is_not_time_wraps(client: TestClient) -> None:
    found = client.get("/api/heatmap", params={"asset": "shards"}).json()
    assert found["down"]["labels"] == ["shard=0", "shard=50", "shard=100"]
    assert cells(found)["shard=100", "+2"] == {"current": 1}
    assert cells(found)["shard=100", "+3"] == {"missing": 1}


@pytest.mark.parametrize("shape", [{}, {"columns": "7", "rows": "2"}, {"columns": "1", "rows": "1"}, {"columns": "61"}])
@pytest.mark.parametrize("asset", ["daily_sales", "raw_orders", "clicks", "shards", "report", "unregistered"])
def test_bins_lose_no_partition(client: TestClient, asset: str, shape: dict[str, str]) -> None:
    found = client.get("/api/heatmap", params={"asset": asset, **shape}).json()
    counted = Counter[str]()
    for mix in found["cells"]:
        counted.update(dict(zip(found["states"], found["mixes"][mix], strict=True)))
    marks = client.get("/api/asset", params={"asset": asset}).json()["marks"]
    assert dict(counted) == marks
    assert len(found["cells"]) == len(found["across"]["labels"]) * len(found["down"]["labels"])
    assert found["partitions"] == sum(marks.values())


def test_a_part_of_a_map_has_what_lies_in_it(client: TestClient) -> None:
    whole = client.get("/api/heatmap", params={"asset": "daily_sales"}).json()
    first = whole["across"]["first"]
    part = client.get("/api/heatmap", params={"asset": "daily_sales", "view": f"{first + 2},{first + 8},1,2"}).json()
    wanted = {
        at: mix
        for at, mix in cells(whole).items()
        if "2026-06-01" <= at[1] <= "2026-06-07" and at[0] in part["down"]["labels"]
    }
    assert cells(part) == wanted
    assert len(wanted) == 14
    outside = client.get("/api/heatmap", params={"asset": "daily_sales", "view": "0,5,0,0"}).json()
    assert outside["view"] == whole["view"]


def test_a_large_response_is_compressed_on_request(client: TestClient) -> None:
    query = {"asset": "daily_sales"}
    packed = client.get("/api/partitions", params=query)
    plain = client.get("/api/partitions", params=query, headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()


# --- filters


@pytest.mark.slow(reason="asks page and lake for each state")
@pytest.mark.parametrize("state", COMMON_STATE_FILTERS)
def test_states_are_those_of_the_lake(client: TestClient, sample_lake: Lake, state: str) -> None:
    found = client.get("/api/partitions", params={"asset": "daily_sales", "state": state, "limit": "1000"}).json()
    wanted = sample_lake.status("daily_sales", state=state)["partition_key"].to_pylist()
    assert [row["key"] for row in found["rows"]] == wanted
    assert found["total"] == len(wanted)


@pytest.mark.slow(reason="several status queries")
def test_filters_meet(client: TestClient, sample_lake: Lake) -> None:
    where = "date >= '2026-06-20' AND region IN ('us', 'eu')"
    query = {"asset": "daily_sales", "state": ["stale", "failed"], "reason": "UPSTREAM_CHANGED", "where": where}
    found = client.get("/api/partitions", params=query).json()
    wanted = sample_lake.status("daily_sales", where, state=["stale", "failed"], reason="UPSTREAM_CHANGED")
    assert [row["key"] for row in found["rows"]] == wanted["partition_key"].to_pylist()
    assert found["total"] == 12
    assert client.get("/api/heatmap", params=query).json()["partitions"] == 12


@pytest.mark.slow(reason="asks page and lake for each predicate")
@pytest.mark.parametrize(
    "where",
    [
        "region = 'eu'",
        "date < '2026-06-10'",
        "date >= '2026-06-03' AND region <> 'us' AND date < '2026-06-05'",
        "region = 'eu' OR date = '2026-07-01'",
        "NOT (region IN ('eu', 'ap') AND date > '2026-06-20')",
        "date BETWEEN '2026-06-03' AND '2026-06-05' AND (region = 'us' OR region LIKE 'e%')",
        "date IS NULL",
        "region IS NOT NULL AND date IS NOT NULL",
        "true",
        "region = 'nowhere' AND date > '2026-01-01'",
    ],
)
def test_predicates_mean_what_they_mean_to_the_lake(client: TestClient, sample_lake: Lake, where: str) -> None:
    query = {"asset": "daily_sales", "where": where, "limit": "1000"}
    answer = client.get("/api/partitions", params=query)
    wanted = sample_lake.status("daily_sales", where)["partition_key"].to_pylist()
    assert [row["key"] for row in answer.json()["rows"]] == wanted


def test_a_predicate_that_only_spark_could_judge_is_refused_in_the_words_of_the_lake(
    client: TestClient, sample_lake: Lake
) -> None:
    where = "date = region"
    with pytest.raises(PredicateError) as refused:
        sample_lake.status("daily_sales", where)
    answer = client.get("/api/partitions", params={"asset": "daily_sales", "where": where})
    assert answer.json()["error"] == {"type": "PredicateError", "message": str(refused.value)}


def test_a_predicate_on_a_hostile_value_finds_it(client: TestClient) -> None:
    quoted = HOSTILE_TEXT.replace("'", "\\'")
    found = client.get("/api/partitions", params={"asset": "daily_sales", "where": f"region = '{quoted}'"}).json()
    assert found["total"] == 60
    assert HOSTILE_TEXT[:20] in found["rows"][0]["label"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"asset": "daily_sales", "where": "nothing = 1"}, "nothing"),
        ({"asset": "daily_sales", "where": "date >="}, ""),
        ({"asset": "daily_sales", "where": "'; DROP TABLE partitions; --"}, ""),
        ({"asset": "daily_sales", "state": "odd"}, "'odd' is not a state; choose from missing"),
        ({"asset": "daily_sales", "reason": "odd"}, "'odd' is not a reason"),
        ({"asset": "daily_sales", "view": "1,2,3"}, "four integers"),
        ({"asset": "daily_sales", "view": "1,2,3,x"}, "four integers"),
        ({"asset": "daily_sales", "selected": "1 OR 1=1"}, "four integers"),
        ({"asset": "daily_sales", "limit": "-1"}, "must be an integer"),
        ({"asset": "daily_sales", "after": "1e9"}, "must be an integer"),
        ({}, "?asset="),
    ],
)
def test_invalid_query_parameters_are_refused_by_name(client: TestClient, query: dict[str, str], said: str) -> None:
    for path in ("/api/partitions", "/api/heatmap"):
        if path == "/api/heatmap" and {"limit", "after", "selected"} & set(query) and "selected" not in query:
            continue
        answer = client.get(path, params=query)
        assert answer.status_code == 400
        assert list(schema_violations(answer.json(), SCHEMAS["Error"], SCHEMAS)) == []
        assert said in answer.json()["error"]["message"]
    assert client.get("/asset", params=query).status_code == 400


# --- the list


def test_pages_of_the_list_go_on_and_back(client: TestClient) -> None:
    query = {"asset": "daily_sales", "state": "current", "limit": "60"}
    pages = [client.get("/api/partitions", params=query).json()]
    while pages[-1]["next"] is not None:
        pages.append(client.get("/api/partitions", params={**query, "after": str(pages[-1]["next"])}).json())
    assert [len(page["rows"]) for page in pages] == [60, 60, 47]
    keys = [row["key"] for page in pages for row in page["rows"]]
    assert keys == sorted(keys)
    assert len(set(keys)) == 167
    assert pages[0]["previous"] is None
    back = client.get("/api/partitions", params={**query, "before": str(pages[2]["previous"])}).json()
    assert back == pages[1]


def test_after_none_is_the_start(client: TestClient) -> None:
    first = client.get("/api/partitions", params={"asset": "daily_sales", "limit": "1"}).json()
    assert client.get("/api/partitions", params={"asset": "daily_sales", "limit": "1", "after": "0"}).json() == first


@pytest.mark.slow(reason="several status queries")
def test_a_predicate_may_have_many_parts(client: TestClient) -> None:
    many = " AND ".join(["date >= '2026-07-26'", *(f"region <> 'x{n}'" for n in range(1_200))])
    found = [
        client.get("/api/partitions", params={"asset": "daily_sales", "where": where}).json()["total"]
        for where in ("date >= '2026-07-26'", many)
    ]
    assert found[0] == found[1] > 0


def test_large_pages_are_packed(client: TestClient) -> None:
    assert client.get("/").headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in client.get("/", headers={"Accept-Encoding": "identity"}).headers


def test_a_selection_of_the_map_is_what_the_list_has(client: TestClient) -> None:
    whole = client.get("/api/heatmap", params={"asset": "daily_sales"}).json()
    first = whole["across"]["first"] + 2
    found = client.get(
        "/api/partitions", params={"asset": "daily_sales", "selected": f"{first},{first + 1},3,3"}
    ).json()
    assert [row["label"] for row in found["rows"]] == ["date=2026-06-01,region=us", "date=2026-06-02,region=us"]
    assert [row["place"] for row in found["rows"]] == [[first, 3], [first + 1, 3]]


# --- one partition, one table


@pytest.mark.slow(reason="several status queries")
def test_a_partition_has_its_identity(client: TestClient) -> None:
    found = client.get("/api/partition", params={"asset": "daily_sales", "key": KEY}).json()
    assert found["id"].startswith("part_")
    assert found["values"] == [
        {"name": "date", "type": "date", "value": "2026-06-21"},
        {"name": "region", "type": "string", "value": "us"},
    ]
    assert found["status"]["reasons"] == ["UPSTREAM_CHANGED"]
    why = client.get("/api/why", params={"asset": "daily_sales", "key": KEY}).json()
    assert why["causes"][0]["upstream"]["asset"] == "raw_orders"


def test_history_has_whole_errors(client: TestClient) -> None:
    found = client.get("/api/history", params={"asset": HOSTILE_ASSET, "key": ""}).json()
    assert [(event["kind"], event["error"], event["run_id"]) for event in found["events"]] == [
        ("failed", ERROR_TEXT, HOSTILE_TEXT)
    ]


@pytest.mark.parametrize(
    ("asset", "key", "files", "spec"),
    [
        ("daily_sales", "date=d:2026-06-06,region=s:dXM", 1, 1),
        ("daily_sales", "date=d:2026-06-02,region=s:dXM", 1, 0),
        ("daily_sales", "date=d:2026-07-30,region=s:dXM", 0, None),
        ("raw_orders", "date=d:2026-06-02", 6, 0),
    ],
)
def test_a_partition_has_its_files(client: TestClient, asset: str, key: str, files: int, spec: int | None) -> None:
    found = client.get("/api/files", params={"asset": asset, "key": key}).json()
    assert (found["count"], len(found["files"])) == (files, files)
    assert {file["spec_id"] for file in found["files"]} == ({spec} if files else set())
    if files:
        day = key.partition(",")[0].replace("d:", "")
        assert all(day in folder for folder in found["folders"])
        assert not any(file["path"].startswith(("/", "file:")) for file in found["files"])
        # The first spec is by date alone, and so is the whole of raw_orders.
        assert all(file["shared"] is (asset == "daily_sales" and spec == 0) for file in found["files"])


def test_a_table_has_its_specs_and_warnings(client: TestClient) -> None:
    found = client.get("/api/table", params={"name": "web.sales"}).json()
    assert [(s["spec_id"], s["fields"], s["current"], s["files"]) for s in found["specs"]] == [
        (0, "date", False, 4),
        (1, "date, region", True, 24),
    ]
    first, second = (s["since"] for s in found["specs"])
    assert first < second <= max(version["at"] for version in found["history"])
    assert [warning["kind"] for warning in found["warnings"]] == ["earlier specs"], "small ones are not uneven"
    assert found["bytes"] == sum(s["bytes"] for s in found["specs"])
    assert len(found["history"]) == found["versions"] == 10
    delta = client.get("/api/table", params={"name": "web.orders"}).json()
    assert delta["format"] == "delta"
    assert [s["since"] for s in delta["specs"]] == [None]
    assert [warning["kind"] for warning in delta["warnings"]] == ["small files"]
    assert (found["history_gap"], delta["history_gap"]) == (None, None)


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/api/asset", {"asset": "nothing"}, 404),
        ("/api/heatmap", {"asset": "nothing"}, 404),
        ("/api/why", {"asset": "nothing", "key": ""}, 404),
        ("/api/history", {"asset": "nothing", "key": ""}, 404),
        ("/api/files", {"asset": "nothing", "key": ""}, 404),
        ("/api/partition", {"asset": "raw_orders", "key": "zzz=i:1"}, 400),
        ("/api/files", {"asset": "raw_orders", "key": ""}, 400),
        ("/api/plan", {"asset": "nothing"}, 404),
        ("/api/plan", {"asset": "+raw_orders"}, 404),
        ("/api/partitions", {"asset": "raw_orders", "limit": "0"}, 400),
        ("/api/heatmap", {"asset": "raw_orders", "columns": "0"}, 400),
        ("/api/table", {"name": "web.nothing"}, 404),
        ("/api/partition", {"asset": "daily_sales", "key": "date=2026-06-21"}, 400),
        ("/api/why", {"asset": "daily_sales", "key": "../.."}, 400),
        ("/api/history", {"asset": "daily_sales", "key": "x"}, 400),
        ("/api/files", {"asset": "daily_sales"}, 400),
        ("/api/nothing", {}, 404),
    ],
)
def test_unknown_assets_tables_and_keys_are_404(
    client: TestClient, path: str, query: dict[str, str], status: int
) -> None:
    answer = client.get(path, params=query)
    assert answer.status_code == status
    assert list(schema_violations(answer.json(), SCHEMAS["Error"], SCHEMAS)) == []
