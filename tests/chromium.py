"""A real browser for tests of pages: Debian's chromium, by playwright; they are skipped where it is missing.

The tests that use it have the mark `xdist_group("browser")`, so that only one browser runs at a time.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Dialog, Page

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable() -> str | None:
    """Returns the browser: what CHROMIUM names, or one of the usual names; None where there is none."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Returns a browser. It is closed after each module, since playwright keeps an event loop running until then."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = executable()
    if path is None:
        pytest.skip("no chromium: install Debian's package chromium, or set CHROMIUM to the path of one")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What pages did that they should not do.

    Attributes:
        errors: errors and warnings of the console, uncaught errors and dialogs.
        requests: every address that was asked for.
    """

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        """Notes from now on what a page does."""

        def refuse(dialog: Dialog) -> None:
            self.errors.append(dialog.message)
            dialog.dismiss()

        page.on("console", lambda message: self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", refuse)
        page.on("request", lambda request: self.requests.append(request.url))


class OpenPage(Protocol):
    """Opens a page in the browser."""

    def __call__(self, html: str, *, width: int = 1280, scheme: Any = "light") -> Page: ...  # noqa: ANN401 - its literals


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    """Returns a function that opens HTML as a file; afterwards, nothing else was asked for, and nothing went wrong."""
    file = tmp_path / "page.html"
    context = browser.new_context()
    watched = Watched()

    def open_file(html: str, *, width: int = 1280, scheme: Any = "light") -> Page:  # noqa: ANN401 - its literals
        file.write_text(html, encoding="utf-8")
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        watched.watch(page)
        page.goto(file.as_uri())
        return page

    yield open_file
    context.close()
    assert watched.errors == []
    assert set(watched.requests) <= {file.as_uri()}


def violations(page: Page) -> list[str]:
    """Returns what axe-core finds wrong in a page: the rule, and the elements."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{item['id']}: {node['html']} {node.get('failureSummary', '')}" for item in found for node in item["nodes"]
    ]
