"""Connections that don't send a request in time are closed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from partita.web.app import make_app
from partita.web.connections import HeadDeadlineProtocol
from partita.web.site import Site
from tests.web.conftest import TOKEN

HEAD = f"GET /api/version HTTP/1.1\r\nHost: 127.0.0.1:8765\r\nAuthorization: Bearer {TOKEN}\r\n".encode()


class QuickProtocol(HeadDeadlineProtocol):
    """Gives up after a fifth of a second."""

    head_timeout_seconds = 0.2


@pytest.fixture(scope="module")
def port(site: Site) -> Iterator[int]:
    """The port of a server that gives up soon."""
    config = uvicorn.Config(
        make_app(site), http=QuickProtocol, ws="none", lifespan="off", log_level="critical", timeout_keep_alive=60
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes a connection; it is waited for."""
    connection.settimeout(30)
    try:
        return connection.recv(4096) == b""
    except ConnectionResetError:
        return True


def read_response_head(connection: socket.socket) -> bytes:
    """One answer, as far as its head."""
    connection.settimeout(30)
    found = b""
    while b"}" not in found:
        found += connection.recv(4096)
    return found


@pytest.mark.slow(reason="waits for a server")
@pytest.mark.parametrize("sent", [b"", b"G", HEAD, HEAD + b"X: "], ids=["nothing", "a byte", "a head", "a header"])
def test_half_a_request_is_not_waited_for(port: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent)
        assert is_closed(connection)


@pytest.mark.slow(reason="waits for a server")
def test_many_half_open_connections_are_closed_and_others_answered(port: int) -> None:
    waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert read_response_head(connection).startswith(b"HTTP/1.1 200")
    assert all(is_closed(one) for one in waiting)
    for one in waiting:
        one.close()


@pytest.mark.slow(reason="waits for a server")
def test_half_a_request_after_a_whole_one(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert read_response_head(connection).startswith(b"HTTP/1.1 200")
        connection.sendall(b"G")
        assert is_closed(connection)


@pytest.mark.slow(reason="waits for a server")
def test_a_body_that_does_not_come(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(HEAD + b"Content-Length: 1000000\r\n\r\nx")
        assert read_response_head(connection).startswith(b"HTTP/1.1 200")
        connection.sendall(b"x")
        assert is_closed(connection)
