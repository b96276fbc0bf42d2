"""The public names are a contract: this list, the package and the generated reference have the same names."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import pytest

import partita

ROOT = Path(__file__).parents[2]
ROOMS = ("arrow", "formats.delta", "formats.parquet", "spark", "status")
reads_the_reference = pytest.mark.slow(reason="builds the documentation")

# Adding a name is a line here, a line in docs/reference/ and one in CHANGELOG.md. Removing one needs an ADR.
PUBLIC: tuple[str, ...] = (
    "Asset",
    "ColumnStatistics",
    "CommitConflict",
    "ConstraintError",
    "DefinitionError",
    "DisplayStatus",
    "JavaMissing",
    "KeyFormatError",
    "KeyValueError",
    "Lake",
    "PartitaError",
    "PartitionField",
    "PartitionFunction",
    "PartitionKey",
    "PartitionSet",
    "PartitionSpec",
    "PartitionValueError",
    "PartitionsError",
    "PartitionsLeased",
    "Pipeline",
    "PlanError",
    "PlanOutdated",
    "Predicate",
    "PredicateError",
    "ProjectError",
    "PruneResult",
    "RowsOutsidePartitions",
    "RunPlan",
    "RunResult",
    "Schema",
    "SchemaError",
    "SpecError",
    "SpecFormatError",
    "SpecHistory",
    "StatusError",
    "StatusExplanation",
    "StorageError",
    "Table",
    "TableError",
    "TableExists",
    "TableMissing",
    "TimeZoneError",
    "TransformError",
    "UnknownAsset",
    "UnknownColumn",
    "UnknownSpec",
    "UnsupportedFeature",
    "UnsupportedOperation",
    "all_partitions",
    "asset",
    "bucket",
    "col",
    "compute_display_status",
    "cron",
    "daily",
    "day",
    "dynamic",
    "hash",
    "hour",
    "hourly",
    "identity",
    "load_pipeline",
    "load_plan",
    "mapped_by",
    "month",
    "monthly",
    "open_table",
    "parse_spec",
    "prune",
    "same_key",
    "source",
    "static",
    "truncate",
    "void",
    "weekly",
    "when_matched",
    "when_not_matched",
    "when_not_matched_by_source",
    "window_offset",
    "year",
)


def test_the_public_names_are_these() -> None:
    assert tuple(partita.__all__) == PUBLIC


def test_the_public_names_are_sorted() -> None:
    assert list(partita.__all__) == sorted(set(partita.__all__))


def test_dir_shows_the_public_names() -> None:
    assert set(PUBLIC) <= set(dir(partita))


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_resolves(name: str) -> None:
    assert getattr(partita, name) is getattr(partita, name)


@pytest.mark.parametrize("name", ["no_such_name", "_private"])
def test_another_name_does_not_resolve(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(partita, name)


@pytest.mark.parametrize("name", [name for name in PUBLIC if not name.startswith("__")])
def test_a_public_name_has_a_docstring(name: str) -> None:
    """A docstring of its own: neither one it inherits nor the signature that a dataclass writes for itself."""
    thing = getattr(partita, name)
    own = thing.__dict__.get("__doc__") if inspect.isclass(thing) else getattr(thing, "__doc__", None)
    assert own, f"partita.{name} has no docstring"
    assert not own.startswith(f"{name}("), f"partita.{name} has only the docstring that dataclass made"


def public_members(cls: type) -> dict[str, object]:
    """Return the methods and properties that a class of Partita has under a public name, with their functions."""
    members: dict[str, object] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("partita."):
            for name, member in vars(base).items():
                if not name.startswith("_") and (callable(member) or isinstance(member, PROPERTY_TYPES)):
                    members.setdefault(name, member)
    return members


PROPERTY_TYPES = (property, cached_property, classmethod, staticmethod)
PUBLIC_CLASSES = {name: cls for name in PUBLIC if inspect.isclass(cls := getattr(partita, name))}


@pytest.mark.parametrize("name", PUBLIC_CLASSES)
def test_a_public_member_has_a_docstring(name: str) -> None:
    members = public_members(PUBLIC_CLASSES[name])
    assert [member for member, function in members.items() if not getattr(function, "__doc__", None)] == []


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """Build the documentation as `make docs` does, and return the anchors of the reference."""
    site = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    build = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert build.returncode == 0, build.stdout + build.stderr
    pages = [page.read_text(encoding="utf-8") for page in site.glob("reference/*/index.html")]
    return frozenset(anchor for page in pages for anchor in anchors(page))


def anchors(page: str) -> list[str]:
    """Return the anchors of the names that a page documents; anchors of other names have no dots."""
    return re.findall(r'<h\d[^>]* id="(partita\.[\w.]+)"', page)


@reads_the_reference
def test_every_public_name_is_in_the_reference(reference: frozenset[str]) -> None:
    assert [name for name in PUBLIC if f"partita.{name}" not in reference] == []


@reads_the_reference
def test_every_public_method_is_in_the_reference(reference: frozenset[str]) -> None:
    methods = [
        f"partita.{name}.{method}" for name in PUBLIC_CLASSES for method in public_members(getattr(partita, name))
    ]
    assert [method for method in methods if method not in reference] == []


@reads_the_reference
@pytest.mark.parametrize("room", ROOMS)
def test_exports_of_a_package_are_sorted_and_documented(room: str, reference: frozenset[str]) -> None:
    module = importlib.import_module(f"partita.{room}")
    assert module.__all__ == sorted(module.__all__)
    own = [name for name in module.__all__ if f"partita.{name}" not in reference]
    assert [name for name in own if f"partita.{room}.{name}" not in reference] == []
    assert all(getattr(module, name).__doc__ for name in module.__all__)


def test_documented_names() -> None:
    page = (
        '<h3 id="partita.prune" class="doc doc-heading">prune</h3><h2 id="pruning">partita.col</h2>'
        '<a id="partita.hash">hash</a>'
    )
    assert anchors(page) == ["partita.prune"]
