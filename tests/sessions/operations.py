"""A script that runs the same operations on a table of each format, in a session that Partita didn't start.

Arguments: a folder for the lakes, and a JSON object of settings for each run of the operations. The session starts with
the first settings; the later ones replace them, as a user's `SparkSession.builder.config(...)` does. After each
operation the table is compared with a model in plain Python; a format must refuse an operation that it declares as a
gap, and change nothing. Prints a JSON list with a report for each run: the problem of each operation of each format,
null if there is none, and the settings that Partita changed.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

import partita as pt
from partita.errors import UnsupportedOperation
from partita.formats.capabilities import Operation
from partita.formats.registry import FORMATS, table_format

if TYPE_CHECKING:
    import pandas as pd

FIRST_TIMESTAMP = datetime(2025, 3, 29, 0, 30, tzinfo=UTC)
"""The clocks of Berlin go forward a day later."""
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("ts", pa.timestamp("us", "UTC")),
        ("p", pa.string()),
        ("v", pa.float64()),
        ("note", pa.string()),
    ]
)
COLUMN_NAMES = SCHEMA.names
Row = tuple[int, datetime, str | None, float, str | None]


ComparedResults = tuple[Any, Any] | None
"""The expected and the actual result; None to compare the whole table with the model."""


def sample_row(number: int) -> Row:
    """Return the row with an id: hours over two days, three partitions and null."""
    region = (None, "a", "b", "Ü ß")[number % 4]
    return (
        number,
        FIRST_TIMESTAMP + timedelta(hours=number * 2),
        region,
        number / 4,
        None if number % 5 == 0 else f"n{number}",
    )


def arrow_table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMN_NAMES, row, strict=True)) for row in rows], SCHEMA)


def spark_frame(spark: SparkSession, rows: Sequence[Row]) -> Any:
    """Return the rows as a DataFrame that doesn't depend on the session's time zone."""
    values = [
        (i, (ts - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1), p, v, n) for i, ts, p, v, n in rows
    ]
    frame = spark.createDataFrame(values, "id bigint, micros bigint, p string, v double, note string")
    return frame.selectExpr("id", "timestamp_micros(micros) AS ts", "p", "v", "note")


def fetch_rows(frame: Any) -> list[Row]:
    """Return the rows of a DataFrame in the order of their ids."""
    table: pa.Table = frame.select(*COLUMN_NAMES).toArrow()
    moments = table["ts"].cast(pa.timestamp("us", "UTC"))
    table = table.set_column(1, "ts", moments)
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@dataclass
class OperationMatrix:
    """The operations on a table of one format, and a model of its rows by id."""

    spark: SparkSession
    lake: pt.Lake
    format: str
    rows: dict[int, Row] = field(default_factory=dict)
    problems: dict[str, str | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"db.{self.format}"

    @property
    def table(self) -> pt.Table:
        return self.lake.table(self.name)

    @property
    def is_partitioned_by_day(self) -> bool:
        return "ts_day" in self.table.spec.names

    def supports(self, operation: Operation) -> bool:
        return table_format(self.format).supports(operation)

    def is_in_day(self, row: Row, day: date) -> bool:
        """Return whether a row is in the partitions of a day; without a partition field of days, every row is."""
        return not self.is_partitioned_by_day or row[1].date() == day

    def run(self) -> dict[str, str | None]:
        for operation in OPERATIONS:
            name, model = operation.__name__, dict(self.rows)
            try:
                try:
                    results = operation(self)
                except UnsupportedOperation as error:
                    if self.supports(Operation(error.operation)):
                        raise
                    self.rows, results = model, None
                if results is None:
                    results = sorted(self.rows.values(), key=repr), fetch_rows(self.table.read())
                expected, actual = results
                self.problems[name] = None if expected == actual else f"expected {expected}, found {actual}"
            except Exception:  # noqa: BLE001 - it is reported
                self.problems[name] = traceback.format_exc()[-3000:]
        return self.problems

    def matching_rows(self, condition: Callable[[Row], bool]) -> list[Row]:
        """Return the rows of the model that a condition is true of."""
        return sorted((row for row in self.rows.values() if condition(row)), key=repr)

    def put(self, *rows: Row) -> ComparedResults:
        """Add rows to the model, in place of those with the same ids."""
        self.rows |= {row[0]: row for row in rows}
        return None

    def drop(self, condition: Callable[[Row], bool]) -> ComparedResults:
        """Remove the rows of the model that a condition is true of."""
        self.rows = {row[0]: row for row in self.rows.values() if not condition(row)}
        return None

    def refuse(self, error: type[pt.PartitaError], call: Callable[[], object]) -> ComparedResults:
        """Expect a call to raise an error and to commit nothing; a declared gap is raised as it is."""
        version = self.table.version
        try:
            call()
        except UnsupportedOperation:
            raise
        except error:
            return version, self.table.version
        return error.__name__, "no error"

    def change(self, condition: Callable[[Row], bool], **values: Callable[[Row], Any]) -> ComparedResults:
        """Change values of the rows of the model that a condition is true of."""
        for row in list(self.rows.values()):
            if condition(row):
                self.put(
                    tuple(values[n](row) if n in values else old for n, old in zip(COLUMN_NAMES, row, strict=True))  # type: ignore[arg-type]
                )
        return None


def create(m: OperationMatrix) -> ComparedResults:
    try:
        table = m.lake.create_table(m.name, SCHEMA, format=m.format, partition_by=[pt.day("ts"), "p"])
    except pt.SpecError:
        if m.supports(Operation.TRANSFORM_PARTITIONING):
            raise
        table = m.lake.create_table(m.name, SCHEMA, format=m.format, partition_by=["p"])
    return (m.format, []), (table.format, fetch_rows(table.read()))


def append_spark(m: OperationMatrix) -> ComparedResults:
    rows = [sample_row(number) for number in range(12)]
    m.table.append(spark_frame(m.spark, rows))
    return m.put(*rows)


def append_arrow(m: OperationMatrix) -> ComparedResults:
    rows = [sample_row(number) for number in range(12, 20)]
    m.table.append(arrow_table(rows))
    return m.put(*rows)


def append_pandas(m: OperationMatrix) -> ComparedResults:
    rows = [sample_row(number) for number in range(20, 24)]
    frame: pd.DataFrame = arrow_table(rows).to_pandas()
    m.table.append(frame)
    return m.put(*rows)


def read_where(m: OperationMatrix) -> ComparedResults:
    """Read with a condition on the partition, one on an instant, and one that only Spark evaluates."""
    rows = fetch_rows(m.table.read("p = 'a' AND ts >= '2025-03-30T01:30:00Z' AND length(note) > 1"))
    start = datetime(2025, 3, 30, 1, 30, tzinfo=UTC)
    return m.matching_rows(lambda r: r[2] == "a" and r[1] >= start and r[4] is not None and len(r[4]) > 1), rows


def read_columns(m: OperationMatrix) -> ComparedResults:
    """Read columns by names in another case, which a case-sensitive session refuses."""
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
                return "an error", "rows"
        rows = m.table.read("v > 2.5", columns=["v", "id"]).toArrow().to_pylist()
    else:
        rows = m.table.read("V > 2.5", columns=["V", "id"]).toArrow().to_pylist()
    expected = [{"v": r[3], "id": r[0]} for r in m.matching_rows(lambda r: r[3] > 2.5)]
    return sorted(expected, key=repr), sorted(rows, key=repr)


def read_later(m: OperationMatrix) -> ComparedResults:
    """Join a DataFrame of the table with another of the same table, and with one of the user's."""
    left, right = m.table.read("p = 'b'"), m.table.read()
    numbers = m.spark.range(10)
    joined = left.join(right, left.id == right.id).join(numbers, left.id == numbers.id).select(left.id, right.v)
    expected = [(r[0], r[3]) for r in m.matching_rows(lambda r: r[2] == "b" and r[0] < 10)]
    return expected, sorted(map(tuple, joined.collect()))


