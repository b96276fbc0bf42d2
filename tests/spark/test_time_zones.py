"""Predicates on times in sessions of any time zone mean the same to Spark and to Partita."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import partita as pt
from partita.algebra.predicate import UnboundPredicate
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.spec import PartitionSpec
from partita.algebra.time_zones import TimeZone, find_time_zone
from partita.arrow.schema import to_schema
from partita.spark import spark_session, time_zones
from partita.spark.frames import frame_from_arrow
from partita.spark.session import _session_settings, new_session_time_zone, running_session
from partita.spark.time_zones import TIME_ZONE_SETTING, session_time_zone
from tests.formats.delta.tables import with_time_zone
from tests.pruning_cases import has_residual
from tests.spark.frames import session_settings
from tests.value_strategies import INVALID_TIME_ZONES, TIME_ZONES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

ZONES = {
    "UTC": [],
    "+05:30": [],
    "Asia/Kolkata": [],
    # A gap and an overlap.
    "Europe/Berlin": ["2025-03-30 02:30:00", "2025-10-26 02:30:00", "2025-03-30 00:00:00"],
    "America/Los_Angeles": ["2025-03-09 02:30:00", "2025-11-02 01:30:00"],
    # A gap at midnight, midnight twice, a day that was left out, a gap of half an hour.
    "America/Sao_Paulo": ["2018-11-04 00:00:00", "2018-11-04 00:30:00"],
    "America/Havana": ["2025-11-02 00:00:00", "2025-11-02 00:30:00"],
    "Pacific/Apia": ["2011-12-30 00:00:00", "2011-12-30 12:00:00", "2011-12-31 00:00:00"],
    "Australia/Lord_Howe": ["2025-10-05 02:15:00", "2025-04-06 01:45:00"],
}
"""Time zones, and local times that are special in each."""
USUAL = ["2025-01-15 08:00:00", "2025-07-01 00:00:00", "1969-12-31 23:30:00", "2099-12-31 23:59:59"]
FAR = ["0001-01-01 00:00:00", "9999-12-31 00:00:00"]


def texts_of(local: str) -> Iterator[str]:
    """Yield each form of a comparison of a time column with a local time."""
    day = local[:10]
    literals = [
        f"'{local}'", f"'{day}'", f"TIMESTAMP '{local}'", f"TIMESTAMP_NTZ '{local}'", f"DATE '{day}'",
        f"CAST(TIMESTAMP '{local}' AS DATE)", f"CAST(TIMESTAMP '{local}Z' AS TIMESTAMP_NTZ)",
        f"CAST(TIMESTAMP_NTZ '{local}' AS TIMESTAMP)", f"CAST(DATE '{day}' AS TIMESTAMP)", f"TIMESTAMP '{local}Z'",
    ]  # fmt: skip
    for column in ("ts", "n", "d"):
        for literal in literals:
            if column != "d" or literal != f"'{local}'":
                yield from (f"{column} {op} {literal}" for op in ("=", ">="))
        yield f"{column} IN (TIMESTAMP '{local}', TIMESTAMP '2025-07-01 00:00:00')"
        yield f"{column} IN (TIMESTAMP '{local}', TIMESTAMP_NTZ '{local}')"
        yield f"{column} NOT BETWEEN DATE '{day}' AND TIMESTAMP '{local}'"
    yield from (f"date(ts) = '{day}'", "hour(ts) = 4", f"ts IN ('{local}')", f"CAST(ts AS DATE) <= DATE '{day}'")


def rows_near(zone: str, locals_: Sequence[str]) -> pa.Table:
    """Return rows with times at and around local times."""
    rules = find_time_zone(zone).rules
    rows: set[tuple[datetime, datetime, date]] = set()
    for text in locals_:
        local = datetime.fromisoformat(text)
        for fold in (0, 1):
            for seconds in (0, -1, 1, 3600, -3600, 86400):
                try:
                    instant = local.replace(tzinfo=rules, fold=fold).astimezone(UTC) + timedelta(seconds=seconds)
                    shifted = local + timedelta(seconds=seconds)
                except OverflowError:
                    continue
                rows.add((instant, shifted, shifted.date()))
    columns = zip(*sorted(rows), strict=True)
    types = {"ts": pa.timestamp("us", "UTC"), "n": pa.timestamp("us"), "d": pa.date32()}
    return pa.table({name: pa.array(values, types[name]) for name, values in zip(types, columns, strict=True)})


def truths(spark: SparkSession, table: pa.Table, texts: Sequence[str]) -> list[list[bool | None]]:
    """Return Spark's answer for each row, by text."""
    frame = frame_from_arrow(spark, table.append_column("row_", pa.array(range(len(table)))))
    results: list[list[bool | None]] = []
    for start in range(0, len(texts), 150):
        chunk = texts[start : start + 150]
        answers = frame.selectExpr("row_", *(f"({text}) AS p{index}" for index, text in enumerate(chunk)))
        columns = answers.toArrow().sort_by("row_")
        results += [columns[f"p{index}"].to_pylist() for index in range(len(chunk))]
    return results


