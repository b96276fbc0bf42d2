"""The facts of tables that pages show: specs with their sizes, warnings about the layout, and versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from partita.algebra.key_label import table_partition_label
from partita.errors import UnsupportedOperation
from partita.status.text import bytes_text, count_text, json_timestamp
from partita.untrusted_input import parse_json

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.algebra.spec import SpecHistory
    from partita.formats.table import Table
    from partita.lake import Lake

SMALL_FILE_BYTES = 32 * 2**20
"""A smaller file is a small file."""
MIN_SMALL_FILES = 5
"""The number of small files in one partition that causes a warning."""
SKEW_FACTOR = 10
"""The size of a partition as a multiple of the median that causes a warning, if it is not small."""
MAX_SHOWN_VERSIONS, MAX_LARGEST_PARTITIONS, MAX_OPEN_TABLES = 50, 20, 32


@dataclass(frozen=True, slots=True, eq=False)
class TableFacts:
    """The facts of a table version. `files` has a row per file, `partition_tuples` the partition values of each."""

    name: str
    uri: str
    format_name: str
    version: int
    document: dict[str, Any]
    files: pa.Table
    partition_tuples: pa.Table
    spec_history: SpecHistory


class TableFactsCache:
    """The facts of the tables of a lake, read again only if a table has a new version."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._open_tables: dict[str, tuple[Table, TableFacts | None]] = {}
        self._lock = Lock()

    def facts(self, name: str) -> TableFacts:
        """Return the facts of a table. Raises `TableError` if the name is invalid or there is no such table."""
        # One request uses an open table at a time; a concurrent request opens it again instead of waiting.
        with self._lock:
            cached_facts = self._open_tables.pop(name, None)
        table, facts = cached_facts or (self._lake.table(name), None)
        version = table.version
        if facts is None or facts.version != version:
            facts = _read_table_facts(table, version)
        with self._lock:
            self._open_tables.pop(name, None)
            self._open_tables[name] = (table, facts)
            if len(self._open_tables) > MAX_OPEN_TABLES:
                del self._open_tables[next(iter(self._open_tables))]
        return facts


def _read_table_facts(table: Table, version: int) -> TableFacts:
    partitions, plan = table.partitions(), table.plan()
    tuples = plan.table_version.partitions.take(plan.file_indices)
    versions, version_count, history_gap = _read_versions(table)
    current, times = table.spec.spec_id, table.spec_times
    specs = [
        {
            "spec_id": spec.spec_id,
            "fields": str(spec) or "not partitioned",
            "current": spec.spec_id == current,
            "since": json_timestamp(times.get(spec.spec_id)),
            **_spec_totals(partitions, spec.spec_id),
        }
        for spec in table.specs
    ]
    document = {
        "table": table.name,
        "uri": table.uri,
        "format": table.format,
        # Text, because a snapshot id has more digits than a JavaScript number can hold.
        "version": str(version),
        "columns": [{"name": column.name, "type": str(column.type)} for column in table.schema.fields],
        "specs": specs,
        "partitions": partitions.num_rows,
        "files": plan.files.num_rows,
        "bytes": sum(spec["bytes"] for spec in specs),
        "warnings": list(_layout_warnings(partitions, plan.files, tuples, current)),
        "largest": _largest_partitions(partitions),
        "history": [_version_document(row) for row in versions],
        "versions": version_count,
        "history_gap": history_gap,
    }
    return TableFacts(table.name, table.uri, table.format, version, document, plan.files, tuples, table.spec_history)


def _read_versions(table: Table) -> tuple[list[dict[str, Any]], int, str | None]:
    """Return the newest versions of a table, the number of all, and why its format has none, or None if it has."""
    try:
        history = table.history()
    except UnsupportedOperation as gap:
        return [], 0, str(gap)
    return history.slice(0, MAX_SHOWN_VERSIONS).to_pylist(), history.num_rows, None


