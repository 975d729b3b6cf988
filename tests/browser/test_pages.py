"""The HTML reports in a real browser: text stays text, everything is within reach, and nothing else is loaded."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chromium import violations
from page_project import HOSTILE, write_project
from test_html_pages import RESULT
from test_log import A, B, read_history

from cacheunit_build.lockfile.format import parse_lock
from cacheunit_build.reports.log_page import log_page
from cacheunit_build.reports.verify_html import verify_html

if TYPE_CHECKING:
    from collections.abc import Callable

    from chromium import OpenPage
    from conftest import Project
    from playwright.sync_api import Page

pytestmark = pytest.mark.xdist_group("browser")

ROOT = Path(__file__).parent.parent.parent
IMAGES = ROOT / "docs/images"
MOST_BYTES = 150_000
NAMES = ("diff", "sharing", "verify", "log")
VERIFIED = (
    replace(RESULT, prefix="support/agent", target="vllm", continuation=2, predicted=1664, observed=1664,
            verdict="as predicted"),
    replace(RESULT, prefix="coding/assistant", target="vllm", continuation=3, predicted=2432, observed=768,
            verdict="differs", cause=HOSTILE, facts=("768 of 2,432 tokens hit",), hint="set unit = 256"),
    replace(RESULT, prefix="x" * 90, target="vllm", continuation=1, predicted=900, observed=None, verdict="unknown",
            cause="the server does not report cached tokens"),
)  # fmt: skip

PICTURED = (
    VERIFIED[0],
    replace(VERIFIED[1], observed=2304, cause="each of 3 requests hit 1 unit less than predicted", hint=None),
)


@pytest.fixture
def page_of(project: Project) -> Callable[[str], str]:
    """Returns a function that returns a page by the name of its report."""
    copy = write_project(project)

    def make(name: str) -> str:
        if name == "log":
            return log_page(read_history(A, B))
        if name == "verify":
            return verify_html(VERIFIED)
        report = ("diff", "--against", copy) if name == "diff" else ("explain", "--sharing")
        return project.run(*report, "--format", "html").out

    return make


def open_everything(page: Page) -> None:
    """Opens every part that opens on demand."""
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_accessible_and_fits_the_screen(
    page_of: Callable[[str], str], open_page: OpenPage, name: str, width: int, scheme: str
) -> None:
    page = open_page(page_of(name), width=width, scheme=scheme)
    open_everything(page)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["diff", "verify"])
def test_a_script_in_a_text_stays_text(page_of: Callable[[str], str], open_page: OpenPage, name: str) -> None:
    page = open_page(page_of(name))
    title = page.title()
    assert title.endswith("· cacheunit")
    assert page.locator("script, img, iframe").count() == 0
    page.evaluate("document.querySelectorAll('.text b').forEach(label => label.remove())")
    texts = page.locator("td.text, td.verdict p").all_text_contents()
    assert HOSTILE in "\n".join(texts)
    assert page.title() == title


def test_tokens_in_the_document_are_those_of_the_lock(
    project: Project, page_of: Callable[[str], str], open_page: OpenPage
) -> None:
    page = open_page(page_of("diff"))
    project.build()
    lock = parse_lock(project.read("cacheunit.lock"), "cacheunit.lock")
    for variant in ("Ann", "Bob"):
        for target, unit in (("small", 16), ("large", 128)):
            name = f"desk/agent@name={variant}"
            part = page.locator("details.prefix", has_text=f"{name} for {target}")
            static = part.locator("td.text span:not(.unstable)")
            tokens = static.evaluate_all("spans => spans.reduce((sum, span) => sum + Number(span.dataset.tokens), 0)")
            assert tokens == lock.entries[name, target].tokens
            assert part.locator("td.text .unit").count() == tokens // unit
            assert part.locator("svg").get_attribute("data-units") == f"{tokens // unit}"


@pytest.mark.parametrize("name", NAMES)
def test_everything_that_opens_is_reached_and_opened_by_keyboard(
    page_of: Callable[[str], str], open_page: OpenPage, name: str
) -> None:
    page = open_page(page_of(name))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    summaries = page.locator("summary:visible").count()
    reached = 0
    for _ in range(100):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        if not page.evaluate("document.activeElement.matches('summary')"):
            continue
        reached += 1
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        was_open = page.evaluate("document.activeElement.parentElement.open")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.parentElement.open") is not was_open
        page.keyboard.press("Enter")
    assert reached == summaries


def test_a_link_opens_the_text_that_it_leads_to(page_of: Callable[[str], str], open_page: OpenPage) -> None:
    page = open_page(page_of("diff"))
    page.locator("summary", has_text="All ").first.click()
    link = page.locator('a[href^="#text-"]').first
    leads_to = page.locator(str(link.get_attribute("href")))
    assert not leads_to.is_visible()
    link.click()
    assert leads_to.is_visible()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_can_be_printed(page_of: Callable[[str], str], open_page: OpenPage, name: str) -> None:
    page = open_page(page_of(name))
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = false })")
    page.emulate_media(media="print")
    for row in page.locator("details.cause > .scroll").all():
        assert row.is_visible()
    assert page.pdf().startswith(b"%PDF-")


# Screenshots of the docs


@pytest.fixture
def own_project(project: Project) -> Project:
    """Returns this repository's own prefixes, one partial of them edited, beside a copy."""
    for folder in ("prefixes", "templates", "tools"):
        if not (ROOT / folder).is_dir():
            pytest.skip("this is no checkout of the repository: it has no prefixes")
        shutil.copytree(ROOT / folder, project.root / folder)
    shutil.copytree(project.root, project.root.parent / "main")
    project.edit("templates/partials/secrets.md.j2", "reveal", "disclose")
    return project


@pytest.mark.parametrize("name", ["diff", "text", "sharing", "verify"])
def test_the_docs_have_a_small_picture_of_each_page(
    own_project: Project, open_page: OpenPage, request: pytest.FixtureRequest, name: str
) -> None:
    file = IMAGES / f"page-{name}.png"
    if not request.config.getoption("--rewrite-goldens"):
        assert 0 < file.stat().st_size <= MOST_BYTES
        return
    against = ("--against", "../main")  # no folder of this machine
    report = ("explain", "--sharing", "--target", "deepseek-v4") if name == "sharing" else ("diff", *against)
    html = verify_html(PICTURED) if name == "verify" else own_project.run(*report, "--format", "html").out
    page = open_page(html, width=1000)
    if name == "text":
        page.locator("details.prefix > summary").first.click()
        page.locator(".artifact .notice").first.evaluate("notice => notice.scrollIntoView({block: 'center'})")
    IMAGES.mkdir(exist_ok=True)
    end = page.locator("main").evaluate("main => Math.ceil(main.getBoundingClientRect().bottom)")
    page.set_viewport_size({"width": 1000, "height": min(600, end + 16)})
    page.screenshot(path=file)
    assert file.stat().st_size <= MOST_BYTES
