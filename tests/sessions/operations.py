"""Runs in a process of its own: the same operations on a table of each format, in a session that Partita didn't make.

Arguments: a folder for the lake, and settings of the session as `key=value`. After each operation the table is compared
with a model of plain Python. Prints as JSON what was wrong with each operation of each format, null where it was right.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

import partita as pt

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("delta", "iceberg", "lance")
FIRST = datetime(2025, 3, 29, 0, 30, tzinfo=UTC)
"""Clocks go forward in Berlin a day later."""
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("p", pa.string()),
        ("v", pa.float64()),
        ("note", pa.string()),
    ]
)
NAMES = SCHEMA.names
Row = tuple[int, datetime, str | None, float, str | None]


Compared = tuple[Any, Any] | None
"""What was expected and what was found; None where the whole table is to be compared."""


def row(number: int) -> Row:
    """A row by its id: hours over two days, three partitions and null."""
    region = (None, "a", "b", "Ü ß")[number % 4]
    return number, FIRST + timedelta(hours=number * 2), region, number / 4, None if number % 5 == 0 else f"n{number}"


def table_of(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(NAMES, each, strict=True)) for each in rows], SCHEMA)


def frame_of(spark: SparkSession, rows: Sequence[Row]) -> Any:
    """The rows as a DataFrame that owes nothing to the session's zone."""
    values = [
        (i, (ts - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1), p, v, n) for i, ts, p, v, n in rows
    ]
    made = spark.createDataFrame(values, "id bigint, micros bigint, p string, v double, note string")
    return made.selectExpr("id", "timestamp_micros(micros) AS ts", "p", "v", "note")


def fetched(frame: Any) -> list[Row]:
    """The rows that a DataFrame has, by id."""
    table: pa.Table = frame.select(*NAMES).toArrow()
    moments = table["ts"].cast(pa.timestamp("us", "UTC"))
    table = table.set_column(1, "ts", moments)
    return sorted((tuple(each.values()) for each in table.to_pylist()), key=repr)


