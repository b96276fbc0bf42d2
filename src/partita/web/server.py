"""The web server: listens on a socket and serves the site of a lake until it is stopped."""

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
from partita.web import DEFAULT_PORT
from partita.web.access_control import AccessPolicy, is_loopback, origin_from_url
from partita.web.app import make_app
from partita.web.connections import MAX_CONNECTIONS, HeadDeadlineProtocol
from partita.web.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable

    from partita.lake import Lake
    from partita.web.server_runs import RunController, ServerRunner


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address that a server listens on, and the token that it requires. Port 0 is any free port.

    `public_url` is the address of a proxy in front of the server.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    token: str | None = None
    public_url: str | None = None


def serve_lake(
    lake: Lake, address: ServerAddress, *, on_ready: Callable[[str], object], runner: ServerRunner | None = None
) -> None:
    """Serve a lake, and call `on_ready` with the URL, including the token, as soon as the server can answer.

    Pages can start runs only with a `runner`. A server that other machines can reach needs a token in `address`,
    because a random token would change with each start. Raises `StatusError` if the token is missing or too short.
    """
    public_origin = None if address.public_url is None else origin_from_url(address.public_url)
    if address.token is None and (public_origin is not None or not is_loopback(address.host)):
        raise StatusError(
            f"{public_origin or address.host} can be reached from other machines; set a token with --token or "
            "$PARTITA_TOKEN"
        )
    if address.token is not None and len(address.token) < 16:
        raise StatusError("the token must have at least 16 characters; `openssl rand -hex 16` makes one")
    with _listening_socket(address) as listening_socket:
        port = listening_socket.getsockname()[1]
        token = address.token or secrets.token_urlsafe(24)
        site = Site.of(lake, AccessPolicy(token, address.host, port, public_origin), runner)
        site.snapshots.refresh()
        # There is no access log, because the first request contains the token in its URL.
        config = uvicorn.Config(
            make_app(site), log_level="warning", access_log=False, server_header=False, proxy_headers=False,
            http=HeadDeadlineProtocol, ws="none", limit_concurrency=MAX_CONNECTIONS,
        )  # fmt: skip
        server = _SiteServer(config, site.runs)
        on_ready(site_url(address.host, port, token, public_origin))
        server.run([listening_socket])


class _SiteServer(uvicorn.Server):
    """A server that ends its run before it closes connections, so that pages receive the end of the run."""

    def __init__(self, config: uvicorn.Config, runs: RunController) -> None:
        super().__init__(config)
        self._runs = runs

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Cancel the current run and wait for its end; a second Ctrl-C ends the wait."""
        self._runs.close()
        # uvicorn sets `force_exit` on a second Ctrl-C; there is no event to wait for.
        while self._runs.is_running and not self.force_exit:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await super().shutdown(sockets)


def site_url(host: str, port: int, token: str, public_origin: str | None = None) -> str:
    """Return the URL to open in a browser."""
    name = "127.0.0.1" if host in ("0.0.0.0", "") else "[::1]" if host == "::" else f"[{host}]" if ":" in host else host  # noqa: S104
    return f"{public_origin or f'http://{name}:{port}'}/?token={quote(token, safe='')}"


def _listening_socket(address: ServerAddress) -> socket.socket:
    """Open a socket that listens on an address. Raises `PartitaError` if that is not possible."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is explicit; without it small responses are delayed by 40 ms.
    listening_socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":
            listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening_socket.bind((address.host, address.port))
        listening_socket.listen(128)
    except OSError as error:
        listening_socket.close()
        raise PartitaError(
            f"the server can't listen on {address.host}:{address.port}: {error.strerror or error}; choose another "
            "--port, or 0 for any free port"
        ) from error
    return listening_socket