def _spec_totals(partitions: pa.Table, spec_id: int) -> dict[str, Any]:
    import pyarrow.compute as pc

    spec_partitions = partitions.filter(pc.equal(partitions["spec_id"], spec_id))
    return {
        "partitions": spec_partitions.num_rows,
        "files": pc.sum(spec_partitions["files"], min_count=0).as_py(),
        "rows": pc.sum(spec_partitions["rows"], skip_nulls=False, min_count=0).as_py(),
        "bytes": pc.sum(spec_partitions["bytes"], min_count=0).as_py(),
    }


def _layout_warnings(
    partitions: pa.Table, files: pa.Table, tuples: pa.Table, current_spec_id: int
) -> Iterator[dict[str, str]]:
    """Return warnings about small files, skew and files of earlier specs.

    `tuples` are the partition values of the files; a partition may have no key, so they are grouped by values.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    fields = {f"field.{name}": tuples[name] for name in tuples.column_names if name != "spec_id"}
    small_files = pa.table({"spec_id": files["spec_id"], **fields}).filter(pc.less(files["bytes"], SMALL_FILE_BYTES))
    crowded_partitions = small_files.group_by(small_files.column_names).aggregate([([], "count_all")])
    crowded_partitions = crowded_partitions.filter(pc.greater_equal(crowded_partitions["count_all"], MIN_SMALL_FILES))
    if crowded_partitions.num_rows:
        file_count = pc.sum(crowded_partitions["count_all"]).as_py()
        yield {
            "kind": "small files",
            "text": f"{file_count:,} files under {bytes_text(SMALL_FILE_BYTES)} are in "
            f"{count_text(crowded_partitions.num_rows, 'partition')} with {MIN_SMALL_FILES} or more of them; "
            "table.rewrite() combines them",
        }
    # Partitions of earlier specs may be coarser on purpose.
    current_partitions = partitions.filter(pc.equal(partitions["spec_id"], current_spec_id))
    if current_partitions.num_rows >= 4:
        median = pc.quantile(current_partitions["bytes"], 0.5)[0].as_py()
        largest = pc.max(current_partitions["bytes"]).as_py()
        if median and largest >= max(SMALL_FILE_BYTES, SKEW_FACTOR * median):
            yield {
                "kind": "skew",
                "text": f"the largest partition has {bytes_text(largest)}, {largest / median:,.0f} times the median of "
                f"{bytes_text(int(median))}; a finer partition spec would split it",
            }
    old_file_count = files.filter(pc.not_equal(files["spec_id"], current_spec_id)).num_rows
    if old_file_count:
        yield {
            "kind": "earlier specs",
            "text": f"{count_text(old_file_count, 'file')} of an earlier spec; table.rewrite() rewrites them with the "
            "current one",
        }


def _largest_partitions(partitions: pa.Table) -> list[dict[str, Any]]:
    largest = partitions.sort_by([("bytes", "descending")]).slice(0, MAX_LARGEST_PARTITIONS)
    rows = largest.select(["key", "spec_id", "files", "rows", "bytes"]).to_pylist()
    return [{**row, "label": table_partition_label(row["key"])} for row in rows]


def _version_document(row: dict[str, Any]) -> dict[str, Any]:
    details: dict[str, str] = {}
    for name, value in row.items():
        if name not in {"version", "timestamp", "operation"} and value not in (None, [], ""):
            details |= _detail_texts(name, value)
    return {
        "version": str(row["version"]),
        "at": json_timestamp(row["timestamp"]),
        "operation": row["operation"],
        "details": details,
    }


def _detail_texts(name: str, value: Any) -> dict[str, str]:
    """Return a detail of a version as text by name; a map, or JSON of one, is replaced by its entries."""
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError):
            value = parse_json(value)
    pairs = value.items() if isinstance(value, dict) else value if isinstance(value, list) else [(name, value)]
    return {str(key): str(item) for key, item in pairs}
