"""The pages, as HTML: each a template over the answer that the API gives too.

What reads the lake itself, and not the snapshot, is a part of a page that comes after it.
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
from partita.assets.selection import NEEDS
from partita.errors import PartitaError
from partita.picture import words
from partita.picture.bins import key_label
from partita.picture.marks import MARKS, WORST, Mark
from partita.picture.snapshot import REASON_BITS
from partita.status.shown import error_line, one_line
from partita.web import partition
from partita.web.answering import limited
from partita.web.api import asked, bins_of, packed, page_of
from partita.web.gate import CSRF_HEADER
from partita.web.graph import HEIGHT, WIDTH, make_graph
from partita.web.overview import overview
from partita.web.plans import preview, read_question
from partita.web.stream import stream_run
from partita.web.view import read_view

if TYPE_CHECKING:
    from starlette.requests import Request

    from partita.web.runs import Run
    from partita.web.site import Site


def routes() -> list[Route]:
    """Every page, and the parts of pages that come later."""
    pages: dict[str, tuple[str, Callable[[Request], Response]]] = {
        "page_overview": ("/", _overview),
        "part_asof": ("/asof", _as_of),
        "page_asset": ("/asset", _asset),
        "part_partitions": ("/asset/partitions", _asset_partitions),
        "part_summary": ("/asset/summary", _asset_summary),
        "page_partition": ("/partition", _partition),
        "part_why": ("/partition/why", _partition_why),
        "part_history": ("/partition/history", _partition_history),
        "part_files": ("/partition/files", _partition_files),
        "page_table": ("/table", _table),
        "part_table": ("/table/facts", _table_facts),
        "page_plan": ("/plan", _plan),
        "part_plan": ("/plan/preview", _plan_preview),
        "page_run": ("/run", _run),
    }
    return [
        *(Route(path, limited(answer), name=name) for name, (path, answer) in pages.items()),
        Route("/run", limited(_begin), name="begin_run", methods=["POST"]),
        # A stream lasts as long as the run.
        Route("/run/events", _run_events, name="part_run"),
    ]


def show(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """A template as the answer to a request."""
    return packed(request, _drawn(request, template, **values).encode("utf-8", "surrogatepass"), status, "text/html")


def _drawn(request: Request, template: str, **values: Any) -> str:
    site: Site = request.app.state.site
    snapshot = site.watch.newest
    shared = {
        "site": site,
        "as_of": snapshot.as_of,
        "problem": site.watch.problem,
        "csrf_header": CSRF_HEADER,
        "ago": partial(words.age, now=snapshot.as_of),
    }
    return _environment().get_template(template).render(**shared, **values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("partita.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "clock": words.clock,
        "size": words.size,
        "key_label": key_label,
        "one_line": one_line,
        "error_line": error_line,
    }
    environment.globals |= {
        "marks": MARKS,
        "mark_of": {mark.name: mark for mark in MARKS},
        "reasons": tuple(REASON_BITS),
        "needs": NEEDS,
        "link": _link,
        "mark_words": _mark_words,
        "worst_mark": _worst_mark,
    }
    return environment


def _link(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query)}"


def _mark_words(counts: Sequence[int]) -> str:
    said = (f"{count:,} {mark.word}" for mark, count in zip(MARKS, counts, strict=True) if count)
    return ", ".join(said) or "no partitions"


def _worst_mark(counts: Sequence[int]) -> Mark | None:
    return next((MARKS[number] for number in WORST if counts[number]), None)


def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


def _overview(request: Request) -> Response:
    snapshot = _site(request).watch.newest
    search = request.query_params.get("q") or ""
    found = overview(snapshot, search)
    names = {asset["asset"] for asset in found["assets"]}
    upstreams = {
        facts.name: [u for u in facts.upstreams if not search or u in names]
        for facts in snapshot.assets.values()
        if facts.name in names and not facts.retired
    }
    joined = {u for found_above in upstreams.values() for u in found_above}
    upstreams = {name: above for name, above in upstreams.items() if above or name in joined}
    part = request.query_params.get("part") == "board"
    return show(
        request,
        "_board.html" if part else "overview.html",
        search=search,
        board=found,
        graph=make_graph(upstreams),
        box=(WIDTH, HEIGHT),
        facts=snapshot.assets,
    )


def _as_of(request: Request) -> Response:
    return show(request, "_asof.html")


def _asset(request: Request) -> Response:
    site = _site(request)
    view = read_view(request.query_params)
    facts = site.watch.newest.asset(view.asset)
    below = sorted(f.name for f in site.watch.newest.assets.values() if view.asset in f.upstreams)
    page, refused = None, None
    try:
        page = page_of(site, request.query_params)
    except PartitaError as error:
        # A predicate that somebody is at work on: the page has the form that it is mended in.
        if view.where is None:
            raise
        refused = str(error)
    return show(
        request, "asset.html", 400 if refused else 200, facts=facts, view=view, below=below, page=page, refused=refused,
    )  # fmt: skip


def _asset_partitions(request: Request) -> Response:
    page = page_of(_site(request), request.query_params)
    return show(request, "_partitions.html", page=page, view=read_view(request.query_params))


def _asset_summary(request: Request) -> Response:
    bins = bins_of(_site(request), request.query_params)
    width = len(bins.across.labels)
    starts = range(0, len(bins.cells), width)
    sums = [
        [sum(n) for n in zip(*(bins.mixes[cell] for cell in bins.cells[at : at + width]), strict=True)] for at in starts
    ]
    lines = list(zip(bins.down.labels, sums, strict=True))
    return show(request, "_summary.html", lines=lines, down=bins.down, across=bins.across)


def _partition(request: Request) -> Response:
    asset, key = asked(request.query_params, "asset"), asked(request.query_params, "key")
    site = _site(request)
    found = partition.identity(site.watch.newest, asset, key)
    return show(request, "partition.html", partition=found, facts=site.watch.newest.asset(asset))


def _partition_why(request: Request) -> Response:
    asset, key = asked(request.query_params, "asset"), asked(request.query_params, "key")
    site = _site(request)
    site.watch.newest.asset(asset)
    return show(request, "_why.html", why=site.watch.asking.why(asset, PartitionKey.parse(key)).document())


def _partition_history(request: Request) -> Response:
    asset, key = asked(request.query_params, "asset"), asked(request.query_params, "key")
    return show(request, "_history.html", history=partition.history(_site(request).lake, asset, key))


def _partition_files(request: Request) -> Response:
    asset, key = asked(request.query_params, "asset"), asked(request.query_params, "key")
    site = _site(request)
    return show(request, "_files.html", found=partition.files(site.lake, site.watch.newest, site.tables, asset, key))


def _table(request: Request) -> Response:
    name = asked(request.query_params, "name")
    site = _site(request)
    # What is no table's name, or leaves the lake, is refused here and not in a part of the page.
    site.lake.table(name)
    writers = [facts.name for facts in site.watch.newest.assets.values() if facts.table == name]
    return show(request, "table.html", name=name, writers=writers)


def _table_facts(request: Request) -> Response:
    facts = _site(request).tables.facts(asked(request.query_params, "name"))
    return show(request, "_table.html", table=facts.document)


def _plan(request: Request) -> Response:
    question = read_question(request.query_params)
    if question.view is not None:
        _site(request).watch.newest.asset(question.view.asset)
    return show(request, "plan.html", question=question)


def _plan_preview(request: Request) -> Response:
    site = _site(request)
    question = read_question(request.query_params)
    plan = preview(*site.plans.make(question), may_run=site.runs.allowed)
    return show(request, "_plan.html", plan=plan, question=question)


def _run(request: Request) -> Response:
    runs = _site(request).runs
    return show(request, "run.html", run=None if runs.newest is None else runs.newest.document())


def _begin(request: Request) -> Response:
    """Run a plan that was shown; htmx goes to the page of the run then."""
    site = _site(request)
    site.runs.begin(lambda: site.plans.kept(asked(request.query_params, "plan")))
    return Response(status_code=204, headers={"HX-Redirect": "/run"})


def _run_events(request: Request) -> Response:
    """The stream of the API, with the end of the run as a part of the page."""

    def outcome(run: Run) -> dict[str, str]:
        return {"state": run.state, "html": _drawn(request, "_outcome.html", run=run.document())}

    return stream_run(request, outcome)
