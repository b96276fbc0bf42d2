"""The questions that pages and programs ask, as operations with JSON for an answer; `openapi.py` describes them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from partita.algebra.key import PartitionKey
from partita.errors import StatusError, value_repr
from partita.picture import bins
from partita.picture.words import stamp
from partita.web import listing, partition
from partita.web.answering import limited
from partita.web.overview import asset_document, overview
from partita.web.plans import preview, read_question
from partita.web.site import Site
from partita.web.stream import stream_run
from partita.web.view import Query, filter_sql, read_view

if TYPE_CHECKING:
    from starlette.requests import Request

_WORTH_PACKING = 2_000


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a URL's query; `type` is JSON Schema's."""

    name: str
    about: str
    type: str = "string"
    required: bool = False
    many: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """A question: where it is asked and with what, and the function that answers it. `answer` names a schema.

    With `stream` the answers are events, as they happen, each as the schema says.
    """

    path: str
    name: str
    about: str
    answer: str
    ask: Callable[[Site, Query], Any]
    parameters: tuple[Parameter, ...] = ()
    method: str = "GET"
    stream: Callable[[Request], Response] | None = None

    def route(self) -> Route:
        """The operation as a route of Starlette."""
        if self.stream is not None:
            return Route(self.path, self.stream, methods=[self.method], name=self.name)

        def endpoint(request: Request) -> Response:
            return json_response(request, self.ask(request.app.state.site, request.query_params))

        return Route(self.path, limited(endpoint), methods=[self.method], name=self.name)


def json_response(request: Request, document: Any, status: int = 200) -> Response:
    """A document as JSON."""
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return packed(request, body, status, "application/json")


def packed(request: Request, body: bytes, status: int, media_type: str) -> Response:
    """An answer, packed where it is large and whoever asks can unpack it."""
    headers = {"Vary": "Accept-Encoding"}
    if len(body) > _WORTH_PACKING and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, 3)
        headers["Content-Encoding"] = "gzip"
    return Response(body, status, headers, media_type)


def asked(query: Query, name: str) -> str:
    """A parameter that must be there; the empty text is one."""
    found = query.get(name)
    if found is None:
        raise StatusError(f"say which: ?{name}=...")
    return str(found)


def number(query: Query, name: str, default: int, most: int, least: int = 1) -> int:
    """A parameter that is a whole number, cut to the most that is given; one below the least is refused."""
    text = query.get(name)
    if text in (None, ""):
        return default
    if not re.fullmatch(r"\d{1,12}", text) or int(text) < least:
        raise StatusError(f"{name} is a whole number from {least} on, not {value_repr(text)}")
    return min(int(text), most)


def page_of(site: Site, query: Query) -> dict[str, Any]:
    """A page of the list of partitions that a URL asks for."""
    limit = number(query, "limit", listing.LIMIT, listing.MOST)
    after = number(query, "after", 0, 2**40, least=0)
    before = number(query, "before", 0, 2**40, least=0) or None
    return listing.list_partitions(site.watch.newest, read_view(query), after=after, before=before, limit=limit)


def bins_of(site: Site, query: Query) -> bins.Bins:
    """The bins that a URL asks for."""
    columns = number(query, "columns", bins.COLUMNS, bins.MOST)
    rows = number(query, "rows", bins.ROWS, bins.MOST)
    view, snapshot = read_view(query), site.watch.newest
    return bins.make_bins(snapshot, view.asset, view.view, columns, rows, filter_sql(snapshot, view))


def _version(site: Site, _: Query) -> dict[str, Any]:
    snapshot = site.watch.newest
    return {
        "as_of": stamp(snapshot.as_of),
        "ledger_version": snapshot.version,
        "lake": site.lake.uri,
        "tenant": site.lake.tenant,
        "workspace": site.lake.workspace,
        "problem": site.watch.problem,
        "may_run": site.runs.allowed,
    }


def _refresh(site: Site, query: Query) -> dict[str, Any]:
    site.watch.ask()
    return _version(site, query)


def _heatmap(site: Site, query: Query) -> dict[str, Any]:
    return {"as_of": stamp(site.watch.newest.as_of), **bins_of(site, query).document()}


def _why(site: Site, query: Query) -> dict[str, Any]:
    asset, key = asked(query, "asset"), PartitionKey.parse(asked(query, "key"))
    site.watch.newest.asset(asset)
    return site.watch.asking.why(asset, key).document()


def _plan(site: Site, query: Query) -> dict[str, Any]:
    return preview(*site.plans.make(read_question(query)), may_run=site.runs.allowed)


def _run(site: Site, query: Query) -> dict[str, Any]:
    return site.runs.begin(lambda: site.plans.kept(asked(query, "plan"))).document()


