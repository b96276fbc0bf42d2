"""The warnings about the layout of a table, and the facts of one without history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow.dataset import write_dataset
from starlette.testclient import TestClient

from partita.web.access_control import AccessPolicy
from partita.web.app import make_app
from partita.web.site import Site
from partita.web.table_facts import _layout_warnings
from tests.web.conftest import BASE_URL, TOKEN

if TYPE_CHECKING:
    from pathlib import Path

    from partita.lake import Lake


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


def test_a_table_without_history_says_why(lake: Lake, tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "region": ["eu", "us"]})
    write_dataset(rows, tmp_path / "returns", format="parquet", partitioning=["region"], partitioning_flavor="hive")
    lake.adopt(str(tmp_path / "returns"), format="parquet", name="returns")
    site = Site.of(lake, AccessPolicy(TOKEN, port=8765))
    site.snapshots.refresh()
    client = TestClient(make_app(site), base_url=BASE_URL, headers={"Authorization": f"Bearer {TOKEN}"})
    found = client.get("/api/table", params={"name": "returns"}).json()
    assert (found["format"], found["files"], found["history"], found["versions"]) == ("parquet", 2, [], 0)
    assert "no log of its changes" in found["history_gap"]
    page = client.get("/table/facts", params={"name": "returns"})
    assert (page.status_code, found["history_gap"] in page.text) == (200, True)
    lake.observe()
    site.snapshots.refresh()
    files = client.get("/api/files", params={"asset": "returns", "key": "region=s:ZXU"}).json()
    assert [file["rows"] for file in files["files"]] == [1]
    site.snapshots.stop()
    site.snapshots.latest.connection.close()
