"""How often and for how long a commit that lost a race is repeated."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table import TableProperties

from partita.formats.iceberg.properties import int_property

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


@dataclass(slots=True, eq=False)
class CommitRetries:
    """How often and for how long a lost race is repeated, from the table's `commit.retry.*` properties."""

    metadata: TableMetadata
    attempts: int = 1
    _started_at: float = field(default_factory=time.monotonic)

    def wait(self) -> bool:
        """Wait with exponential backoff; return False once the attempts or the time are used up."""
        if self.attempts > self._int_setting(TableProperties.COMMIT_NUM_RETRIES, DEFAULT_RETRIES):
            return False
        max_total_ms = self._int_setting(TableProperties.COMMIT_TOTAL_RETRY_TIME_MS, 1_800_000)
        if (time.monotonic() - self._started_at) * 1000 > max_total_ms:
            return False
        min_wait_ms = self._int_setting(TableProperties.COMMIT_MIN_RETRY_WAIT_MS, 100)
        max_wait_ms = self._int_setting(TableProperties.COMMIT_MAX_RETRY_WAIT_MS, 60_000)
        # Jitter keeps two commits that lost at the same moment from colliding again.
        jitter = random.uniform(0.1, 1)  # noqa: S311 - no secret
        time.sleep(min(min_wait_ms * 2 ** min(self.attempts - 1, 16), max_wait_ms) * jitter / 1000)
        self.attempts += 1
        return True

    def _int_setting(self, name: str, default: int) -> int:
        return int_property(self.metadata.properties, name, default)


DEFAULT_RETRIES = 20
"""More than Iceberg's 4: an attempt is cheap, and files that took hours to write must not be lost to a busy minute."""
