"""The states of a partition and the reasons for which it is stale. This is the only place that defines them.

| definition | what it is | rendered by |
|---|---|---|
| `DisplayStatus` | the four display statuses of the status document | every answer |
| `StaleReason` | why a partition is stale, since when, and how `why` words it | status view, `why`, filters |
| `STATE_FILTERS` | what `lake.status(state=...)` selects; a partition may match several | Python, command line, API |
| `MARKS` | the one state that a partition is drawn with: glyph, label, colours, shape | grid, page, notebook |

SQL in this module reads columns of the status view, or of the facts that are joined to a status row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from partita.algebra.freshness import Deadline, MaximumLag
from partita.errors import StatusError
from partita.status.duckdb_sql import Sql, all_of, name, sql
from partita.status.text import timestamp_text

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.status.definitions import AssetDefinition


class DisplayStatus(StrEnum):
    """The four display statuses of the status spec, in the order in which their conditions are tested."""

    NEVER_MATERIALIZED = "NEVER_MATERIALIZED"
    MATERIALIZED_BUT_LAST_ATTEMPT_FAILED = "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED"
    STALE = "STALE"
    MATERIALIZED = "MATERIALIZED"


@overload
def compute_display_status(partition: Mapping[str, Any]) -> DisplayStatus: ...
@overload
def compute_display_status(partition: pa.Table) -> pa.Array: ...
def compute_display_status(partition: Any) -> Any:
    """Return the display status of a status row, or of each row of an Arrow table of them.

    Reads `last_materialization_at`, `last_attempt_outcome`, `last_attempt_at` and `stale_since`; raises `StatusError`
    where one of these columns is missing.
    """
    import pyarrow as pa

    column_names = partition if isinstance(partition, Mapping) else getattr(partition, "column_names", ())
    if not isinstance(partition, Mapping | pa.Table) or not set(_REQUIRED_COLUMNS) <= set(column_names):
        raise StatusError(
            f"expected a status row or an Arrow table of status rows, with the columns {', '.join(_REQUIRED_COLUMNS)}"
        )
    return _row_display_status(partition) if isinstance(partition, Mapping) else _table_display_status(partition)


_REQUIRED_COLUMNS = ("last_materialization_at", "last_attempt_outcome", "last_attempt_at", "stale_since")


@dataclass(frozen=True, slots=True)
class _ColumnTest:
    """A test of a column of a status row, rendered for a row, an Arrow table and SQL; a null meets only `IS NULL`.

    `=` compares with the text `operand`, and `>` with the column of that name.
    """

    column: str
    operator: Literal["IS NULL", "IS NOT NULL", "=", ">"]
    operand: str = ""

    def is_met_by_row(self, row: Mapping[str, Any]) -> bool:
        value = row[self.column]
        match self.operator:
            case "IS NULL":
                return value is None
            case "IS NOT NULL":
                return value is not None
            case "=":
                return bool(value == self.operand)
            case ">":
                other = row[self.operand]
                return value is not None and other is not None and bool(value > other)

    def rows_that_meet(self, table: pa.Table) -> Any:
        import pyarrow.compute as pc

        column = table[self.column]
        match self.operator:
            case "IS NULL":
                return pc.is_null(column)
            case "IS NOT NULL":
                return pc.is_valid(column)
            case "=":
                return pc.equal(column, self.operand)
            case ">":
                return pc.greater(column, table[self.operand])

    def sql(self) -> Sql:
        match self.operator:
            case "=":
                return sql("{column} = {text}", column=name(self.column), text=self.operand)
            case ">":
                return sql("{column} > {other}", column=name(self.column), other=name(self.operand))
            case _:
                return sql("{column} {test}", column=name(self.column), test=Sql(self.operator))


_DISPLAY_STATUS_TESTS: Mapping[DisplayStatus, tuple[_ColumnTest, ...]] = {
    DisplayStatus.NEVER_MATERIALIZED: (_ColumnTest("last_materialization_at", "IS NULL"),),
    DisplayStatus.MATERIALIZED_BUT_LAST_ATTEMPT_FAILED: (
        _ColumnTest("last_attempt_outcome", "=", "FAILED"),
        _ColumnTest("last_attempt_at", ">", "last_materialization_at"),
    ),
    DisplayStatus.STALE: (_ColumnTest("stale_since", "IS NOT NULL"),),
}
"""A partition has the first status of which all tests are met, or else `MATERIALIZED`."""


def _row_display_status(row: Mapping[str, Any]) -> DisplayStatus:
    statuses = (
        status for status, tests in _DISPLAY_STATUS_TESTS.items() if all(test.is_met_by_row(row) for test in tests)
    )
    return next(statuses, DisplayStatus.MATERIALIZED)


def _table_display_status(table: pa.Table) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    conditions = [
        reduce(pc.and_kleene, (test.rows_that_meet(table) for test in tests))
        for tests in _DISPLAY_STATUS_TESTS.values()
    ]
    statuses = pc.case_when(
        pc.make_struct(*(pc.fill_null(condition, fill_value=False) for condition in conditions)),
        *(pa.scalar(status.value) for status in (*_DISPLAY_STATUS_TESTS, DisplayStatus.MATERIALIZED)),
    )
    return statuses.combine_chunks() if isinstance(statuses, pa.ChunkedArray) else statuses


def _display_status_sql() -> Sql:
    cases = (
        sql("WHEN {tests} THEN {status}", tests=all_of(test.sql() for test in tests), status=status.value)
        for status, tests in _DISPLAY_STATUS_TESTS.items()
    )
    return sql("CASE {cases} ELSE {other} END", cases=Sql(" ".join(cases)), other=DisplayStatus.MATERIALIZED.value)


DISPLAY_STATUS_SQL = _display_status_sql()
"""The display status, over the columns that `compute_display_status` reads."""
_NEVER_SUCCEEDED_SQL = Sql("last_materialization_at IS NULL AND (wiped_at IS NULL OR last_attempt_at > wiped_at)")
FAILED_SQL = sql("coalesce(last_attempt_outcome = 'FAILED' AND {never}, false)", never=_NEVER_SUCCEEDED_SQL)
"""The condition that every attempt failed, since the partition was wiped."""
CANCELLED_SQL = sql(
    "coalesce(last_attempt_outcome = 'CANCELLED' AND (last_attempt_at > last_materialization_at OR ({never})), false)",
    never=_NEVER_SUCCEEDED_SQL,
)
"""The condition that the last attempt was cancelled, and nothing succeeded after it."""


# --- Reasons for staleness ---


@dataclass(frozen=True, slots=True)
class StaleContext:
    """What the text of a reason is made from: a status row, its asset's definition, and the upstream that changed."""

    row: Mapping[str, Any]
    definition: AssetDefinition | None = None
    upstream: str | None = None


