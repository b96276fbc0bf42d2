"""The parts of a lake that assets use: its folder, its tables and the status of one workspace."""

from __future__ import annotations

from dataclasses import dataclass

from partita.assets.table_directory import TableDirectory
from partita.status.workspace import Workspace
from partita.storage import Storage


@dataclass(frozen=True, slots=True, eq=False)
class LakeContext:
    """A lake's folder, its tables, and the status of one workspace in it."""

    storage: Storage
    workspace: Workspace
    tables: TableDirectory

    @property
    def folder(self) -> str:
        """The workspace's own folder, relative to the lake's."""
        return self.workspace.folder
