"""A part of a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partita.picture.snapshot import AssetFacts


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a map, from place to place, with both ends; in URLs four numbers, across first."""

    x0: int
    x1: int
    y0: int
    y1: int

    def __str__(self) -> str:
        return f"{self.x0},{self.x1},{self.y0},{self.y1}"

    def within(self, other: Box) -> Box:
        """What both have; all of the other where they have nothing in common."""
        x0, x1, y0, y1 = (
            max(self.x0, other.x0),
            min(self.x1, other.x1),
            max(self.y0, other.y0),
            min(self.y1, other.y1),
        )
        return Box(x0, x1, y0, y1) if x0 <= x1 and y0 <= y1 else other


def box_sql(box: Box) -> str:
    """The condition that a row of `partitions` lies in a part of the map."""
    return f"x BETWEEN {box.x0:d} AND {box.x1:d} AND y BETWEEN {box.y0:d} AND {box.y1:d}"


def whole(facts: AssetFacts) -> Box:
    """The whole map of an asset."""
    across, down = facts.layout.across, facts.layout.down
    return Box(across.first, across.last, down.first, down.last)
