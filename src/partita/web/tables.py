"""Tables as a page shows them: specs, partitions and bytes by spec, what is small or uneven, and the versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from partita.picture.words import size, stamp
from partita.status.shown import counted
from partita.untrusted import parse_json

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.algebra.spec import SpecHistory
    from partita.formats.table import Table
    from partita.lake import Lake

SMALL = 32 * 2**20
"""A file below this many bytes is small."""
CROWD = 5
"""So many small files in one partition could be one."""
UNEVEN = 10
"""A partition with so many times the bytes of the median one is uneven, where it isn't small."""
VERSIONS, LARGEST, KEPT = 50, 20, 32


@dataclass(frozen=True, slots=True, eq=False)
class TableFacts:
    """A table at one version. `files` has path, spec_id, key, rows and bytes of every file, `partitions` its tuple."""

    name: str
    uri: str
    form: str
    version: int
    document: dict[str, Any]
    files: pa.Table
    partitions: pa.Table
    specs: SpecHistory


class Tables:
    """The tables of a lake, each looked at anew only where it has a new version."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._open: dict[str, tuple[Table, TableFacts | None]] = {}
        self._lock = Lock()

    def facts(self, name: str) -> TableFacts:
        """The facts of a table; a name that is none, or has no table, is refused."""
        # A table is one asker's at a time; whoever comes meanwhile opens it again, and doesn't wait.
        with self._lock:
            opened = self._open.pop(name, None)
        table, known = opened or (self._lake.table(name), None)
        version = table.version
        if known is None or known.version != version:
            known = _facts(table, version)
        with self._lock:
            self._open.pop(name, None)
            self._open[name] = (table, known)
            if len(self._open) > KEPT:
                del self._open[next(iter(self._open))]
        return known


def _facts(table: Table, version: int) -> TableFacts:
    partitions, plan = table.partitions(), table.plan()
    tuples, history = plan.state.partitions.take(plan.kept), table.history()
    form = table.format
    current, times = table.spec.spec_id, table.spec_times
    specs = [
        {
            "spec_id": spec.spec_id,
            "fields": str(spec) or "not partitioned",
            "current": spec.spec_id == current,
            "since": stamp(times.get(spec.spec_id)),
            **_sums(partitions, spec.spec_id),
        }
        for spec in table.specs
    ]
    document = {
        "table": table.name,
        "uri": table.uri,
        "format": form,
        # As text: a snapshot's id has more digits than JavaScript's numbers.
        "version": str(version),
        "columns": [{"name": column.name, "type": str(column.type)} for column in table.schema.fields],
        "specs": specs,
        "partitions": partitions.num_rows,
        "files": plan.files.num_rows,
        "bytes": sum(spec["bytes"] for spec in specs),
        "warnings": list(_warnings(partitions, plan.files, tuples, current)),
        "largest": _largest(partitions),
        "history": [_version(row) for row in history.slice(0, VERSIONS).to_pylist()],
        "versions": history.num_rows,
    }
    return TableFacts(table.name, table.uri, form, version, document, plan.files, tuples, table.spec_history)


def _sums(partitions: pa.Table, spec_id: int) -> dict[str, Any]:
    import pyarrow.compute as pc

    own = partitions.filter(pc.equal(partitions["spec_id"], spec_id))
    rows = pc.sum(own["rows"], skip_nulls=False, min_count=0).as_py()
    return {
        "partitions": own.num_rows,
        "files": pc.sum(own["files"], min_count=0).as_py(),
        "rows": rows,
        "bytes": pc.sum(own["bytes"], min_count=0).as_py(),
    }


def _warnings(partitions: pa.Table, files: pa.Table, tuples: pa.Table, current: int) -> Iterator[dict[str, str]]:
    """What is wrong with a table; `tuples` are the partitions of its files, some of which may have no key."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fields = {f"field.{name}": tuples[name] for name in tuples.column_names if name != "spec_id"}
    small = pa.table({"spec_id": files["spec_id"], **fields}).filter(pc.less(files["bytes"], SMALL))
    crowded = small.group_by(small.column_names).aggregate([([], "count_all")])
    crowded = crowded.filter(pc.greater_equal(crowded["count_all"], CROWD))
    if crowded.num_rows:
        count = pc.sum(crowded["count_all"]).as_py()
        yield {
            "kind": "small files",
            "text": f"{count:,} files under {size(SMALL)} lie in {counted(crowded.num_rows, 'partition')} with {CROWD} "
            "or more of them; table.rewrite() puts them together",
        }
    # Those of earlier specs may be coarser: that is what was mended.
    own = partitions.filter(pc.equal(partitions["spec_id"], current))
    if own.num_rows >= 4:
        median = pc.quantile(own["bytes"], 0.5)[0].as_py()
        most = pc.max(own["bytes"]).as_py()
        if median and most >= max(SMALL, UNEVEN * median):
            yield {
                "kind": "skew",
                "text": f"the largest partition has {size(most)}, {most / median:,.0f} times the median of "
                f"{size(int(median))}; a finer partitioning would spread it",
            }
    old = files.filter(pc.not_equal(files["spec_id"], current)).num_rows
    if old:
        yield {
            "kind": "earlier specs",
            "text": f"{counted(old, 'file')} of an earlier spec; table.rewrite() writes by the current one",
        }


def _largest(partitions: pa.Table) -> list[dict[str, Any]]:
    from partita.picture.bins import key_label

    ordered = partitions.sort_by([("bytes", "descending")]).slice(0, LARGEST)
    rows = ordered.select(["key", "spec_id", "files", "rows", "bytes"]).to_pylist()
    return [
        {**row, "label": "without a key" if row["key"] is None else key_label(row["key"]) or "the whole table"}
        for row in rows
    ]


def _version(row: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, str] = {}
    for name, value in row.items():
        if name not in {"version", "timestamp", "operation"} and value not in (None, [], ""):
            told |= _pairs(name, value)
    return {
        "version": str(row["version"]),
        "at": stamp(row["timestamp"]),
        "operation": row["operation"],
        "details": told,
    }


def _pairs(name: str, value: Any) -> dict[str, str]:
    """A detail of a version by name; one that is a map, or says so in JSON, has a pair for each of its own."""
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError):
            value = parse_json(value)
    pairs = value.items() if isinstance(value, dict) else value if isinstance(value, list) else [(name, value)]
    return {str(key): str(said) for key, said in pairs}
