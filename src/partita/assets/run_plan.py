"""A run plan: which partitions will run, in which order and batches, and why; as a value, as text and as a file.

The file has one JSON object a line: a header, then each partition that will run, then each that is blocked. People can
read it and delete lines; `plan_file.py` loads it. It can be run later as long as the status of its inputs is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.key_label import key_label, partition_label
from partita.errors import PlanError, value_repr
from partita.status.text import count_text, one_line, size_text

PLANNED_SCHEMA = pa.schema([
    ("asset_key", pa.string()), ("partition_key", pa.string()), ("batch", pa.int64()),
    ("reasons", pa.list_(pa.string())), ("since", pa.timestamp("us", "UTC")), ("by_asset", pa.string()),
    ("by_partition", pa.string()), ("bytes", pa.int64()),
])  # fmt: skip
"""Partitions that will run, in order. `by_asset` and `by_partition` are the upstream partition that is a reason;
`bytes` is an estimate."""
BLOCKED_SCHEMA = pa.schema([
    ("asset_key", pa.string()), ("partition_key", pa.string()), ("reasons", pa.list_(pa.string())),
    ("by_asset", pa.string()), ("by_partition", pa.string()),
])  # fmt: skip
"""Partitions that would run if the partition `by_partition` of the upstream `by_asset` could be read."""
PLAN_FILE_FORMAT = "partita.plan/2"


@dataclass(frozen=True, slots=True)
class Batch:
    """Partitions of one asset that run as one Spark job and one commit.

    Attributes:
        asset: the name of the asset.
        number: the number of the batch among those of the asset, from 0.
        keys: the canonical texts of the partition keys.
    """

    asset: str
    number: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The largest batch: in partitions, and in bytes where an estimate is known."""

    partitions: int = 1_000
    bytes: int = 16 * 2**30

    def __post_init__(self) -> None:
        for name, limit in asdict(self).items():
            if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit < 2**62:
                raise PlanError(f"a batch has 1 or more {name}, not {value_repr(limit)}")


def batch_numbers(rows: pa.Table, limits: BatchLimits) -> np.ndarray:
    """Return the batch number of each row within its asset; the rows of an asset are contiguous."""
    numbers = np.zeros(rows.num_rows, np.int64)
    sizes = rows["bytes"].fill_null(0).to_numpy().astype(np.int64)
    asset_indices = rows["asset_key"].combine_chunks().dictionary_encode().indices.to_numpy()
    asset_starts = np.flatnonzero(np.diff(asset_indices, prepend=-1))
    for first, last in pairwise([*asset_starts.tolist(), rows.num_rows]):
        total_bytes = np.cumsum(sizes[first:last])
        start, number, bytes_before = 0, 0, 0
        while start < last - first:
            end_by_bytes = int(np.searchsorted(total_bytes, bytes_before + limits.bytes, side="right"))
            end = min(start + limits.partitions, max(end_by_bytes, start + 1), last - first)
            numbers[first + start : first + end] = number
            start, number, bytes_before = end, number + 1, int(total_bytes[end - 1])
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class RunPlan:
    """Which partitions will run so that they are current, in which order and batches, and why.

    `Lake.plan` returns one. `str(plan)` shows it, `save` writes it to a file, and `Lake.run` runs it.

    Attributes:
        partitions: the partitions that will run, in order, as an Arrow table: asset_key, partition_key, batch, reasons,
            since, by_asset, by_partition, bytes. The upstream partition `by_partition` of `by_asset` is a reason;
            `bytes` is an estimate.
        blocked: the partitions that would run if an upstream partition could be read, as an Arrow table: asset_key,
            partition_key, reasons, by_asset, by_partition.
        made_at: when the plan was made.
        request: the arguments that the plan was made with.
        input_digests: for each asset in the plan and each of its upstreams, a digest of its definition and status. The
            plan is outdated once one of them changes.
        lake_uri: the lake.
        tenant: the tenant of the lake.
        workspace: the workspace of the lake.
    """

    lake_uri: str
    tenant: str
    workspace: str
    made_at: datetime
    request: Mapping[str, Any]
    partitions: pa.Table
    blocked: pa.Table
    input_digests: Mapping[str, str]

    def __len__(self) -> int:
        return int(self.partitions.num_rows)

    def __str__(self) -> str:
        return "\n".join(_text_lines(self))

    def __repr__(self) -> str:
        zone = "" if self.time_zone is None else f", where {self.request['where']} in time zone {self.time_zone}"
        return f"<Plan of {len(self):,} partitions in {len(self.batches):,} batches{zone}>"

    def _repr_html_(self) -> str:
        from partita.display.notebook import plan_html

        return plan_html(self.partitions, self.blocked, self.made_at)

    @property
    def time_zone(self) -> str | None:
        """The time zone of dates and times without one in the predicate; None if there is no predicate."""
        return self.request.get("time_zone")

    @property
    def assets(self) -> tuple[str, ...]:
        """The assets that will run, upstreams first."""
        return tuple(self.partitions["asset_key"].unique().to_pylist())

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The batches in the order in which they run."""
        columns = (self.partitions[name].to_pylist() for name in ("asset_key", "batch", "partition_key"))
        rows = zip(*columns, strict=True)
        return tuple(
            Batch(asset, number, tuple(key for _, _, key in batch_rows))
            for (asset, number), batch_rows in groupby(rows, key=lambda row: (row[0], row[1]))
        )

    def explain(self, asset: str, key: str) -> str:
        """Return a sentence that says why a partition is in the plan, or why it isn't.

        Args:
            asset: the name of the asset.
            key: the canonical text of the partition key.
        """
        label = partition_label(asset, key)
        for row in _partition_rows(self.partitions, asset, key):
            return f"{label} runs in batch {row['batch'] + 1} of {asset}: {_reason_text(row)}"
        for row in _partition_rows(self.blocked, asset, key):
            return f"{label} is held back: {partition_label(row['by_asset'], row['by_partition'])} is missing"
        return f"{label} does not run: it is current, not expected, or was not asked for"

    def header(self) -> dict[str, Any]:
        """Return the first line of the plan's file, as a JSON object."""
        return {
            "form": PLAN_FILE_FORMAT, "lake": self.lake_uri, "tenant": self.tenant, "workspace": self.workspace,
            "made_at": self.made_at.isoformat(), "request": dict(self.request),
            "input_digests": dict(self.input_digests), "partitions": len(self), "blocked": self.blocked.num_rows,
        }  # fmt: skip

    def json_lines(self) -> Iterator[str]:
        """Yield the lines of the plan's file."""
        yield json.dumps(self.header(), ensure_ascii=False)
        for state, table in (("run", self.partitions), ("blocked", self.blocked)):
            for chunk in table.to_batches(max_chunksize=10_000):
                for row in chunk.to_pylist():
                    fields = {n: v.isoformat() if isinstance(v, datetime) else v for n, v in row.items()}
                    yield json.dumps({"state": state, **fields}, ensure_ascii=False)

    def save(self, path: str) -> None:
        """Write the plan to a file of JSON lines, which `load_plan` and `partita run FILE` read."""
        try:
            with Path(path).open("w", encoding="utf-8") as out:
                out.writelines(f"{line}\n" for line in self.json_lines())
        except OSError as error:
            raise PlanError(f"the plan can't be written to {path}: {error}") from error