_ASSET = Parameter("asset", "the asset's name", required=True)
_KEY = Parameter("key", "the partition's canonical key; empty for an asset without partitions", required=True)
_FILTERS = (
    Parameter("mark", "only partitions that the map shows as one of these; each is shown as one", many=True),
    Parameter("state", "only partitions in one of these states of `partita status`; one may be in several", many=True),
    Parameter("reason", "only partitions that are stale for one of these reasons", many=True),
    Parameter("where", "a predicate on the dimensions of keys, in SQL"),
)
_VIEW = Parameter("view", "a part of the map: four places, from and to across, from and to down; else all of it")

OPERATIONS = (
    Operation("/api/version", "version", "What is served, and as of when.", "Version", _version),
    Operation(
        "/api/refresh", "refresh", "Have the lake read anew soon, without waiting for it.", "Version", _refresh,
        method="POST",
    ),
    Operation(
        "/api/overview", "overview", "Every asset with its counts, and what needs attention.", "Overview",
        lambda site, query: overview(site.watch.newest, query.get("q") or ""),
        (Parameter("q", "only assets with this text in their name or in that of their table"),),
    ),
    Operation(
        "/api/asset", "asset", "One asset.", "Asset",
        lambda site, query: asset_document(site.watch.newest.asset(asked(query, "asset"))), (_ASSET,),
    ),
    Operation(
        "/api/heatmap", "heatmap", "Counts by state for the bins of a part of an asset's map.", "Heatmap", _heatmap,
        (_ASSET, _VIEW, *_FILTERS, Parameter("columns", "bins across, at most", "integer"),
         Parameter("rows", "bins down, at most", "integer")),
    ),
    Operation(
        "/api/partitions", "partitions", "The partitions of an asset, page by page.", "Partitions", page_of,
        (_ASSET, Parameter("selected", "only what lies in this part of the map"), *_FILTERS,
         Parameter("after", "the page after this place", "integer"),
         Parameter("before", "the page before this place", "integer"),
         Parameter("limit", "partitions of a page, at most", "integer")),
    ),
    Operation(
        "/api/partition", "partition", "One partition: key, id, values and status.", "Partition",
        lambda site, query: partition.identity(site.watch.newest, asked(query, "asset"), asked(query, "key")),
        (_ASSET, _KEY),
    ),
    Operation(
        "/api/why", "why", "Why a partition is as it is: the chain of causes.", "Why", _why, (_ASSET, _KEY),
    ),
    Operation(
        "/api/history", "history", "The events of a partition, the newest first.", "History",
        lambda site, query: partition.history(site.lake, asked(query, "asset"), asked(query, "key")), (_ASSET, _KEY),
    ),
    Operation(
        "/api/files", "files", "The files that hold a partition in its asset's table.", "Files",
        lambda site, query: partition.files(
            site.lake, site.watch.newest, site.tables, asked(query, "asset"), asked(query, "key")
        ),
        (_ASSET, _KEY),
    ),
    Operation(
        "/api/table", "table", "A table: specs, sizes, warnings and versions.", "Table",
        lambda site, query: site.tables.facts(asked(query, "name")).document,
        (Parameter("name", "the table's name in the lake", required=True),),
    ),
    Operation(
        "/api/plan", "plan", "What would run, in batches, why, and what is held back.", "Plan", _plan,
        (Parameter("select", "assets: a name, tag:word, +name with upstreams, name+ with what is made from it",
                   many=True),
         Parameter("words", "the same, several in one text; in quotes what has spaces"),
         Parameter("need", "of missing, stale and failed; none means all", many=True),
         Parameter("allow_missing", "not held back where a source's partition is missing"),
         Parameter("asset", "instead of select: one asset, and of it what lies in `selected` and passes the filters"),
         Parameter("selected", "only what lies in this part of the map"), *_FILTERS),
    ),
    Operation(
        "/api/run", "run", "Run a plan that was looked at; only with --allow-run, and one at a time.", "Run", _run,
        (Parameter("plan", "the id that /api/plan gave", required=True),), method="POST",
    ),
    Operation(
        "/api/run", "run_status", "The run at work, or the last one.", "Run",
        lambda site, _: site.runs.found().document(),
    ),
    Operation(
        "/api/run/cancel", "cancel", "Stop the run at work, without waiting for its end.", "Run",
        lambda site, _: site.runs.cancel().document(), method="POST",
    ),
    Operation(
        "/api/run/events", "run_events",
        "What the run tells, as server-sent events; the last, `over`, has what GET /api/run answers then.",
        "Event", lambda site, _: site.runs.found().document(), stream=stream_run,
    ),
)  # fmt: skip
