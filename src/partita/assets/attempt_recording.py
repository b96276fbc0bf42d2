"""Recording the attempts of a run in the ledger, with the text of their errors."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from partita.algebra.physical_values import is_unicode
from partita.assets.fingerprint import is_user_file
from partita.assets.materializer import COUNT_COLUMNS, MaterializeResult
from partita.errors import PartitaError, PlanError
from partita.status.attempts import record_events
from partita.status.events import Outcome
from partita.status.ledger import Ledger

T = TypeVar("T")

_MAX_LEDGER_TRIES = 6
"""How often recording the outcome of a batch is tried."""
_MAX_ERROR_LINES, _MAX_ERROR_CHARS = 8, 4_000
"""How many of the last lines of an error are recorded, and how many characters."""
_JAVA_STACK_LINE = re.compile(r"\s*(at [\w.$/<>]+\(.*\)|\.\.\. \d+ more|(JVM|Driver) stacktrace:)\s*$")
"""Lines of a Java stack trace, which would leave no room for the message."""


class LedgerUnavailable(PlanError):
    """The outcome of a batch can't be recorded, so the run can't go on."""


def record_with_retries(record: Callable[[], T]) -> T:
    """Call a function that writes to the ledger, again while it fails. Raise `LedgerUnavailable` in the end."""
    for tries in range(_MAX_LEDGER_TRIES - 1):
        try:
            return record()
        except PartitaError:
            time.sleep(0.1 * 2**tries)
    try:
        return record()
    except PartitaError as error:
        raise LedgerUnavailable(f"the ledger can't be written, so the run stops; resume it later: {error}") from error


def record_success(  # noqa: PLR0913, PLR0917 - the fields of an outcome
    ledger: Ledger,
    asset: str,
    keys: Sequence[str],
    result: MaterializeResult,
    attempt_fields: Mapping[str, Any],
    occurred_at: datetime | None = None,
) -> None:
    """Record that partitions were materialized, by default now.

    `attempt_fields` are the event fields of the attempt: `run_id`, `attempt`, `code_version` and `started_at`.
    """
    counts = {name: result.counts[name] for name in COUNT_COLUMNS if name in result.counts}
    version = result.table_version
    version_field = {} if version is None or version < 0 else {"table_version": version}
    ended_at = end_time(attempt_fields["started_at"]) if occurred_at is None else occurred_at
    kind = Outcome.SUCCEEDED.event_kind
    record_events(ledger, kind, asset, keys, ended_at, counts, **attempt_fields, **version_field)


def end_time(started_at: datetime) -> datetime:
    """Return the current time, but never a time before the start."""
    return max(started_at, datetime.now(UTC))


def attempt_error_text(error: BaseException, partitions: int = 1) -> str:
    """Return the first and the last lines of an error without Java stacks, and the line of the user's code.

    `partitions` is the size of the batch that failed.
    """
    lines = [line for line in str(error).splitlines() if line.strip() and not _JAVA_STACK_LINE.match(line)]
    first_line = f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": ")
    text = _truncate_middle("\n".join([first_line, *lines[1:][-(_MAX_ERROR_LINES - 1) :]]))
    user_frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_user_file(frame.filename)]
    if user_frames:
        frame = user_frames[-1]
        text += f"\nat {frame.filename}:{frame.lineno}, in {frame.name}"
    if partitions > 1:
        text += f"\n(in a batch of {partitions:,} partitions)"
    return text if is_unicode(text) else text.encode("utf-8", "replace").decode()


def _truncate_middle(text: str) -> str:
    half = _MAX_ERROR_CHARS // 2
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[:half]} … {text[-half:]}"
