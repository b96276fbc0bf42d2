"""What every request is answered from: the lake, its newest snapshot, its tables, and who may ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from partita.web.answering import ANSWER_SECONDS
from partita.web.gate import Keeper
from partita.web.plans import Plans
from partita.web.runs import Doing, Runs
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
    plans: Plans
    runs: Runs
    answer_seconds: float = ANSWER_SECONDS

    @classmethod
    def of(cls, lake: Lake, keeper: Keeper, doing: Doing | None = None) -> Site:
        """The site of a lake, with a watch that isn't started; without `doing` it runs nothing."""
        watch = Watch(lake)
        plans = Plans(watch) if doing is None else Plans(watch, doing.sizes, doing.among)
        return cls(lake, watch, Tables(lake), keeper, plans, Runs(doing, watch.ask))
