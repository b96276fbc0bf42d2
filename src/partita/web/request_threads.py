"""Request handlers in threads, with a time limit, so that slow requests do not delay others.

Every endpoint has `MAX_CONCURRENT_REQUESTS` threads of its own. A request that exceeds the time limit of the site gets
the status 504, but its thread runs to the end, because Python can't stop threads, and counts until then. If all threads
of an endpoint stay busy for the time limit, a request gets the status 503. Other endpoints are not affected.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

MAX_CONCURRENT_REQUESTS = 8
"""The number of requests to one endpoint that are handled at the same time."""
REQUEST_TIMEOUT_SECONDS = 30.0
"""The time limit of a request."""
_POLL_SECONDS = 0.02


def threaded_endpoint(handler: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that calls `handler` in a thread, with the time limit of the site."""
    threads = _ThreadSlots(MAX_CONCURRENT_REQUESTS)

    async def endpoint(request: Request) -> Response:
        seconds: float = request.app.state.site.request_timeout_seconds
        deadline = time.monotonic() + seconds
        while not threads.acquire():
            if time.monotonic() >= deadline:
                raise HTTPException(
                    503,
                    f"the server is busy: {MAX_CONCURRENT_REQUESTS} requests of this kind take longer than "
                    f"{seconds:g} s; try again later, or use the command line",
                    {"Retry-After": str(int(seconds) + 1)},
                )
            await asyncio.sleep(_POLL_SECONDS)
        response = threads.start(lambda: handler(request))
        finished_tasks, _ = await asyncio.wait([response], timeout=max(0.0, deadline - time.monotonic()))
        if not finished_tasks:
            raise HTTPException(
                504,
                f"the request took longer than {seconds:g} s; restrict it to fewer partitions or to one asset, or use "
                "the command line, which has no time limit",
            )
        return response.result()

    endpoint.__name__ = handler.__name__
    return endpoint


class _ThreadSlots:
    """Starts a limited number of daemon threads, which do not keep the server from ending."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._lock = Lock()

    def acquire(self) -> bool:
        """Reserve a thread and return True, or return False if none is free."""
        with self._lock:
            if not self._free:
                return False
            self._free -= 1
            return True

    def start(self, handler: Callable[[], Response]) -> asyncio.Future[Response]:
        """Call the handler in the thread that was reserved."""
        loop = asyncio.get_running_loop()
        response: asyncio.Future[Response] = loop.create_future()
        # After a timeout nobody reads the future; asyncio would log its exception as never retrieved.
        response.add_done_callback(lambda future: future.cancelled() or future.exception())

        def run_handler() -> None:
            try:
                result, error = handler(), None
            except BaseException as exception:  # noqa: BLE001 - raised again in the endpoint
                result, error = None, exception
            with self._lock:
                self._free += 1
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_resolve_future, response, result, error)

        Thread(target=run_handler, name="partita-answer", daemon=True).start()
        return response


def _resolve_future(future: asyncio.Future[Response], result: Response | None, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    elif result is not None:
        future.set_result(result)
