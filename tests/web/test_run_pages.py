"""Plan and run in a real Chromium, on a real Spark: one server and one Spark for all of these."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from partita.lake import Lake
from tests.web.browser_session import SignedInBrowser, UiServer, WatchedPage, run_ui_server
from tests.web.lakes import HOSTILE_TEXT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.jvm
SPARK = 180_000
"""Milliseconds for a run; the first starts Spark."""

PIPELINE = f"""
import partita as pt

HOSTILE = {HOSTILE_TEXT!r}
REGIONS = pt.static("region", ["eu", HOSTILE])


def rows(ctx):
    return ctx.spark.createDataFrame([(key["region"], 1) for key in ctx.keys], "region string, n int")


@pt.asset(table="shop.orders", partitions=REGIONS, code_version="1")
def orders(ctx):
    return rows(ctx)


@pt.asset(table="shop.counts", partitions=REGIONS, upstream=[orders], code_version="1")
def counts(ctx):
    return ctx.read(orders).groupBy("region").count()


@pt.asset(table="shop.broken", partitions=REGIONS, code_version="1")
def broken(ctx):
    if any(key["region"] == HOSTILE for key in ctx.keys):
        raise ValueError(f"no {{HOSTILE}}\\nfor anybody")
    return rows(ctx)


@pt.asset(table="shop.slow", partitions=REGIONS, code_version="1")
def slow(ctx):
    nap = "IF(n < 0, '', java_method('java.lang.Thread', 'sleep', 600000L))"
    return rows(ctx).selectExpr("region", f"{{nap}} AS n")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    toml = '[lake]\nuri = "lake"\n[spark]\nmaster = "local[2]"\n[pipeline]\nmodule = "web_shop.py"\n'
    (folder / "partita.toml").write_text(toml, encoding="utf-8")
    (folder / "web_shop.py").write_text(PIPELINE, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def server(project: Path) -> Iterator[UiServer]:
    with run_ui_server("--allow-run", folder=project) as server:
        yield server


@pytest.fixture(scope="module")
def signed_in(browser: Browser, server: UiServer) -> SignedInBrowser:
    return SignedInBrowser.of(browser, server.url)


@pytest.fixture
def signed_in_page(signed_in: SignedInBrowser) -> Iterator[WatchedPage]:
    with signed_in.open_page() as signed_in_page:
        yield signed_in_page


def start_shown_plan(page: Page) -> None:
    """Press the button of a plan by key, and see the page of its run."""
    button = page.get_by_role("button", name="Run this plan")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/run")


def wait_for_end(page: Page, state: str = "ended") -> None:
    expect(page.locator("#run")).to_have_attribute("data-state", state, timeout=SPARK)
    expect(page.locator("#outcome .banner")).to_be_visible()


def request_text(server: UiServer, path: str, method: str = "GET", **query: Any) -> str:
    request = urllib.request.Request(  # noqa: S310 - ours
        f"{server.base}{path}?{urlencode(query, doseq=True)}",
        headers={"Authorization": f"Bearer {server.token}"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=SPARK / 1000) as answer:  # noqa: S310 - ours
        return str(answer.read().decode())


def last_event(stream_text: str) -> dict[str, Any]:
    """What a stream says of a run last."""
    *_, name, data = stream_text.strip().splitlines()
    assert name == "event: over"
    return dict(json.loads(data.removeprefix("data: ")))


def counts(project: Path, asset: str) -> dict[str, int]:
    return dict(Lake(str(project / "lake")).status_counts(asset).to_pylist()[0])


def test_from_an_asset_to_its_plan_to_its_run(signed_in_page: WatchedPage, project: Path) -> None:
    page = signed_in_page.page
    signed_in_page.open("/asset?asset=orders")
    page.get_by_role("link", name="Plan this asset").click()
    expect(page.locator("main strong")).to_have_text("2 partitions would run, in 1 batch.")
    expect(page.locator("#plan-summary")).to_have_text("2 partitions would run, in 1 batch.")
    expect(page.get_by_role("region", name="Partitions of orders")).to_contain_text(HOSTILE_TEXT[:30])
    signed_in_page.shoot("plan", full_page=True)
    start_shown_plan(page)
    expect(page.locator("#progress-text")).to_have_attribute("aria-live", "polite")
    wait_for_end(page)
    expect(page.locator("#outcome")).to_contain_text("All partitions succeeded.")
    expect(page.locator("#progress-text")).to_have_text("ended: 2 of 2 partitions")
    expect(page.locator("#log li").last).to_contain_text("2 partitions made, in ")
    expect(page.get_by_role("button", name="Cancel")).to_be_disabled()
    assert counts(project, "orders")["current"] == 2
    lines = page.locator("#log li").count()
    page.reload()
    wait_for_end(page)
    expect(page.locator("#log li")).to_have_count(lines)
    assert page.title() != "owned"


def test_a_selection_on_the_map_is_planned(signed_in_page: WatchedPage) -> None:
    page = signed_in_page.page
    signed_in_page.open("/asset?asset=counts")
    page.wait_for_selector("#map[data-cells]")
    page.focus("#map")
    page.keyboard.press("Shift+ArrowLeft")
    page.get_by_role("link", name="Plan these").click()
    expect(page.locator("main strong")).to_have_text("1 partition would run, in 1 batch.")
    expect(page.locator("main")).to_contain_text("in the selected part of its map")
    page.get_by_role("link", name="with its upstreams").click()
    expect(page.locator("main strong")).to_have_text("2 partitions would run, in 1 batch.")


def test_failures_are_shown_as_text(signed_in_page: WatchedPage, project: Path) -> None:
    page = signed_in_page.page
    signed_in_page.open("/plan")
    page.get_by_role("textbox", name="assets").fill("broken orders")
    page.get_by_role("checkbox", name="missing", exact=True).check()
    page.get_by_role("button", name="Plan", exact=True).click()
    page.wait_for_url("**need=missing*")
    start_shown_plan(page)
    wait_for_end(page)
    expect(page.locator("#outcome")).to_contain_text("Not all partitions succeeded.")
    expect(page.locator("#outcome pre.error")).to_contain_text(f"ValueError: no {HOSTILE_TEXT}")
    expect(page.locator("#log li.error").first).to_contain_text("could not be made")
    signed_in_page.shoot("run", full_page=True)
    assert page.locator("main img").count() == 0
    assert page.title() != "owned"
    found = counts(project, "broken")
    assert (found["current"], found["failed"]) == (1, 1)


def test_a_run_is_cancelled(signed_in_page: WatchedPage, project: Path) -> None:
    page = signed_in_page.page
    signed_in_page.open("/plan?select=slow")
    start_shown_plan(page)
    expect(page.locator("#log")).to_contain_text("slow: 2 partitions started", timeout=SPARK)
    expect(page.locator("#progress-text")).to_contain_text("running: 0 of 2 partitions")
    signed_in_page.shoot("run-at-work")
    page.get_by_role("button", name="Cancel").click()
    wait_for_end(page)
    expect(page.locator("#outcome")).to_contain_text("The run was cancelled.")
    expect(page.locator("#outcome")).to_contain_text("partita run --resume")
    found = counts(project, "slow")
    assert (found["cancelled"], found["running"], found["failed"]) == (2, 0, 0)


def test_an_outdated_plan_is_refused(signed_in_page: WatchedPage, project: Path) -> None:
    page = signed_in_page.page
    signed_in_page.open("/plan?select=counts")
    Lake(str(project / "lake")).record("counts", {"region": "eu"}, outcome="failed", error="elsewhere")
    start_shown_plan(page)
    wait_for_end(page, "refused")
    expect(page.locator("#outcome")).to_contain_text("PlanOutdated")
    signed_in_page.shoot("run-refused")


def test_by_the_api(server: UiServer, project: Path) -> None:
    plan = json.loads(request_text(server, "/api/plan", select="counts"))
    assert (plan["partitions"], plan["may_run"]) == (2, True)
    begun = json.loads(request_text(server, "/api/run", "POST", plan=plan["plan"]))
    assert begun["total"] == 2
    stream_text = request_text(server, "/api/run/events")
    assert last_event(stream_text)["state"] == "ended"
    assert '"event": "succeeded"' in stream_text
    ended = json.loads(request_text(server, "/api/run"))
    assert (ended["ok"], ended["succeeded"]) == (True, 2)
    assert counts(project, "counts")["current"] == 2


def test_the_end_of_the_server_cancels_the_run_and_waits(server: UiServer, project: Path, browser: Browser) -> None:
    """The last of these: there is no server after it."""
    plan = json.loads(request_text(server, "/api/plan", select="slow"))
    request_text(server, "/api/run", "POST", plan=plan["plan"])
    page = browser.new_page()
    page.goto(server.url)
    page.goto(f"{server.base}/run")
    with urllib.request.urlopen(  # noqa: S310 - ours
        urllib.request.Request(f"{server.base}/api/run/events", headers={"Authorization": f"Bearer {server.token}"}),  # noqa: S310
        timeout=SPARK / 1000,
    ) as stream:
        for line in stream:
            if b'"event": "started"' in line:
                break
        server.process.terminate()
        rest = stream.read().decode()
    end = last_event(rest)
    assert (end["state"], end["cancelled"]) == ("ended", 2), "who looks on hears the end"
    expect(page.locator("#outcome")).to_contain_text("The run was cancelled.")
    server.process.wait(60)
    expect(page.locator("#asof")).to_contain_text("the server doesn't answer", timeout=20_000)
    expect(page.locator("#asof")).not_to_contain_text("run in progress")
    page.close()
    found = counts(project, "slow")
    assert (found["cancelled"], found["running"]) == (2, 0)
