"""Input by others: JSON that is nested too deeply, damaged metadata, and numbers of any length."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

import partita as pt
from partita.algebra.physical_values import decimal_to_unscaled
from partita.algebra.predicate_text import parse_predicate
from partita.errors import PartitaError, PredicateError, ProjectError, StorageError, TableError, value_repr
from partita.formats.delta import encode_partition, parse_partition
from partita.formats.merge_clauses import split_join_condition
from partita.untrusted_input import parse_json, parse_json_object, translate_read_errors

DECIMALS = {"m": "decimal(10,2)", "w": "decimal(38,18)"}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, "{]", b"\xff", "\0"])
def test_invalid_json(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_json(text)
    assert str(caught.value)


@pytest.mark.parametrize("text", ["5", "[]", "null", '"a"'])
def test_json_that_is_no_object(text: str) -> None:
    with pytest.raises(ValueError, match="a JSON object is expected"):
        parse_json_object(text)


def test_every_read_error_names_the_file() -> None:
    with (
        pytest.raises(TableError, match=r"^the log can't be read: KeyError: 'x'") as caught,
        translate_read_errors("the log"),
    ):
        raise KeyError("x")
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(StorageError, match="the log can't be read: No such file"), translate_read_errors("the log"):
        raise FileNotFoundError("No such file")
    with pytest.raises(PredicateError, match="as it is"), translate_read_errors("the log"):
        raise PredicateError("as it is")
    with pytest.raises(KeyboardInterrupt), translate_read_errors("the log"):
        raise KeyboardInterrupt


@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", ["1e999999999", "-1e999999999", "1e-999999999", "1" * 5000, f"0.{'0' * 5000}1"])
def test_a_decimal_with_an_exponent_without_end(text: str) -> None:
    with pytest.raises(pt.PartitionValueError, match=r"'m': expected decimal\(10,2\)"):
        parse_partition({"m": text, "w": None}, DECIMALS)
    assert decimal_to_unscaled(Decimal(text), 2) is None


def test_decimals_at_the_ends_of_their_types() -> None:
    largest = "9" * 20 + "." + "9" * 18
    assert parse_partition({"w": largest}, DECIMALS)["w"] == Decimal(largest)
    assert parse_partition({"m": "0E-18"}, DECIMALS)["m"] == 0
    assert parse_partition({"m": "0E999999999"}, DECIMALS)["m"] == 0
    assert parse_partition({"m": "1.50000"}, DECIMALS)["m"] == Decimal("1.5")
    assert decimal_to_unscaled(Decimal("1e38"), 38) == 10**76
    assert decimal_to_unscaled(Decimal("1e77"), 0) is None


@pytest.mark.timeout(30)
@pytest.mark.parametrize("value", [Decimal("1e999999999"), Decimal("1e-999999999"), 10**5000], ids=["+", "-", "int"])
def test_a_column_is_not_compared_with_a_number_without_end(value: object) -> None:
    with pytest.raises(pt.PredicateError, match="a column can't be compared with"):
        pt.col("m") == value  # noqa: B015 - it raises


@pytest.mark.timeout(30)
@pytest.mark.parametrize("literal", [f"'{'9' * 50_000}'", f"'0.{'0' * 50_000}'", f"'{' ' * 50_000}'", "9" * 50_000])
def test_an_interval_without_end_is_refused(literal: str, tmp_path: Path) -> None:
    where = f"m > INTERVAL {literal} DAY"
    lake = pt.Lake(str(tmp_path))
    statement = f"DELETE FROM t WHERE {where}"  # noqa: S608 - no database runs it
    calls: list[Callable[[], object]] = [
        lambda: parse_predicate(where, pt.Schema.of(DECIMALS)),
        lambda: split_join_condition(where),
        lambda: lake.sql(statement),
    ]
    for call in calls:
        with pytest.raises(pt.PredicateError, match="more than 100 digits or spaces in a row"):
            call()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("where", ["m = 1e999999999", f"m = {'9' * 5000}", f"m > 0.{'0' * 5000}1", "m = 1e-999999999"])
def test_a_predicate_with_a_number_without_end_excludes_nothing(where: str) -> None:
    import pyarrow as pa

    spec = pt.parse_spec("m", DECIMALS, family="iceberg")
    partitions = pa.table({"m": pa.array([Decimal("1.00")], pa.decimal128(10, 2))})
    assert pt.prune(where, schema=DECIMALS, spec=spec, partitions=partitions).may_match.to_pylist() == [True]


@pytest.mark.parametrize("values", [{"m": 5}, {"m": "\ud800"}, {5: "x"}, None, [], {"m": b"1"}])
def test_partition_values_that_are_not_strings(values: object) -> None:
    with pytest.raises(pt.PartitionValueError):
        parse_partition(values, {"m": "string"})  # type: ignore[arg-type] # that is what is refused


HEAD = (
    '{"form": "partita.plan/2", "lake": "l", "tenant": "t", "workspace": "w", '
    '"made_at": "2025-01-15T00:00:00+00:00", "request": {}, "input_digests": {}}\n'
)
ROW = (
    '{"state": "run", "asset_key": "a", "partition_key": "", "batch": %s, "reasons": [], "by_asset": null, '
    '"by_partition": null}'
)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, "5", f"{HEAD}5", HEAD + ROW % 10**30, "\0", HEAD + "\0", HEAD + ROW % '"x"', ""]
)
def test_a_file_that_is_no_plan(tmp_path: Path, content: str) -> None:
    (tmp_path / "plan.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(pt.PlanError, match="is not a plan of Partita"):
        pt.load_plan(str(tmp_path / "plan.jsonl"))


@pytest.mark.parametrize("path", ["a\0b", "\ud800", 5, None, "nowhere"])
def test_a_plan_at_no_path(path: object) -> None:
    with pytest.raises(pt.PlanError, match="can't be read"):
        pt.load_plan(path)  # type: ignore[arg-type] # that is what is refused


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "content",
    [
        f"a = {'[' * 100_000}", f"[run]\nparallel = {'9' * 5000}", f"[run]\nparallel = 0x{'f' * 5000}",
        f"[spark.conf]\na = 0x{'f' * 5000}", "[run]\nwait = 1e999", f"[lake]\noptions{'.a' * 900} = 1",
        f"a{'.a' * 200_000} = 1", f"{'x' * 200_000} = 1", f"[run]\nparallel = {10**30}",
    ],
)  # fmt: skip
def test_a_huge_project_file(tmp_path: Path, content: str) -> None:
    from partita.cli.project import read_project

    (tmp_path / "partita.toml").write_text(content, encoding="utf-8")
    with pytest.raises(ProjectError) as caught:
        read_project(tmp_path / "partita.toml")
    assert len(str(caught.value)) < 1000


HUGE = 10**5000


@pytest.mark.parametrize(
    "call",
    [
        lambda: encode_partition({"x": HUGE}, {"x": "long"}),
        lambda: encode_partition({"x": HUGE}, {"x": "decimal(10,2)"}),
        lambda: encode_partition({"x": HUGE}, {"x": "double"}),
        lambda: encode_partition({"x": HUGE}, {"x": "date"}),
        lambda: pt.PartitionKey.of(x=HUGE),
        lambda: pt.bucket("x", HUGE),
        lambda: pt.truncate("x", HUGE),
        lambda: pt.bucket("x", 16).apply(HUGE, family="iceberg"),
        lambda: pt.truncate("x", 16).apply(HUGE, family="iceberg"),
        lambda: pt.hash("x").apply([HUGE], family="lance"),
        lambda: pt.static("x", [HUGE]),
        lambda: parse_predicate(pt.col("x") == HUGE, pt.Schema.of({"x": "long"})),
    ],
)  # fmt: skip
def test_an_integer_that_python_does_not_print_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(PartitaError, match=r"integer of 16,610 bits|too large to show"):
        call()


def test_values_in_messages_are_short() -> None:
    assert value_repr("x" * 5000) == f"'{'x' * 199}…"
    assert [value_repr(value) for value in (5, None, "a")] == ["5", "None", "'a'"]
    assert value_repr([HUGE]) == "a list that is too large to show"
