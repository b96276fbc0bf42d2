"""Files written anew: small ones together, those of earlier specs in the current one, deleted rows left out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from partita.algebra.parse import Condition
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.errors import TableError
from partita.formats.on_spark.job import Job, Outcome
from partita.formats.parquet import FILE_BYTES
from partita.formats.plan import identities, make_plan
from partita.formats.store import Change, Store, total
from partita.spark.rows import repacked, translated
from partita.spark.session import session

SMALL = FILE_BYTES * 3 // 4
"""A file below so many bytes is small."""


def rewrite(store: Store, where: Condition | None) -> Outcome:
    """Write the files anew that are worth it; the rows of the table stay the same.

    A file is, where it is of another spec, where rows of it are gone, or where it is small, and another small one lies
    in its partition or rows of such files may come there.
    """
    job = Job.begin(store, "rewrite", removes=False)
    job = job.with_files_for("true" if where is None else where)
    kept = make_plan(job.state, where).kept
    outdated = store.is_outdated(job.state, kept)
    small = job.state.files["bytes"].to_numpy()[kept] < SMALL
    places = kept[outdated | (small & (_have_others(job, kept, small) | _get_rows(job, kept, kept[outdated])))]
    if not len(places):
        return Outcome(None)
    with translated():
        rows = store.scan(session(), job.state, places, job.state.schema.names)
        told = job.written(rows if job.state.spec.fields else repacked(rows, _bytes(job, places)))
    with job.or_discarded(told):
        _check_rows(job, places, told)
    counts = {"rows_rewritten": total(told["rows"]), "files_added": told.num_rows, "files_removed": len(places)}
    return job.commit(Change(job.operation, told, places, metrics=counts, looked_at=places))


def _check_rows(job: Job, places: np.ndarray, told: pa.Table) -> None:
    """Refuse to replace files by fewer rows than they have: Spark reads none of an empty object or folder."""
    known, found = total(job.state.row_counts(places)), total(told["rows"])
    if found < known:
        raise TableError(
            f"files of the table at {job.store.uri} have {known} rows by its metadata, and Spark read {found}; nothing "
            "was changed. A data file is damaged: restore it, or the table"
        )


def _have_others(job: Job, places: np.ndarray, small: np.ndarray) -> np.ndarray:
    """Of which of the files the partition has several small ones."""
    specs = job.state.files["spec_id"].to_numpy()[places]
    keys = list(zip(specs, identities(job.state.partitions.take(pa.array(places))), strict=True))
    counts = Counter(key for key, is_small in zip(keys, small, strict=True) if is_small)
    return np.array([counts[key] > 1 for key in keys], bool)


def _get_rows(job: Job, places: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Into which of the files' partitions rows of the sources may come, by the fields that their specs share."""
    specs, partitions = job.state.specs, job.state.partitions
    ids = job.state.files["spec_id"].to_numpy()
    found = np.zeros(len(places), bool)
    for spec_id in np.unique(ids[sources]).tolist():
        shared = sorted(_columns(specs, specs.spec(spec_id)) & _columns(specs, specs.current))
        if not shared:
            return np.ones(len(places), bool)
        values = partitions.select(shared)
        coming = set(identities(values.take(pa.array(sources[ids[sources] == spec_id]))))
        found |= np.array([key in coming for key in identities(values.take(pa.array(places)))], bool)
    return found


def _columns(specs: SpecHistory, spec: PartitionSpec) -> set[str]:
    return {specs.column_name(spec, field) for field in spec.fields if field.transform.name != "void"}


def _bytes(job: Job, places: np.ndarray) -> int:
    return int(job.state.files["bytes"].to_numpy()[places].sum())
