"""Reading, writing and changing a table on Spark: the same for every format, over its `Store`.

Each operation goes the same way: look at the table once, find what it is about without Spark, let executors write
files, and commit what they told in one step. Until then nothing of it is a part of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from partita.algebra.parse import parse_predicate
from partita.arrow.spec import spec_columns
from partita.errors import SchemaError, TableError
from partita.formats.on_spark.job import Changed, Job, Outcome
from partita.formats.plan import State, Where, identities, make_plan, named_in
from partita.formats.store import Change, Edits, Store
from partita.spark.merge import resolved, updated
from partita.spark.rows import DataFrame, SparkSession, as_frame, filtered, only, picked, required_sql, translated
from partita.spark.session import session

Transaction = tuple[str, int] | None


def read(store: Store, where: Where | None, columns: Sequence[str] | None, spark: SparkSession | None) -> DataFrame:
    """The rows that match, over exactly the files that may hold one."""
    state = store.state()
    schema = state.schema
    predicate = None if where is None else parse_predicate(where, schema)
    plan = make_plan(state, predicate)
    if isinstance(columns, str):
        raise SchemaError(f"columns are a list of names; for one of them use [{columns!r}]")
    wanted = [schema.find(name).name for name in (schema.names if columns is None else columns)]
    if len(set(wanted)) < len(wanted):
        raise SchemaError(f"a column is asked for twice: {', '.join(wanted)}")
    running = spark or session()
    if predicate is None or plan.whole.all():
        return store.scan(running, state, plan.kept, wanted)
    needed = list(dict.fromkeys([*wanted, *named_in(predicate, schema)]))
    with translated():
        scanned = store.scan(running, state, plan.kept, needed, where=predicate)
        return picked(filtered(scanned, predicate.sql()), wanted)


def append(store: Store, given: object, transaction: Transaction) -> Outcome:
    """Add rows."""
    job = Job.begin(store, "append", removes=False)
    if _is_done(job, transaction):
        return Outcome(None)
    return job.commit(Change(job.operation, job.written(_conformed(job, given)), transaction=transaction))


def overwrite_partitions(store: Store, given: object, transaction: Transaction) -> Outcome:
    """Replace each partition that the rows have any in."""
    job = Job.begin(store, "overwrite_partitions", removes=True)
    if _is_done(job, transaction):
        return Outcome(None)
    told = job.written(_conformed(job, given))
    partitions = store.told_partitions(job.state, told)
    whole = _places_in(job.state, partitions)
    others = np.flatnonzero(job.state.files["spec_id"].to_numpy() != job.state.spec.spec_id)
    edits = job.without_partitions(others, told) if len(others) and told.num_rows else Edits()
    return job.commit(
        Change(
            job.operation,
            pa.concat_tables([edits.added, told]),
            np.concatenate([whole, edits.removed]),
            partitions,
            looked_at=np.concatenate([whole, others]),
            marked=edits.marked,
            unmarked=edits.unmarked,
            transaction=transaction,
        )
    )


def overwrite(store: Store, given: object, where: Where | None, transaction: Transaction) -> Outcome:
    """Replace what a predicate on whole partitions matches; rows that don't match it are refused."""
    job = Job.begin(store, "overwrite", removes=True)
    if _is_done(job, transaction):
        return Outcome(None)
    predicate = parse_predicate("true" if where is None else where, job.state.schema)
    plan = make_plan(replace(job.state, statistics=lambda _: {}), predicate)
    if not plan.whole.all():
        partial = plan.files.filter(pa.array(~plan.whole))["path"][0].as_py()
        raise TableError(
            f"overwrite replaces whole partitions, and {predicate} may be true of a part of {partial}; "
            "use partition columns alone, or delete and append"
        )
    rows = required_sql(_conformed(job, given), predicate.sql(), "a row is not in what is overwritten")
    parameters = {"predicate": str(predicate)}
    return job.commit(
        Change(job.operation, job.written(rows), plan.kept, predicate, parameters, transaction=transaction)
    )  # fmt: skip


def delete(store: Store, where: Where) -> Outcome:
    """Take away the rows that match; files and partitions of which all match go without a look into them."""
    job = Job.begin(store, "delete", removes=True)
    predicate = parse_predicate(where, job.state.schema)
    plan = make_plan(job.state, predicate)
    whole, part = plan.kept[plan.whole], plan.kept[~plan.whole]
    changed = job.without(part, predicate) if len(part) else Changed(part)
    return job.commit_changed(replace(changed, whole=whole), predicate)


def update(store: Store, values: Mapping[str, str], where: Where | None) -> Outcome:
    """Give the rows that match new values."""
    job = Job.begin(store, "update", removes=True)
    if not values:
        raise SchemaError("update sets no column")
    predicate = parse_predicate("true" if where is None else where, job.state.schema)
    places = make_plan(job.state, predicate).kept
    schema = store.frame_schema(job.state)
    assigned = resolved(values, schema, schema)
    needed = only(schema, job.columns(places, set(assigned)))
    with translated():
        rows = updated(job.found(places, predicate), assigned, needed)
        return job.commit_changed(job.edited(places, rows, set(assigned)), predicate)


def _is_done(job: Job, transaction: Transaction) -> bool:
    return transaction is not None and job.store.seen(job.state, transaction)


def _conformed(job: Job, given: object) -> DataFrame:
    with translated():
        return job.store.conform(job.state, as_frame(given))


def _places_in(state: State, partitions: frozenset[tuple[object, ...]]) -> np.ndarray:
    """The places of the files of the current spec that lie in those partitions."""
    current = np.flatnonzero(state.files["spec_id"].to_numpy() == state.spec.spec_id)
    rows = identities(spec_columns(state.specs, state.spec, state.partitions.take(pa.array(current))))
    return current[[row in partitions for row in rows]] if len(current) else current
