"""`partita init`: create a new project."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from partita.cli.output import print_json
from partita.cli.project import PROJECT_FILE
from partita.errors import ProjectError

DESCRIPTION = """
Create a project in FOLDER, or in the current folder: partita.toml, and
pipeline.py with three example assets that run as they are. Nothing is written
if one of the files exists already.
"""
EXAMPLES = ("partita init", "partita init shop && cd shop && partita run")
_STARTER_FOLDER = Path(__file__).with_name("starter")
STARTER_FILES = {PROJECT_FILE: _STARTER_FOLDER / PROJECT_FILE, "pipeline.py": _STARTER_FOLDER / "pipeline.py.txt"}
"""The files of a new project by name, each with the file that it is a copy of."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita init`."""
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="default: the current folder")
    parser.add_argument("--json", action="store_true", help="print the paths of the new files as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    paths = write_project(folder)
    if arguments.json:
        print_json({"written": [str(path) for path in paths]})
        return 0
    change_folder = "" if folder.resolve() == Path.cwd() else f"  cd {shlex.quote(arguments.folder)}\n"
    sys.stdout.write(
        f"Created {', '.join(map(str, paths))}. Next:\n{change_folder}"
        "  partita plan      # what would run, and why\n"
        "  partita run       # run it on a local Spark; needs Java 17 or newer\n"
        "  partita status    # which partitions are current\n"
    )
    return 0


def write_project(folder: Path, files: Mapping[str, Path] = STARTER_FILES) -> list[Path]:
    """Copy the files of a new project into a folder and return their paths.

    Raises `ProjectError`, before anything is written, if one of the files exists already.
    """
    existing_path = next((folder / name for name in files if os.path.lexists(folder / name)), None)
    if existing_path is not None:
        raise ProjectError(
            str(existing_path), None, "the file exists already, and nothing was written; choose another folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in files.items():
            with (folder / name).open("x", encoding="utf-8") as out:
                out.write(source.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProjectError(str(folder), None, f"the project can't be written: {error}") from error
    return [folder / name for name in files]
