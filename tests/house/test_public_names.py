"""The public names are a contract: this list, the package and the reference say the same."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import partita

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"

# Adding a name is a line here, a heading in docs/reference.md and a line in CHANGELOG.md. Taking one away needs an ADR.
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


@pytest.mark.parametrize("name", [name for name in PUBLIC if not name.startswith("__")])
def test_a_public_name_is_in_the_reference(name: str) -> None:
    assert is_documented(name, REFERENCE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("room", ["arrow", "formats.delta", "spark", "status"])
def test_what_a_room_exports_is_sorted_and_documented(room: str) -> None:
    module = importlib.import_module(f"partita.{room}")
    assert module.__all__ == sorted(module.__all__)
    reference = REFERENCE.read_text(encoding="utf-8")
    assert not [name for name in module.__all__ if f"`partita.{room}.{name}" not in reference]
    assert all(getattr(module, name).__doc__ for name in module.__all__)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("### prune", True),
        ("### `prune(predicate)`", True),
        ("### `pt.prune`", True),
        ("::: partita.prune", True),
        ("a call of `pt.prune(where)`", True),
        ("to prune is to skip", False),
        ("### pruned", False),
        ("`prune_all`", False),
        ("`x.prune`", False),
    ],
)
def test_what_counts_as_documented(reference: str, *, expected: bool) -> None:
    assert is_documented("prune", reference) is expected


def is_documented(name: str, reference: str) -> bool:
    """The name opens a heading or a code span, with or without the package in front of it."""
    return re.search(rf"(^#+ +`?|`|^::: )((pt|partita)\.)?{re.escape(name)}\b", reference, re.MULTILINE) is not None
