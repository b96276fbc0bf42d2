"""Files and entries by their spec, in ascending order: a manifest is of one spec (specification, "Manifests")."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from partita.formats.iceberg.transaction.pointers import spec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyiceberg.manifest import DataFile, ManifestEntry

T = TypeVar("T")


def group_files_by_spec(files: Iterable[DataFile]) -> dict[int, list[DataFile]]:
    """The files of each spec; a file without a spec id is of spec 0."""
    return _grouped(list(files), spec_of)


def group_entries_by_spec(entries: Iterable[ManifestEntry]) -> dict[int, list[ManifestEntry]]:
    """The entries of each spec, by their files."""
    return _grouped(list(entries), lambda entry: spec_of(entry.data_file))


def _grouped(items: list[T], spec: Callable[[T], int]) -> dict[int, list[T]]:
    if not items:
        return {}
    first = spec(items[0])
    # Nearly every commit is of one spec.
    if all(spec(item) == first for item in items):
        return {first: items}
    groups: dict[int, list[T]] = {}
    for item in items:
        groups.setdefault(spec(item), []).append(item)
    return dict(sorted(groups.items()))
