"""A REST catalog as small as one can be, over a catalog of pyiceberg's in SQLite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table

ANSWERS = {
    NoSuchNamespaceError: (404, "NoSuchNamespaceException"),
    NoSuchTableError: (404, "NoSuchTableException"),
    NamespaceAlreadyExistsError: (409, "AlreadyExistsException"),
    TableAlreadyExistsError: (409, "AlreadyExistsException"),
    CommitFailedException: (409, "CommitFailedException"),
}


@dataclass
class Server:
    """What requests are answered from, and what was asked: `seen` has methods and paths."""

    catalog: SqlCatalog
    uri: str = ""
    seen: list[tuple[str, str]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """The status and the JSON of a request."""
        asked = urlsplit(path)
        parts = [unquote(part) for part in asked.path.strip("/").split("/")][1:]
        with self.lock:
            self.seen.append((method, asked.path))
            try:
                if parts == ["namespaces"] and method == "GET":
                    return 200, {"namespaces": self._inside(parse_qs(asked.query).get("parent", [""])[0])}
                return self._answer(method, parts, json.loads(body or b"null"))
            except tuple(ANSWERS) as error:
                status, name = ANSWERS[type(error)]
                return status, {"error": {"message": str(error), "type": name, "code": status}}

    def _answer(self, method: str, parts: list[str], body: Any) -> tuple[int, Any]:
        match method, parts:
            case "GET", ["config"]:
                return 200, {"defaults": {}, "overrides": {}}
            case "POST", ["namespaces"]:
                self.catalog.create_namespace(tuple(body["namespace"]))
                return 200, {"namespace": body["namespace"], "properties": {}}
            case _, ["namespaces", namespace]:
                self.catalog.load_namespace_properties(namespace)
                return (200, {"namespace": [namespace], "properties": {}}) if method == "GET" else (204, None)
            case "GET", ["namespaces", namespace, "tables"]:
                found = self.catalog.list_tables(namespace)
                return 200, {"identifiers": [{"namespace": list(name[:-1]), "name": name[-1]} for name in found]}
            case "POST", ["namespaces", namespace, "tables"]:
                return 200, _told(self._created(namespace, CreateTableRequest.model_validate(body)))
            case "GET", ["namespaces", namespace, "tables", name]:
                return 200, _told(self.catalog.load_table((namespace, name)))
            case "HEAD", ["namespaces", namespace, "tables", name]:
                return 204 if self.catalog.table_exists((namespace, name)) else 404, None
            case "POST", ["namespaces", namespace, "tables", name]:
                told = {"identifier": {"namespace": [namespace], "name": name}} | body
                asked = CommitTableRequest.model_validate(told)
                self.catalog.commit_table(self.catalog.load_table((namespace, name)), asked.requirements, asked.updates)
                return 200, _told(self.catalog.load_table((namespace, name)))
            case "POST", ["namespaces", _, "tables", _, "metrics"]:
                return 204, None
        return 400, {"error": {"message": f"{method} {parts}", "type": "BadRequestException", "code": 400}}

    def _inside(self, parent: str) -> list[list[str]]:
        return [list(name) for name in self.catalog.list_namespaces(parent)]

    def _created(self, namespace: str, asked: CreateTableRequest) -> Table:
        return self.catalog.create_table(
            (namespace, asked.name), asked.table_schema, asked.location,
            asked.partition_spec or UNPARTITIONED_PARTITION_SPEC, properties=asked.properties,
        )  # fmt: skip


def _told(table: Table) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, server: Server, *given: Any) -> None:
        self.state = server
        super().__init__(*given)

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, told = self.state.answer(self.command, self.path, body)
        content = b"" if told is None else json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_HEAD = _handle  # noqa: N815 - the names are the base's

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server whose catalog is in that folder."""
    state = Server(SqlCatalog("behind", uri=f"sqlite:///{folder}/behind.db", warehouse=f"file://{folder}"))
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, state))
    state.uri = f"http://127.0.0.1:{http.server_port}"
    thread = Thread(target=http.serve_forever)
    thread.start()
    try:
        yield state
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
