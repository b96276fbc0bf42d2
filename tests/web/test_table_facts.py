"""The warnings about the layout of a table."""

from __future__ import annotations

import pyarrow as pa

from partita.web.table_facts import _layout_warnings


def warnings(*rows: tuple[int, str | None, str, int], current: int = 0) -> dict[str, str]:
    """The warnings of a table with files of these specs, keys, values and bytes."""
    spec_ids, keys, values, sizes = (list(column) for column in zip(*rows, strict=True))
    files = pa.table({"spec_id": spec_ids, "key": pa.array(keys, pa.string()), "bytes": sizes})
    tuples = pa.table({"spec_id": spec_ids, "region": values})
    own = pa.table({**dict(zip(files.column_names, files.columns, strict=True)), "region": values})
    partitions = own.group_by(["spec_id", "key", "region"]).aggregate([("bytes", "sum")])
    found = _layout_warnings(partitions.rename_columns({"bytes_sum": "bytes"}), files, tuples, current)
    return {one["kind"]: one["text"] for one in found}


def test_partitions_without_a_key_are_not_one() -> None:
    assert warnings(*((0, None, f"r{n}", 1_000) for n in range(8))) == {}
    crowded = warnings(*((0, None, "r1", 1_000) for _ in range(5)))
    assert crowded["small files"].startswith("5 files under 32.0 MiB are in 1 partition with 5 or more of them")


def test_uneven_partitions_are_reported_by_spec_and_above_a_size() -> None:
    even = [(1, f"region=s:r{n}", f"r{n}", 40 * 2**20) for n in range(5)]
    assert "skew" not in warnings((0, "", "", 2**40), *even, current=1), "that of an earlier spec was coarser"
    assert "skew" in warnings((1, "region=s:x", "x", 2**40), *even, current=1)
    little = [(0, f"region=s:r{n}", f"r{n}", 1_000) for n in range(5)]
    assert warnings((0, "region=s:x", "x", 144 * 2**10), *little) == {}
