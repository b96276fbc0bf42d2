"""Reading, writing and changing a table on Spark: the same for every format, over its `Store`.

Each operation goes the same way: look at the table once, find what it is about without Spark, let executors write
files, and commit what they told in one step. Until then nothing of it is a part of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from partita.algebra.parse import Condition, parse_predicate
from partita.algebra.predicate import Predicate
from partita.algebra.schema import Schema, find_field
from partita.errors import SchemaError, TableError, value_repr
from partita.formats.arguments import transaction_of
from partita.formats.chosen import Chosen, chosen_by_all
from partita.formats.on_spark.job import Changed, Job, Outcome
from partita.formats.plan import make_plan, named_in
from partita.formats.store import Change, Edits, Store, total
from partita.spark.meaning import check_meaning, name_matching
from partita.spark.merge import resolved, updated
from partita.spark.rows import DataFrame, SparkSession, as_frame, filtered, only, picked, required_sql, translated
from partita.spark.session import session

Transaction = tuple[str, int] | None


def read(store: Store, where: Condition | None, columns: Sequence[str] | None, spark: SparkSession | None) -> DataFrame:
    """The rows that match, over exactly the files that may hold one."""
    state = store.state_for(where)
    schema = state.schema
    predicate = None if where is None else bound(where, schema, spark)
    plan = make_plan(state, predicate)
    wanted = wanted_columns(schema, columns, spark)
    running = session_of(spark)
    with translated():
        if predicate is None or plan.whole.all():
            return store.scan(running, state, plan.kept, wanted)
        needed = list(dict.fromkeys([*wanted, *named_in(predicate, schema)]))
        scanned = store.scan(running, state, plan.kept, needed, where=predicate)
        return picked(filtered(scanned, predicate.sql()), wanted)


def bound(where: Condition | None, schema: Schema, spark: SparkSession | None = None) -> Predicate:
    """The predicate on the table's columns, if all of it means one thing in the session; None is true of every row."""
    if where is None:
        return parse_predicate("true", schema)
    predicate = parse_predicate(where, schema)
    check_meaning(predicate, spark)
    return predicate


def session_of(given: SparkSession | None) -> SparkSession:
    """The session that is given, or the one that runs."""
    if given is None:
        return session()
    if not hasattr(given, "createDataFrame"):
        raise TableError(f"spark is a Spark session, not {value_repr(given)}")
    return given


def wanted_columns(schema: Schema, columns: Sequence[str] | None, spark: SparkSession | None) -> list[str]:
    """The names of the columns that are asked for, as the schema has them; None asks for all."""
    if columns is None:
        return list(schema.names)
    if isinstance(columns, str):
        raise SchemaError(f"columns are a list of names; for one of them use [{columns!r}]")
    if not isinstance(columns, Iterable):
        raise SchemaError(f"columns are a list of names, not {value_repr(columns)}")
    matching = name_matching(spark)
    wanted = [find_field(schema, name, matching).name for name in columns]
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
    with job.or_discarded(told):
        chosen = chosen_by_all(job.state, store.told_partitions(job.state, told))
    return replaced(job, told, chosen, transaction)


def replaced(job: Job, told: pa.Table, chosen: Chosen, transaction: Transaction) -> Outcome:
    """Put what was written in the place of all that is in some partitions."""
    with job.or_discarded(told):
        job = job.with_files_for(chosen)
        whole, part = chosen.places(job.state.specs, job.state.partitions)
        edits = job.without_partitions(part, chosen, whole) if len(part) else Edits()
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


def overwrite(store: Store, given: object, where: Condition | None, transaction: Transaction) -> Outcome:
    """Replace what a predicate on whole partitions matches; rows that don't match it are refused."""
    job = Job.begin(store, "overwrite", removes=True)
    if is_done(job, transaction):
        return Outcome(None)
    predicate = bound(where, job.state.schema)
    job = job.with_files_for(predicate)
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


def delete(store: Store, where: Condition) -> Outcome:
    """Take away the rows that match; files and partitions of which all match go without a look into them."""
    job = Job.begin(store, "delete", removes=True)
    predicate = bound(where, job.state.schema)
    job = job.with_files_for(predicate)
    plan = make_plan(job.state, predicate)
    whole, part = plan.kept[plan.whole], plan.kept[~plan.whole]
    with translated():
        changed = job.without(part, predicate, whole) if len(part) else Changed(part)
    return job.commit_changed(replace(changed, whole=whole), predicate)


def update(store: Store, values: Mapping[str, str], where: Condition | None) -> Outcome:
    """Give the rows that match new values."""
    job = Job.begin(store, "update", removes=True)
    if not values:
        raise SchemaError("update sets no column")
    predicate = bound(where, job.state.schema)
    job = job.with_files_for(predicate)
    places = make_plan(job.state, predicate).kept
    schema = store.frame_schema(job.state)
    assigned = resolved(values, schema, schema.fieldNames(), name_matching())
    needed = only(schema, job.columns(places, set(assigned)))
    with translated():
        rows = updated(job.found(places, predicate), assigned, needed)
        return job.commit_changed(job.edited(places, rows, set(assigned)), predicate)


def is_done(job: Job, transaction: Transaction) -> bool:
    """Whether the table has that transaction already."""
    return transaction is not None and job.store.seen(job.state, transaction_of(transaction))


def conformed(job: Job, given: object) -> DataFrame:
    """Rows of others as the table's."""
    with translated():
        return job.store.conform(job.state, as_frame(given))