def narrow_plan(plan: RunPlan, asset: str, keys: pa.Array) -> RunPlan:
    """Return the plan with only these partitions of one asset, in batches of the same limits."""
    planned_rows, blocked_rows = (
        rows.filter(pc.and_(pc.equal(rows["asset_key"], asset), pc.is_in(rows["partition_key"], keys)))
        for rows in (plan.partitions, plan.blocked)
    )
    numbers = pa.array(batch_numbers(planned_rows, BatchLimits(**plan.request["sizes"])), pa.int64())
    planned_rows = planned_rows.set_column(
        planned_rows.schema.get_field_index("batch"), planned_rows.schema.field("batch"), numbers
    )
    return replace(plan, partitions=planned_rows, blocked=blocked_rows, request={**plan.request, "chosen": len(keys)})


def _partition_rows(table: pa.Table, asset: str, key: str) -> list[dict[str, Any]]:
    is_partition = pc.and_(pc.equal(table["asset_key"], asset), pc.equal(table["partition_key"], key))
    return list(table.filter(is_partition).to_pylist())


def _reason_text(row: Mapping[str, Any]) -> str:
    upstream = "" if row["by_asset"] is None else f" ({partition_label(row['by_asset'], row['by_partition'])})"
    return f"{', '.join(row['reasons'])}{upstream}"


_MAX_PARTITIONS_SHOWN = 10
"""How many partitions of an asset the text of a plan shows."""


def _text_lines(plan: RunPlan) -> Iterator[str]:
    batch_count = count_text(len(plan.batches), "batch")
    yield f"{count_text(len(plan), 'partition')} in {batch_count}, {plan.blocked.num_rows:,} held back"
    if plan.time_zone is not None:
        where = one_line(str(plan.request["where"]))
        yield f"times of {where} that name no time zone are in {one_line(plan.time_zone)}"
    for asset in plan.assets:
        rows = plan.partitions.filter(pc.equal(plan.partitions["asset_key"], asset))
        size = pc.sum(rows["bytes"]).as_py()
        about = "" if size is None else f", about {size_text(size)}"
        batches = len(pc.unique(rows["batch"]))
        yield f"{one_line(asset)}: {count_text(rows.num_rows, 'partition')} in {count_text(batches, 'batch')}{about}"
        for row in rows.slice(0, _MAX_PARTITIONS_SHOWN).to_pylist():
            yield f"  {key_label(row['partition_key'])}  {_reason_text(row)}"
        if rows.num_rows > _MAX_PARTITIONS_SHOWN:
            yield f"  and {rows.num_rows - _MAX_PARTITIONS_SHOWN:,} more"
    for asset in plan.request.get("left_out", ()):
        yield f"{one_line(asset)} is left out: its keys don't have what the predicate names"
    if plan.blocked.num_rows:
        yield "held back:"
    for row in plan.blocked.slice(0, _MAX_PARTITIONS_SHOWN).to_pylist():
        upstream = partition_label(row["by_asset"], row["by_partition"])
        yield f"  {partition_label(row['asset_key'], row['partition_key'])}  waits for {upstream}"
    if plan.blocked.num_rows > _MAX_PARTITIONS_SHOWN:
        yield f"  and {plan.blocked.num_rows - _MAX_PARTITIONS_SHOWN:,} more"
