"""A plan: which partitions would run, in which order and batches, and why; as a value, as text, and as a file.

The file has one JSON object a line: a head, then each partition that would run, then each that is held back. People
can read it and cut it short; it is run later as it is, unless the world has moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from partita.algebra.key import PartitionKey
from partita.errors import PlanError
from partita.status.shown import counted, escaped, one_line, size_text, value_text

PLANNED = pa.schema([
    ("asset_key", pa.string()), ("partition_key", pa.string()), ("batch", pa.int64()),
    ("reasons", pa.list_(pa.string())), ("since", pa.timestamp("us", "UTC")), ("by_asset", pa.string()),
    ("by_partition", pa.string()), ("bytes", pa.int64()),
])  # fmt: skip
"""What would run, in order. `by_asset` and `by_partition` are the upstream that is a reason; `bytes` is estimated."""
BLOCKED = pa.schema([
    ("asset_key", pa.string()), ("partition_key", pa.string()), ("reasons", pa.list_(pa.string())),
    ("by_asset", pa.string()), ("by_partition", pa.string()),
])  # fmt: skip
"""What would run if the upstream `by_asset` were there."""
FORM = "partita.plan/1"


@dataclass(frozen=True, slots=True)
class Batch:
    """Partitions of one asset that are made together, by one Spark job and one commit."""

    asset: str
    number: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What would run to bring partitions up to date.

    `partitions` has a row for each, in order, as `PLANNED` says; `blocked` those that wait for an upstream. `asked` is
    the question, `world` what the answer hangs on: for each asset that matters, a digest of its status and definition.
    """

    lake: str
    tenant: str
    workspace: str
    made_at: datetime
    asked: Mapping[str, Any]
    partitions: pa.Table
    blocked: pa.Table
    world: Mapping[str, str]

    def __len__(self) -> int:
        return int(self.partitions.num_rows)

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        return f"<Plan of {len(self):,} partitions in {len(self.batches):,} batches>"

    def _repr_html_(self) -> str:
        from partita.picture.notebook import plan_html

        return plan_html(self.partitions, self.blocked, self.made_at)

    @property
    def assets(self) -> tuple[str, ...]:
        """The assets that would run, upstreams first."""
        return tuple(self.partitions["asset_key"].unique().to_pylist())

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The batches in order."""
        names = ("asset_key", "batch", "partition_key")
        rows = zip(*(self.partitions[name].to_pylist() for name in names), strict=True)
        return tuple(
            Batch(asset, number, tuple(row[2] for row in found))
            for (asset, number), found in groupby(rows, key=lambda row: (row[0], row[1]))
        )

    def explain(self, asset: str, key: str) -> str:
        """Why a partition is in the plan, or why it isn't."""
        shown = f"{asset} {key_words(key)}"
        for row in _rows_of(self.partitions, asset, key):
            return f"{shown} runs in batch {row['batch'] + 1} of {asset}: {_reasons(row)}"
        for row in _rows_of(self.blocked, asset, key):
            return f"{shown} is held back: {row['by_asset']} {key_words(row['by_partition'])} is not there"
        return f"{shown} does not run: it is current, not expected, or was not asked for"

    def document(self) -> dict[str, Any]:
        """The head of the file."""
        return {
            "form": FORM, "lake": self.lake, "tenant": self.tenant, "workspace": self.workspace,
            "made_at": self.made_at.isoformat(), "asked": dict(self.asked), "world": dict(self.world),
            "partitions": len(self), "blocked": self.blocked.num_rows,
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """The lines of the file."""
        yield json.dumps(self.document(), ensure_ascii=False)
        for state, table in (("run", self.partitions), ("blocked", self.blocked)):
            for batch in table.to_batches(max_chunksize=10_000):
                yield from (
                    json.dumps({"state": state, **_plain(row)}, ensure_ascii=False) for row in batch.to_pylist()
                )

    def save(self, path: str) -> None:
        """Write the plan to a file."""
        try:
            with Path(path).open("w", encoding="utf-8") as out:
                out.writelines(f"{line}\n" for line in self.lines())
        except OSError as error:
            raise PlanError(f"the plan can't be written to {path}: {error}") from error


def load_plan(path: str) -> Plan:
    """The plan that a file has."""
    try:
        with Path(path).open(encoding="utf-8") as lines:
            return plan_of(lines, path)
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"the plan {path} can't be read: {error}") from error


