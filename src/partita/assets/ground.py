"""The ground that runs stand on: what a lake gives this room."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from partita.algebra.transforms import PartitionFunction
from partita.formats.table import Table
from partita.status.workspace import Workspace
from partita.storage import Storage


class Create(Protocol):
    """Makes a table, as `Lake.create_table` does."""

    def __call__(
        self,
        name: str,
        schema: object,
        *,
        format: str,  # noqa: A002 - as create_table calls it
        partition_by: Sequence[PartitionFunction | str],
        properties: Mapping[str, str],
    ) -> Table: ...


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """A lake's folder, the status of one workspace in it, and its tables."""

    storage: Storage
    workspace: Workspace
    table: Callable[[str], Table]
    create: Create

    @property
    def folder(self) -> str:
        """Where the workspace keeps what is not a table, in the lake's folder."""
        return self.workspace.folder
