"""The events of a run as they happen, as server-sent events.

Whoever comes late hears what has been so far, and whoever comes back goes on where they were. While nothing happens, a
comment keeps the line open. The stream ends with the run, after the event `over`, which says how it ended: the server
may be gone by the time that somebody asks.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from starlette.responses import Response, StreamingResponse

from partita.web.runs import Run

if TYPE_CHECKING:
    from starlette.requests import Request

    from partita.web.site import Site

LOOK_EVERY = 0.2
"""Seconds between two looks at what a run has told."""
BEAT_EVERY = 10.0
"""Seconds without an event after which a comment is sent."""


def stream_run(request: Request, outcome: Callable[[Run], Any] | None = None) -> Response:
    """The events of the newest run as a stream; `outcome` makes what is told at its end, else the run's document."""
    site: Site = request.app.state.site
    run = site.runs.found()
    after = re.fullmatch(r"(\d{1,9})-(\d{1,12})", request.headers.get("last-event-id", ""))
    first = int(after[2]) + 1 if after and int(after[1]) == run.number else 0
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return StreamingResponse(
        _events(run, first, outcome or Run.document), headers=headers, media_type="text/event-stream"
    )


async def _events(run: Run, number: int, outcome: Callable[[Run], Any]) -> AsyncIterator[str]:
    spoken = time.monotonic()
    while True:
        # Asked before the events: what is told before the end is sent before it.
        is_over = run.over.is_set()
        number, found = run.since(number)
        for event in found:
            # ASCII alone: no line break and no half of a character can end an event early.
            yield f"id: {run.number}-{number}\ndata: {json.dumps(event, default=str)}\n\n"
            number += 1
        if is_over:
            yield f"event: over\ndata: {json.dumps(outcome(run), default=str)}\n\n"
            return
        now = time.monotonic()
        if found:
            spoken = now
        elif now - spoken >= BEAT_EVERY:
            spoken = now
            yield ": at work\n\n"
        await asyncio.sleep(LOOK_EVERY)
