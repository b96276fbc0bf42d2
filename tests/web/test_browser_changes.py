"""Pages in a real Chromium over a lake that changes, with names meant to mislead, and a server that goes away."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

import partita as pt
from partita.lake import Lake
from tests.web.browser_session import SignedInBrowser, WatchedPage, serve_lake
from tests.web.lakes import fill_dense_lake

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LONG = "a_name_" + "that_goes_on_" * 15
EVIL = "\u202eevil"
FIRST = date(2026, 6, 1)
FOLLOWED = 30_000
"""Milliseconds until a page has seen what was recorded."""


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(str(tmp_path_factory.mktemp("moving") / "lake"))
    raw = pt.asset(name="raw", partitions=pt.daily("date", start=FIRST, end=FIRST + timedelta(days=20)))(print)
    customers = pt.asset(name="customers", partitions=pt.static("customer", [f"c{n:03}" for n in range(70)]))(print)
    days = pt.daily("date", start=date(2024, 1, 1), end=date(2026, 1, 1))
    mixed = pt.asset(name="mixed", partitions=days * pt.static("region", ["eu"]))(print)
    long = pt.asset(name=LONG, upstream=[raw])(print)
    lake.register(raw, customers, mixed, long, pt.asset(name=EVIL, upstream=[raw, long])(print))
    lake.record("raw", [{"date": FIRST + timedelta(days=d)} for d in range(3)], outcome="succeeded", at=_now())
    half = [date(2024, 1, 1) + timedelta(days=d) for d in range(0, 731, 2)]
    lake.record("mixed", [{"date": day, "region": "eu"} for day in half], outcome="succeeded", at=_now())
    fill_dense_lake(lake)
    lake.record(EVIL, outcome="failed", at=_now(), run_id=f"run-{EVIL}", error=f"no {EVIL}")
    return lake


def _now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def address(moving: Lake) -> Iterator[str]:
    with serve_lake(moving) as url:
        yield url


@pytest.fixture(scope="module")
def signed_in(browser: Browser, address: str) -> SignedInBrowser:
    return SignedInBrowser.of(browser, address)


@pytest.fixture
def signed_in_page(signed_in: SignedInBrowser) -> Iterator[WatchedPage]:
    with signed_in.open_page() as signed_in_page:
        yield signed_in_page


def asset(signed_in_page: WatchedPage, name: str, **query: str) -> Page:
    signed_in_page.open(f"/asset?{urlencode({'asset': name, **query})}")
    signed_in_page.page.wait_for_selector("#map[data-cells]")
    return signed_in_page.page


def test_recorded_events_appear_without_a_reload(signed_in_page: WatchedPage, moving: Lake) -> None:
    page = asset(signed_in_page, "raw", state="missing")
    page.get_by_text("The map as a table").click()
    expect(page.locator("#summary-table")).to_contain_text("17")
    other = WatchedPage(page.context.new_page(), signed_in_page.base)
    other.open("/partition?" + urlencode({"asset": "raw", "key": "date=d:2026-06-04"}))
    expect(other.page.locator("#state")).to_contain_text("missing")
    board = WatchedPage(page.context.new_page(), signed_in_page.base)
    board.open("/")
    page.get_by_label("where").press_sequentially("date > ")
    moving.record("raw", {"date": FIRST + timedelta(days=3)}, outcome="succeeded", at=_now(), run_id="run-2")
    expect(page.locator("#list")).to_contain_text("16 partitions match the filters", timeout=FOLLOWED)
    expect(page.locator("#states")).to_contain_text("missing 16")
    expect(page.locator("#states")).to_contain_text("current 4")
    expect(page.locator("#facts")).to_contain_text("run-2")
    expect(page.locator("#map-count")).to_have_text("16 partitions shown")
    expect(page.locator("#summary-table")).to_contain_text("16")
    expect(page.get_by_label("where")).to_have_value("date > ")
    expect(page.get_by_label("where")).to_be_focused()
    expect(other.page.locator("#state")).to_contain_text("current", timeout=FOLLOWED)
    expect(other.page.get_by_role("region", name="List of events")).to_contain_text("run-2")
    expect(board.page.locator("#board")).to_contain_text("run-2", timeout=FOLLOWED)
    for one in (other, board):
        one.check()


def test_the_page_of_the_list_stays_where_it_is(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page, "customers")
    first = page.locator("table.partitions tbody th").first
    before = first.inner_text()
    page.get_by_role("navigation", name="Pages").get_by_text("after").click()
    expect(first).not_to_have_text(before)
    assert "after=" in page.url
    after = first.inner_text()
    page.reload()
    expect(first).to_have_text(after)


def test_one_dimension_that_wraps_is_named(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page, "customers")
    page.focus("#map")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#readout")).to_have_text("customer=c003: 1 missing")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#readout")).to_have_text("customer=c053: 1 missing")
    assert page.get_by_label("where").get_attribute("placeholder") == "customer = …"


def test_a_bin_of_several_states_has_the_shape_of_the_worst(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page, "mixed")
    dots = page.evaluate("""() => {
        const canvas = document.querySelector("#map canvas");
        const colour = getComputedStyle(document.documentElement).getPropertyValue("--missing").trim();
        const wanted = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
        const points = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        let found = 0;
        for (let at = 0; at < points.length; at += 4)
            if (wanted.every((value, of) => Math.abs(points[at + of] - value) < 12)) found++;
        return found;
    }""")
    assert dots > 50
    signed_in_page.shoot("map-mixed")


def test_a_tenth_of_many_looks_like_a_tenth(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page, "dense")
    missing, current = page.evaluate("""() => {
        const canvas = document.querySelector("#map canvas");
        const style = getComputedStyle(document.documentElement);
        const points = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return ["--none", "--current"].map((name) => {
            const colour = style.getPropertyValue(name).trim();
            const wanted = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
            let found = 0;
            for (let at = 0; at < points.length; at += 4)
                if (points[at + 3] > 200 && wanted.every((value, of) => Math.abs(points[at + of] - value) < 9)) found++;
            return found;
        });
    }""")
    assert 0.1 < missing / (missing + current) < 0.45
    signed_in_page.shoot("map-dense")


def test_a_long_name_breaks_no_page(signed_in_page: WatchedPage) -> None:
    page = signed_in_page.page
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        for path in ("/", f"/asset?{urlencode({'asset': LONG})}", f"/plan?{urlencode({'select': LONG})}"):
            signed_in_page.open(path)
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert over == 0, (width, path)
        signed_in_page.open("/")
        signed_in_page.shoot(f"long-{width}", full_page=True)


def test_no_text_turns_round_what_is_read(signed_in_page: WatchedPage) -> None:
    page = signed_in_page.page
    for path in ("/", f"/asset?{urlencode({'asset': EVIL})}", f"/partition?{urlencode({'asset': EVIL, 'key': ''})}"):
        signed_in_page.open(path)
        expect(page.locator("main")).to_contain_text("evil")
        # Errors of many lines are shown as they are, each apart from what is round it.
        raw = page.evaluate("""() => {
            const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
            const found = [];
            while (walker.nextNode())
                if (walker.currentNode.data.includes("\\u202e") && !walker.currentNode.parentElement.closest("pre bdi"))
                    found.push(walker.currentNode.data);
            return found;
        }""")
        assert raw == [], path
    assert "\u202e" not in page.title()


def check_console_of_refusal(signed_in_page: WatchedPage) -> None:
    """Chromium itself says on the console what wasn't answered; nothing else did."""
    assert [line for line in signed_in_page.console if "Failed to load resource" not in line] == []
    signed_in_page.console.clear()


def test_a_server_that_is_gone_is_noticed_and_so_is_its_return(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page, "raw")
    page.context.set_offline(True)
    page.click("[data-do=whole]")
    expect(page.locator("#asof .problem")).to_have_text("the server doesn't answer")
    expect(page.locator("#readout")).to_have_text("the server doesn't answer")
    expect(page.locator("#asof [data-as-of]")).to_be_visible()
    check_console_of_refusal(signed_in_page)
    page.context.set_offline(False)
    expect(page.locator("#asof .problem")).to_have_count(0, timeout=FOLLOWED)
    expect(page.locator("#readout")).to_have_text("")
    check_console_of_refusal(signed_in_page)


def test_a_server_with_another_token_shows_an_error_with_a_way_out(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page, "raw")
    page.context.clear_cookies()
    page.click("[data-do=in]")
    expect(page.locator("#readout")).to_contain_text("the token is missing; open the address")
    expect(page.locator("#asof .problem")).to_contain_text("401: the token is missing; open the address")
    check_console_of_refusal(signed_in_page)