def read_partitions(m: OperationMatrix) -> ComparedResults:
    day = FIRST_TIMESTAMP.date()
    partitions = pa.table({"p": ["a", None]})
    if m.is_partitioned_by_day:
        # A day is a date, or in Lance the day of the month.
        type_ = m.table.partitions().schema.field("ts_day").type
        days = pa.array([day] * 2, type_) if pa.types.is_date(type_) else pa.array([day.day] * 2, type_)
        partitions = partitions.append_column("ts_day", days)
    rows = fetch_rows(m.table.read_partitions(partitions))
    return m.matching_rows(lambda r: m.is_in_day(r, day) and r[2] in ("a", None)), rows


def delete_partition(m: OperationMatrix) -> ComparedResults:
    m.table.delete("p = 'Ü ß'")
    return m.drop(lambda r: r[2] == "Ü ß")


def delete_some(m: OperationMatrix) -> ComparedResults:
    counts = m.table.delete("id % 7 = 2 OR ts = '2025-03-29T10:30:00+00:00'").counts
    deleted = m.matching_rows(lambda r: r[0] % 7 == 2 or r[1] == FIRST_TIMESTAMP + timedelta(hours=10))
    m.drop(lambda r: r in deleted)
    if counts["rows_deleted"] != len(deleted):
        return len(deleted), counts
    return None


def delete_nothing(m: OperationMatrix) -> ComparedResults:
    before = m.table.version
    m.table.delete("v < -1")
    return (before, m.matching_rows(lambda _: True)), (m.table.version, fetch_rows(m.table.read()))


