"""The site as an application of Starlette: pages, API, static files, and the gate before all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount, Route
from starlette.staticfiles import StaticFiles

from partita.errors import PartitaError, TableMissing, UnknownAsset
from partita.web import openapi, pages
from partita.web.api import OPERATIONS, json_response
from partita.web.gate import Gate
from partita.web.site import Site

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

STATIC = Path(__file__).parent / "static"
_STATIC_METHODS = {"GET", "HEAD"}


def make_app(site: Site) -> Gate:
    """The application of a site; it takes the first snapshot as it starts, and keeps it fresh until it ends.

    The gate is outside of everything, so that answers to our own faults have its headers too.
    """

    @asynccontextmanager
    async def watched(_: Starlette) -> AsyncIterator[None]:
        await run_in_threadpool(site.watch.start)
        try:
            yield
        finally:
            site.runs.close()
            await run_in_threadpool(site.watch.stop)

    app = Starlette(
        routes=[
            *pages.routes(),
            *(operation.route() for operation in OPERATIONS),
            Route(openapi.PATH, _openapi, name="openapi"),
            Mount("/static", _Static(directory=STATIC), name="static"),
        ],
        exception_handlers={PartitaError: _told, HTTPException: _told, Exception: _broken},
        lifespan=watched,
    )
    app.state.site = site
    return Gate(app, site.keeper)


class _Static(StaticFiles):
    """Files that a browser keeps, and asks each time whether they changed."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        answer = super().file_response(*args, **kwargs)
        answer.headers["Cache-Control"] = "no-cache"
        return answer


def _openapi(request: Request) -> Response:
    return json_response(request, openapi.document())


def _told(request: Request, error: Exception) -> Response:
    """What can't be answered as asked: the error's own words, and 404 where something isn't there."""
    if not isinstance(error, HTTPException):
        status = 404 if isinstance(error, UnknownAsset | TableMissing) else 400
        return _answer(request, status, type(error).__name__, str(error))
    answer = _answer(request, error.status_code, "HTTP", error.detail)
    answer.headers.update(error.headers or {})
    if error.status_code == 405:
        answer.headers["Allow"] = ", ".join(_methods(request))
    return answer


def _methods(request: Request) -> list[str]:
    """The methods that the path of a request has, in all routes together."""
    # A mount that was entered has made itself the root.
    scope = {**request.scope, "root_path": request.scope.get("app_root_path", request.scope.get("root_path", ""))}
    methods: set[str] = set()
    for route in request.app.routes:
        if route.matches(scope)[0] is not Match.NONE:
            methods |= set(route.methods or ()) if isinstance(route, Route) else _STATIC_METHODS
    return sorted(methods)


def _broken(request: Request, error: Exception) -> Response:
    """A fault of ours: its kind, and not what it was about; the log has the rest."""
    return _answer(request, 500, type(error).__name__, "the server failed at this; its log says how")


def _answer(request: Request, status: int, kind: str, message: str) -> Response:
    if request.url.path.startswith("/api/"):
        return json_response(request, {"error": {"type": kind, "message": message}}, status)
    template = "_error.html" if request.headers.get("hx-request") else "error.html"
    return pages.show(request, template, status, kind=kind, message=message, code=status)
