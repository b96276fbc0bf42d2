"""The operations of the API and their JSON documents; `openapi.py` describes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from partita.algebra.key import PartitionKey
from partita.display import bins
from partita.errors import StatusError, value_repr
from partita.status.text import json_timestamp
from partita.web import partition_details, partition_list
from partita.web.asset_view import QueryParameters, filter_sql, read_asset_view
from partita.web.overview import asset_document, overview_document
from partita.web.plan_preview import preview_document, read_plan_query
from partita.web.request_threads import threaded_endpoint
from partita.web.run_stream import stream_run_events
from partita.web.site import Site

if TYPE_CHECKING:
    from starlette.requests import Request


@dataclass(frozen=True, slots=True)
class ApiParameter:
    """A query parameter; `type` is a type of JSON Schema."""

    name: str
    description: str
    type: str = "string"
    is_required: bool = False
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """An operation: its path, its parameters, the name of the schema of its response, and its handler.

    An operation with a `stream_endpoint` responds with server-sent events, whose data has the schema.
    """

    path: str
    name: str
    summary: str
    response_schema: str
    handler: Callable[[Site, QueryParameters], Any]
    parameters: tuple[ApiParameter, ...] = ()
    method: str = "GET"
    stream_endpoint: Callable[[Request], Response] | None = None

    def route(self) -> Route:
        """Return the Starlette route of the operation."""
        if self.stream_endpoint is not None:
            return Route(self.path, self.stream_endpoint, methods=[self.method], name=self.name)

        def endpoint(request: Request) -> Response:
            return json_response(self.handler(request.app.state.site, request.query_params))

        return Route(self.path, threaded_endpoint(endpoint), methods=[self.method], name=self.name)


def json_response(document: Any, status: int = 200) -> Response:
    """Return a response with a JSON document. Lone surrogates in names are encoded instead of refused."""
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return Response(body, status, media_type="application/json")


def required_parameter(query: QueryParameters, name: str) -> str:
    """Return the value of a parameter, which may be empty. Raises `StatusError` if it is missing."""
    value = query.get(name)
    if value is None:
        raise StatusError(f"the parameter {name} is missing; add ?{name}=... to the URL")
    return str(value)


def integer_parameter(query: QueryParameters, name: str, default: int, maximum: int, minimum: int = 1) -> int:
    """Return the value of an integer parameter, at most `maximum`. Raises `StatusError` if it is below `minimum`."""
    text = query.get(name)
    if text in (None, ""):
        return default
    if not re.fullmatch(r"\d{1,12}", text) or int(text) < minimum:
        raise StatusError(f"{name} must be an integer of at least {minimum}, not {value_repr(text)}")
    return min(int(text), maximum)


def partitions_page(site: Site, query: QueryParameters) -> dict[str, Any]:
    """Return the page of the list of partitions that the query describes."""
    limit = integer_parameter(query, "limit", partition_list.DEFAULT_PAGE_SIZE, partition_list.MAX_PAGE_SIZE)
    after = integer_parameter(query, "after", 0, 2**40, minimum=0)
    before = integer_parameter(query, "before", 0, 2**40, minimum=0) or None
    return partition_list.list_partitions(
        site.snapshots.latest, read_asset_view(query), after=after, before=before, limit=limit
    )


def heatmap_bins(site: Site, query: QueryParameters) -> bins.HeatmapBins:
    """Return the bins of the heat map that the query describes."""
    columns = integer_parameter(query, "columns", bins.DEFAULT_COLUMNS, bins.MAX_BINS_PER_AXIS)
    rows = integer_parameter(query, "rows", bins.DEFAULT_ROWS, bins.MAX_BINS_PER_AXIS)
    view, snapshot = read_asset_view(query), site.snapshots.latest
    return bins.bin_partitions(snapshot, view.asset, view.visible_box, columns, rows, filter_sql(snapshot, view))


def _version_document(site: Site, _: QueryParameters) -> dict[str, Any]:
    snapshot = site.snapshots.latest
    return {
        "as_of": json_timestamp(snapshot.as_of),
        "ledger_version": snapshot.ledger_version,
        "lake": site.lake.uri,
        "tenant": site.lake.tenant,
        "workspace": site.lake.workspace,
        "problem": site.snapshots.problem,
        "may_run": site.runs.can_run,
    }


def _request_refresh(site: Site, query: QueryParameters) -> dict[str, Any]:
    site.snapshots.request_refresh()
    return _version_document(site, query)


def _heatmap_document(site: Site, query: QueryParameters) -> dict[str, Any]:
    return {"as_of": json_timestamp(site.snapshots.latest.as_of), **heatmap_bins(site, query).document()}


def _why_document(site: Site, query: QueryParameters) -> dict[str, Any]:
    asset, key = required_parameter(query, "asset"), PartitionKey.parse(required_parameter(query, "key"))
    site.snapshots.latest.asset(asset)
    return site.snapshots.lake_queries.why(asset, key).document()


def _plan_document(site: Site, query: QueryParameters) -> dict[str, Any]:
    return preview_document(*site.plans.make_plan(read_plan_query(query)), may_run=site.runs.can_run)


def _start_run(site: Site, query: QueryParameters) -> dict[str, Any]:
    return site.runs.start_run(lambda: site.plans.plan_by_id(required_parameter(query, "plan"))).document()


def _asset_document(site: Site, query: QueryParameters) -> dict[str, Any]:
    return asset_document(site.snapshots.latest.asset(required_parameter(query, "asset")))


def _partition_document(site: Site, query: QueryParameters) -> dict[str, Any]:
    asset, key = required_parameter(query, "asset"), required_parameter(query, "key")
    return partition_details.partition_document(site.snapshots.latest, asset, key)


def _history_document(site: Site, query: QueryParameters) -> dict[str, Any]:
    asset, key = required_parameter(query, "asset"), required_parameter(query, "key")
    return partition_details.history_document(site.lake, asset, key)


def _files_document(site: Site, query: QueryParameters) -> dict[str, Any]:
    asset, key = required_parameter(query, "asset"), required_parameter(query, "key")
    return partition_details.files_document(site.lake, site.snapshots.latest, site.tables, asset, key)


_ASSET_PARAMETER = ApiParameter("asset", "name of the asset", is_required=True)
_KEY_PARAMETER = ApiParameter(
    "key", "canonical key of the partition; empty for an asset without partitions", is_required=True
)
_PARTITION_PARAMETERS = (_ASSET_PARAMETER, _KEY_PARAMETER)
_FILTER_PARAMETERS = (
    ApiParameter("mark", "only partitions that the map shows in one of these states", is_repeated=True),
    ApiParameter(
        "state", "only partitions in one of these states of `partita status`; one may be in several", is_repeated=True
    ),
    ApiParameter("reason", "only partitions that are stale for one of these reasons", is_repeated=True),
    ApiParameter("where", "SQL predicate on the dimensions of the keys"),
)
_VIEW_PARAMETER = ApiParameter(
    "view", "a part of the map: first and last column, first and last row (default: the whole map)"
)
_SELECTED_PARAMETER = ApiParameter("selected", "only partitions in this part of the map, written like `view`")

OPERATIONS = (
    ApiOperation(
        "/api/version", "version", "The lake that is served, and the time of the snapshot.", "Version",
        _version_document,
    ),
    ApiOperation(
        "/api/refresh", "refresh", "Request a new snapshot of the lake, without waiting for it.", "Version",
        _request_refresh, method="POST",
    ),
    ApiOperation(
        "/api/overview", "overview", "All assets with their counts, and those that need attention.", "Overview",
        lambda site, query: overview_document(site.snapshots.latest, query.get("q") or ""),
        (ApiParameter("q", "only assets with this text in their name or in the name of their table"),),
    ),
    ApiOperation("/api/asset", "asset", "One asset.", "Asset", _asset_document, (_ASSET_PARAMETER,)),
    ApiOperation(
        "/api/heatmap", "heatmap", "Counts by state for the bins of a part of an asset's map.", "Heatmap",
        _heatmap_document,
        (_ASSET_PARAMETER, _VIEW_PARAMETER, *_FILTER_PARAMETERS,
         ApiParameter("columns", "maximum number of bins across", "integer"),
         ApiParameter("rows", "maximum number of bins down", "integer")),
    ),
    ApiOperation(
        "/api/partitions", "partitions", "The partitions of an asset, page by page.", "Partitions", partitions_page,
        (_ASSET_PARAMETER, _SELECTED_PARAMETER, *_FILTER_PARAMETERS,
         ApiParameter("after", "only partitions after this position, from `next`", "integer"),
         ApiParameter("before", "only partitions before this position, from `previous`", "integer"),
         ApiParameter("limit", "maximum number of partitions on a page", "integer")),
    ),
    ApiOperation(
        "/api/partition", "partition", "One partition: key, id, values and status.", "Partition", _partition_document,
        _PARTITION_PARAMETERS,
    ),
    ApiOperation(
        "/api/why", "why", "The explanation of a partition's status, with the chain of causes.", "Why", _why_document,
        _PARTITION_PARAMETERS,
    ),
    ApiOperation(
        "/api/history", "history", "The events of a partition, the newest first.", "History", _history_document,
        _PARTITION_PARAMETERS,
    ),
    ApiOperation(
        "/api/files", "files", "The files of the asset's table that contain a partition.", "Files", _files_document,
        _PARTITION_PARAMETERS,
    ),
    ApiOperation(
        "/api/table", "table", "A table: specs, sizes, warnings and versions.", "Table",
        lambda site, query: site.tables.facts(required_parameter(query, "name")).document,
        (ApiParameter("name", "name of the table in the lake", is_required=True),),
    ),
    ApiOperation(
        "/api/plan", "plan", "A plan: which partitions would run, in batches, why, and which are held back.", "Plan",
        _plan_document,
        (ApiParameter("select", "assets: name, tag:word, +name with its upstreams, name+ with its downstreams",
                      is_repeated=True),
         ApiParameter("words", "several values of `select` in one text, quoted if they contain spaces"),
         ApiParameter("need", "missing, stale or failed; all of them if there is none", is_repeated=True),
         ApiParameter("allow_missing", "also plan partitions that read a missing partition of a source"),
         ApiParameter("asset", "instead of `select`: one asset, restricted by `selected` and the filters"),
         _SELECTED_PARAMETER, *_FILTER_PARAMETERS),
    ),
    ApiOperation(
        "/api/run", "run", "Run a plan of /api/plan; needs --allow-run, and only one run at a time.", "Run",
        _start_run, (ApiParameter("plan", "id of the plan, from /api/plan", is_required=True),), method="POST",
    ),
    ApiOperation(
        "/api/run", "run_status", "The current run, or the last one.", "Run",
        lambda site, _: site.runs.require_latest().document(),
    ),
    ApiOperation(
        "/api/run/cancel", "cancel", "Stop the current run, without waiting for its end.", "Run",
        lambda site, _: site.runs.cancel_run().document(), method="POST",
    ),
    ApiOperation(
        "/api/run/events", "run_events",
        "The events of the run, as server-sent events; the last one, `over`, has the response of GET /api/run.",
        "Event", lambda site, _: site.runs.require_latest().document(), stream_endpoint=stream_run_events,
    ),
)  # fmt: skip
