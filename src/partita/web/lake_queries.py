"""Queries of the lake itself, on a status reader that is kept open, because opening one takes longer than most queries.

The reader is reused until new events are recorded, for at most a minute, because deadlines pass. One request uses it at
a time; a concurrent request opens another reader instead of waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partita.algebra.key import PartitionKey
    from partita.assets.planner import PlanRequest
    from partita.assets.run_plan import RunPlan
    from partita.lake import Lake
    from partita.status.explanation import StatusExplanation
    from partita.status.queries import StatusReader

MAX_READER_AGE = timedelta(seconds=60)
"""The age at which a status reader is no longer reused."""


class LakeQueries:
    """Explains partitions and makes plans, with the same results as `lake.why` and `lake.plan`."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._cached_reader: StatusReader | None = None
        self._lock = Lock()

    def why(self, asset: str, key: PartitionKey) -> StatusExplanation:
        """Explain the status of a partition."""
        from partita.status.explanation import explain_status

        with self._borrow_reader() as reader:
            reader.select_assets([asset], [str(key)])
            return explain_status(asset, key, reader)

    def plan(self, request: PlanRequest) -> RunPlan:
        """Make a plan. A plan of all assets takes longest and uses a reader of its own."""
        from partita.assets.planner import make_plan

        reader_context = self._borrow_reader() if request.select else self._lake.open_status_reader(allow_unknown=True)
        with reader_context as reader:
            return make_plan(reader, request, self._lake.uri, self._lake.tenant, self._lake.workspace)

    def refresh(self) -> None:
        """Open a new reader in advance."""
        self._cache_reader(self._open_reader())

    def close(self) -> None:
        """Close the reader that is kept open."""
        self._cache_reader(None)

    @contextmanager
    def _borrow_reader(self) -> Iterator[StatusReader]:
        with self._lock:
            reader, self._cached_reader = self._cached_reader, None
        if reader is not None and not self._is_fresh(reader):
            reader.connection.close()
            reader = None
        reader = reader or self._open_reader()
        # Problems of other assets that an earlier query found do not belong to this one.
        reader.problems.clear()
        try:
            yield reader
        except BaseException:
            reader.connection.close()
            raise
        self._cache_reader(reader)

    def _open_reader(self) -> StatusReader:
        reader = self._lake.open_status_reader((), allow_unknown=True)
        # The queries are small; coordinating several threads takes longer than one thread.
        reader.connection.execute("SET threads = 1")
        return reader

    def _is_fresh(self, reader: StatusReader) -> bool:
        return timedelta(0) <= datetime.now(UTC) - reader.now < MAX_READER_AGE and self._lake.is_latest_status(reader)

    def _cache_reader(self, reader: StatusReader | None) -> None:
        with self._lock:
            previous, self._cached_reader = self._cached_reader, reader
        if previous is not None:
            previous.connection.close()
