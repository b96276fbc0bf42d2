"""The events of a run as server-sent events.

A client that connects late receives the earlier events first, and one that reconnects continues where it was. While
there are no events, comments keep the connection open. The stream ends with the run, after the event `over`, which has
the result: the server may have stopped before a client could ask for it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from starlette.responses import Response, StreamingResponse

from partita.web.server_runs import ServerRun

if TYPE_CHECKING:
    from starlette.requests import Request

    from partita.web.site import Site

POLL_SECONDS = 0.2
"""The interval between two checks for new events of a run."""
KEEP_ALIVE_SECONDS = 10.0
"""The time without an event after which a comment is sent."""


def stream_run_events(request: Request, outcome_document: Callable[[ServerRun], Any] | None = None) -> Response:
    """Stream the events of the latest run.

    `outcome_document` makes the data of the event `over`; the default is the document of the run.
    """
    site: Site = request.app.state.site
    run = site.runs.require_latest()
    last_event = re.fullmatch(r"(\d{1,9})-(\d{1,12})", request.headers.get("last-event-id", ""))
    first = int(last_event[2]) + 1 if last_event and int(last_event[1]) == run.number else 0
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return StreamingResponse(
        _server_sent_events(run, first, outcome_document or ServerRun.document),
        headers=headers,
        media_type="text/event-stream",
    )


async def _server_sent_events(
    run: ServerRun, event_number: int, outcome_document: Callable[[ServerRun], Any]
) -> AsyncIterator[str]:
    last_sent = time.monotonic()
    while True:
        # Checked before the events are read, so that no event is lost at the end.
        is_over = run.end_event.is_set()
        event_number, events = run.events_since(event_number)
        for event in events:
            # The JSON is ASCII, so no line break or partial character can end an event early.
            yield f"id: {run.number}-{event_number}\ndata: {json.dumps(event, default=str)}\n\n"
            event_number += 1
        if is_over:
            yield f"event: over\ndata: {json.dumps(outcome_document(run), default=str)}\n\n"
            return
        now = time.monotonic()
        if events:
            last_sent = now
        elif now - last_sent >= KEEP_ALIVE_SECONDS:
            last_sent = now
            yield ": at work\n\n"
        await asyncio.sleep(POLL_SECONDS)