def plan_of(lines: Iterator[str] | Sequence[str], where: str) -> Plan:
    """The plan of the lines of a file."""
    rows: dict[str, list[dict[str, Any]]] = {"run": [], "blocked": []}
    head: dict[str, Any] | None = None
    try:
        for line in lines:
            document = json.loads(line)
            if head is None:
                head = document
                if document["form"] != FORM:
                    raise PlanError(f"{where} is of the form {document['form']!r}, and this version knows {FORM!r}")
            else:
                rows[document.pop("state")].append(_typed(document))
        if head is None:
            raise PlanError(f"{where} is empty, and no plan")
        _check_head(head)
        return Plan(
            head["lake"], head["tenant"], head["workspace"], datetime.fromisoformat(head["made_at"]), head["asked"],
            pa.Table.from_pylist(rows["run"], PLANNED), pa.Table.from_pylist(rows["blocked"], BLOCKED), head["world"],
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise PlanError(f"{where} is no plan of Partita's: {error}") from error


def _check_head(head: Mapping[str, Any]) -> None:
    for name, kind in (("lake", str), ("tenant", str), ("workspace", str), ("asked", dict), ("world", dict)):
        if not isinstance(head[name], kind):
            raise TypeError(f"{name} is not what it should be")


def key_words(text: str) -> str:
    """A canonical key as people read it."""
    values = ",".join(f"{name}={value_text(value)}" for name, value in PartitionKey.parse(text).items())
    return escaped(values) if values else "-"


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _typed(row: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(row["asset_key"], str) or not isinstance(row.get("batch", 0), int):
        raise TypeError("a partition has an asset and the number of a batch")
    PartitionKey.parse(row["partition_key"])
    since = row.get("since")
    return row if since is None else {**row, "since": datetime.fromisoformat(since)}


def _rows_of(table: pa.Table, asset: str, key: str) -> list[dict[str, Any]]:
    import pyarrow.compute as pc

    wanted = pc.and_(pc.equal(table["asset_key"], asset), pc.equal(table["partition_key"], key))
    return list(table.filter(wanted).to_pylist())


def _reasons(row: Mapping[str, Any]) -> str:
    by = "" if row["by_asset"] is None else f" ({row['by_asset']} {key_words(row['by_partition'])})"
    return f"{', '.join(row['reasons'])}{by}"


_SHOWN = 10
"""So many partitions of an asset are shown in full."""


def _lines(plan: Plan) -> Iterator[str]:
    every = counted(len(plan.batches), "batch")
    yield f"{counted(len(plan), 'partition')} in {every}, {plan.blocked.num_rows:,} held back"
    for asset in plan.assets:
        rows = plan.partitions.filter(pa.compute.equal(plan.partitions["asset_key"], asset))
        size = pa.compute.sum(rows["bytes"]).as_py()
        about = "" if size is None else f", about {size_text(size)}"
        batches = len(pa.compute.unique(rows["batch"]))
        yield f"{one_line(asset)}: {counted(rows.num_rows, 'partition')} in {counted(batches, 'batch')}{about}"
        for row in rows.slice(0, _SHOWN).to_pylist():
            yield f"  {key_words(row['partition_key'])}  {_reasons(row)}"
        if rows.num_rows > _SHOWN:
            yield f"  and {rows.num_rows - _SHOWN:,} more"
    for asset in plan.asked.get("left_out", ()):
        yield f"{one_line(asset)} is left out: its keys don't have what the predicate names"
    if plan.blocked.num_rows:
        yield "held back:"
    for row in plan.blocked.slice(0, _SHOWN).to_pylist():
        by = f"{one_line(row['by_asset'])} {key_words(row['by_partition'])}"
        yield f"  {one_line(row['asset_key'])} {key_words(row['partition_key'])}  waits for {by}"
    if plan.blocked.num_rows > _SHOWN:
        yield f"  and {plan.blocked.num_rows - _SHOWN:,} more"
