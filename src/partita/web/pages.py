"""The HTML pages: templates over the documents of the API.

A page shows the snapshot; what needs the lake itself is a fragment that the page loads afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response
from starlette.routing import Route

from partita.algebra.key import PartitionKey
from partita.algebra.key_label import partition_label
from partita.display.status_snapshot import REASON_BITS
from partita.errors import PartitaError
from partita.status.states import MARKS, MARKS_WORST_FIRST, MISSING_MARK, PLANNABLE_STATES, Mark, mark_counts_text
from partita.status.text import age_text, bytes_text, clock_text, error_line, one_line
from partita.web import partition_details
from partita.web.access_control import CSRF_HEADER
from partita.web.api import heatmap_bins, partitions_page, required_parameter
from partita.web.asset_view import read_asset_view
from partita.web.lineage_graph import NODE_HEIGHT, NODE_WIDTH, lay_out_graph
from partita.web.overview import overview_document
from partita.web.plan_preview import preview_document, read_plan_query
from partita.web.request_threads import threaded_endpoint
from partita.web.run_stream import stream_run_events
from partita.web.server_runs import event_line

if TYPE_CHECKING:
    from starlette.requests import Request

    from partita.web.server_runs import ServerRun
    from partita.web.site import Site


def page_routes() -> list[Route]:
    """Return the routes of all pages and of the fragments that pages load later."""
    pages: dict[str, tuple[str, Callable[[Request], Response]]] = {
        "page_overview": ("/", _overview_page),
        "part_asof": ("/asof", _as_of_fragment),
        "page_asset": ("/asset", _asset_page),
        "part_partitions": ("/asset/partitions", _partitions_fragment),
        "part_summary": ("/asset/summary", _summary_fragment),
        "page_partition": ("/partition", _partition_page),
        "part_why": ("/partition/why", _why_fragment),
        "part_history": ("/partition/history", _history_fragment),
        "part_files": ("/partition/files", _files_fragment),
        "page_table": ("/table", _table_page),
        "part_table": ("/table/facts", _table_facts_fragment),
        "page_plan": ("/plan", _plan_page),
        "part_plan": ("/plan/preview", _plan_preview_fragment),
        "page_run": ("/run", _run_page),
    }
    return [
        *(Route(path, threaded_endpoint(handler), name=name) for name, (path, handler) in pages.items()),
        Route("/run", threaded_endpoint(_start_run), name="begin_run", methods=["POST"]),
        # Not threaded, because a stream lasts as long as the run.
        Route("/run/events", _run_events, name="part_run"),
    ]


def render_response(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """Return a response with the HTML of a template."""
    html = _render_template(request, template, **values)
    return Response(html.encode("utf-8", "surrogatepass"), status, media_type="text/html")


def _render_template(request: Request, template: str, **values: Any) -> str:
    site: Site = request.app.state.site
    snapshot = site.snapshots.latest
    common_values = {
        "site": site,
        "as_of": snapshot.as_of,
        "problem": site.snapshots.problem,
        "csrf_header": CSRF_HEADER,
        "ago": partial(age_text, now=snapshot.as_of),
    }
    return _template_environment().get_template(template).render(**common_values, **values)


@cache
def _template_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("partita.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "clock": clock_text,
        "size": bytes_text,
        "partition_label": partition_label,
        "one_line": one_line,
        "error_line": error_line,
    }
    environment.globals |= {
        "marks": MARKS,
        "marks_worst_first": MARKS_WORST_FIRST,
        "missing_mark": MISSING_MARK,
        "mark_of": {mark.name: mark for mark in MARKS},
        "reasons": tuple(REASON_BITS),
        "needs": PLANNABLE_STATES,
        "link": _link_url,
        "mark_words": _mark_counts_text,
        "worst_mark": _worst_mark,
        "event_line": event_line,
    }
    return environment


def _link_url(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query)}"


def _mark_counts_text(counts: Sequence[int]) -> str:
    return mark_counts_text(dict(enumerate(counts))) or "no partitions"


def _worst_mark(counts: Sequence[int]) -> Mark | None:
    return next((MARKS[number] for number in MARKS_WORST_FIRST if counts[number]), None)


def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


def _overview_page(request: Request) -> Response:
    snapshot = _site(request).snapshots.latest
    search = request.query_params.get("q") or ""
    overview = overview_document(snapshot, search)
    names = {asset["asset"] for asset in overview["assets"]}
    upstreams = {
        facts.name: [u for u in facts.upstreams if not search or u in names]
        for facts in snapshot.assets.values()
        if facts.name in names and not facts.is_retired
    }
    has_downstream = {u for upstream_names in upstreams.values() for u in upstream_names}
    upstreams = {name: above for name, above in upstreams.items() if above or name in has_downstream}
    is_fragment = request.query_params.get("part") == "board"
    return render_response(
        request,
        "_overview.html" if is_fragment else "overview.html",
        search=search,
        overview=overview,
        graph=lay_out_graph(upstreams),
        box=(NODE_WIDTH, NODE_HEIGHT),
        facts=snapshot.assets,
    )


def _as_of_fragment(request: Request) -> Response:
    return render_response(request, "_asof.html")


def _asset_page(request: Request) -> Response:
    site = _site(request)
    view = read_asset_view(request.query_params)
    facts = site.snapshots.latest.asset(view.asset)
    downstreams = sorted(f.name for f in site.snapshots.latest.assets.values() if view.asset in f.upstreams)
    page, refusal = None, None
    try:
        page = partitions_page(site, request.query_params)
    except PartitaError as error:
        # The predicate of the user is wrong: the page shows it in its form, where the user can correct it.
        if view.where is None:
            raise
        refusal = str(error)
    return render_response(
        request, "asset.html", 400 if refusal else 200,
        facts=facts, view=view, downstreams=downstreams, page=page, refusal=refusal,
    )  # fmt: skip


def _partitions_fragment(request: Request) -> Response:
    page = partitions_page(_site(request), request.query_params)
    return render_response(request, "_partitions.html", page=page, view=read_asset_view(request.query_params))


def _summary_fragment(request: Request) -> Response:
    bins = heatmap_bins(_site(request), request.query_params)
    width = len(bins.across.labels)
    rows = [bins.cells[start : start + width] for start in range(0, len(bins.cells), width)]
    sums = [[sum(n) for n in zip(*(bins.distinct_counts[cell] for cell in row), strict=True)] for row in rows]
    lines = list(zip(bins.down.labels, sums, strict=True))
    return render_response(request, "_summary.html", lines=lines, down=bins.down, across=bins.across)


def _partition_page(request: Request) -> Response:
    asset, key = required_parameter(request.query_params, "asset"), required_parameter(request.query_params, "key")
    site = _site(request)
    document = partition_details.partition_document(site.snapshots.latest, asset, key)
    return render_response(request, "partition.html", partition=document, facts=site.snapshots.latest.asset(asset))


def _why_fragment(request: Request) -> Response:
    asset, key = required_parameter(request.query_params, "asset"), required_parameter(request.query_params, "key")
    site = _site(request)
    site.snapshots.latest.asset(asset)
    return render_response(
        request, "_why.html", why=site.snapshots.lake_queries.why(asset, PartitionKey.parse(key)).document()
    )


def _history_fragment(request: Request) -> Response:
    asset, key = required_parameter(request.query_params, "asset"), required_parameter(request.query_params, "key")
    return render_response(
        request, "_history.html", history=partition_details.history_document(_site(request).lake, asset, key)
    )


def _files_fragment(request: Request) -> Response:
    asset, key = required_parameter(request.query_params, "asset"), required_parameter(request.query_params, "key")
    site = _site(request)
    return render_response(
        request,
        "_files.html",
        partition=partition_details.files_document(site.lake, site.snapshots.latest, site.tables, asset, key),
    )


def _table_page(request: Request) -> Response:
    name = required_parameter(request.query_params, "name")
    site = _site(request)
    # An invalid name is refused here, for the whole page and not only for the fragment with the facts.
    site.lake.table(name)
    writers = [facts.name for facts in site.snapshots.latest.assets.values() if facts.table == name]
    return render_response(request, "table.html", name=name, writers=writers)


def _table_facts_fragment(request: Request) -> Response:
    facts = _site(request).tables.facts(required_parameter(request.query_params, "name"))
    return render_response(request, "_table.html", table=facts.document)


def _plan_page(request: Request) -> Response:
    plan_query = read_plan_query(request.query_params)
    if plan_query.asset_view is not None:
        _site(request).snapshots.latest.asset(plan_query.asset_view.asset)
    return render_response(request, "plan.html", plan_query=plan_query)


def _plan_preview_fragment(request: Request) -> Response:
    site = _site(request)
    plan_query = read_plan_query(request.query_params)
    plan = preview_document(*site.plans.make_plan(plan_query), may_run=site.runs.can_run)
    return render_response(request, "_plan.html", plan=plan)


def _run_page(request: Request) -> Response:
    runs = _site(request).runs
    return render_response(request, "run.html", run=None if runs.latest is None else runs.latest.document())


def _start_run(request: Request) -> Response:
    """Start a run of a plan that was shown; the header makes htmx open the page of the run."""
    site = _site(request)
    site.runs.start_run(lambda: site.plans.plan_by_id(required_parameter(request.query_params, "plan")))
    return Response(status_code=204, headers={"HX-Redirect": "/run"})


def _run_events(request: Request) -> Response:
    """Stream the events of the run as the API does, with the HTML of the outcome in the last event."""

    def outcome_document(run: ServerRun) -> dict[str, str]:
        return {"state": run.state, "html": _render_template(request, "_outcome.html", run=run.document())}

    return stream_run_events(request, outcome_document)
