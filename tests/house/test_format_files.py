"""The same job has the same file name in every format's folder."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from partita.formats.registry import FORMATS, table_formats
from partita.spark.artifacts import _NON_CODE_MARKERS
from partita.status.workspace import METADATA_FOLDER

JOBS = {
    "format": "the registry's entry: open, find and create tables; gaps",
    "store": "one table",
    "state": "the table at one version",
    "commit": "the atomic commit",
    "conflicts": "what another writer's commit conflicts with",
    "files": "data files: which there are, where new ones go",
    "values": "partition values",
    "statistics": "column statistics of files",
    "create": "new tables",
    "change_feed": "what was done to partitions since a cursor",
    "maintenance": "orphans and expiry",
    "spark/rows": "the rows of one version on Spark",
}
"""Each is a module or a package of that name."""

LACKING = {
    ("delta", "values"): "the texts of partition values are those of plain folders: formats/partition_texts",
    ("lance", "statistics"): "Lance keeps them and prunes by itself",
}

MORE = {
    "delta": {"allowed_functions", "columns", "expressions", "log"},
    "iceberg": {
        "catalogs", "columns", "delete_file_index", "field_ids", "history", "import_guard",
        "isolation", "locations", "manifests", "metrics", "object_store", "other_tables", "properties", "row_deletes",
        "snapshot_change", "snapshot_summary", "spark_schema", "spec_evolution", "specs", "targets", "validation",
    },
    "lance": {
        "alter", "columns", "filters", "lance_table", "leaf_dataset", "leaf_operations", "log", "namespace", "optimize",
        "repair", "scan_tasks", "schema_json", "search",
    },
    "parquet": {"annotated_types", "footers"},
}  # fmt: skip
"""What a format needs besides. A new one is added here when it is no part of a job above."""


def modules_of(folder: Path) -> set[str]:
    """Return the names of the modules and packages in a folder."""
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    return packages | {path.stem for path in folder.glob("*.py")} - {"__init__"}


def format_folder(name: str) -> Path:
    return Path(str(resources.files("partita"))) / "formats" / name


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_has_the_files_of_its_jobs_and_no_unlisted_ones(name: str) -> None:
    modules = modules_of(format_folder(name))
    expected = {job.partition("/")[0] for job in JOBS if (name, job) not in LACKING}
    assert modules == expected | MORE[name]
    assert "rows" in modules_of(format_folder(name) / "spark")


def test_no_folder_of_a_table_is_searched_for_code() -> None:
    # Packages of Python are called `metadata` too, and an Iceberg table has no Python files.
    markers = {marker for table_format in table_formats() for marker in table_format.marker_folders} - {"metadata"}
    assert {"pyvenv.cfg", METADATA_FOLDER, *markers} == _NON_CODE_MARKERS


def test_the_tables_name_formats_and_jobs() -> None:
    assert set(MORE) == set(FORMATS)
    assert {name for name, _ in LACKING} <= set(FORMATS)
    assert {job for _, job in LACKING} <= JOBS.keys()
    assert all(reason for reason in [*LACKING.values(), *JOBS.values()])
