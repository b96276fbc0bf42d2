"""A pipeline: assets that are loaded together and checked as a whole."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

from partita.algebra.mappings import WindowOffsetMapping
from partita.algebra.time_windows import TimeWindows
from partita.assets.asset import Asset
from partita.assets.fingerprint import is_user_file
from partita.errors import DefinitionError, PartitaError, value_repr
from partita.status.definitions import find_cycle

MODULE_NAME_HELP = (
    "the name of a module, such as 'pipeline' or 'shop.assets', or the path of a .py file in the project's folder"
)


def is_module_name(name: str) -> bool:
    """Return whether a string is the absolute dotted name of a module, and not a path."""
    return all(part and not set(part) & set("/\\\0") for part in name.split("."))


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """The assets of a project by name, upstreams first. Iterate over it, or pass its assets to `lake.register`."""

    assets: Mapping[str, Asset]

    @classmethod
    def of(cls, assets: Iterable[Asset]) -> Pipeline:
        """Return the pipeline of these assets.

        Raise `DefinitionError` for a missing upstream, a cycle, or a table that two assets write.
        """
        assets_by_name: dict[str, Asset] = {}
        items = tuple(assets) if isinstance(assets, Iterable) else (assets,)
        for item in items:
            if not isinstance(item, Asset):
                raise DefinitionError(
                    f"a pipeline is a list of assets, as @pt.asset and pt.source make, not {value_repr(item)}"
                )
        for asset in items:
            other = assets_by_name.setdefault(asset.name, asset)
            if other is not asset:
                raise _asset_error(
                    asset, f"the name is taken by the asset at {other.definition_location or 'another place'}"
                )
        for asset in assets_by_name.values():
            _check_upstreams(asset, assets_by_name)
        upstreams = {name: [u.asset for u in asset.definition.upstreams] for name, asset in assets_by_name.items()}
        cycle = find_cycle(upstreams)
        if cycle:
            raise _asset_error(
                assets_by_name[cycle[0]], f"assets can't be upstream of each other: {' <- '.join(cycle)}"
            )
        _check_unique_tables(assets_by_name)
        names = TopologicalSorter(upstreams).static_order()
        return cls({name: assets_by_name[name] for name in names})

    def __iter__(self) -> Iterator[Asset]:
        return iter(self.assets.values())

    def __len__(self) -> int:
        return len(self.assets)

    def __repr__(self) -> str:
        return f"<Pipeline {', '.join(self.assets)}>"


def load_pipeline(module: str, folder: str = ".") -> Pipeline:
    """Load the assets that a module defines or imports.

    Args:
        module: a dotted name, or the path of a file relative to `folder`.
        folder: the folder that is put on Python's path.

    Raises:
        DefinitionError: the assets have a cycle, an unknown upstream or a mapping that doesn't fit their dimensions, or
            two of them write one table. The message names the file and the line.
    """
    if not isinstance(module, str) or not module or not isinstance(folder, str | os.PathLike):
        raise DefinitionError(
            f"a pipeline is loaded by a module's name and a folder, not {value_repr(module)} and {value_repr(folder)}"
        )
    try:
        with _prepend_sys_path(folder):
            pipeline_module = _load_module(module, Path(folder))
    except (OSError, ValueError) as error:
        if isinstance(error, PartitaError):
            raise
        raise DefinitionError(f"the pipeline {module!r} can't be loaded from {folder!r}: {error}") from error
    assets_by_id = {id(value): value for value in vars(pipeline_module).values() if isinstance(value, Asset)}
    if not assets_by_id:
        raise DefinitionError(f"the module {module!r} has no assets; make some with @pt.asset or pt.source")
    return Pipeline.of(assets_by_id.values())


def _load_module(module: str, folder: Path) -> ModuleType:
    path = folder / module
    if not module.endswith(".py") and not is_module_name(module):
        raise DefinitionError(f"a pipeline is {MODULE_NAME_HELP}, and not {value_repr(module)}")
    if module.endswith(".py") and not path.exists():
        raise DefinitionError(f"no pipeline at {path}; name the module that has the assets in partita.toml")
    try:
        return _load_module_file(path) if module.endswith(".py") else importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise _load_error(module, error) from error
        raise DefinitionError(
            f"no module {module!r} in {folder.resolve()}; name the module that has the assets in partita.toml"
        ) from None
    except (Exception, SystemExit) as error:
        raise _load_error(module, error) from error


def _load_module_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # noqa: S101 - the path ends with .py
    assert spec.loader is not None  # noqa: S101 - the same
    pipeline_module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = pipeline_module
    spec.loader.exec_module(pipeline_module)
    return pipeline_module


def _load_error(module: str, error: BaseException) -> DefinitionError:
    """Return the error of loading a module, with the file and the line of the user's code."""
    user_frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_user_file(frame.filename)]
    location = f"{user_frames[-1].filename}:{user_frames[-1].lineno}" if user_frames else f"the module {module!r}"
    if isinstance(error, SyntaxError) and error.filename is not None:
        location = f"{error.filename}:{error.lineno}"
    message = str(error) if isinstance(error, DefinitionError) else f"{type(error).__name__}: {error}"
    return DefinitionError(message if message.startswith(location) else f"{location}: {message}")


@contextmanager
def _prepend_sys_path(folder: str) -> Iterator[None]:
    """Put an existing folder first on Python's path. It stays there, so that functions pickled by name are found."""
    absolute_path = str(Path(folder).resolve())
    if absolute_path not in sys.path and Path(absolute_path).is_dir():
        sys.path.insert(0, absolute_path)
    yield


def _check_upstreams(asset: Asset, assets_by_name: Mapping[str, Asset]) -> None:
    for upstream in asset.definition.upstreams:
        if upstream.asset not in assets_by_name:
            names = ", ".join(sorted(assets_by_name))
            problem = (
                f"unknown upstream {upstream.asset!r}; the assets are: {names}. A table that others write is "
                f"pt.source({upstream.asset!r})"
            )
            raise _asset_error(asset, problem)
        mapping = upstream.mapping
        if isinstance(mapping, WindowOffsetMapping):
            for side in (asset, assets_by_name[upstream.asset]):
                if not isinstance(side.definition.partitions.find_dimension(mapping.dimension), TimeWindows):
                    raise _asset_error(
                        asset,
                        f"it is mapped to {upstream.asset!r} by windows of {mapping.dimension!r}, and {side.name!r} "
                        "has no time windows of that name",
                    )


def _check_unique_tables(assets_by_name: Mapping[str, Asset]) -> None:
    """Raise `DefinitionError` if two assets write one table: they would replace each other's partitions."""
    writers: dict[str, Asset] = {}
    for asset in assets_by_name.values():
        if asset.table is not None and not asset.is_source:
            other = writers.setdefault(asset.table, asset)
            if other is not asset:
                raise _asset_error(asset, f"it writes the table {asset.table!r}, which {other.name!r} writes already")


def _asset_error(asset: Asset, problem: str) -> DefinitionError:
    """Return an error that names the file and the line of the asset."""
    where = f"{asset.definition_location}: " if asset.definition_location else ""
    return DefinitionError(f"{where}asset {asset.name!r}: {problem}")
