"""Predicates on times in sessions of any time zone: what Spark makes of them, against what Partita does."""

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
from partita.algebra.parse import Condition, parse_predicate
from partita.algebra.spec import PartitionSpec
from partita.algebra.time_zones import TimeZone, find_time_zone
from partita.arrow.schema import to_schema
from partita.spark import session, time_zones
from partita.spark.scan import frame_of
from partita.spark.session import _settings, running_session, started_in
from partita.spark.time_zones import SETTING, session_time_zone
from tests.formats.delta.tables import in_zone
from tests.generated import has_residual
from tests.spark.frames import set_to
from tests.values import NO_TIME_ZONES, TIME_ZONES

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
    """Every form in which a local time can stand beside a column of times."""
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
    """Rows whose times lie at and around local times."""
    rules = find_time_zone(zone).rules
    found: set[tuple[datetime, datetime, date]] = set()
    for text in locals_:
        local = datetime.fromisoformat(text)
        for fold in (0, 1):
            for seconds in (0, -1, 1, 3600, -3600, 86400):
                try:
                    instant = local.replace(tzinfo=rules, fold=fold).astimezone(UTC) + timedelta(seconds=seconds)
                    shown = local + timedelta(seconds=seconds)
                except OverflowError:
                    continue
                found.add((instant, shown, shown.date()))
    columns = zip(*sorted(found), strict=True)
    types = {"ts": pa.timestamp("us", "UTC"), "n": pa.timestamp("us"), "d": pa.date32()}
    return pa.table({name: pa.array(values, types[name]) for name, values in zip(types, columns, strict=True)})


def truths(spark: SparkSession, table: pa.Table, texts: Sequence[str]) -> list[list[bool | None]]:
    """What Spark says of each row, text by text."""
    frame = frame_of(spark, table.append_column("row_", pa.array(range(len(table)))))
    found: list[list[bool | None]] = []
    for start in range(0, len(texts), 150):
        some = texts[start : start + 150]
        answers = frame.selectExpr("row_", *(f"({text}) AS p{at}" for at, text in enumerate(some)))
        columns = answers.toArrow().sort_by("row_")
        found += [columns[f"p{at}"].to_pylist() for at in range(len(some))]
    return found


def check(spark: SparkSession, table: pa.Table, zone: TimeZone, texts: Sequence[str]) -> Counter[str]:
    """Our pruning and our SQL of each text against Spark's answers to the text itself."""
    schema = to_schema(table.schema)
    spec = PartitionSpec.of(table.column_names, schema, "iceberg")
    bound = [parse_predicate(Condition(text, zone), schema) for text in texts]
    judged: Counter[str] = Counter()
    answers, ours = truths(spark, table, texts), truths(spark, table, [predicate.sql() for predicate in bound])
    for text, predicate, said, again in zip(texts, bound, answers, ours, strict=True):
        hit = pt.prune(predicate, schema=schema, spec=spec, partitions=table)
        may, must, true = (
            np.array(list(values), bool)
            for values in (hit.may_match.to_pylist(), hit.must_match.to_pylist(), (one is True for one in said))
        )
        is_held = not has_residual(predicate)
        about = (zone.name, text, predicate.sql())
        assert said == again, about
        assert (may | ~true).all(), about
        assert (true | ~must).all(), about
        assert not is_held or ((may == true).all() and (must == true).all()), about
        judged.update(held=is_held, skipped=int((~may).sum()), sure=int(must.sum()))
    return judged


@pytest.mark.parametrize(
    ("name", "ansi"), [*((name, "true") for name in ZONES), ("UTC", "false"), ("Europe/Berlin", "false")]
)
def test_every_form_means_what_spark_means(spark: SparkSession, name: str, ansi: str) -> None:
    """Each row is a partition of its own: exact where the tree holds a text, never wrong where it doesn't."""
    special = ZONES[name] or FAR
    texts = list(dict.fromkeys(text for local in [*USUAL[:3], *special] for text in texts_of(local)))
    with set_to(spark, {SETTING: name, "spark.sql.ansi.enabled": ansi}):
        judged = check(spark, rows_near(name, [*USUAL, *special]), session_time_zone(spark), texts)
    assert judged["held"] > len(texts) / 3, judged


