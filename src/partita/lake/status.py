"""The status of a lake's partitions: record attempts and ask for status."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from partita.algebra.key_text import KeyValue
from partita.algebra.partition_sets import PartitionSet
from partita.lake.base import LakeBase, check_session, observe_first
from partita.status.attempts import (
    Attempt,
    PartitionKeyLike,
    event_kind_from_outcome,
    key_texts,
    record_attempt,
    record_events,
)
from partita.status.events import EventKind
from partita.status.workspace import AssetRef, asset_name, asset_names

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.algebra.predicate import PredicateLike
    from partita.display.notebook import NotebookOutput
    from partita.spark.rows import DataFrame
    from partita.status.explanation import StatusExplanation
    from partita.status.queries import StatusReader
    from partita.status.table_refresh import FoldResult


class LakeStatusMethods(LakeBase):
    """Record attempts at partitions, and ask for the status of partitions."""

    def record(  # noqa: PLR0913 - the fields of an event
        self,
        asset: AssetRef,
        key: PartitionKeyLike | Sequence[PartitionKeyLike] = None,
        *,
        outcome: str,
        run_id: str | None = None,
        at: datetime | None = None,
        code_version: str | None = None,
        attempt: int = 1,
        **details: Any,
    ) -> None:
        """Record the outcome of an attempt that ran elsewhere, for one partition or for several in one commit.

        An end closes the open attempt of its run and number, and no other. If an attempt is reported again, the latest
        report counts: report it with the same `at`.

        Args:
            asset: the asset, or its name. An asset that isn't registered is recorded too.
            key: a partition key as a `PartitionKey`, as a mapping or as canonical text, or a list of keys; None for an
                asset without partitions.
            outcome: succeeded, failed, cancelled or started.
            run_id: the id of the run.
            at: when it happened; by default now.
            code_version: the code version that the attempt used. If it is not known, the partition is never stale by
                code.
            attempt: the number of the attempt in its run.
            details: rows, files, bytes, table_version, error, started_at.

        Raises:
            StatusError: the dimensions of a key are not those of the registered asset, or a detail is invalid.
        """
        fields = {"run_id": run_id, "attempt": attempt, "code_version": code_version, **details}
        kind, texts = event_kind_from_outcome(outcome), key_texts(key)
        self._workspace.check_keys(asset_name(asset), texts)
        record_events(self._workspace.ledger, kind, asset_name(asset), texts, at, **fields)

    def attempt(
        self,
        asset: AssetRef,
        key: PartitionKeyLike | Sequence[PartitionKeyLike] = None,
        *,
        run_id: str | None = None,
        code_version: str | None = None,
        attempt: int = 1,
    ) -> AbstractContextManager[Attempt]:
        """Record the start of an attempt, and its outcome when the block ends.

        An exception is recorded as a failure and raised again.

        ```python
        with lake.attempt("daily_sales", key) as attempt:
            attempt.record_output(rows=write_rows())
        ```

        Args:
            asset: the asset, or its name.
            key: as for `record`.
            run_id: the id of the run; by default a new one.
            code_version: the code version; by default that of the asset, or the one that was registered last.
            attempt: the number of the attempt in its run.
        """
        version = self._workspace.code_version(asset) if code_version is None else code_version
        check_keys = self._workspace.check_keys
        return record_attempt(self._workspace.ledger, asset_name(asset), key, run_id, attempt, version, check_keys)

    def wipe(
        self, asset: AssetRef, key: PartitionKeyLike | Sequence[PartitionKeyLike] = None, *, at: datetime | None = None
    ) -> None:
        """Record that the data of partitions was deleted: they are no longer materialized."""
        record_events(self._workspace.ledger, EventKind.WIPED, asset_name(asset), key_texts(key), at)

    def add_partitions(
        self, asset: AssetRef, key: PartitionKeyLike | Sequence[PartitionKeyLike], *, at: datetime | None = None
    ) -> None:
        """Add values to dynamic dimensions of an asset, so that their partitions are expected."""
        self._workspace.check_dynamic_values(asset_name(asset), key)
        record_events(self._workspace.ledger, EventKind.ADDED, asset_name(asset), key_texts(key), at)

    def remove_partitions(
        self, asset: AssetRef, key: PartitionKeyLike | Sequence[PartitionKeyLike], *, at: datetime | None = None
    ) -> None:
        """Remove values from dynamic dimensions of an asset."""
        self._workspace.check_dynamic_values(asset_name(asset), key)
        record_events(self._workspace.ledger, EventKind.REMOVED, asset_name(asset), key_texts(key), at)

    @observe_first
    def status(  # noqa: PLR0913 - the filters of a status query
        self,
        asset: AssetRef | Sequence[AssetRef] | None = None,
        where: PredicateLike | None = None,
        now: datetime | None = None,
        *,
        state: str | Sequence[str] = (),
        reason: str | Sequence[str] = (),
        transitive: bool = False,
        spark: Any = None,
        observe: bool = True,
    ) -> pa.Table:
        """Return the status of every recorded, expected or running partition, one row each.

        The columns are those of the status spec, then `display_status`, `stale_reasons`, `expected`, `running`,
        `failed` (it failed and never succeeded), `cancelled`, `staleness`, the upstream partition and the root cause of
        the staleness, details of the materialization and the last attempt, and `running_since` and `running_run_id`.
        `staleness` is "computed"; "swept" if the staleness by an upstream could not be computed here and that of the
        last sweep was taken; "unknown" if there is none.

        Args:
            asset: assets, or their names; None for all.
            where: a predicate on the dimensions of partition keys.
            now: answer as of this time. It may be in the past, and later events don't count; or in the future.
            state: only partitions in one of these states: missing, stale, failed, running, cancelled, unexpected,
                unknown, current, or a display status.
            reason: only partitions that are stale for one of these reasons.
            transitive: a partition with a stale upstream is stale too.
            spark: return a DataFrame of this session instead of an Arrow table.
            observe: observe the sources first.
        """
        rows = self._workspace.status(
            asset, self._condition(where), now, state=state, reason=reason, transitive=transitive
        )
        return rows if spark is None else _spark_frame(spark, rows)

    def show_status(
        self, asset: AssetRef | Sequence[AssetRef] | None = None, where: PredicateLike | None = None, **question: Any
    ) -> NotebookOutput:
        """Return the answer of `status` for display: counts and heatmaps in a notebook, text elsewhere."""
        from partita.display.notebook import status_output

        return status_output(self.status(asset, where, **question), question.get("now"))

    @observe_first
    def open_status_reader(
        self, /, asset: AssetRef | Sequence[AssetRef] | None = None, *, observe: bool = True, **question: Any
    ) -> StatusReader:
        """Open the DuckDB relations that `status` reads; the caller closes them.

        `question` takes `where`, `now` and `transitive` as `status` does.
        """
        where = self._condition(question.pop("where", None))
        return self._workspace.open_reader(assets=asset_names(asset), where=where, **question)

    @observe_first
    def is_latest_status(self, status_reader: StatusReader) -> bool:
        """Return whether nothing was recorded since `open_status_reader` opened these relations."""
        newest_files, reader_files = self._workspace.ledger.files(), status_reader.ledger_files
        return (newest_files.table_id, newest_files.version) == (reader_files.table_id, reader_files.version)

    @property
    def status_version(self) -> int:
        """A number that grows with each recorded event; -1 if nothing was recorded."""
        return self._workspace.ledger.files().version

    def partitions_of(self, asset: AssetRef) -> PartitionSet | None:
        """Return the partitions that an asset's definition expects, or None if it is not registered."""
        definition = self._workspace.definition(asset_name(asset))
        return None if definition is None else definition.partitions

    def dynamic_values(self, asset: AssetRef) -> dict[str, list[KeyValue]]:
        """Return the current values of an asset's dynamic dimensions, by dimension."""
        with self.open_status_reader(asset, allow_unknown=True, observe=False) as reader:
            return reader.dynamic_values(asset_name(asset))

    @observe_first
    def status_counts(
        self,
        asset: AssetRef | Sequence[AssetRef] | None = None,
        where: PredicateLike | None = None,
        now: datetime | None = None,
    ) -> pa.Table:
        """Return how many partitions of each asset are in each state, as an Arrow table, without listing them.

        Args:
            asset: assets, or their names; None for all.
            where: a predicate on the dimensions of partition keys.
            now: answer as of this time.
        """
        return self._workspace.state_counts(asset, self._condition(where), now)

    @observe_first
    def why(
        self, asset: AssetRef, key: PartitionKeyLike = None, *, now: datetime | None = None, observe: bool = True
    ) -> StatusExplanation:
        """Explain the status of a partition by its chain of causes.

        Args:
            asset: the asset, or its name.
            key: the partition key; None for an asset without partitions.
            now: answer as of this time.
            observe: observe the sources first.

        Raises:
            UnknownAsset: the asset was never registered and has no events.
        """
        return self._workspace.explain(asset_name(asset), key, now)

    def history(self, asset: AssetRef, key: PartitionKeyLike = None) -> pa.Table:
        """Return the events of a partition in the order of time, as an Arrow table; each event is listed once."""
        return self._workspace.history(asset_name(asset), key)

    def fold(self, *, spark: Any = None) -> FoldResult:
        """Update the status table from the ledger, on Spark if a session is given. Queries don't depend on it."""
        if spark is None:
            return self._workspace.fold()
        from partita.status.spark import fold_ledger_files

        ledger = self._workspace.ledger
        location = self.storage.hadoop_location(ledger.uri.removeprefix(f"{self.uri}/"))
        return self._workspace.fold(lambda files: fold_ledger_files(spark, ledger, location, files))

    @observe_first
    def sweep(self, *, observe: bool = True) -> FoldResult:
        """Fold, and store for every partition whether it is stale now, for readers of the status table.

        Assets whose staleness can't be computed here keep the result of the last sweep.
        """
        return self._workspace.sweep()

    @observe_first
    def export_status(self, file: str, *, now: datetime | None = None, observe: bool = True) -> int:
        """Write the status of every recorded partition to a Parquet file, and return the number of rows."""
        return self._workspace.export_status(file, now)


def _spark_frame(spark: Any, rows: pa.Table) -> DataFrame:
    """Return rows as a DataFrame. Spark accepts no Arrow table without rows, so a null row is added and dropped."""
    import pyarrow as pa

    from partita.spark.frames import frame_from_arrow

    session = check_session(spark)
    if rows.num_rows:
        return frame_from_arrow(session, rows)
    null_row = pa.table([pa.nulls(1, field.type) for field in rows.schema], names=rows.column_names)
    return frame_from_arrow(session, null_row).limit(0)
