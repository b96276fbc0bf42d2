"""Serves a site until it is told to stop."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import uvicorn

from partita.errors import PartitaError, StatusError
from partita.web.app import make_app
from partita.web.connections import MOST, BoundedProtocol
from partita.web.gate import Keeper, is_loopback, public_origin
from partita.web.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable

    from partita.lake import Lake
    from partita.web.runs import Doing, Runs

PORT = 8765


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and the token that it asks for; port 0 is any that is free.

    `public_url` is where a proxy before it is reached.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = None
    public_url: str | None = None


def serve(lake: Lake, address: Address, *, opened: Callable[[str], object], doing: Doing | None = None) -> None:
    """Serve a lake; `opened` is told the URL, with the token, once it answers. Pages start runs only with `doing`.

    Beyond this machine a token must be given: one that was made up would have to be sent around, and isn't kept.
    """
    public = None if address.public_url is None else public_origin(address.public_url)
    if address.token is None and (public is not None or not is_loopback(address.host)):
        raise StatusError(
            f"{public or address.host} can be reached from other machines; give a token of your own, by --token or "
            "$PARTITA_TOKEN"
        )
    if address.token is not None and len(address.token) < 16:
        raise StatusError("a token has 16 characters or more; `openssl rand -hex 16` makes one")
    with _bound(address) as listening:
        port = listening.getsockname()[1]
        token = address.token or secrets.token_urlsafe(24)
        site = Site.of(lake, Keeper(token, address.host, port, public), doing)
        site.watch.take()
        # No log of requests: the first of them has the token in its URL.
        config = uvicorn.Config(
            make_app(site), log_level="warning", access_log=False, server_header=False, proxy_headers=False,
            http=BoundedProtocol, ws="none", limit_concurrency=MOST,
        )  # fmt: skip
        server = _Server(config, site.runs)
        opened(url(address.host, port, token, public))
        server.run([listening])


class _Server(uvicorn.Server):
    """A server that ends its run before its connections: those who look on hear the end of it."""

    def __init__(self, config: uvicorn.Config, runs: Runs) -> None:
        super().__init__(config)
        self._runs = runs

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Cancel the run at work and wait for its end; a second Ctrl-C doesn't wait."""
        self._runs.close()
        # The end may be a second Ctrl-C, which this server keeps as a flag.
        while self._runs.is_at_work and not self.force_exit:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await super().shutdown(sockets)


def url(host: str, port: int, token: str, public: str | None = None) -> str:
    """The address to open."""
    name = "127.0.0.1" if host in ("0.0.0.0", "") else "[::1]" if host == "::" else f"[{host}]" if ":" in host else host  # noqa: S104
    return f"{public or f'http://{name}:{port}'}/?token={quote(token, safe='')}"


def _bound(address: Address) -> socket.socket:
    """A socket that listens there; one that is taken is refused with the way out."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With its protocol said, asyncio sends small answers at once; else they wait 40 ms for the last one to be received.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise PartitaError(
            f"{address.host}:{address.port} can't be listened on: {error.strerror or error}; choose another --port, "
            "or 0 for any that is free"
        ) from error
    return listening
