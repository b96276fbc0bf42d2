"""A deadline for request heads, so that slow or idle clients can't hold connections open.

uvicorn closes connections that are idle after a response (`timeout_keep_alive`), but it has no timeout for the first
request of a connection, nor for the rest of a request head that was received in part.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_HEAD_TIMEOUT_SECONDS = 10.0
"""The time limit for the head of a request, from the connection or from its first byte on."""
MAX_CONNECTIONS = 500
"""Further connections get the status 503. The default limit of open files per process is 1,024."""


class HeadDeadlineProtocol(H11Protocol):
    """HTTP/1.1 with a deadline for the head of every request, and for a body that no handler reads."""

    head_timeout_seconds = REQUEST_HEAD_TIMEOUT_SECONDS
    _head_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base class
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._update_head_deadline()

    def data_received(self, data: bytes) -> None:
        """Start or cancel the deadline, depending on whether a request is being answered."""
        super().data_received(data)
        self._update_head_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline."""
        self._cancel_head_deadline()
        super().connection_lost(exc)

    def _update_head_deadline(self) -> None:
        if self._is_answering():
            self._cancel_head_deadline()
        elif self._head_deadline is None:
            self._head_deadline = self.loop.call_later(self.head_timeout_seconds, self._close_idle_connection)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _cancel_head_deadline(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _close_idle_connection(self) -> None:
        self._head_deadline = None
        if not self._is_answering() and not self.transport.is_closing():
            self.transport.close()
