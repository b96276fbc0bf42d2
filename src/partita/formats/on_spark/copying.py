"""Copy on write: each file that has a changed row is copied, and the copy takes its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from partita.formats.store import TOLD, Edits, total
from partita.spark.rewrite import rewrite

if TYPE_CHECKING:
    from partita.spark.rewrite import Copier
    from partita.spark.rows import DataFrame


def copied(changes: DataFrame, copier: Copier, places: np.ndarray) -> Edits:
    """The files at those places, copied with the changes that `partita.spark.rewrite` takes."""
    if not len(places):
        return Edits()
    told = rewrite(changes, copier, len(places), TOLD)
    return Edits(
        removed=places[told["file"].to_numpy().astype(np.int64)],
        added=told.filter(pc.is_valid(told["path"])).select(TOLD.names),
        gone=total(told["gone"]),
        changed=total(told["changed"]),
    )
