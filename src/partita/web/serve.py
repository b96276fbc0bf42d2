"""Serves a site until it is told to stop."""

from __future__ import annotations

import secrets
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from partita.errors import PartitaError, StatusError
from partita.web.gate import Keeper, is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    from partita.lake import Lake

PORT = 8765


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and the token that it asks for; port 0 is any that is free."""

    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = None


def serve(lake: Lake, address: Address, *, allow_run: bool, opened: Callable[[str], object]) -> None:
    """Serve a lake; `opened` is told the URL, with the token, once it answers.

    Beyond this machine a token must be given: one that was made up would have to be sent around, and isn't kept.
    """
    if address.token is None and not is_loopback(address.host):
        raise StatusError(
            f"{address.host} can be reached from other machines; give a token of your own, by --token or $PARTITA_TOKEN"
        )
    if address.token is not None and len(address.token) < 16:
        raise StatusError("a token has 16 characters or more; `openssl rand -hex 16` makes one")
    import uvicorn

    from partita.web.app import make_app
    from partita.web.site import Site

    with _bound(address) as listening:
        port = listening.getsockname()[1]
        token = address.token or secrets.token_urlsafe(24)
        site = Site.of(lake, Keeper(token, address.host, port), allow_run=allow_run)
        site.watch.take()
        # No log of requests: the first of them has the token in its URL.
        server = uvicorn.Server(
            uvicorn.Config(
                make_app(site), log_level="warning", access_log=False, server_header=False, proxy_headers=False
            )
        )
        opened(url(address.host, port, token))
        server.run([listening])


def url(host: str, port: int, token: str) -> str:
    """The address to open."""
    name = "127.0.0.1" if host in ("0.0.0.0", "") else "[::1]" if host == "::" else f"[{host}]" if ":" in host else host  # noqa: S104
    return f"http://{name}:{port}/?token={token}"


def _bound(address: Address) -> socket.socket:
    """A socket that listens there; one that is taken is refused with the way out."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
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
