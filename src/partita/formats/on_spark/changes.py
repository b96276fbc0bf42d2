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
from partita.algebra.predicate import Predicate
from partita.algebra.schema import Schema
from partita.errors import SchemaError, TableError
from partita.formats.chosen import Chosen, chosen_by_all
from partita.formats.on_spark.job import Changed, Job, Outcome
from partita.formats.plan import Where, make_plan, named_in
from partita.formats.store import Change, Edits, Store, total
from partita.spark.meaning import check_meaning
from partita.spark.merge import resolved, updated
from partita.spark.rows import DataFrame, SparkSession, as_frame, filtered, only, picked, required_sql, translated
from partita.spark.session import session

Transaction = tuple[str, int] | None


def read(store: Store, where: Where | None, columns: Sequence[str] | None, spark: SparkSession | None) -> DataFrame:
    """The rows that match, over exactly the files that may hold one."""
    state = store.state_for(where)
    schema = state.schema
    predicate = None if where is None else bound(where, schema, spark)
    plan = make_plan(state, predicate)
    wanted = wanted_columns(schema, columns)
    running = spark or session()
    if predicate is None or plan.whole.all():
        return store.scan(running, state, plan.kept, wanted)
    needed = list(dict.fromkeys([*wanted, *named_in(predicate, schema)]))
    with translated():
        scanned = store.scan(running, state, plan.kept, needed, where=predicate)
        return picked(filtered(scanned, predicate.sql()), wanted)


def bound(where: Where, schema: Schema, spark: SparkSession | None = None) -> Predicate:
    """The predicate on the table's columns, if all of it means one thing in the session."""
    predicate = parse_predicate(where, schema)
    check_meaning(predicate, schema, spark)
    return predicate


def wanted_columns(schema: Schema, columns: Sequence[str] | None) -> list[str]:
    """The names of the columns that are asked for, as the schema has them; None asks for all."""
    if isinstance(columns, str):
        raise SchemaError(f"columns are a list of names; for one of them use [{columns!r}]")
    wanted = [schema.find(name).name for name in (schema.names if columns is None else columns)]
    if len(set(wanted)) < len(wanted):
        raise SchemaError(f"a column is asked for twice: {', '.join(wanted)}")
    return wanted


def append(store: Store, given: object, transaction: Transaction) -> Outcome:
    """Add rows."""
    job = Job.begin(store, "append", removes=False)
    if is_done(job, transaction):
        return Outcome(None)
    return job.commit(Change(job.operation, job.written(conformed(job, given)), transaction=transaction))


def overwrite_partitions(store: Store, given: object, transaction: Transaction) -> Outcome:
    """Replace each partition that the rows have any in."""
    job = Job.begin(store, "overwrite_partitions", removes=True)
    if is_done(job, transaction):
        return Outcome(None)
    told = job.written(conformed(job, given))
    if not told.num_rows:
        return job.commit(Change(job.operation, told, transaction=transaction))
    return replaced(job, told, chosen_by_all(job.state, store.told_partitions(job.state, told)), transaction)


def replaced(job: Job, told: pa.Table, chosen: Chosen, transaction: Transaction) -> Outcome:
    """Put what was written in the place of all that is in some partitions."""
    whole, part = chosen.places(job.state.specs, job.state.partitions)
    with job.or_discarded(told):
        edits = job.without_partitions(part, chosen) if len(part) else Edits()
    return job.commit(
        Change(
            job.operation,
            pa.concat_tables([edits.added, told]),
            np.concatenate([whole, edits.removed]),
            chosen,
            looked_at=np.concatenate([whole, part]),
            marked=edits.marked,
            unmarked=edits.unmarked,
            transaction=transaction,
        ),
        copied=total(edits.added["rows"]),
    )


def overwrite(store: Store, given: object, where: Where | None, transaction: Transaction) -> Outcome:
    """Replace what a predicate on whole partitions matches; rows that don't match it are refused."""
    job = Job.begin(store, "overwrite", removes=True)
    if is_done(job, transaction):
        return Outcome(None)
    predicate = bound("true" if where is None else where, job.state.schema)
    plan = make_plan(replace(job.state, statistics=lambda *_: {}), predicate)
    if not plan.whole.all():
        partial = plan.files.filter(pa.array(~plan.whole))["path"][0].as_py()
        raise TableError(
            f"overwrite replaces whole partitions, and {predicate} may be true of a part of {partial}; "
            "use partition columns alone, or delete and append"
        )
    rows = required_sql(conformed(job, given), predicate.sql(), "a row is not in what is overwritten")
    parameters = {"predicate": str(predicate)}
    return job.commit(
        Change(job.operation, job.written(rows), plan.kept, predicate, parameters, transaction=transaction)
    )  # fmt: skip


def delete(store: Store, where: Where) -> Outcome:
    """Take away the rows that match; files and partitions of which all match go without a look into them."""
    job = Job.begin(store, "delete", removes=True)
    predicate = bound(where, job.state.schema)
    plan = make_plan(job.state, predicate)
    whole, part = plan.kept[plan.whole], plan.kept[~plan.whole]
    with translated():
        changed = job.without(part, predicate) if len(part) else Changed(part)
    return job.commit_changed(replace(changed, whole=whole), predicate)


def update(store: Store, values: Mapping[str, str], where: Where | None) -> Outcome:
    """Give the rows that match new values."""
    job = Job.begin(store, "update", removes=True)
    if not values:
        raise SchemaError("update sets no column")
    predicate = bound("true" if where is None else where, job.state.schema)
    places = make_plan(job.state, predicate).kept
    schema = store.frame_schema(job.state)
    assigned = resolved(values, schema, schema)
    needed = only(schema, job.columns(places, set(assigned)))
    with translated():
        rows = updated(job.found(places, predicate), assigned, needed)
        return job.commit_changed(job.edited(places, rows, set(assigned)), predicate)


def is_done(job: Job, transaction: Transaction) -> bool:
    """Whether the table has that transaction already."""
    return transaction is not None and job.store.seen(job.state, transaction)


def conformed(job: Job, given: object) -> DataFrame:
    """Rows of others as the table's."""
    with translated():
        return job.store.conform(job.state, as_frame(given))