def update_values(m: OperationMatrix) -> ComparedResults:
    m.table.update({"v": "v + 0.5", "note": "concat(coalesce(note, '?'), '!')"}, "p = 'a'")
    return m.change(lambda r: r[2] == "a", v=lambda r: r[3] + 0.5, note=lambda r: f"{r[4] or '?'}!")


def update_partition(m: OperationMatrix) -> ComparedResults:
    """Move rows to other partitions, by a time and by a string; Spark would add whole days by the local clock."""
    m.table.update({"ts": "ts + INTERVAL 20 HOURS", "p": "'c'"}, "id IN (4, 6)")
    return m.change(lambda r: r[0] in (4, 6), ts=lambda r: r[1] + timedelta(hours=20), p=lambda _: "c")


def merge(m: OperationMatrix) -> ComparedResults:
    source = [(*sample_row(number)[:4], "merged") for number in (1, 8, 40, 41)]
    m.table.merge(
        spark_frame(m.spark, source), "t.id = s.id", pt.when_matched("s.id = 1").delete(), pt.when_matched().update(),
        pt.when_not_matched().insert(),
    )  # fmt: skip
    m.drop(lambda r: r[0] == 1)
    return m.put(*source[1:])


def overwrite_partitions(m: OperationMatrix) -> ComparedResults:
    new: Row = (60, FIRST_TIMESTAMP, None, 9.0, "over")
    m.table.overwrite_partitions(arrow_table([new]))
    m.drop(lambda r: m.is_in_day(r, FIRST_TIMESTAMP.date()) and r[2] is None)
    return m.put(new)


def replace_partitions(m: OperationMatrix) -> ComparedResults:
    """Replace every partition of two regions, of which one has no new row."""
    new: Row = (62, FIRST_TIMESTAMP, "b", 2.0, "replaced")
    m.table.replace_partitions(arrow_table([new]), pa.table({"p": ["b", "d"]}))
    m.drop(lambda r: r[2] in ("b", "d"))
    return m.put(new)


def overwrite_where(m: OperationMatrix) -> ComparedResults:
    new: Row = (61, FIRST_TIMESTAMP + timedelta(days=1), "c", 10.0, None)
    m.table.overwrite(spark_frame(m.spark, [new]), where="p = 'c'")
    m.drop(lambda r: r[2] == "c")
    return m.put(new)


def evolve(m: OperationMatrix) -> ComparedResults:
    """Drop a partition field, so that the operations after this one change files of two specs."""
    m.table.evolve(drop=["p"])
    return None


def refuse_null(m: OperationMatrix) -> ComparedResults:
    """Refuse a null in a required column, which only Spark sees in the rows of a DataFrame."""
    rows = spark_frame(m.spark, [sample_row(90)]).selectExpr("nullif(id, 90) AS id", "ts", "p", "v", "note")
    return m.refuse(pt.ConstraintError, lambda: m.table.append(rows))


def refuse_rows_outside(m: OperationMatrix) -> ComparedResults:
    rows = spark_frame(m.spark, [sample_row(91)])
    return m.refuse(pt.RowsOutsidePartitions, lambda: m.table.replace_partitions(rows, pa.table({"p": ["x"]})))


def refuse_second_match(m: OperationMatrix) -> ComparedResults:
    source = spark_frame(m.spark, [sample_row(17), sample_row(17)])
    return m.refuse(
        pt.ConstraintError, lambda: m.table.merge(source, "t.id = s.id", pt.when_matched().update({"note": "s.note"}))
    )


def sql_select(m: OperationMatrix) -> ComparedResults:
    text = f"SELECT p, count(*) AS n, max(ts) AS last FROM {m.name} WHERE ts < '2025-03-31T00:00:00Z' GROUP BY p"  # noqa: S608
    rows: Any = m.lake.sql(text)
    table = rows.toArrow()
    moments = table["last"].cast(pa.timestamp("us", "UTC")).to_pylist()
    groups: dict[str | None, list[datetime]] = {}
    for row in m.rows.values():
        if row[1] < datetime(2025, 3, 31, tzinfo=UTC):
            groups.setdefault(row[2], []).append(row[1])
    expected = sorted(((p, len(times), max(times)) for p, times in groups.items()), key=repr)
    return expected, sorted(zip(table.column(0).to_pylist(), table["n"].to_pylist(), moments, strict=True), key=repr)


def sql_insert(m: OperationMatrix) -> ComparedResults:
    m.lake.sql(f"INSERT INTO {m.name} (id, ts, p, v) VALUES (70, TIMESTAMP '2025-03-30T01:15:00Z', 'a', 1.5D)")  # noqa: S608
    return m.put((70, datetime(2025, 3, 30, 1, 15, tzinfo=UTC), "a", 1.5, None))


