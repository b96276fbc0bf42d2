"""A site over a lake with every state, made once, and clients that ask it without a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from partita.lake import Lake
from partita.web.app import make_app
from partita.web.gate import Gate, Keeper
from partita.web.site import Site
from tests.web.lakes import sample, with_tables

TOKEN = "a-token-of-the-tests"  # noqa: S105 - of these tests alone
BASE = "http://127.0.0.1:8765"


@pytest.fixture(scope="session")
def sample_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The lake that the pages of these tests show; nothing writes to it."""
    return with_tables(sample(Lake(str(tmp_path_factory.mktemp("web") / "lake"))))


@pytest.fixture(scope="session")
def site(sample_lake: Lake) -> Site:
    """The site of that lake, with a snapshot taken and no watch running."""
    site = Site.of(sample_lake, Keeper(TOKEN, port=8765))
    site.watch.take()
    return site


@pytest.fixture(scope="session")
def app(site: Site) -> Gate:
    """The application."""
    return make_app(site)


@pytest.fixture
def client(app: Gate) -> Iterator[TestClient]:
    """A program that has the token."""
    client = TestClient(app, base_url=BASE, headers={"Authorization": f"Bearer {TOKEN}"})
    yield client
    client.close()


@pytest.fixture
def stranger(app: Gate) -> Iterator[TestClient]:
    """A program that has no token, and follows no redirect."""
    client = TestClient(app, base_url=BASE, follow_redirects=False)
    yield client
    client.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark `browser` whatever drives one."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
