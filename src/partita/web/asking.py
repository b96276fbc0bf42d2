"""Questions to the lake itself, on relations that stay open: to open them takes longer than most answers.

Those that are open are asked again while nothing was recorded since, for a minute at most: deadlines pass. They are one
asker's at a time; whoever comes meanwhile opens others, and doesn't wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partita.algebra.key import PartitionKey
    from partita.assets.plan import Plan
    from partita.assets.planning import Asked
    from partita.lake import Lake
    from partita.status.query import Answering
    from partita.status.why import Why

KEPT_FOR = timedelta(seconds=60)
"""How old relations may become."""


class Asking:
    """Asks a lake why a partition is as it is, and for plans; the answers are those of `lake.why` and `lake.plan`."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._kept: Answering | None = None
        self._lock = Lock()

    def why(self, asset: str, key: PartitionKey) -> Why:
        """The chain of causes of a partition."""
        from partita.status.why import explain

        with self._answering() as answer:
            answer.turn_to([asset], [str(key)])
            return explain(asset, key, answer)

    def plan(self, asked: Asked) -> Plan:
        """The plan that is asked for; one of all assets, which takes longest, is made of relations of its own."""
        from partita.assets.planning import make_plan

        opened = self._answering() if asked.select else self._lake.ask_status(partly=True)
        with opened as answer:
            return make_plan(answer, asked, self._lake.uri, self._lake.tenant, self._lake.workspace)

    def renew(self) -> None:
        """Open relations before somebody asks."""
        self._keep(self._opened())

    def close(self) -> None:
        """Keep nothing open."""
        self._keep(None)

    @contextmanager
    def _answering(self) -> Iterator[Answering]:
        with self._lock:
            answer, self._kept = self._kept, None
        if answer is not None and not self._is_fresh(answer):
            answer.connection.close()
            answer = None
        answer = answer or self._opened()
        # What an earlier question found of other assets is not said of this one.
        answer.troubles.clear()
        try:
            yield answer
        except BaseException:
            answer.connection.close()
            raise
        self._keep(answer)

    def _opened(self) -> Answering:
        answer = self._lake.ask_status((), partly=True)
        # What is asked is small, and threads that wait for each other take longer than one.
        answer.connection.execute("SET threads = 1")
        return answer

    def _is_fresh(self, answer: Answering) -> bool:
        return timedelta(0) <= datetime.now(UTC) - answer.now < KEPT_FOR and self._lake.is_newest(answer)

    def _keep(self, answer: Answering | None) -> None:
        with self._lock:
            before, self._kept = self._kept, answer
        if before is not None:
            before.connection.close()
