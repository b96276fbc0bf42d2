"""A pipeline: assets that belong together, checked as a whole when they are loaded."""

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

from partita.algebra.mappings import WindowOffset
from partita.algebra.windows import Windows
from partita.assets.asset import Asset
from partita.assets.fingerprint import is_of_user
from partita.assets.module_names import MODULE_WORDS, is_module_name
from partita.errors import DefinitionError, PartitaError, value_repr
from partita.status.definitions import find_cycle


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """Assets by name, upstreams before what is made from them."""

    assets: Mapping[str, Asset]

    @classmethod
    def of(cls, assets: Iterable[Asset]) -> Pipeline:
        """The pipeline of these assets; what can't be right of them as a whole is a `DefinitionError`."""
        named: dict[str, Asset] = {}
        given = tuple(assets) if isinstance(assets, Iterable) else (assets,)
        wrong = [one for one in given if not isinstance(one, Asset)]
        if wrong:
            raise DefinitionError(
                f"a pipeline is a list of assets, as @pt.asset and pt.source make, not {value_repr(wrong[0])}"
            )
        for asset in given:
            other = named.setdefault(asset.name, asset)
            if other is not asset:
                raise _wrong(asset, f"the name is taken by the asset at {other.place or 'another place'}")
        for asset in named.values():
            _check_upstreams(asset, named)
        upstreams = {name: [u.asset for u in asset.definition.upstreams] for name, asset in named.items()}
        cycle = find_cycle(upstreams)
        if cycle:
            raise _wrong(named[cycle[0]], f"assets can't be upstream of each other: {' <- '.join(cycle)}")
        _check_tables(named)
        ordered = TopologicalSorter(upstreams).static_order()
        return cls({name: named[name] for name in ordered})

    def __iter__(self) -> Iterator[Asset]:
        return iter(self.assets.values())

    def __len__(self) -> int:
        return len(self.assets)

    def __repr__(self) -> str:
        return f"<Pipeline {', '.join(self.assets)}>"


def load_pipeline(module: str, folder: str = ".") -> Pipeline:
    """The assets that a module defines or imports: `module` is a dotted name, or the path of a file, in that folder."""
    if not isinstance(module, str) or not module or not isinstance(folder, str | os.PathLike):
        raise DefinitionError(
            f"a pipeline is the name of a module and a folder, not {value_repr(module)} and {value_repr(folder)}"
        )
    try:
        with _on_path(folder):
            loaded = _load(module, Path(folder))
    except (OSError, ValueError) as error:
        if isinstance(error, PartitaError):
            raise
        raise DefinitionError(f"the pipeline {module!r} can't be loaded from {folder!r}: {error}") from error
    found = {id(value): value for value in vars(loaded).values() if isinstance(value, Asset)}
    if not found:
        raise DefinitionError(f"the module {module!r} has no assets; make some with @pt.asset or pt.source")
    return Pipeline.of(found.values())


def _load(module: str, folder: Path) -> ModuleType:
    path = folder / module
    if not module.endswith(".py") and not is_module_name(module):
        raise DefinitionError(f"a pipeline is {MODULE_WORDS}, and not {value_repr(module)}")
    if module.endswith(".py") and not path.exists():
        raise DefinitionError(f"no pipeline at {path}; say in partita.toml which module has the assets")
    try:
        return _loaded(path) if module.endswith(".py") else importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise _told(module, error) from error
        raise DefinitionError(
            f"no module {module!r} in {folder.resolve()}; say in partita.toml which module has the assets"
        ) from None
    except (Exception, SystemExit) as error:
        raise _told(module, error) from error


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # noqa: S101 - it ends with .py
    assert spec.loader is not None  # noqa: S101 - the same
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def _told(module: str, error: BaseException) -> DefinitionError:
    """What went wrong while a module was loaded, with the file and the line of the user's own code."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_of_user(frame.filename)]
    place = f"{own[-1].filename}:{own[-1].lineno}" if own else f"the module {module!r}"
    if isinstance(error, SyntaxError) and error.filename is not None:
        place = f"{error.filename}:{error.lineno}"
    said = str(error) if isinstance(error, DefinitionError) else f"{type(error).__name__}: {error}"
    return DefinitionError(said if said.startswith(place) else f"{place}: {said}")


@contextmanager
def _on_path(folder: str) -> Iterator[None]:
    """A folder that exists first on Python's path, and left there: what is pickled by name is found later too."""
    place = str(Path(folder).resolve())
    if place not in sys.path and Path(place).is_dir():
        sys.path.insert(0, place)
    yield


def _check_upstreams(asset: Asset, named: Mapping[str, Asset]) -> None:
    for upstream in asset.definition.upstreams:
        if upstream.asset not in named:
            known = ", ".join(sorted(named))
            raise _wrong(asset, f"there is no upstream {upstream.asset!r}; there is: {known}. A table that others "
                                f"write is pt.source({upstream.asset!r})")  # fmt: skip
        mapping = upstream.mapping
        if isinstance(mapping, WindowOffset):
            for one in (asset, named[upstream.asset]):
                if not isinstance(one.definition.partitions.find(mapping.dimension), Windows):
                    raise _wrong(
                        asset,
                        f"it is mapped to {upstream.asset!r} by windows of {mapping.dimension!r}, and {one.name!r} has "
                        "no time windows of that name",
                    )


def _check_tables(named: Mapping[str, Asset]) -> None:
    """Two that write one table would take each other's partitions away."""
    writers: dict[str, Asset] = {}
    for asset in named.values():
        if asset.table is not None and not asset.is_source:
            other = writers.setdefault(asset.table, asset)
            if other is not asset:
                raise _wrong(asset, f"it writes the table {asset.table!r}, which {other.name!r} writes already")


def _wrong(asset: Asset, problem: str) -> DefinitionError:
    """An error that points to the line of the asset."""
    where = f"{asset.place}: " if asset.place else ""
    return DefinitionError(f"{where}asset {asset.name!r}: {problem}")
