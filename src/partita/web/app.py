"""The Starlette application: pages, API and static files, behind access control."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.routing import Match, Mount, Route
from starlette.staticfiles import StaticFiles

from partita.errors import PartitaError, TableMissing, UnknownAsset
from partita.web import openapi, pages
from partita.web.access_control import AccessMiddleware
from partita.web.api import OPERATIONS, json_response
from partita.web.site import Site
from partita.web.states_css import states_css

if TYPE_CHECKING:
    from starlette.requests import Request

STATIC_FOLDER = Path(__file__).parent / "static"
_STATIC_METHODS = {"GET", "HEAD"}
_MIN_BYTES_TO_COMPRESS = 2_000
_GZIP_LEVEL = 3


def make_app(site: Site) -> AccessMiddleware:
    """Return the application of a site, which starts and stops the refreshing of its snapshot.

    Access control is the outermost layer, so that responses to internal errors have the security headers too.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await run_in_threadpool(site.snapshots.start)
        try:
            yield
        finally:
            site.runs.close()
            await run_in_threadpool(site.snapshots.stop)

    app = Starlette(
        routes=[
            *pages.page_routes(),
            *(operation.route() for operation in OPERATIONS),
            Route(openapi.OPENAPI_PATH, _openapi_response, name="openapi"),
            Route("/static/states.css", _states_css_response, name="states_css"),
            Mount("/static", _RevalidatedStaticFiles(directory=STATIC_FOLDER), name="static"),
        ],
        exception_handlers={
            PartitaError: _error_response,
            HTTPException: _error_response,
            Exception: _server_error_response,
        },
        # Event streams are not compressed, so events are sent as they happen.
        middleware=[Middleware(GZipMiddleware, minimum_size=_MIN_BYTES_TO_COMPRESS, compresslevel=_GZIP_LEVEL)],
        lifespan=lifespan,
    )
    app.state.site = site
    return AccessMiddleware(app, site.access_policy)


class _RevalidatedStaticFiles(StaticFiles):
    """Static files that browsers cache but revalidate with each request."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _states_css_response(_: Request) -> Response:
    """Return the colours of the states as a style sheet."""
    return Response(states_css(), media_type="text/css", headers={"Cache-Control": "no-cache"})


def _openapi_response(_: Request) -> Response:
    return json_response(openapi.openapi_document())


def _error_response(request: Request, error: Exception) -> Response:
    """Return the message of an error with status 404 if an asset or table does not exist, else 400."""
    if not isinstance(error, HTTPException):
        status = 404 if isinstance(error, UnknownAsset | TableMissing) else 400
        return _render_error(request, status, type(error).__name__, str(error))
    response = _render_error(request, error.status_code, "HTTP", error.detail)
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        response.headers["Allow"] = ", ".join(_allowed_methods(request))
    return response


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes that match the path of a request."""
    # Starlette changes the root path of a request that entered a mount.
    scope = {**request.scope, "root_path": request.scope.get("app_root_path", request.scope.get("root_path", ""))}
    methods: set[str] = set()
    for route in request.app.routes:
        if route.matches(scope)[0] is not Match.NONE:
            methods |= set(route.methods or ()) if isinstance(route, Route) else _STATIC_METHODS
    return sorted(methods)


def _server_error_response(request: Request, error: Exception) -> Response:
    """Return only the type of an internal error, because its message may reveal too much; the log has the rest."""
    return _render_error(request, 500, type(error).__name__, "the server failed; see its log")


def _render_error(request: Request, status: int, kind: str, message: str) -> Response:
    if request.url.path.startswith("/api/"):
        return json_response({"error": {"type": kind, "message": message}}, status)
    template = "_error.html" if request.headers.get("hx-request") else "error.html"
    return pages.render_response(request, template, status, kind=kind, message=message, code=status)
