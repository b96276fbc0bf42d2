"""The pages in a real Chromium: zoom, filters, keys, why, hostile values; no error, no outside request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, expect

import partita as pt
from partita.lake import Lake
from tests.web.browser_session import SignedInBrowser, WatchedPage, serve_lake, watched_page
from tests.web.lakes import ERROR_TEXT, HOSTILE_ASSET, HOSTILE_TEXT

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE_PARTITION = {
    "asset": "daily_sales",
    "key": str(pt.PartitionKey.of(date=date(2026, 7, 22), region=HOSTILE_TEXT)),
}


@pytest.fixture(scope="module")
def address(sample_lake: Lake) -> Iterator[str]:
    """The URL that `partita ui` printed for the sample."""
    with serve_lake(sample_lake) as url:
        yield url


@pytest.fixture(scope="module")
def signed_in(browser: Browser, address: str) -> SignedInBrowser:
    return SignedInBrowser.of(browser, address)


@pytest.fixture
def signed_in_page(signed_in: SignedInBrowser) -> Iterator[WatchedPage]:
    """A fresh page that is signed in; at the end, nothing was wrong with what it saw."""
    with signed_in.open_page() as signed_in_page:
        yield signed_in_page


def asset(signed_in_page: WatchedPage, name: str = "daily_sales", **query: str | list[str]) -> Page:
    signed_in_page.open(f"/asset?{urlencode({'asset': name, **query}, doseq=True)}")
    signed_in_page.page.wait_for_selector("#map[data-cells]")
    return signed_in_page.page


def test_the_token_leaves_the_url(browser: Browser, address: str) -> None:
    parts = urlsplit(address)
    with watched_page(browser, f"{parts.scheme}://{parts.netloc}") as signed_in_page:
        signed_in_page.open(f"/?{parts.query}")
        assert signed_in_page.page.url == f"{signed_in_page.base}/"
        assert signed_in_page.page.evaluate("document.cookie") == ""


def test_without_the_token_the_browser_is_refused(browser: Browser, address: str) -> None:
    parts = urlsplit(address)
    page = browser.new_page()
    answer = page.goto(f"{parts.scheme}://{parts.netloc}/")
    assert answer is not None
    assert answer.status == 401
    assert "daily_sales" not in page.content()
    page.close()


def test_the_overview(signed_in_page: WatchedPage) -> None:
    page = signed_in_page.page
    signed_in_page.open("/")
    expect(page.get_by_text("6 of 7 assets need attention.")).to_be_visible()
    assert page.locator("table tbody tr").count() == 7
    assert page.locator(".graph a").count() == 4
    signed_in_page.shoot("overview", full_page=True)
    page.locator(".graph a", has_text="daily_sales").click()
    page.wait_for_url("**/asset?asset=daily_sales")


def test_search_narrows_as_one_types(signed_in_page: WatchedPage) -> None:
    page = signed_in_page.page
    signed_in_page.open("/")
    page.get_by_role("searchbox").press_sequentially("sal")
    expect(page.locator("table tbody tr")).to_have_count(1)
    expect(page.locator("table tbody th")).to_have_text("daily_sales")
    page.get_by_role("searchbox").fill("no such thing")
    expect(page.get_by_text("No asset or table has “no such thing” in its name.")).to_be_visible()
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("no such thing")
    page.get_by_role("searchbox").fill("")
    expect(page).to_have_url(f"{signed_in_page.base}/")


def test_hover_shows_the_partitions_of_a_bin(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page)
    page.hover("#map canvas", position={"x": 600, "y": 60})
    expect(page.locator("#tip")).to_contain_text(re.compile(r"region=ap, 2026-\d\d-\d\d\s*1 (current|stale)"))
    signed_in_page.shoot("asset")


def test_zoom_and_back(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page)
    whole = page.get_attribute("#map", "data-view")
    entries = page.evaluate("history.length")
    page.click("[data-do=in]")
    expect(page.locator("#map")).not_to_have_attribute("data-view", str(whole))
    nearer = page.get_attribute("#map", "data-view")
    assert width(nearer) < width(whole)
    assert f"view={str(nearer).replace(',', '%2C')}" in page.url
    page.hover("#map canvas", position={"x": 600, "y": 60})
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    expect(page.locator("#map")).not_to_have_attribute("data-view", str(nearer))
    nearest = str(page.get_attribute("#map", "data-view"))
    assert page.evaluate("history.length") == entries, "steps of a zoom aren't kept"
    page.reload()
    expect(page.locator("#map")).to_have_attribute("data-view", nearest)
    page.click("[data-do=whole]")
    expect(page.locator("#map")).to_have_attribute("data-view", str(whole))
    assert "view=" not in page.url
    page.go_back()
    expect(page.locator("#map")).to_have_attribute("data-view", nearest)


def test_zoom_stays_with_what_is_looked_at(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page)
    page.focus("#map")
    for _ in range(8):
        page.keyboard.press("+")
    expect(page.locator("#map-count")).to_have_text("1 partition shown")
    assert width(page.get_attribute("#map", "data-view")) == 1, "each step counts, however quick"
    chosen = "20650,20650,3,3"
    asset(signed_in_page, selected=chosen)
    for _ in range(8):
        page.click("[data-do=in]")
    expect(page.locator("#map")).to_have_attribute("data-view", chosen)


def width(view: str | None) -> int:
    first, last, *_ = map(int, str(view).split(","))
    return last - first + 1


def test_a_drag_selects_what_the_list_shows(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page)
    box = page.locator("#map canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 500, box["y"] + 40)
    page.mouse.down()
    page.evaluate("""() => {
        const fill = CanvasRenderingContext2D.prototype.fillRect;
        CanvasRenderingContext2D.prototype.fillRect = function (...given) {
            window.filled = (window.filled || 0) + 1;
            fill.apply(this, given);
        };
    }""")
    page.mouse.move(box["x"] + 620, box["y"] + 70, steps=5)
    page.evaluate("() => new Promise(requestAnimationFrame)")
    assert page.evaluate("window.filled || 0") == 0, "the map itself isn't drawn anew while the pointer moves"
    page.mouse.up()
    expect(page.locator("#list")).to_contain_text("in the selection")
    assert "selected=" in page.url
    listed = int(page.locator("#list p").first.inner_text().split()[0])
    assert 1 < listed < 50
    signed_in_page.shoot("selection")
    page.click("[data-do=selection]")
    expect(page.locator("#map-count")).to_have_text(f"{listed} partitions shown")
    page.click("[data-do=clear]")
    expect(page.locator("#list")).to_contain_text("242 partitions")


def test_a_drag_that_is_taken_away_selects_nothing(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page)
    page.hover("#map canvas", position={"x": 500, "y": 40})
    page.mouse.down()
    page.locator("#map canvas").dispatch_event("pointercancel")
    page.mouse.up()
    assert "selected=" not in page.url


def test_keys_that_select_ask_for_the_list_once_they_rest(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page)
    page.focus("#map")
    signed_in_page.requests.clear()
    for _ in range(20):
        page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#list")).to_contain_text("19 partitions in the selection")
    assert len([url for url in signed_in_page.requests if "/asset/partitions" in url]) < 6


def test_a_predicate_that_is_wrong_is_mended_in_its_place(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page, state="failed")
    page.get_by_label("where").fill("nothing = 'us'")
    page.get_by_label("where").press("Enter")
    expect(page.locator("#where-error")).to_contain_text("nothing")
    expect(page.get_by_label("where")).to_have_value("nothing = 'us'")
    expect(page.get_by_label("failed 7")).to_be_checked()
    assert [line for line in signed_in_page.console if "400 (Bad Request)" not in line] == []
    signed_in_page.console.clear()
    signed_in_page.shoot("refused")
    page.get_by_label("where").fill("region = 'us'")
    page.get_by_label("where").press("Enter")
    expect(page.locator("#map-count")).to_have_text("3 partitions shown")


def test_filters_are_in_the_url(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page)
    page.get_by_label("last attempt failed 3").check()
    page.wait_for_url("**mark=retry-failed*")
    page.get_by_label("failed 4", exact=True).check()
    page.wait_for_url("**mark=failed*")
    page.wait_for_selector("#map[data-cells]")
    expect(page.locator("#map-count")).to_have_text("7 partitions shown")
    expect(page.get_by_label("failed 4", exact=True)).to_be_focused()
    page.get_by_label("where").fill("region = 'us'")
    page.get_by_label("where").press("Enter")
    page.wait_for_url("**where=*")
    expect(page.locator("#map-count")).to_have_text("3 partitions shown")
    assert page.locator("table.partitions tbody tr").count() == 3
    assert "view=" not in page.url
    signed_in_page.shoot("filters")
    page.get_by_text("Clear filters").click()
    expect(page.locator("#map-count")).to_have_text("242 partitions shown")


def test_back_leaves_no_filter_ticked_that_is_not_applied(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page)
    page.get_by_label("stale 30").check()
    page.wait_for_url("**mark=stale*")
    page.wait_for_selector("#map[data-cells]")
    page.go_back()
    page.wait_for_selector("#map[data-cells]")
    expect(page.locator("#map-count")).to_have_text("242 partitions shown")
    expect(page.get_by_label("stale 30")).not_to_be_checked()


def test_the_pages_of_the_list_keep_the_focus(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page, mark=["stale", "missing"])
    first = page.locator("table.partitions tbody th").first
    before = first.inner_text()
    page.locator("#page-after").focus()
    page.keyboard.press("Enter")
    expect(first).not_to_have_text(before)
    expect(page.locator("#page-after")).to_be_focused()
    expect(page.locator("#page-after")).to_have_attribute("aria-disabled", "true")
    page.keyboard.press("Shift+Tab")
    expect(page.locator("#page-before")).to_be_focused()
    page.keyboard.press("Enter")
    expect(first).to_have_text(before)
    expect(page.locator("#page-before")).to_be_focused()


def test_the_map_by_keys(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page)
    page.focus("#map")
    readout = page.locator("#readout")
    expect(readout).to_contain_text(", 2026-05-30: no partition")
    assert readout.get_attribute("aria-live") == "polite"
    for _ in range(2):
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
    expect(readout).to_have_text("region=eu, 2026-06-01: 1 stale")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#list")).to_contain_text("2 partitions in the selection")
    page.keyboard.press("Escape")
    expect(page.locator("#list")).to_contain_text("242 partitions")
    page.keyboard.press("+")
    page.wait_for_url("**view=*")
    page.keyboard.press("0")
    page.wait_for_url(lambda url: "view=" not in url)
    page.keyboard.press("Enter")
    page.wait_for_url("**/partition?*")
    expect(page.locator("h1")).to_have_text("date=2026-06-02,region=eu")


def test_the_map_as_a_table(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page)
    page.get_by_text("The map as a table").click()
    expect(page.locator("#summary-table tbody tr")).to_have_count(4)
    expect(page.locator("#summary-table")).to_contain_text("2026-05-30 to 2026-07-30")


@pytest.mark.parametrize("name", ["raw_orders", "clicks", "shards", "report", "unregistered"])
def test_every_shape_of_map_is_drawn(signed_in_page: WatchedPage, name: str) -> None:
    page = asset(signed_in_page, name)
    inked = page.evaluate("""() => {
        const canvas = document.querySelector("#map canvas");
        const points = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return points.filter((value, at) => at % 4 === 3 && value > 0).length;
    }""")
    assert inked > 100
    signed_in_page.shoot(f"map-{name}")


def test_pages_of_the_list(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page)
    first = page.locator("table.partitions tbody th").first.inner_text()
    page.get_by_role("navigation", name="Pages").get_by_text("after").click()
    expect(page.locator("table.partitions tbody th").first).not_to_have_text(first)
    page.get_by_role("navigation", name="Pages").get_by_text("before").click()
    expect(page.locator("table.partitions tbody th").first).to_have_text(first)


def test_why_goes_to_the_root(signed_in_page: WatchedPage) -> None:
    signed_in_page.open("/partition?" + urlencode({"asset": "daily_sales", "key": "date=d:2026-06-21,region=s:dXM"}))
    page = signed_in_page.page
    expect(page.locator(".chain")).to_have_count(2)
    expect(page.locator(".chain").first).to_contain_text("upstream changed since 2026-08-01 02:00:00Z")
    signed_in_page.shoot("partition", full_page=True)
    page.locator(".chain .chain a").click()
    expect(page.locator("h1")).to_have_text("date=2026-06-21")


def test_a_partition_has_history_and_files(signed_in_page: WatchedPage) -> None:
    signed_in_page.open("/partition?" + urlencode({"asset": "daily_sales", "key": "date=d:2026-06-06,region=s:dXM"}))
    page = signed_in_page.page
    expect(page.get_by_role("region", name="List of files")).to_contain_text(".parquet")
    expect(page.get_by_text("data/date=2026-06-06/region=us", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="List of events")).to_contain_text("sales-1")


def test_hostile_values_are_text(signed_in_page: WatchedPage) -> None:
    page = signed_in_page.page
    signed_in_page.open("/")
    expect(page.locator("tbody th").first).to_contain_text(HOSTILE_ASSET)
    signed_in_page.open(f"/partition?{urlencode(HOSTILE_PARTITION)}")
    expect(page.locator("pre.error")).to_have_text(ERROR_TEXT)
    expect(page.locator("table.narrow")).to_contain_text(HOSTILE_TEXT)
    signed_in_page.shoot("hostile", full_page=True)
    asset(signed_in_page, HOSTILE_ASSET)
    expect(page.locator("h1")).to_have_text(HOSTILE_ASSET)
    asset(signed_in_page)
    page.hover("#map canvas", position={"x": 600, "y": 30})
    expect(page.locator("#tip")).to_contain_text(HOSTILE_TEXT[:30])
    assert page.locator("main img").count() == 0
    assert page.title() != "owned"


def test_a_table(signed_in_page: WatchedPage) -> None:
    signed_in_page.open("/table?name=web.sales")
    page = signed_in_page.page
    expect(page.get_by_label("Warnings")).to_contain_text("earlier specs: 4 files")
    expect(page.get_by_text("date, region", exact=True)).to_be_visible()
    signed_in_page.shoot("table", full_page=True)


def test_light_and_dark(signed_in_page: WatchedPage) -> None:
    page = asset(signed_in_page)
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    page.wait_for_selector("#map[data-cells]")
    signed_in_page.shoot("asset-dark")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light
    page.evaluate("localStorage.clear()")
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark


def overflow(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_a_phone_shows_all_of_it(signed_in_page: WatchedPage) -> None:
    page = signed_in_page.page
    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/", "/table?name=web.sales", f"/partition?{urlencode(HOSTILE_PARTITION)}", "/plan", "/nothing"):
        signed_in_page.open(path)
        assert overflow(page) == 0, path
        signed_in_page.shoot(f"phone-{path.strip('/').partition('?')[0] or 'overview'}", full_page=True)
    expect(page.locator("main")).not_to_contain_text("HTTP")
    signed_in_page.console.clear()
    asset(signed_in_page, where="region = 'us'")
    assert overflow(page) == 0
    box = page.locator("table.partitions tbody th a").first.bounding_box()
    assert box is not None
    assert box["height"] < 30, "a key is on one line"
    signed_in_page.shoot("phone-asset", full_page=True)


def test_the_focused_element_has_an_outline(signed_in_page: WatchedPage) -> None:
    page = signed_in_page.page
    signed_in_page.open("/")
    for _ in range(6):
        page.keyboard.press("Tab")
        ring = page.evaluate("""() => {
            const style = getComputedStyle(document.activeElement);
            return [document.activeElement.tagName, style.outlineStyle, parseFloat(style.outlineWidth)];
        }""")
        assert ring[1] != "none", ring
        assert ring[2] >= 1, ring


def test_the_button_has_the_lake_read_anew(signed_in_page: WatchedPage) -> None:
    signed_in_page.open("/")
    with signed_in_page.page.expect_response("**/api/refresh") as answered:
        signed_in_page.page.get_by_role("button", name="Refresh").click()
    assert answered.value.status == 200
