"""Lakes whose tables are made once for each format, and put back as they were for each test."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import partita as pt

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class PreparedLakes:
    """A folder of lakes, each with a copy of its first state.

    A lake is put back in its own folder, because the metadata of a format may name files by absolute paths.
    """

    root: Path

    def open_lake(self, format_name: str, name: str, fill: Callable[[pt.Lake, str], object]) -> pt.Lake:
        """Return the lake of that name with the tables that `fill(lake, format_name)` makes, and nothing else."""
        folder = self.root / format_name / name
        first_state = folder.with_name(f"{name}.first")
        if first_state.exists():
            shutil.rmtree(folder)
            shutil.copytree(first_state, folder)
        else:
            fill(pt.Lake(str(folder)), format_name)
            shutil.copytree(folder, first_state)
        return pt.Lake(str(folder))