def check(spark: SparkSession, table: pa.Table, zone: TimeZone, texts: Sequence[str]) -> Counter[str]:
    """Compare pruning and the rendered SQL of each text with Spark's answers to the text itself."""
    schema = to_schema(table.schema)
    spec = PartitionSpec.of(table.column_names, schema, "iceberg")
    bound = [parse_predicate(UnboundPredicate(text, zone), schema) for text in texts]
    judged: Counter[str] = Counter()
    both = truths(spark, table, [*texts, *(predicate.sql() for predicate in bound)])
    answers, ours = both[: len(texts)], both[len(texts) :]
    for text, predicate, answer, rendered_answer in zip(texts, bound, answers, ours, strict=True):
        hit = pt.prune(predicate, schema=schema, spec=spec, partitions=table)
        may, must, true = (
            np.array(list(values), bool)
            for values in (hit.may_match.to_pylist(), hit.must_match.to_pylist(), (value is True for value in answer))
        )
        is_evaluated = not has_residual(predicate)
        context = (zone.name, text, predicate.sql())
        assert answer == rendered_answer, context
        assert (may | ~true).all(), context
        assert (true | ~must).all(), context
        assert not is_evaluated or ((may == true).all() and (must == true).all()), context
        judged.update(evaluated=is_evaluated, skipped=int((~may).sum()), sure=int(must.sum()))
    return judged


@pytest.mark.parametrize(
    ("name", "ansi"),
    [
        *((name, "true") for name in ZONES if name != "Asia/Kolkata"),
        ("Europe/Berlin", "false"),
        # Their offsets are those of "+05:30", and of "UTC" above.
        pytest.param("Asia/Kolkata", "true", marks=pytest.mark.long),
        pytest.param("UTC", "false", marks=pytest.mark.long),
    ],
)
def test_every_form_means_what_spark_means(spark: SparkSession, name: str, ansi: str) -> None:
    """Each row is a partition: pruning is exact if Partita evaluates the text, and never wrong if it doesn't."""
    special = ZONES[name] or FAR
    texts = list(dict.fromkeys(text for local in [*USUAL[:3], *special] for text in texts_of(local)))
    with session_settings(spark, {TIME_ZONE_SETTING: name, "spark.sql.ansi.enabled": ansi}):
        judged = check(spark, rows_near(name, [*USUAL, *special]), session_time_zone(spark), texts)
    assert judged["evaluated"] > len(texts) / 3, judged