def sql_update(m: OperationMatrix) -> ComparedResults:
    m.lake.sql(f"UPDATE {m.name} SET note = upper(note) WHERE p = 'b' AND note IS NOT NULL")  # noqa: S608
    return m.change(lambda r: r[2] == "b" and r[4] is not None, note=lambda r: str(r[4]).upper())


def sql_delete(m: OperationMatrix) -> ComparedResults:
    m.lake.sql(f"DELETE FROM {m.name} WHERE id = 70 OR v BETWEEN 2 AND 2.6")  # noqa: S608
    return m.drop(lambda r: r[0] == 70 or 2 <= r[3] <= 2.6)


def sql_merge(m: OperationMatrix) -> ComparedResults:
    assert 17 in m.rows
    source = [(*sample_row(number)[:4], "sql") for number in (17, 42)]
    m.lake.sql(
        f"MERGE INTO {m.name} t USING news s ON t.id = s.id WHEN MATCHED THEN UPDATE SET note = s.note "
        "WHEN NOT MATCHED THEN INSERT *",
        news=spark_frame(m.spark, source),
    )
    m.change(lambda r: r[0] == 17, note=lambda _: "sql")
    return m.put(*(row for row in source if row[0] not in m.rows))


def append_small_file(m: OperationMatrix) -> ComparedResults:
    m.table.append(arrow_table([sample_row(80)]))
    return m.put(sample_row(80))


def rewrite(m: OperationMatrix) -> ComparedResults:
    """Compact the table, and compare it with the model through a second Lake."""
    m.table.rewrite()
    expected = m.matching_rows(lambda _: True)
    return (expected, len(expected)), (
        fetch_rows(pt.Lake(m.lake.storage.uri).table(m.name).read()),
        m.table.read().count(),
    )


def spark_rows(m: OperationMatrix, where: str) -> list[Row]:
    """Return the rows of the model that Spark finds by a condition in the same session."""
    return fetch_rows(spark_frame(m.spark, m.matching_rows(lambda _: True)).where(where))


def read_local_times(m: OperationMatrix) -> ComparedResults:
    """Read by times without a zone and by parts of times, which are in the session's time zone."""
    where = "ts >= '2025-03-30 04:30:00' AND hour(ts) < 20"
    return spark_rows(m, where), fetch_rows(m.table.read(where))


def sql_local_times(m: OperationMatrix) -> ComparedResults:
    where = "ts BETWEEN '2025-03-29 12:00:00' AND '2025-03-30 12:00:00'"
    rows: Any = m.lake.sql(f"SELECT * FROM {m.name} WHERE {where}")  # noqa: S608
    return spark_rows(m, where), fetch_rows(rows)


def delete_local_times(m: OperationMatrix) -> ComparedResults:
    where = "ts < '2025-03-29 08:00:00'"
    ids = {row[0] for row in spark_rows(m, where)}
    m.table.delete(where)
    return m.drop(lambda r: r[0] in ids)


OPERATIONS: tuple[Callable[[OperationMatrix], ComparedResults], ...] = (
    create, append_spark, append_arrow, append_pandas, read_where, read_columns, read_later, read_partitions,
    delete_partition, delete_some, delete_nothing, update_values, update_partition, merge, overwrite_partitions,
    overwrite_where, replace_partitions, refuse_null, refuse_rows_outside, refuse_second_match, evolve, sql_select,
    sql_insert, sql_update, sql_delete, sql_merge, append_small_file, rewrite, read_local_times, sql_local_times,
    delete_local_times,
)  # fmt: skip


def main(folder: str, *settings_texts: str) -> None:
    reports: list[dict[str, Any]] = []
    previous: dict[str, str] = {}
    for number, text in enumerate(settings_texts):
        settings: dict[str, str] = json.loads(text)
        spark = _session_with(settings, previous)
        previous = settings
        lake = pt.Lake(f"{folder}/{number}")
        before = _settings(spark)
        problems = {format_: OperationMatrix(spark, lake, format_).run() for format_ in FORMATS}
        changed = sorted({str(pair) for pair in _settings(spark).items() ^ before.items()})
        reports.append({"formats": problems, "settings": changed})
    print(json.dumps(reports))  # noqa: T201 - read by the test


def _session_with(settings: Mapping[str, str], previous: Mapping[str, str]) -> SparkSession:
    """Start the session with some settings, or set them in the running one in place of the previous ones."""
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for key in previous.keys() - settings.keys():
        spark.conf.unset(key)
    actual = {key: spark.conf.get(key) for key in settings}
    assert actual == dict(settings), actual
    return spark


def _settings(spark: SparkSession) -> dict[str, str]:
    return {row[0]: row[1] for row in spark.sql("SET").collect() if row[0].startswith("spark.sql.")}


if __name__ == "__main__":
    main(*sys.argv[1:])
