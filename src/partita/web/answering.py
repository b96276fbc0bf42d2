"""Answers in threads, each with a time limit, so that one slow question holds up no other.

Every kind of question has `AT_ONCE` threads of its own. A question that takes longer than the site's limit is answered
with 504, and its thread goes on to the end: Python can't stop it, and until then it is one of its kind's threads. Where
all of them are busy for as long, the answer is 503. Pages and operations of other kinds don't notice.
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

AT_ONCE = 8
"""Questions of one kind that are answered at the same time."""
ANSWER_SECONDS = 30.0
"""How long an answer may take."""
_LOOK_EVERY = 0.02


def limited(answer: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that answers in a thread, within the time limit of the site."""
    threads = _Threads(AT_ONCE)

    async def endpoint(request: Request) -> Response:
        seconds: float = request.app.state.site.answer_seconds
        deadline = time.monotonic() + seconds
        while not threads.take():
            if time.monotonic() >= deadline:
                raise HTTPException(
                    503,
                    f"{AT_ONCE} questions of this kind are being answered, each for over {seconds:g} s; try again "
                    "later, or ask `partita` on the command line",
                    {"Retry-After": str(int(seconds) + 1)},
                )
            await asyncio.sleep(_LOOK_EVERY)
        answered = threads.start(lambda: answer(request))
        done, _ = await asyncio.wait([answered], timeout=max(0.0, deadline - time.monotonic()))
        if not done:
            raise HTTPException(
                504,
                f"this took longer than {seconds:g} s and was given up; ask for less, as by a predicate or of one "
                "asset, or ask `partita` on the command line, which has no limit",
            )
        return answered.result()

    endpoint.__name__ = answer.__name__
    return endpoint


class _Threads:
    """So many threads at once; they are daemons, so that one that never ends doesn't keep the server from ending."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._lock = Lock()

    def take(self) -> bool:
        """Whether a thread is free, which is then taken."""
        with self._lock:
            if not self._free:
                return False
            self._free -= 1
            return True

    def start(self, answer: Callable[[], Response]) -> asyncio.Future[Response]:
        """Answer in the thread that was taken."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Response] = loop.create_future()
        # Nobody may be left to hear of it.
        answered.add_done_callback(lambda future: future.cancelled() or future.exception())

        def work() -> None:
            try:
                result, error = answer(), None
            except BaseException as raised:  # noqa: BLE001 - it is raised again where the answer is waited for
                result, error = None, raised
            with self._lock:
                self._free += 1
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_tell, answered, result, error)

        Thread(target=work, name="partita-answer", daemon=True).start()
        return answered


def _tell(answered: asyncio.Future[Response], result: Response | None, error: BaseException | None) -> None:
    if answered.done():
        return
    if error is not None:
        answered.set_exception(error)
    elif result is not None:
        answered.set_result(result)