def test_pruning_never_loses_a_row_in_any_zone(spark: SparkSession) -> None:
    judged: Counter[str] = Counter()
    seconds = st.integers(-100_000, 100_000)

    @given(
        name=st.sampled_from([*ZONES, "Africa/Casablanca", "America/St_Johns", "-03:30", "GMT+2", "Europe/Dublin"]),
        around=st.lists(
            st.sampled_from([*USUAL, *(text for local_times in ZONES.values() for text in local_times)]), min_size=3
        ),
        shifts=st.lists(seconds, min_size=3, max_size=12),
        literals=st.lists(seconds, min_size=2, max_size=2),
    )
    @settings(
        max_examples=max(8, settings().max_examples // 20),
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def holds(name: str, around: list[str], shifts: list[int], literals: list[int]) -> None:
        moved = [
            (datetime.fromisoformat(around[index % len(around)]) + timedelta(seconds=shift)).isoformat(" ")
            for index, shift in enumerate([*shifts, *literals])
        ]
        texts = [text for local in moved[len(shifts) :] for text in texts_of(local)]
        with with_time_zone(spark, name):
            judged.update(check(spark, rows_near(name, moved[: len(shifts)]), session_time_zone(spark), texts))

    holds()
    assert judged["skipped"] > 5_000, judged
    assert judged["sure"] > 5_000, judged


def test_names_are_those_that_spark_takes(spark: SparkSession) -> None:
    for name, minutes in TIME_ZONES.items():
        with with_time_zone(spark, name):
            local = spark.sql("SELECT CAST(timestamp_seconds(1736937000) AS TIMESTAMP_NTZ) AS t").first()
            assert local is not None
            assert local.t == datetime(2025, 1, 15, 10, 30) + timedelta(minutes=minutes), name  # noqa: DTZ001
    for name in INVALID_TIME_ZONES:
        with pytest.raises(Exception, match="timeZone"), with_time_zone(spark, name):
            pass


def test_rules_that_differ_from_the_jvms_are_not_relied_on(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [text for local in ZONES["Europe/Berlin"] for text in texts_of(local)]
    monkeypatch.setattr(time_zones, "_same_rules", {})
    other = TimeZone("Europe/Berlin", ZoneInfo("Europe/London"))
    monkeypatch.setattr(time_zones, "find_time_zone", lambda _: other)
    with with_time_zone(spark, "Europe/Berlin"):
        zone = session_time_zone(spark)
        assert zone == TimeZone("Europe/Berlin", None)
        check(spark, rows_near("Europe/Berlin", ZONES["Europe/Berlin"]), zone, texts[:60])
    monkeypatch.undo()
    # A zone that Java has and Python doesn't.
    with with_time_zone(spark, "SystemV/PST8"):
        assert session_time_zone(spark) == TimeZone("SystemV/PST8", None)


def test_a_session_is_the_one_of_the_process_in_every_thread(spark: SparkSession) -> None:
    seen: list[Any] = []

    def record_session() -> None:
        seen.extend([running_session(), spark_session().conf.get(TIME_ZONE_SETTING)])

    with with_time_zone(spark, "Europe/Berlin"):
        thread = threading.Thread(target=record_session)
        thread.start()
        thread.join()
        assert seen == [spark, "Europe/Berlin"]
        assert spark.conf.get(TIME_ZONE_SETTING) == "Europe/Berlin"


def test_a_session_is_started_in_the_zone_that_is_asked_for() -> None:
    with new_session_time_zone("Europe/Berlin"):
        assert _session_settings(is_local=True)[TIME_ZONE_SETTING] == "Europe/Berlin"
    assert _session_settings(is_local=True)[TIME_ZONE_SETTING] == "UTC"


def test_a_frame_of_times_leaves_the_session_alone(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads would see a time zone that is set even for a moment."""
    gap = datetime(2025, 3, 30, 2, 30)  # noqa: DTZ001 - a local time that doesn't exist in Berlin
    rows = pa.table({"n": pa.array([gap]), "ts": pa.array([gap.replace(tzinfo=UTC)]), "l": pa.array([[gap]])})
    with with_time_zone(spark, "Europe/Berlin"):
        with monkeypatch.context() as patched:
            patched.setattr(type(spark.conf), "set", lambda *_: pytest.fail("a setting was changed"))
            frame = frame_from_arrow(spark, rows)
        assert frame.toArrow().cast(rows.schema).to_pylist() == rows.to_pylist()
