"""Metadata that names Python classes: none of them is imported."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import PartitaError, TableError, UnsupportedFeature
from partita.formats.iceberg.catalogs import open_catalog
from partita.formats.iceberg.import_guard import is_class_property
from tests.formats.iceberg.rest_server import RestCatalogServer, run_rest_server

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
HOSTILE = "hostile_module.Hostile"
CODE = """
from pathlib import Path
Path({mark!r}).write_text("imported")

class Hostile:
    def __init__(self, *args, **kwargs):
        raise RuntimeError("made")
"""


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that exists once the hostile module was imported."""
    written = tmp_path / "imported"
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "hostile_module.py").write_text(CODE.format(mark=str(written)))
    monkeypatch.syspath_prepend(str(folder))
    yield written
    sys.modules.pop("hostile_module", None)


def catalog_of(folder: Path) -> dict[str, str]:
    return {"name": "partita", "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder)}


def plant(table: pt.Table, properties: dict[str, str]) -> None:
    """Write properties into the table's current metadata file, as anyone with write access can."""
    path = Path(table._store.current_version().table.metadata_location.removeprefix("file://"))  # type: ignore[attr-defined]
    document = json.loads(path.read_text())
    document["properties"] |= properties
    path.write_text(json.dumps(document))


@pytest.mark.usefixtures("spark")
def test_classes_in_table_properties_are_ignored(tmp_path: Path, mark: Path) -> None:
    lake = pt.Lake(f"{tmp_path}/lake")
    table = lake.create_table("t", SCHEMA, format="iceberg")
    table.append(pa.table({"id": [1], "p": ["a"]}))
    plant(table, dict.fromkeys(("py-io-impl", "py-catalog-impl", "s3.retry-strategy-impl"), HOSTILE))
    for again in (lake.table("t"), pt.open_table("default.t", format="iceberg", catalog=catalog_of(tmp_path / "lake"))):
        again.append(pa.table({"id": [2], "p": ["b"]}))
        again.evolve(add=["p"])
        again.evolve(drop=["p"])
        again.remove_orphans()
        again.expire_snapshots()
    assert sorted(row.id for row in again.read().collect()) == [1, 2, 2]
    assert not mark.exists()


@pytest.mark.usefixtures("spark")
def test_a_location_provider_in_table_properties_is_refused_for_writing(tmp_path: Path, mark: Path) -> None:
    lake = pt.Lake(f"{tmp_path}/lake")
    table = lake.create_table("t", SCHEMA, format="iceberg")
    table.append(pa.table({"id": [1], "p": ["a"]}))
    plant(table, {"write.py-location-provider.impl": HOSTILE})
    again = lake.table("t")
    assert [row.id for row in again.read().collect()] == [1]
    for change in (
        lambda: again.append(pa.table({"id": [2], "p": ["b"]})),
        lambda: again.delete("id = 1"),
        lambda: again.evolve(add=["p"]),
        again.expire_snapshots,
        again.remove_orphans,
    ):
        with pytest.raises(UnsupportedFeature, match="location-provider"):
            change()
    assert not mark.exists()


def test_a_location_provider_that_comes_between_is_refused_too(tmp_path: Path, mark: Path) -> None:
    """A commit of pyiceberg reads the metadata anew."""
    lake = pt.Lake(f"{tmp_path}/lake")
    table = lake.create_table("t", SCHEMA, format="iceberg")
    seen: Any = table._store.current_version().table  # type: ignore[attr-defined]
    plant(table, {"write.py-location-provider.impl": HOSTILE})
    with pytest.raises(UnsupportedFeature, match="location-provider"), seen.transaction() as change:
        change.set_properties({"a": "b"})
    assert not mark.exists()


@pytest.mark.parametrize("name", ["py-io-impl", "write.py-location-provider.impl"])
def test_a_new_table_names_no_classes(tmp_path: Path, mark: Path, name: str) -> None:
    lake = pt.Lake(f"{tmp_path}/lake")
    with pytest.raises(TableError, match=f"{name} names a class"):
        lake.create_table("t", SCHEMA, format="iceberg", properties={name: HOSTILE})
    assert not mark.exists()
    table = lake.create_table("t", SCHEMA, format="iceberg", properties={"write.location-provider.impl": "org.X"})
    assert table.plan().files.num_rows == 0


def test_the_users_own_configuration_may_name_a_class(tmp_path: Path, mark: Path) -> None:
    pt.Lake(f"{tmp_path}/lake").create_table("t", SCHEMA, format="iceberg")
    config = {**catalog_of(tmp_path / "lake"), "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
    catalog = open_catalog(config)
    assert type(catalog.load_table("default.t").io).__name__ == "FsspecFileIO"
    with pytest.raises((PartitaError, RuntimeError)):
        pt.open_table("default.t", format="iceberg", catalog={**config, "py-io-impl": HOSTILE})
    assert mark.exists()


@pytest.mark.parametrize("has_file", [True, False])
def test_an_adopted_table_makes_no_catalog(tmp_path: Path, has_file: bool) -> None:
    """Files of a lake can name any database."""
    database = tmp_path / "others.db"
    if has_file:
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE theirs (x)")
    before = database.read_bytes() if has_file else None
    lake = pt.Lake(f"{tmp_path}/lake")
    catalog = {"name": "c", "type": "sql", "uri": f"sqlite:///{database}"}
    adopted_file = tmp_path / "lake" / "_partita" / "adopted" / "t.json"
    adopted_file.parent.mkdir(parents=True)
    adopted_file.write_text(json.dumps({"catalog": catalog, "format": "iceberg", "uri": "db.t"}))
    with pytest.raises(PartitaError, match=r"db\.t|others\.db|no such table"):
        lake.table("t")
    assert (database.read_bytes() if database.exists() else None) == before


ANSWERS: dict[str, dict[str, Any]] = {
    "of a table": {"table": {"py-io-impl": HOSTILE}},
    "of the server, over all": {"overrides": {"py-io-impl": HOSTILE}},
    "of the server, by default": {"defaults": {"py-io-impl": HOSTILE}},
    "authentication": {"overrides": {"auth": {"type": "custom", "impl": HOSTILE, "custom": {}}}},
}


@pytest.mark.slow(reason="a process of its own")
@pytest.mark.parametrize("what", ANSWERS)
def test_classes_in_the_answers_of_a_rest_catalog_are_ignored(
    tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    planted = ANSWERS[what]
    answer = RestCatalogServer.answer

    def hostile(self: RestCatalogServer, method: str, path: str, body: bytes) -> tuple[int, Any]:
        status, document = answer(self, method, path, body)
        if status == 200 and "/config" in path:
            document |= {name: planted[name] for name in ("defaults", "overrides") if name in planted}
        elif status == 200 and "metadata-location" in document:
            document["config"] = planted.get("table", {})
        return status, document

    monkeypatch.setattr(RestCatalogServer, "answer", hostile)
    with run_rest_server(tmp_path) as server:
        lake = pt.Lake(f"{tmp_path}/lake", catalog={"name": "r", "type": "rest", "uri": server.uri})
        lake.create_table("a.t", SCHEMA, format="iceberg")
        assert lake.table("a.t").plan().files.num_rows == 0
    assert not mark.exists()


def test_an_adopted_table_names_no_classes(tmp_path: Path, mark: Path) -> None:
    pt.Lake(f"{tmp_path}/far").create_table("raw", SCHEMA, format="iceberg")
    lake = pt.Lake(f"{tmp_path}/lake")
    with pytest.raises(TableError, match="py-catalog-impl names a class"):
        lake.adopt("default.raw", "iceberg", name="raw", catalog={"name": "x", "py-catalog-impl": HOSTILE})
    lake.adopt("default.raw", "iceberg", name="raw", catalog=catalog_of(tmp_path / "far"))
    [file] = (tmp_path / "lake").rglob("adopted/*.json")
    document = json.loads(file.read_text())
    for setting in ("py-catalog-impl", "py-io-impl"):
        document["catalog"] = {**catalog_of(tmp_path / "far"), setting: HOSTILE}
        file.write_text(json.dumps(document))
        with pytest.raises(TableError, match=f"{setting} names a class"):
            pt.Lake(f"{tmp_path}/lake").table("raw").plan()
    assert not mark.exists()


def test_properties_that_name_classes() -> None:
    class_properties = [
        "py-io-impl",
        "py-catalog-impl",
        "s3.retry-strategy-impl",
        "write.py-location-provider.impl",
        "PY-IO-IMPL",
    ]
    assert all(map(is_class_property, class_properties))
    assert not any(map(is_class_property, ["uri", "s3.endpoint", "implicit", "write.data.path"]))
