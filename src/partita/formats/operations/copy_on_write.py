"""Copy on write: each file that has a changed row is copied, and the copy replaces it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from partita.formats.table_change import WRITTEN_FILE_SCHEMA, TableChange, total
from partita.spark.rewrite import rewrite_files

if TYPE_CHECKING:
    from partita.formats.capabilities import Operation
    from partita.spark.rewrite import Copier
    from partita.spark.rows import DataFrame


def rewrite_changed_files(
    changes: DataFrame, copier: Copier, file_indices: np.ndarray, operation: Operation
) -> TableChange:
    """Copy the files that have a changed row, by row changes as `partita.spark.rewrite` takes them."""
    if not len(file_indices):
        return TableChange(operation)
    copies = rewrite_files(changes, copier, len(file_indices), WRITTEN_FILE_SCHEMA)
    return TableChange(
        operation,
        added_files=copies.filter(pc.is_valid(copies["path"])).select(WRITTEN_FILE_SCHEMA.names),
        removed_file_indices=file_indices[copies["file"].to_numpy().astype(np.int64)],
        deleted_row_count=total(copies["deleted"]),
        updated_row_count=total(copies["changed"]),
    )
