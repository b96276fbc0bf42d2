"""Reading and replacing partitions that are chosen by the values of some fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from partita.algebra.spec import PartitionField
from partita.arrow.groups import groups
from partita.errors import OutsidePartitions
from partita.formats.chosen import Chosen, choose, fields_of
from partita.formats.on_spark.changes import Transaction, conformed, is_done, replaced, session_of, wanted_columns
from partita.formats.on_spark.job import Job, Outcome, in_partitions, sources_of
from partita.formats.store import Store
from partita.spark.rows import DataFrame, SparkSession, not_among, picked, translated
from partita.spark.scan import frame_of

_SAMPLES, _PARTITIONS = 3, 5
"""How many rows and partitions an error shows."""


def read_partitions(
    store: Store, partitions: pa.Table, columns: Sequence[str] | None, spark: SparkSession | None
) -> DataFrame:
    """The rows in those partitions; files that may hold others too are looked through on Spark."""
    state = store.state_without_files()
    chosen = choose(state, partitions)
    store.check_chosen(chosen)
    state = state.with_files_for(chosen)
    wanted = wanted_columns(state.schema, columns, spark)
    running = session_of(spark)
    whole, part = chosen.places(state.specs, state.partitions)
    with translated():
        if not len(part):
            return store.scan(running, state, whole, wanted)
        needed = list(dict.fromkeys([*wanted, *sources_of(chosen)]))
        rows = in_partitions(store, state, store.scan(running, state, part, needed), chosen)
        some = picked(rows, wanted)
        return store.scan(running, state, whole, wanted).unionAll(some) if len(whole) else some


def replace_partitions(store: Store, given: object, partitions: pa.Table, transaction: Transaction) -> Outcome:
    """Put rows in the place of all that is in those partitions; rows outside of them are refused."""
    job = Job.begin(store, "replace_partitions", removes=True)
    chosen = choose(job.state, partitions)
    store.check_chosen(chosen)
    if is_done(job, transaction):
        return Outcome(None)
    rows = conformed(job, given)
    told = job.written(rows)
    with job.or_discarded(told):
        into = store.told_partitions(job.state, told)
        inside, _ = chosen.places(job.state.specs, into)
        if len(inside) < told.num_rows:
            outside = np.setdiff1d(np.arange(told.num_rows), inside)
            raise _outside(job, chosen, rows, told.take(pa.array(outside)), into.take(pa.array(outside)))
        written = _written(job, chosen.fields, told, into)
    return replace(replaced(job, told, chosen, transaction), written=written)


def _written(job: Job, fields: Sequence[PartitionField], told: pa.Table, into: pa.Table) -> pa.Table:
    """What executors told, by some fields: their values, rows, files, bytes."""
    values = fields_of(job.state, fields, into)
    _, first, which = np.unique(groups(values.columns, told.num_rows), return_index=True, return_inverse=True)
    counts = {name: np.zeros(len(first), np.int64) for name in ("rows", "files", "bytes")}
    np.add.at(counts["rows"], which, told["rows"].to_numpy())
    np.add.at(counts["files"], which, 1)
    np.add.at(counts["bytes"], which, told["bytes"].to_numpy())
    columns = [*values.take(pa.array(first)).columns, *map(pa.array, counts.values())]
    return pa.table(columns, names=[*values.column_names, *counts])


def _outside(job: Job, chosen: Chosen, rows: DataFrame, told: pa.Table, into: pa.Table) -> OutsidePartitions:
    """What was written outside of a choice, and a few of the rows, which Spark makes once more."""
    fields = [field for field in job.state.spec.fields if field.transform.name != "void"]
    found = _written(job, fields, told, into)
    rows_of = found.column(len(fields)).to_numpy()
    most = found.take(pa.array(np.argsort(-rows_of, kind="stable")[:_PARTITIONS]))
    values = most.select(range(len(fields))).to_pylist()
    shown = zip(values, most.column(len(fields)).to_pylist(), strict=True)
    with translated():
        own = job.store.field_values(job.state, rows, chosen.fields)
        others = not_among(rows, own, frame_of(rows.sparkSession, chosen.results))
        samples = others.limit(_SAMPLES).toArrow().to_pylist()
    return OutsidePartitions(tuple(samples), tuple(shown))
