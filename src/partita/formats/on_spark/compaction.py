"""Files written anew: small ones together, those of earlier specs in the current one, deleted rows left out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from partita.formats.on_spark.job import Job, Outcome, total
from partita.formats.parquet import FILE_BYTES
from partita.formats.plan import Where, identities, make_plan
from partita.formats.store import Change, Store
from partita.spark.rows import repacked, translated
from partita.spark.session import session

SMALL = FILE_BYTES * 3 // 4
"""A file below so many bytes is small."""


def rewrite(store: Store, where: Where | None) -> Outcome:
    """Write the files anew that are worth it; the rows of the table stay the same.

    A file is, where another small one lies in its partition, where it is of another spec, or where rows of it are gone.
    """
    job = Job.begin(store, "rewrite", removes=False)
    kept = make_plan(job.state, where).kept
    places = kept[store.is_outdated(job.state, kept) | _are_small(job, kept)]
    if not len(places):
        return Outcome(None)
    rows = store.scan(session(), job.state, places, job.state.schema.names)
    with translated():
        told = job.written(rows if job.state.spec.fields else repacked(rows, _bytes(job, places)))
    counts = {"rows_rewritten": total(told["rows"]), "files_added": told.num_rows, "files_removed": len(places)}
    return job.commit(Change(job.operation, told, places, metrics=counts, looked_at=places))


def _are_small(job: Job, places: np.ndarray) -> np.ndarray:
    """Which of the files are small, and not the only such one of their partition."""
    small = job.state.files["bytes"].to_numpy()[places] < SMALL
    partitions = identities(job.state.partitions.take(pa.array(places)))
    specs = job.state.files["spec_id"].to_numpy()[places]
    counts: dict[object, int] = {}
    for key in (pair for pair, is_small in zip(zip(specs, partitions, strict=True), small, strict=True) if is_small):
        counts[key] = counts.get(key, 0) + 1
    several = [counts.get(pair, 0) > 1 for pair in zip(specs, partitions, strict=True)]
    found: np.ndarray = small & np.array(several, bool)
    return found


def _bytes(job: Job, places: np.ndarray) -> int:
    return int(job.state.files["bytes"].to_numpy()[places].sum())
