"""Adopted tables: tables outside of the lake that are its sources."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import partita as pt
from partita.formats.parquet import declare_table
from partita.formats.registry import FORMATS
from partita.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SCHEMA = pa.schema([("day", pa.date32()), ("region", pa.string()), ("n", pa.int64())])


def rows(*days: int, region: str = "us") -> pa.Table:
    return pa.table({"day": [date(2025, 1, d) for d in days], "region": [region] * len(days), "n": list(days)}, SCHEMA)


@pytest.mark.parametrize("format_name", ["delta", "iceberg", "lance"])
def test_a_table_that_lies_elsewhere_is_adopted_with_its_history(
    lake: Lake, tmp_path: Path, format_name: str, spark: SparkSession
) -> None:
    assert spark is not None
    other = Lake(str(tmp_path / "other"))
    table = other.create_table("far.raw", SCHEMA, format=format_name, partition_by=["day"])
    table.append(rows(1))
    table.append(rows(1, 2))
    if format_name == "iceberg":
        store = table._store._table  # type: ignore[attr-defined] # Iceberg's own
        source = lake.adopt("far.raw", "iceberg", catalog={"name": store.catalog.name, **store.catalog.properties})
    else:
        source = lake.adopt(table.uri, format_name, name="far.raw")
    assert (source.name, source.is_source) == ("far.raw", True)
    assert lake.history("far.raw", "day=d:2025-01-01").num_rows == 2
    assert lake.table("far.raw").read().count() == 3
    table.append(rows(2))
    assert lake.history("far.raw", "day=d:2025-01-02").num_rows == 1
    lake.observe()
    assert lake.history("far.raw", "day=d:2025-01-02").num_rows == 2
    assert Lake(lake.uri).table("far.raw").read().count() == 4


def test_secrets_of_a_catalog_are_not_kept(lake: Lake, tmp_path: Path, spark: SparkSession) -> None:
    assert spark is not None
    other = Lake(str(tmp_path / "other"))
    table = other.create_table("far.raw", SCHEMA, format="iceberg", partition_by=["day"])
    store = table._store._table  # type: ignore[attr-defined] # Iceberg's own
    secrets = {"adls.account-key": "hush", "header.Authorization": "hush", "ssl.client.key": "hush", "token": "hush"}
    lake.adopt("far.raw", "iceberg", catalog={"name": store.catalog.name, **store.catalog.properties, **secrets})
    assert "hush" not in (Path(lake.uri) / "_partita" / "adopted" / "far.raw.json").read_text()
    with pytest.raises(pt.TableExists, match="adopted"):
        lake.create_table("far.raw", SCHEMA, format="delta")
    with pytest.raises(pt.TableError, match="not a table name"):
        lake.adopt("far.raw", "iceberg", name="", catalog={})


@pytest.mark.slow(reason="several plans of a lake")
@pytest.mark.parametrize("format_name", FORMATS)
def test_an_adopted_table_and_one_of_the_lake_never_share_a_name(lake: Lake, tmp_path: Path, format_name: str) -> None:
    far = Lake(str(tmp_path / "other")).create_table("far.raw", SCHEMA, format="delta", partition_by=["day"])
    lake.create_table("emb", SCHEMA, format=format_name, partition_by=["region"])
    with pytest.raises(pt.TableExists, match="emb; open it, or choose another name"):
        lake.adopt(far.uri, "delta", name="emb")
    with pytest.raises(pt.UnknownAsset):
        lake.history("emb")
    assert [lake.adopt(far.uri, "delta").name for _ in range(2)] == ["raw", "raw"]
    with pytest.raises(pt.TableExists, match="raw, which was adopted"):
        lake.create_table("raw", SCHEMA, format=format_name)


UPPER_CASE_SCHEMA = pa.schema([("eventDate", pa.date32()), ("region", pa.string()), ("n", pa.int64())])


@pytest.mark.slow(reason="several plans of a lake")
@pytest.mark.parametrize("format_name", FORMATS)
def test_a_field_that_no_dimension_can_be_named_after_has_a_way_out(
    lake: Lake, tmp_path: Path, format_name: str
) -> None:
    far = Lake(str(tmp_path / "other"))
    for name, fields, others in [
        ("one", ["eventDate"], pt.PartitionSet(())),
        ("two", ["eventDate", "region"], pt.dynamic("region")),
    ]:
        table = far.create_table(f"far.{name}", UPPER_CASE_SCHEMA, format=format_name, partition_by=fields)
        uri, catalog = table.uri, None
        if format_name == "iceberg":
            uri, store = f"far.{name}", table._store._table  # type: ignore[attr-defined] # Iceberg's own
            catalog = {"name": store.catalog.name, **store.catalog.properties}
        with pytest.raises(pt.KeyValueError, match="'eventDate'") as refused:
            lake.adopt(uri, format_name, name=name, catalog=catalog)
        shown = " * ".join(f"pt.dynamic({n!r})" for n in others.names) or "pt.PartitionSet(())"
        assert str(refused.value).endswith(f"leave it out of the source's dimensions with partitions={shown}")
        assert lake.adopt(uri, format_name, name=name, catalog=catalog, partitions=others).name == name
        rename = "call evolve(rename={'eventDate': 'eventdate'})"
        assert (rename in str(refused.value)) == (format_name == "iceberg")
        if format_name == "iceberg":
            table.evolve(rename={"eventDate": "eventdate"})
            renamed = lake.adopt(uri, format_name, name=f"{name}.renamed", catalog=catalog)
            assert renamed.definition.partitions.names == ("eventdate", *others.names)


def test_a_plain_folder_with_an_upper_case_column_is_declared(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    (folder / "eventDate=2025-01-01" / "Region=us").mkdir(parents=True)
    pq.write_table(pa.table({"n": [1]}), folder / "eventDate=2025-01-01" / "Region=us" / "a.parquet")
    with pytest.raises(pt.KeyValueError) as refused:
        lake.adopt(str(folder), "parquet")
    assert "call partita.formats.parquet.declare_table(uri, schema, ['eventdate', 'region'])" in str(refused.value)
    declare_table(str(folder), {"n": "long", "eventdate": "date", "region": "string"}, ["eventdate", "region"])
    assert lake.adopt(str(folder), "parquet").definition.partitions.names == ("eventdate", "region")
    assert lake.history("raw", "eventdate=d:2025-01-01,region=s:dXM").num_rows == 1
    odd = tmp_path / "odd" / "event date=1"
    odd.mkdir(parents=True)
    pq.write_table(pa.table({"n": [1]}), odd / "a.parquet")
    with pytest.raises(pt.KeyValueError) as refused:
        lake.adopt(str(odd.parent), "parquet")
    assert "declare_table" not in str(refused.value)


def test_a_damaged_record_of_an_adopted_table_is_deleted_and_written_anew(lake: Lake, tmp_path: Path) -> None:
    far = Lake(str(tmp_path / "other")).create_table("far.raw", SCHEMA, format="delta", partition_by=["day"])
    record = Path(lake.uri) / "_partita" / "adopted" / "raw.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    with pytest.raises(pt.TableError, match="delete it, and adopt the table again"):
        lake.table("raw")
    record.unlink()
    lake.adopt(far.uri, "delta")
    assert lake.table("raw").uri == far.uri


def test_a_missing_table_says_what_is_there_instead(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    with pytest.raises(pt.TableMissing, match=r"raw; check the path$"):
        lake.adopt(str(folder), "delta")
    pq.write_table(pa.table({"n": [1]}), folder / "a.parquet")
    with pytest.raises(pt.TableMissing, match=r"it has the files of a table in format='parquet'$"):
        pt.open_table(str(folder), format="delta")
    far = Lake(str(tmp_path / "other")).create_table("far.t", SCHEMA, format="delta")
    with pytest.raises(pt.TableMissing, match=r"it has the files of a table in format='delta'$"):
        pt.open_table(far.uri, format="lance")
    lake.adopt(str(folder), "parquet")
    folder.rename(tmp_path / "moved")
    with pytest.raises(pt.TableMissing, match="raw was adopted from there: bring it back, or delete"):
        lake.table("raw")
    (Path(lake.uri) / "_partita" / "adopted" / "raw.json").unlink()
    lake.adopt(str(tmp_path / "moved"), "parquet", name="raw")
    assert lake.table("raw").uri == str(tmp_path / "moved")
