"""How partitions of an asset are cut into batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from partita.errors import PlanError, value_repr

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.assets.plan import Plan


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a batch may become: in partitions, and in bytes as far as they can be told beforehand."""

    partitions: int = 1_000
    bytes: int = 16 * 2**30

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**62:
                raise PlanError(f"a batch has 1 or more {name}, not {value_repr(value)}")


def batch_numbers(rows: pa.Table, sizes: Sizes) -> np.ndarray:
    """The number of each row's batch within its asset; the rows of an asset stand together."""
    numbers = np.zeros(rows.num_rows, np.int64)
    weights = rows["bytes"].fill_null(0).to_numpy().astype(np.int64)
    names = rows["asset_key"].combine_chunks().dictionary_encode().indices.to_numpy()
    starts = np.flatnonzero(np.diff(names, prepend=-1))
    for first, last in pairwise([*starts.tolist(), rows.num_rows]):
        total = np.cumsum(weights[first:last])
        at, number, before = 0, 0, 0
        while at < last - first:
            fitting = int(np.searchsorted(total, before + sizes.bytes, side="right"))
            end = min(at + sizes.partitions, max(fitting, at + 1), last - first)
            numbers[first + at : first + end] = number
            at, number, before = end, number + 1, int(total[end - 1])
    return numbers


def narrowed(plan: Plan, asset: str, keys: pa.Array) -> Plan:
    """A plan with those partitions of an asset alone, in batches as large as it was asked for."""
    import pyarrow as pa
    import pyarrow.compute as pc

    running, blocked = (
        rows.filter(pc.and_(pc.equal(rows["asset_key"], asset), pc.is_in(rows["partition_key"], keys)))
        for rows in (plan.partitions, plan.blocked)
    )
    numbers = pa.array(batch_numbers(running, Sizes(**plan.asked["sizes"])), pa.int64())
    running = running.set_column(running.schema.get_field_index("batch"), running.schema.field("batch"), numbers)
    return replace(plan, partitions=running, blocked=blocked, asked={**plan.asked, "chosen": len(keys)})


def transaction_of(run_id: str, asset: str, keys: Iterable[str]) -> tuple[str, int]:
    """The identity of the commit of some partitions by a run: the same partitions again are the same commit."""
    digest = hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()[:24]
    return f"partita/{run_id}/{asset}/{digest}", 1
