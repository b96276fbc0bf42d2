"""The project where a command runs, with its lake open and its pipeline loaded and registered."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from partita.cli.lake_option import lake_of
from partita.cli.project import FILE, Project, find_project
from partita.errors import ProjectError

if TYPE_CHECKING:
    from partita.assets.pipeline import Pipeline
    from partita.lake import Lake


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A lake, and where there is a project, that and its pipeline."""

    lake: Lake
    project: Project | None
    pipeline: Pipeline | None

    def check_runs(self) -> None:
        """Refuse to run where there is no pipeline, and so no functions."""
        if self.project is None:
            raise ProjectError(str(Path.cwd()), None, f"there is no {FILE} here or above; `partita init` writes one")
        if self.pipeline is None:
            raise ProjectError(str(self.project.file), "pipeline.module", "is not said, and so there is nothing to run")

    def code_folders(self) -> tuple[str, ...]:
        """The folders from which the pipeline's modules are imported: the project's, and its module's own."""
        if self.project is None or self.project.module is None:
            return ()
        own = _import_root(self.project.module, self.project.folder)
        return tuple(dict.fromkeys(str(folder) for folder in (self.project.folder, own) if folder is not None))


def load(arguments: argparse.Namespace) -> Loaded:
    """What the arguments and the folder say; without a pipeline, the lake has what was registered before."""
    project = find_project()
    lake = lake_of(arguments, project)
    if project is None or project.module is None:
        return Loaded(lake, project, None)
    from partita.assets.pipeline import load_pipeline

    # What a module prints is not what the command says.
    with redirect_stdout(sys.stderr):
        pipeline = load_pipeline(project.module, str(project.folder))
    lake.register(*pipeline)
    return Loaded(lake, project, pipeline)


def _import_root(module: str, folder: Path) -> Path | None:
    """The folder on Python's path that a loaded module was found in; None where it is installed."""
    if module.endswith(".py"):
        return (folder / module).parent.resolve()
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    depth = module.count(".") + (path.name == "__init__.py")
    root = path.parents[depth]
    return None if {"site-packages", "dist-packages"} & set(root.parts) else root
