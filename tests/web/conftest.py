"""A site over a lake with every state, made once, and clients that ask it without a browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from partita.lake import Lake
from partita.web.access_control import AccessMiddleware, AccessPolicy
from partita.web.app import make_app
from partita.web.site import Site
from tests.web.lakes import add_tables, fill_sample_lake

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TOKEN = "a-token-of-the-tests"  # noqa: S105 - of these tests alone
BASE_URL = "http://127.0.0.1:8765"


@pytest.fixture(scope="session")
def sample_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The lake that the pages of these tests show; nothing writes to it."""
    return add_tables(fill_sample_lake(Lake(str(tmp_path_factory.mktemp("web") / "lake"))))


@pytest.fixture(scope="session")
def site(sample_lake: Lake) -> Iterator[Site]:
    """The site of that lake, with a snapshot taken and no watch running."""
    site = Site.of(sample_lake, AccessPolicy(TOKEN, port=8765))
    site.snapshots.refresh()
    yield site
    site.snapshots.stop()
    site.snapshots.latest.connection.close()


@pytest.fixture(scope="session")
def app(site: Site) -> AccessMiddleware:
    """The application."""
    return make_app(site)


@pytest.fixture
def client(app: AccessMiddleware) -> Iterator[TestClient]:
    """A program that has the token."""
    client = TestClient(app, base_url=BASE_URL, headers={"Authorization": f"Bearer {TOKEN}"})
    yield client
    client.close()


@pytest.fixture
def stranger(app: AccessMiddleware) -> Iterator[TestClient]:
    """A program that has no token, and follows no redirect."""
    client = TestClient(app, base_url=BASE_URL, follow_redirects=False)
    yield client
    client.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, headless."""
    from playwright.sync_api import sync_playwright

    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not found:
        pytest.fail("no Chromium is named by $CHROMIUM; `make test-ui` finds one, or installs it")
    with sync_playwright() as playwright:
        # Chromium's own sandbox needs rights that containers and root don't have.
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark `browser` whatever drives one."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
