"""What every request is answered from: the lake, its newest snapshot, its tables, and who may ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from partita.web.gate import Keeper
from partita.web.runs import Runs
from partita.web.tables import Tables
from partita.web.watch import Watch

if TYPE_CHECKING:
    from partita.lake import Lake


@dataclass(frozen=True, slots=True)
class Site:
    """A lake's tenant and workspace as they are served, fixed for as long as the server runs."""

    lake: Lake
    watch: Watch
    tables: Tables
    keeper: Keeper
    runs: Runs

    @classmethod
    def of(cls, lake: Lake, keeper: Keeper, *, allow_run: bool = False) -> Site:
        """The site of a lake, with a watch that isn't started."""
        return cls(lake, Watch(lake), Tables(lake), keeper, Runs(allowed=allow_run))
