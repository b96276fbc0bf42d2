"""Plans as files: what is loaded, changed by hand, and refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import partita as pt
from partita.assets.plan_file import plan_from_lines
from partita.lake import Lake
from tests.assets.planned_shop import DAYS, define, register_shop


@pytest.fixture
def shop(lake: Lake) -> Lake:
    return register_shop(lake)


LOCAL = SimpleNamespace(conf={"spark.master": "local"}, createDataFrame=None)
"""Stands in for a Spark session of which nothing else is used."""


def test_a_plan_survives_its_file_and_can_be_cut_short_by_hand(shop: Lake, tmp_path: Path) -> None:
    plan = shop.plan(where="date = '2025-01-02'", select="+sales")
    file = tmp_path / "plan.jsonl"
    plan.save(str(file))
    again = pt.load_plan(str(file))
    assert again.partitions.equals(plan.partitions)
    assert (again.made_at, again.input_digests, again.request) == (plan.made_at, plan.input_digests, plan.request)
    head, *lines = file.read_text().splitlines()
    file.write_text("\n".join([head, *(line for line in lines if json.loads(line)["asset_key"] == "orders")]))
    assert pt.load_plan(str(file)).assets == ("orders",)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "nonsense", '{"form": "partita.plan/9"}', '{"form": "partita.plan/2"}', "\x00", "null",
     '{"form": "partita.plan/2", "lake": 1}\n{"state": "run"}'],
)  # fmt: skip
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.jsonl"
    file.write_text(text)
    with pytest.raises(pt.PlanError, match=r"plan"):
        pt.load_plan(str(file))
    with pytest.raises(pt.PlanError, match="can't be read"):
        pt.load_plan(str(tmp_path / "nowhere"))
    with pytest.raises(pt.PlanError, match="can't be read"):
        pt.load_plan(str(tmp_path))


def test_an_invalid_key_in_a_file_is_refused(shop: Lake, tmp_path: Path) -> None:
    file = tmp_path / "plan.jsonl"
    shop.plan(select="sales").save(str(file))
    wrong = file.read_text().replace("date=d:2025-01-01", "date=2025-01-01")
    assert "date=2025-01-01" in wrong
    file.write_text(wrong)
    with pytest.raises(pt.PlanError, match="not a plan"):
        pt.load_plan(str(file))


@pytest.mark.slow(reason="a plan of a lake for each change")
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        (lambda head, rows: (head, [*rows, rows[0]]), "there twice"),
        (lambda head, rows: (head, [{**rows[0], "partition_key": "date=d:2031-01-01"}]), "does not expect"),
        (lambda head, rows: (head, [{**rows[0], "partition_key": "region=s:dXM"}]), "does not expect"),
        (lambda head, rows: ({**head, "input_digests": {}}, rows), "the plan has no digest of its input"),
        (lambda head, rows: ({**head, "input_digests": []}, rows), "not a plan"),
        (lambda head, rows: (head, [{**rows[0], "batch": None}]), "not a plan"),
        (lambda head, rows: (head, [{**rows[0], "asset_key": None}]), "not a plan"),
        (lambda head, rows: (head, [{**rows[0], "asset_key": "elsewhere"}]), "no function for"),
    ],
)
def test_a_plan_that_was_changed_by_hand_is_checked(lake: Lake, tmp_path: Path, changed: Any, error: str) -> None:
    lake.register(define("sales", DAYS))
    file = tmp_path / "plan.jsonl"
    lake.plan().save(str(file))
    head, *rows = map(json.loads, file.read_text().splitlines())
    head, rows = changed(head, rows)
    file.write_text("\n".join(map(json.dumps, [head, *rows])))
    with pytest.raises(pt.PlanError, match=error):
        lake.run(pt.load_plan(str(file)), spark=LOCAL)


ODD_JSON: tuple[Any, ...] = (
    None, 5, 10**30, -1, 1e308, True, "x\0", "\ud800", "\u2028", [], {}, [[[]]], {"a": 5}, ["\ud800"]
)  # fmt: skip


def documents_with_one_odd_value(document: Any) -> Iterator[Any]:
    """Yield the document with one value replaced, each value by each odd one."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from ({**document, name: odd} for odd in ODD_JSON)
            yield from ({**document, name: other} for other in documents_with_one_odd_value(value))
            yield {**document, "\ud800": value}


@pytest.mark.slow(reason="hundreds of documents that are nearly plans")
def test_a_plan_that_is_loaded_can_be_shown_and_saved(lake: Lake, tmp_path: Path) -> None:
    lake.register(define("sales", DAYS))
    file = tmp_path / "plan.jsonl"
    lake.plan(where="date < '2025-01-03'").save(str(file))
    lines = file.read_text().splitlines()
    refused = loaded = 0
    for index in (0, 1):
        for document in documents_with_one_odd_value(json.loads(lines[index])):
            try:
                plan = plan_from_lines([*lines[:index], json.dumps(document), *lines[index + 1 :]], "a plan")
            except pt.PlanError:
                refused += 1
                continue
            loaded += 1
            assert str(plan)
            assert repr(plan)
            assert plan._repr_html_()
            again = "".join(f"{line}\n" for line in plan.json_lines()).encode()
            assert plan_from_lines(again.splitlines(), "it").header() == plan.header()
    assert (refused > 100, loaded > 10) == (True, True)


@pytest.mark.slow(reason="several plans of a lake")
@pytest.mark.parametrize("zone", [5, True, [[[]]], {}])
def test_a_time_zone_of_a_plan_is_a_name(lake: Lake, tmp_path: Path, zone: object) -> None:
    file = tmp_path / "plan.jsonl"
    lake.register(define("sales", DAYS))
    lake.plan(where="date < '2025-01-03'").save(str(file))
    head, *rows = map(json.loads, file.read_text().splitlines())
    head["request"]["time_zone"] = zone
    file.write_text("\n".join(map(json.dumps, [head, *rows])))
    with pytest.raises(pt.PlanError, match=r"request\.time_zone must be the name of a time zone"):
        pt.load_plan(str(file))
