"""A plan: which partitions would run, in which order and batches, and why; as a value, as text, and as a file.

The file has one JSON object a line: a head, then each partition that would run, then each that is held back. People
can read it and cut it short; it is run later as it is, unless the world has moved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from partita.algebra.key import PartitionKey
from partita.assets.batching import Sizes
from partita.errors import PlanError, value_repr
from partita.status.shown import counted, escaped, one_line, size_text, value_text
from partita.untrusted import first_line, parse_json_object

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
        zone = "" if self.time_zone is None else f", where {self.asked['where']} in time zone {self.time_zone}"
        return f"<Plan of {len(self):,} partitions in {len(self.batches):,} batches{zone}>"

    def _repr_html_(self) -> str:
        from partita.picture.notebook import plan_html

        return plan_html(self.partitions, self.blocked, self.made_at)

    @property
    def time_zone(self) -> str | None:
        """The time zone of dates and times in the predicate that name none; None where there is no predicate."""
        return self.asked.get("time_zone")

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
    except PlanError:
        raise
    except (OSError, ValueError, TypeError) as error:
        # No file, no UTF-8, or no path at all.
        raise PlanError(f"the plan {value_repr(path)} can't be read: {error}") from error


def plan_of(lines: Iterable[str] | Iterable[bytes], where: str) -> Plan:
    """The plan of the lines of a file."""
    rows: dict[str, list[dict[str, Any]]] = {"run": [], "blocked": []}
    try:
        documents = map(_parse_line, lines)
        head = _checked_head(next(documents, {}))
        for document in documents:
            state = document.pop("state")
            rows[state].append(_typed(document, runs=state == "run"))
        return Plan(
            head["lake"], head["tenant"], head["workspace"], datetime.fromisoformat(head["made_at"]), head["asked"],
            pa.Table.from_pylist(rows["run"], PLANNED), pa.Table.from_pylist(rows["blocked"], BLOCKED), head["world"],
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, OverflowError, pa.ArrowException) as error:
        raise PlanError(f"{where} is no plan of Partita's: {first_line(error)}") from error


def _parse_line(line: str | bytes) -> dict[str, Any]:
    """The object of a line; text that has no encoding is a `ValueError`, for what is loaded is saved again."""
    text = line if isinstance(line, str) else line.decode()
    document = parse_json_object(text)
    if "\\u" in text:
        json.dumps(document, ensure_ascii=False).encode()
    return document


def _checked_head(head: Mapping[str, Any]) -> Mapping[str, Any]:
    if head.get("form") != FORM:
        raise ValueError(f"it is of the form {head.get('form')!r}, and this version knows {FORM!r}")
    for name, kind in (("lake", str), ("tenant", str), ("workspace", str), ("asked", dict), ("world", dict)):
        if not isinstance(head[name], kind):
            raise TypeError(f"{name} is not what it should be")
    for name, (is_right, words) in _ASKED.items():
        if name in head["asked"] and not is_right(head["asked"][name]):
            raise TypeError(f"asked.{name} is {words}")
    if head["asked"].get("time_zone") is not None and head["asked"].get("where") is None:
        raise TypeError("asked.time_zone is that of a predicate, and asked.where has none")
    if not all(isinstance(digest, str) for digest in head["world"].values()):
        raise TypeError("world has a digest for each asset")
    return head


def _is_text(value: object) -> bool:
    return isinstance(value, str | None)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def _is_sizes(value: object) -> bool:
    return (
        isinstance(value, dict) and value.keys() <= _SIZES and all(_is_count(size) and size for size in value.values())
    )


_SIZES = {size.name for size in fields(Sizes)}
_ASKED: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "needs": (_is_texts, "a list of texts"),
    "select": (_is_texts, "a list of texts"),
    "where": (_is_text, "the text of a predicate, or null"),
    "time_zone": (_is_text, "the name of a time zone, or null"),
    "since": (_is_text, "a time, or null"),
    "allow_missing": (lambda value: isinstance(value, bool), "true or false"),
    "sizes": (_is_sizes, "the sizes of batches"),
    "left_out": (_is_texts, "a list of assets"),
    "not_among": (_is_texts, "a list of assets"),
    "chosen": (_is_count, "a number of partitions"),
}
"""What each field of a plan's question is, as a check and in words."""


def key_words(text: str) -> str:
    """A canonical key as people read it."""
    values = ",".join(f"{name}={value_text(value)}" for name, value in PartitionKey.parse(text).items())
    return escaped(values) if values else "-"


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _typed(row: dict[str, Any], *, runs: bool) -> dict[str, Any]:
    """A line of a plan's file with its types checked: what is shown and run later must not fail then."""
    batch, reasons, size, since = row.get("batch"), row["reasons"], row.get("bytes"), row.get("since")
    by_asset, by_partition = row["by_asset"], row["by_partition"]
    if not isinstance(row["asset_key"], str) or (runs and not _is_count(batch)):
        raise TypeError("a partition has an asset and the number of a batch")
    if not isinstance(reasons, list) or not all(isinstance(reason, str) for reason in reasons):
        raise TypeError("reasons are a list of texts")
    if (
        (by_asset is None) != (by_partition is None)
        or not isinstance(by_asset, str | None)
        or (not runs and by_asset is None)
    ):
        raise TypeError("by_asset and by_partition are an asset and a key of it, or both null where it runs")
    if size is not None and not _is_count(size):
        raise TypeError("bytes is a number, or null")
    for key in (row["partition_key"], *([] if by_partition is None else [by_partition])):
        PartitionKey.parse(key)
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
    if plan.time_zone is not None:
        yield f"times of {one_line(str(plan.asked['where']))} that name no time zone are in {one_line(plan.time_zone)}"
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