def _freshness_text(context: StaleContext) -> str:
    freshness = None if context.definition is None else context.definition.freshness
    if isinstance(freshness, MaximumLag):
        return f"it is to be materialized every {freshness.lag}"
    if isinstance(freshness, Deadline):
        lag = "" if freshness.lag is None else f", at most {freshness.lag} before"
        return f"it is to be materialized by cron {freshness.cron.text!r} in {freshness.cron.time_zone}{lag}"
    return "the deadline for a new materialization passed"


def _upstream_text(context: StaleContext) -> str:
    if context.upstream is None:
        return f"as a sweep found at {timestamp_text(context.row['swept_at'], separator=' ')}"
    return f"{context.upstream} was materialized after this one"


def _code_text(context: StaleContext) -> str:
    version = context.row["last_materialization_code_version"]
    current = None if context.definition is None else context.definition.code_version
    return f"it was made with code version {version!r}, the asset has {current!r}"


class StaleReason(StrEnum):
    """Why a partition is stale. A new reason is one member: its name, condition, moment and text.

    `condition` and `since` are SQL over a status row and the facts that are joined to it: `fresh_until`,
    `upstream_changed_at`, `current_code_version`, `code_outdated_at`, `code_defined_at`; `{now}` is the moment of the
    query. The order of the members decides which reason comes first where two begin at the same moment.
    """

    FRESHNESS_POLICY = ("FRESHNESS_POLICY", "fresh_until < {now}", "fresh_until", _freshness_text)
    UPSTREAM_CHANGED = ("UPSTREAM_CHANGED", "upstream_changed_at <= {now}", "upstream_changed_at", _upstream_text)
    CODE_CHANGED = (
        "CODE_CHANGED",
        "last_materialization_code_version <> current_code_version",
        "greatest(last_materialization_at, coalesce(code_outdated_at, code_defined_at))",
        _code_text,
    )

    _value_: str
    condition: str
    since: str
    text: Callable[[StaleContext], str]

    def __new__(cls, value: str, condition: str, since: str, text: Callable[[StaleContext], str]) -> Self:
        """Make a member whose value is its name."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.condition, member.since, member.text = condition, since, text
        return member

    @property
    def since_column(self) -> str:
        """The column of the status view that says since when the reason holds; null where it doesn't."""
        return f"{self.value.lower()}_since"

    def since_sql(self, now: datetime) -> Sql:
        """Return the expression of the moment since which the reason holds; null where it doesn't."""
        return sql(
            "CASE WHEN {condition} THEN {since} END", condition=sql(self.condition, now=now), since=Sql(self.since)
        )


