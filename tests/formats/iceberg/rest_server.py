"""A minimal REST catalog over a pyiceberg catalog in SQLite."""

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

ERROR_RESPONSES = {
    NoSuchNamespaceError: (404, "NoSuchNamespaceException"),
    NoSuchTableError: (404, "NoSuchTableException"),
    NamespaceAlreadyExistsError: (409, "AlreadyExistsException"),
    TableAlreadyExistsError: (409, "AlreadyExistsException"),
    CommitFailedException: (409, "CommitFailedException"),
}


@dataclass
class RestCatalogServer:
    """Answers requests from a catalog; `seen` has the methods and paths of all requests."""

    catalog: SqlCatalog
    uri: str = ""
    seen: list[tuple[str, str]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Return the status and the JSON of a request."""
        url = urlsplit(path)
        parts = [unquote(part) for part in url.path.strip("/").split("/")][1:]
        with self.lock:
            self.seen.append((method, url.path))
            try:
                if parts == ["namespaces"] and method == "GET":
                    return 200, {"namespaces": self._inside(parse_qs(url.query).get("parent", [""])[0])}
                return self._answer(method, parts, json.loads(body or b"null"))
            except tuple(ERROR_RESPONSES) as error:
                status, name = ERROR_RESPONSES[type(error)]
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
                identifiers = self.catalog.list_tables(namespace)
                return 200, {"identifiers": [{"namespace": list(name[:-1]), "name": name[-1]} for name in identifiers]}
            case "POST", ["namespaces", namespace, "tables"]:
                return 200, _load_table_response(
                    self._create_from_request(namespace, CreateTableRequest.model_validate(body))
                )
            case "GET", ["namespaces", namespace, "tables", name]:
                return 200, _load_table_response(self.catalog.load_table((namespace, name)))
            case "HEAD", ["namespaces", namespace, "tables", name]:
                return 204 if self.catalog.table_exists((namespace, name)) else 404, None
            case "POST", ["namespaces", namespace, "tables", name]:
                document = {"identifier": {"namespace": [namespace], "name": name}} | body
                request = CommitTableRequest.model_validate(document)
                self.catalog.commit_table(
                    self.catalog.load_table((namespace, name)), request.requirements, request.updates
                )
                return 200, _load_table_response(self.catalog.load_table((namespace, name)))
            case "POST", ["namespaces", _, "tables", _, "metrics"]:
                return 204, None
        return 400, {"error": {"message": f"{method} {parts}", "type": "BadRequestException", "code": 400}}

    def _inside(self, parent: str) -> list[list[str]]:
        return [list(name) for name in self.catalog.list_namespaces(parent)]

    def _create_from_request(self, namespace: str, request: CreateTableRequest) -> Table:
        return self.catalog.create_table(
            (namespace, request.name), request.table_schema, request.location,
            request.partition_spec or UNPARTITIONED_PARTITION_SPEC, properties=request.properties,
        )  # fmt: skip


def _load_table_response(table: Table) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


class _RequestHandler(BaseHTTPRequestHandler):
    def __init__(self, server: RestCatalogServer, *arguments: Any) -> None:
        self.state = server
        super().__init__(*arguments)

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, document = self.state.answer(self.command, self.path, body)
        content = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_HEAD = _handle  # noqa: N815 - the names are the base's

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def run_rest_server(folder: Path) -> Iterator[RestCatalogServer]:
    """Run a server whose catalog is in that folder."""
    state = RestCatalogServer(SqlCatalog("behind", uri=f"sqlite:///{folder}/behind.db", warehouse=f"file://{folder}"))
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(_RequestHandler, state))
    state.uri = f"http://127.0.0.1:{http.server_port}"
    thread = Thread(target=http.serve_forever)
    thread.start()
    try:
        yield state
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
