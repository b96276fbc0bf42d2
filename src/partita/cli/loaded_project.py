"""The project of a command, with its lake opened and its pipeline loaded and registered."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from partita.cli.lake_option import lake_from_arguments
from partita.cli.project import PROJECT_FILE, Project, find_project
from partita.errors import ProjectError

if TYPE_CHECKING:
    from partita.assets.pipeline import Pipeline
    from partita.lake import Lake


@dataclass(frozen=True, slots=True, eq=False)
class LoadedProject:
    """A lake, and the project and its pipeline if there are any."""

    lake: Lake
    project: Project | None
    pipeline: Pipeline | None

    def require_pipeline(self) -> None:
        """Raise `ProjectError` if there is no pipeline, because then there are no functions to run."""
        if self.project is None:
            raise ProjectError(
                str(Path.cwd()), None, f"there is no {PROJECT_FILE} here or above; `partita init` creates one"
            )
        if self.pipeline is None:
            raise ProjectError(str(self.project.file), "pipeline.module", "is not set, so there is nothing to run")

    def code_folders(self) -> tuple[str, ...]:
        """Return the folders that modules of the pipeline are imported from: the project's and its module's."""
        if self.project is None or self.project.pipeline_module is None:
            return ()
        import_root = _import_root(self.project.pipeline_module, self.project.folder)
        return tuple(dict.fromkeys(str(folder) for folder in (self.project.folder, import_root) if folder is not None))


def load_project(arguments: argparse.Namespace) -> LoadedProject:
    """Open the lake and, if the current folder belongs to a project with a pipeline, load and register that."""
    project = find_project()
    lake = lake_from_arguments(arguments, project)
    if project is None or project.pipeline_module is None:
        return LoadedProject(lake, project, None)
    from partita.assets.pipeline import load_pipeline

    # What a module prints when it is imported is not a result of the command.
    with redirect_stdout(sys.stderr):
        pipeline = load_pipeline(project.pipeline_module, str(project.folder))
    lake.register(*pipeline)
    return LoadedProject(lake, project, pipeline)


def _import_root(module: str, folder: Path) -> Path | None:
    """Return the folder of `sys.path` that a loaded module was found in, or None if the module is installed."""
    if module.endswith(".py"):
        return (folder / module).parent.resolve()
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    depth = module.count(".") + (path.name == "__init__.py")
    root = path.parents[depth]
    return None if {"site-packages", "dist-packages"} & set(root.parts) else root