# --- States that a query can select ---

STATE_FILTERS: Mapping[str, Sql] = {
    "missing": Sql("display_status = 'NEVER_MATERIALIZED' AND expected IS NOT FALSE"),
    "stale": Sql("stale_since IS NOT NULL"),
    "failed": Sql("failed OR display_status = 'MATERIALIZED_BUT_LAST_ATTEMPT_FAILED'"),
    "running": Sql("running"),
    "cancelled": Sql("cancelled"),
    "unexpected": Sql("expected IS FALSE"),
    "never_materialized": Sql("display_status = 'NEVER_MATERIALIZED'"),
    "materialized_but_last_attempt_failed": Sql("display_status = 'MATERIALIZED_BUT_LAST_ATTEMPT_FAILED'"),
    "materialized": Sql("display_status = 'MATERIALIZED'"),
    "unknown": Sql("staleness = 'unknown'"),
    "current": Sql("display_status = 'MATERIALIZED' AND expected IS NOT FALSE AND staleness <> 'unknown'"),
}
"""The states of `lake.status(state=...)` and their conditions over the status view; a partition may match several."""
COMMON_STATE_FILTERS = ("missing", "stale", "failed", "running", "cancelled", "unexpected", "unknown", "current")
"""The filters that the pages and the command line offer."""
READABLE_SQL = Sql("display_status IN ('MATERIALIZED', 'STALE')")
"""The condition that downstream partitions can read a partition: its last attempt did not fail after its data."""
PLANNABLE_STATES = ("missing", "stale", "failed")
"""The filters of partitions that a plan may run."""
NOT_CURRENT_SQL = Sql("expected IS NOT FALSE AND (display_status <> 'MATERIALIZED' OR staleness = 'unknown')")
"""The condition that an expected partition needs work, or that this is unknown."""