@dataclass
class Matrix:
    """A table, and the rows that it should have, by id."""

    spark: SparkSession
    lake: pt.Lake
    form: str
    rows: dict[int, Row] = field(default_factory=dict)
    wrong: dict[str, str | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"db.{self.form}"

    @property
    def table(self) -> pt.Table:
        return self.lake.table(self.name)

    def run(self) -> dict[str, str | None]:
        for operation in OPERATIONS:
            name = operation.__name__
            try:
                found = operation(self)
                expected = sorted(self.rows.values(), key=repr)
                if found is None:
                    found = expected, fetched(self.table.read())
                self.wrong[name] = None if found[0] == found[1] else f"expected {found[0]}, found {found[1]}"
            except Exception:  # noqa: BLE001 - it is told
                self.wrong[name] = traceback.format_exc()[-3000:]
        return self.wrong

    def keep(self, condition: Callable[[Row], bool]) -> list[Row]:
        return sorted((each for each in self.rows.values() if condition(each)), key=repr)

    def put(self, *rows: Row) -> Compared:
        """The rows are there, in place of those with the same ids."""
        self.rows |= {each[0]: each for each in rows}
        return None

    def drop(self, condition: Callable[[Row], bool]) -> Compared:
        """Rows are gone."""
        self.rows = {each[0]: each for each in self.rows.values() if not condition(each)}
        return None

    def change(self, condition: Callable[[Row], bool], **values: Callable[[Row], Any]) -> Compared:
        """Rows have other values."""
        for each in list(self.rows.values()):
            if condition(each):
                self.put(tuple(values[n](each) if n in values else old for n, old in zip(NAMES, each, strict=True)))  # type: ignore[arg-type]
        return None


def create(m: Matrix) -> Compared:
    made = m.lake.create_table(m.name, SCHEMA, format=m.form, partition_by=[pt.day("ts"), "p"])
    return (m.form, []), (made.format, fetched(made.read()))


def append_spark(m: Matrix) -> Compared:
    rows = [row(at) for at in range(12)]
    m.table.append(frame_of(m.spark, rows))
    return m.put(*rows)


def append_arrow(m: Matrix) -> Compared:
    rows = [row(at) for at in range(12, 20)]
    m.table.append(table_of(rows))
    return m.put(*rows)


def append_pandas(m: Matrix) -> Compared:
    rows = [row(at) for at in range(20, 24)]
    frame: pd.DataFrame = table_of(rows).to_pandas()
    m.table.append(frame)
    return m.put(*rows)


def read_where(m: Matrix) -> Compared:
    """A condition on the partition, one on an instant, and one that Spark judges."""
    found = fetched(m.table.read("p = 'a' AND ts >= '2025-03-30T01:30:00Z' AND length(note) > 1"))
    from_ = datetime(2025, 3, 30, 1, 30, tzinfo=UTC)
    return m.keep(lambda r: r[2] == "a" and r[1] >= from_ and r[4] is not None and len(r[4]) > 1), found


def read_columns(m: Matrix) -> Compared:
    """Names in another case find columns, but in a case-sensitive session."""
    if m.spark.conf.get("spark.sql.caseSensitive") == "true":
        for call in (
            lambda: m.table.read(columns=["V"]),
            lambda: m.table.read("V > 2.5"),
            lambda: m.table.plan("V > 2"),
        ):
            try:
                call()
            except pt.PartitaError as error:
                if "case sensitive" not in str(error):
                    raise
            else:
                return "a refusal", "rows"
        found = m.table.read("v > 2.5", columns=["v", "id"]).toArrow().to_pylist()
    else:
        found = m.table.read("V > 2.5", columns=["V", "id"]).toArrow().to_pylist()
    expected = [{"v": r[3], "id": r[0]} for r in m.keep(lambda r: r[3] > 2.5)]
    return sorted(expected, key=repr), sorted(found, key=repr)


def read_later(m: Matrix) -> Compared:
    """A frame that is made first and run later, joined with itself and with the user's."""
    left, right = m.table.read("p = 'b'"), m.table.read()
    numbers = m.spark.range(10)
    both = left.join(right, left.id == right.id).join(numbers, left.id == numbers.id).select(left.id, right.v)
    expected = [(r[0], r[3]) for r in m.keep(lambda r: r[2] == "b" and r[0] < 10)]
    return expected, sorted(map(tuple, both.collect()))


def read_partitions(m: Matrix) -> Compared:
    day = FIRST.date()
    # A day is a date in Delta and Iceberg, and one of the month in Lance.
    days = pa.array([day.day] * 2, pa.int32()) if m.form == "lance" else pa.array([day] * 2)
    found = fetched(m.table.read_partitions(pa.table({"ts_day": days, "p": ["a", None]})))
    return m.keep(lambda r: r[1].date() == day and r[2] in ("a", None)), found


def delete_partition(m: Matrix) -> Compared:
    m.table.delete("p = 'Ü ß'")
    return m.drop(lambda r: r[2] == "Ü ß")


def delete_some(m: Matrix) -> Compared:
    counts = m.table.delete("id % 7 = 2 OR ts = '2025-03-29T10:30:00+00:00'").counts
    gone = m.keep(lambda r: r[0] % 7 == 2 or r[1] == FIRST + timedelta(hours=10))
    m.drop(lambda r: r in gone)
    if counts["rows_deleted"] != len(gone):
        return len(gone), counts
    return None


def delete_nothing(m: Matrix) -> Compared:
    before = m.table.version
    m.table.delete("v < -1")
    return (before, m.keep(lambda _: True)), (m.table.version, fetched(m.table.read()))


def update_values(m: Matrix) -> Compared:
    m.table.update({"v": "v + 0.5", "note": "concat(coalesce(note, '?'), '!')"}, "p = 'a'")
    return m.change(lambda r: r[2] == "a", v=lambda r: r[3] + 0.5, note=lambda r: f"{r[4] or '?'}!")


def update_partition(m: Matrix) -> Compared:
    """Rows that move to other partitions, by a time and by a text; Spark would add whole days by the local clock."""
    m.table.update({"ts": "ts + INTERVAL 20 HOURS", "p": "'c'"}, "id IN (4, 6)")
    return m.change(lambda r: r[0] in (4, 6), ts=lambda r: r[1] + timedelta(hours=20), p=lambda _: "c")


def merge(m: Matrix) -> Compared:
    source = [(*row(at)[:4], "merged") for at in (1, 8, 40, 41)]
    m.table.merge(
        frame_of(m.spark, source), "t.id = s.id", pt.when_matched("s.id = 1").delete(), pt.when_matched().update(),
        pt.when_not_matched().insert(),
    )  # fmt: skip
    m.drop(lambda r: r[0] == 1)
    return m.put(*source[1:])


def overwrite_partitions(m: Matrix) -> Compared:
    new: Row = (60, FIRST, None, 9.0, "over")
    m.table.overwrite_partitions(table_of([new]))
    m.drop(lambda r: r[1].date() == FIRST.date() and r[2] is None)
    return m.put(new)


def overwrite_where(m: Matrix) -> Compared:
    new: Row = (61, FIRST + timedelta(days=1), "c", 10.0, None)
    m.table.overwrite(frame_of(m.spark, [new]), where="p = 'c'")
    m.drop(lambda r: r[2] == "c")
    return m.put(new)


def sql_select(m: Matrix) -> Compared:
    text = f"SELECT p, count(*) AS n, max(ts) AS last FROM {m.name} WHERE ts < '2025-03-31T00:00:00Z' GROUP BY p"  # noqa: S608
    found: Any = m.lake.sql(text)
    table = found.toArrow()
    moments = table["last"].cast(pa.timestamp("us", "UTC")).to_pylist()
    groups: dict[str | None, list[datetime]] = {}
    for each in m.rows.values():
        if each[1] < datetime(2025, 3, 31, tzinfo=UTC):
            groups.setdefault(each[2], []).append(each[1])
    expected = sorted(((p, len(times), max(times)) for p, times in groups.items()), key=repr)
    return expected, sorted(zip(table.column(0).to_pylist(), table["n"].to_pylist(), moments, strict=True), key=repr)


def sql_insert(m: Matrix) -> Compared:
    m.lake.sql(f"INSERT INTO {m.name} (id, ts, p, v) VALUES (70, TIMESTAMP '2025-03-30T01:15:00Z', 'a', 1.5D)")  # noqa: S608
    return m.put((70, datetime(2025, 3, 30, 1, 15, tzinfo=UTC), "a", 1.5, None))


def sql_update(m: Matrix) -> Compared:
    m.lake.sql(f"UPDATE {m.name} SET note = upper(note) WHERE p = 'b' AND note IS NOT NULL")  # noqa: S608
    return m.change(lambda r: r[2] == "b" and r[4] is not None, note=lambda r: str(r[4]).upper())


def sql_delete(m: Matrix) -> Compared:
    m.lake.sql(f"DELETE FROM {m.name} WHERE id = 70 OR v BETWEEN 2 AND 2.6")  # noqa: S608
    return m.drop(lambda r: r[0] == 70 or 2 <= r[3] <= 2.6)


def sql_merge(m: Matrix) -> Compared:
    source = [(*row(at)[:4], "sql") for at in (16, 42)]
    m.lake.sql(
        f"MERGE INTO {m.name} t USING news s ON t.id = s.id WHEN MATCHED THEN UPDATE SET note = s.note "
        "WHEN NOT MATCHED THEN INSERT *",
        news=frame_of(m.spark, source),
    )
    m.change(lambda r: r[0] == 16, note=lambda _: "sql")
    return m.put(*(each for each in source if each[0] not in m.rows))


def rewrite(m: Matrix) -> Compared:
    """Compaction; a copy of the rows, and a table that another process opens."""
    m.table.append(table_of([row(80)]))
    m.put(row(80))
    m.table.rewrite()
    expected = m.keep(lambda _: True)
    return (expected, len(expected)), (
        fetched(pt.Lake(m.lake.storage.uri).table(m.name).read()),
        m.table.read().count(),
    )


def matching(m: Matrix, where: str) -> list[Row]:
    """The rows that plain Spark finds by a condition, over literal rows in the same session."""
    return fetched(frame_of(m.spark, m.keep(lambda _: True)).where(where))


def read_local_times(m: Matrix) -> Compared:
    """Times that name no zone, and parts of times, are the session's."""
    where = "ts >= '2025-03-30 04:30:00' AND hour(ts) < 20"
    return matching(m, where), fetched(m.table.read(where))


def sql_local_times(m: Matrix) -> Compared:
    where = "ts BETWEEN '2025-03-29 12:00:00' AND '2025-03-30 12:00:00'"
    found: Any = m.lake.sql(f"SELECT * FROM {m.name} WHERE {where}")  # noqa: S608
    return matching(m, where), fetched(found)


def delete_local_times(m: Matrix) -> Compared:
    where = "ts < '2025-03-29 08:00:00'"
    ids = {each[0] for each in matching(m, where)}
    m.table.delete(where)
    return m.drop(lambda r: r[0] in ids)


OPERATIONS: tuple[Callable[[Matrix], Compared], ...] = (
    create, append_spark, append_arrow, append_pandas, read_where, read_columns, read_later, read_partitions,
    delete_partition, delete_some, delete_nothing, update_values, update_partition, merge, overwrite_partitions,
    overwrite_where, sql_select, sql_insert, sql_update, sql_delete, sql_merge, rewrite, read_local_times,
    sql_local_times, delete_local_times,
)  # fmt: skip


def main(folder: str, *conf: str) -> None:
    builder = SparkSession.builder
    for setting in conf:
        key, _, value = setting.partition("=")
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    lake = pt.Lake(folder)
    keys = [setting.partition("=")[0] for setting in conf]
    before = _settings(spark)
    found: dict[str, Any] = {form: Matrix(spark, lake, form).run() for form in FORMATS}
    after = _settings(spark)
    changed = sorted({str(pair) for pair in after.items() ^ before.items()})
    print(json.dumps({"formats": found, "settings": changed, "given": keys}))  # noqa: T201 - read by the test


def _settings(spark: SparkSession) -> dict[str, str]:
    return {each[0]: each[1] for each in spark.sql("SET").collect() if each[0].startswith("spark.sql.")}


if __name__ == "__main__":
    main(*sys.argv[1:])
