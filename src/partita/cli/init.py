"""`partita init`: a new project."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from partita.cli.project import FILE
from partita.errors import ProjectError

ABOUT = """
Write a project into a folder, this one unless another is named: partita.toml,
and pipeline.py with three assets that run. Files that are there stay as they
are, and then nothing is written.
"""
EXAMPLES = ("partita init", "partita init shop && cd shop && partita run")
_STARTER = Path(__file__).with_name("starter")
FILES = {FILE: _STARTER / FILE, "pipeline.py": _STARTER / "pipeline.py.txt"}
"""What is written, and from where."""


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita init`."""
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="where; else the folder where you are")
    parser.add_argument("--json", action="store_true", help="what was written as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    written = write_project(folder)
    if arguments.json:
        sys.stdout.write(f"{json.dumps({'written': [str(path) for path in written]}, ensure_ascii=False)}\n")
        return 0
    go = "" if folder.resolve() == Path.cwd() else f"  cd {shlex.quote(arguments.folder)}\n"
    sys.stdout.write(
        f"{', '.join(map(str, written))}: written. Next:\n{go}"
        "  partita plan      # what would run, and why\n"
        "  partita run       # on a Spark of its own; needs Java 17 or newer\n"
        "  partita status    # which partitions are current\n"
    )
    return 0


def write_project(folder: Path, files: Mapping[str, Path] = FILES) -> list[Path]:
    """Write the files of a new project, all of them or none; returns where they are."""
    found = next((folder / name for name in files if os.path.lexists(folder / name)), None)
    if found is not None:
        raise ProjectError(str(found), None, "it is there already, and nothing was written; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in files.items():
            with (folder / name).open("x", encoding="utf-8") as out:
                out.write(source.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProjectError(str(folder), None, f"the project can't be written: {error}") from error
    return [folder / name for name in files]