# --- The state that a partition is drawn with ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The state that a partition is drawn with. Exactly one mark applies to each partition.

    `name` stands in URLs, JSON and style sheets. `condition` is SQL over the status view; where several hold, the mark
    with the lowest `precedence` applies. `severity` orders marks from the worst (0). `light_color` and `dark_color` are
    the page's; `color` is the notebook's and stands out on white and on black. `shape` is an SVG path in a unit square
    and relative to its start, so that no state is told by colour alone; a current partition fills the square.
    """

    name: str
    label: str
    glyph: str
    condition: Sql
    precedence: int
    severity: int
    color: str
    light_color: str
    dark_color: str
    shape: str = ""


MARKS = (
    Mark(
        name="current", label="current", glyph="■", condition=Sql("display_status = 'MATERIALIZED'"),
        precedence=4, severity=7, color="#3a8f5f", light_color="#2f7d4f", dark_color="#46a06b",
    ),
    Mark(
        name="stale", label="stale", glyph="◪", condition=Sql("display_status = 'STALE'"),
        precedence=5, severity=2, color="#d1980a", light_color="#c98f00", dark_color="#e3b341", shape="m0 0l1 1h-1z",
    ),
    Mark(
        name="retry-failed", label="last attempt failed", glyph="▲",
        condition=Sql("display_status = 'MATERIALIZED_BUT_LAST_ATTEMPT_FAILED'"),
        precedence=6, severity=1, color="#dd6126", light_color="#d4571c", dark_color="#f0803f",
        shape="m.5 .1l.45 .85h-.9z",
    ),
    Mark(
        name="missing", label="missing", glyph="·", condition=Sql("display_status = 'NEVER_MATERIALIZED'"),
        precedence=7, severity=6, color="#9aa5b4", light_color="#8d98a8", dark_color="#77839a",
        shape="m.39 .5a.11 .11 0 1 0 .22 0a.11 .11 0 1 0 -.22 0z",
    ),
    Mark(
        name="failed", label="failed", glyph="✗", condition=Sql("failed"),
        precedence=1, severity=0, color="#c4322f", light_color="#b9201f", dark_color="#f0625d",
        shape="m.1 0l.4 .4l.4 -.4l.1 .1l-.4 .4l.4 .4l-.1 .1l-.4 -.4l-.4 .4l-.1 -.1l.4 -.4l-.4 -.4z",
    ),
    Mark(
        name="running", label="running", glyph="▶", condition=Sql("running"),
        precedence=0, severity=4, color="#3574d4", light_color="#2466c9", dark_color="#5c9dff",
        shape="m.15 .05l.8 .45l-.8 .45z",
    ),
    Mark(
        name="unexpected", label="not expected", glyph="?", condition=Sql("expected IS FALSE"),
        precedence=2, severity=5, color="#8757bd", light_color="#7d4fb5", dark_color="#b18ce0",
        shape="m0 0h1v1h-1zm.15 .15v.7h.7v-.7z",
    ),
    Mark(
        name="unknown", label="not known", glyph="◌",
        condition=Sql("display_status = 'MATERIALIZED' AND staleness = 'unknown'"),
        precedence=3, severity=3, color="#6d7988", light_color="#5f6b7a", dark_color="#9aa6b6",
        shape="m.5 .1a.4 .4 0 1 0 .001 0zm0 .2a.2 .2 0 1 1 -.001 0z",
    ),
)  # fmt: skip
"""The index of a mark is its number in counts; later versions add marks at the end."""
_MARK_NUMBERS = {mark.name: number for number, mark in enumerate(MARKS)}
CURRENT_MARK, STALE_MARK = _MARK_NUMBERS["current"], _MARK_NUMBERS["stale"]
MISSING_MARK, FAILED_MARK = _MARK_NUMBERS["missing"], _MARK_NUMBERS["failed"]
ATTENTION_MARKS = ("failed", "retry-failed", "stale", "missing", "unknown", "running")
"""The names of the marks that need attention, the most urgent first."""
MARKS_WORST_FIRST = tuple(sorted(range(len(MARKS)), key=lambda number: MARKS[number].severity))
"""The numbers of the marks, the worst first."""
MARK_LEGEND = "  ".join(f"{mark.glyph} {mark.label}" for mark in MARKS)
"""All marks with their labels, on one line."""


def _mark_sql() -> Sql:
    by_precedence = sorted(range(len(MARKS)), key=lambda number: MARKS[number].precedence)
    cases = (sql("WHEN {condition} THEN {number}", condition=MARKS[n].condition, number=n) for n in by_precedence)
    return sql("CASE {cases} END", cases=Sql(" ".join(cases)))


MARK_SQL = _mark_sql()
"""The number of a partition's mark, over the status view; every partition has one."""


def mark_counts_text(counts: Mapping[int, int]) -> str:
    """Return how many partitions have each mark, in words: `3 current, 1 stale`; empty where there are none."""
    return ", ".join(f"{counts[n]:,} {mark.label}" for n, mark in enumerate(MARKS) if counts.get(n))