def test_pruning_never_loses_a_row_in_any_zone(spark: SparkSession) -> None:
    judged: Counter[str] = Counter()
    seconds = st.integers(-100_000, 100_000)

    @given(
        name=st.sampled_from([*ZONES, "Africa/Casablanca", "America/St_Johns", "-03:30", "GMT+2", "Europe/Dublin"]),
        around=st.lists(st.sampled_from([*USUAL, *(text for some in ZONES.values() for text in some)]), min_size=3),
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
            (datetime.fromisoformat(around[at % len(around)]) + timedelta(seconds=shift)).isoformat(" ")
            for at, shift in enumerate([*shifts, *literals])
        ]
        texts = [text for local in moved[len(shifts) :] for text in texts_of(local)]
        with in_zone(spark, name):
            judged.update(check(spark, rows_near(name, moved[: len(shifts)]), session_time_zone(spark), texts))

    holds()
    assert judged["skipped"] > 5_000, judged
    assert judged["sure"] > 5_000, judged


def test_names_are_those_that_spark_takes(spark: SparkSession) -> None:
    for name, minutes in TIME_ZONES.items():
        with in_zone(spark, name):
            local = spark.sql("SELECT CAST(timestamp_seconds(1736937000) AS TIMESTAMP_NTZ) AS t").first()
            assert local is not None
            assert local.t == datetime(2025, 1, 15, 10, 30) + timedelta(minutes=minutes), name  # noqa: DTZ001
    for name in NO_TIME_ZONES:
        with pytest.raises(Exception, match="timeZone"), in_zone(spark, name):
            pass


def test_rules_that_differ_from_the_jvms_are_not_relied_on(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [text for local in ZONES["Europe/Berlin"] for text in texts_of(local)]
    monkeypatch.setattr(time_zones, "_same_rules", {})
    other = TimeZone("Europe/Berlin", ZoneInfo("Europe/London"))
    monkeypatch.setattr(time_zones, "find_time_zone", lambda _: other)
    with in_zone(spark, "Europe/Berlin"):
        found = session_time_zone(spark)
        assert found == TimeZone("Europe/Berlin", None)
        check(spark, rows_near("Europe/Berlin", ZONES["Europe/Berlin"]), found, texts[:60])
    monkeypatch.undo()
    # One that Java has and Python doesn't.
    with in_zone(spark, "SystemV/PST8"):
        assert session_time_zone(spark) == TimeZone("SystemV/PST8", None)


def test_a_session_is_the_one_of_the_process_in_every_thread(spark: SparkSession) -> None:
    found: list[Any] = []

    def look() -> None:
        found.extend([running_session(), session().conf.get(SETTING)])

    with in_zone(spark, "Europe/Berlin"):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert found == [spark, "Europe/Berlin"]
        assert spark.conf.get(SETTING) == "Europe/Berlin"


def test_a_session_is_started_in_the_zone_that_is_asked_for() -> None:
    with started_in("Europe/Berlin"):
        assert _settings(is_local=True)[SETTING] == "Europe/Berlin"
    assert _settings(is_local=True)[SETTING] == "UTC"


def test_a_frame_of_times_leaves_the_session_alone(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads would see a zone that is set for a moment."""
    gap = datetime(2025, 3, 30, 2, 30)  # noqa: DTZ001 - a time that no clock in Berlin shows
    rows = pa.table({"n": pa.array([gap]), "ts": pa.array([gap.replace(tzinfo=UTC)]), "l": pa.array([[gap]])})
    with in_zone(spark, "Europe/Berlin"):
        with monkeypatch.context() as patched:
            patched.setattr(type(spark.conf), "set", lambda *_: pytest.fail("a setting was changed"))
            frame = frame_of(spark, rows)
        assert frame.toArrow().cast(rows.schema).to_pylist() == rows.to_pylist()
