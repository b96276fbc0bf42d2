"""A served lake and a browser that is watched: what its console said, and which addresses it asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.cli.terminal import SPARK_ENVIRONMENT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from partita.lake import Lake

SCREENSHOT_FOLDER = Path(__file__).parents[2] / "build" / "screenshots"


BROWSER_TIMEOUT_MILLIS = 20_000


@contextmanager
def serve_lake(lake: Lake) -> Iterator[str]:
    """`partita ui` on a free port, in a process of its own; gives the URL that it printed."""
    with run_ui_server("--lake", lake.uri) as server:
        yield server.url


@dataclass(frozen=True)
class UiServer:
    """A server, and the URL that it printed."""

    process: subprocess.Popen[str]
    url: str

    @property
    def base(self) -> str:
        """The URL without what follows its host."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def token(self) -> str:
        """The token that it asks for."""
        return self.url.partition("token=")[2]


@contextmanager
def run_ui_server(*words: str, folder: Path | None = None) -> Iterator[UiServer]:
    """`partita ui` with these words, in a folder."""
    command = [sys.executable, "-m", "partita.cli", "ui", "--port", "0", "--no-open", *words]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PARTITA_")}
    environment = {**inherited, **SPARK_ENVIRONMENT}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        try:
            assert url.startswith("http://127.0.0.1:"), url
            yield UiServer(server, url)
        finally:
            server.terminate()


@dataclass
class WatchedPage:
    """A page, and all that happened in it."""

    page: Page
    base: str
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.console.append(f"error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: str) -> None:
        """Open a page of the server, and wait until it has what it asks for."""
        self.page.goto(self.base + path)
        self.page.wait_for_load_state("networkidle")

    def shoot(self, name: str, **options: Any) -> None:
        """Keep a picture for people to look at."""
        SCREENSHOT_FOLDER.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOT_FOLDER / f"{name}.png", **options)

    def check(self) -> None:
        """Nothing was said on the console, and nobody else was asked anything."""
        assert self.console == []
        outside = [url for url in self.requests if not _is_inside(url, self.base)]
        assert outside == []
        assert self.requests


@contextmanager
def watched_page(browser: Browser, base: str, cookies: Sequence[Any] = ()) -> Iterator[WatchedPage]:
    """A fresh browser that has these cookies and no page yet; at the end, nothing was wrong with what it saw."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light", locale="en-US")
    context.set_default_timeout(BROWSER_TIMEOUT_MILLIS)
    context.add_cookies(cookies)
    seen = WatchedPage(context.new_page(), base)
    yield seen
    seen.check()
    context.close()


@dataclass(frozen=True)
class SignedInBrowser:
    """A browser that signed in once; its cookies sign in every page that it opens."""

    browser: Browser
    base: str
    cookies: Sequence[Any]

    @classmethod
    def of(cls, browser: Browser, url: str) -> SignedInBrowser:
        """Sign in by the URL that the server printed."""
        parts = urlsplit(url)
        base = f"{parts.scheme}://{parts.netloc}"
        with watched_page(browser, base) as seen:
            seen.open(f"/?{parts.query}")
            cookies = seen.page.context.cookies()
        return cls(browser, base, cookies)

    def open_page(self) -> AbstractContextManager[WatchedPage]:
        """A fresh page that is signed in."""
        return watched_page(self.browser, self.base, self.cookies)


def _is_inside(url: str, base: str) -> bool:
    return urlsplit(url).scheme == "data" or urlsplit(url).netloc == urlsplit(base).netloc
