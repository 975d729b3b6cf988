"""The live page in a real browser: a save becomes a picture, text stays text, and everything is within reach."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chromium import Watched, violations
from page_project import HOSTILE, INVISIBLE, SHOWN_INVISIBLE
from served_page import SHOP, LivePage, live_page
from test_watch_screen import commit, git

from cacheunit_build.lockfile.format import parse_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Project
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

ROOT = Path(__file__).parent.parent.parent
IMAGES = ROOT / "docs/images"
MOST_BYTES = 150_000
RECORD_CLICKS = """document.addEventListener('click', event => {
  const link = event.target.closest('a');
  if (link) { event.preventDefault(); (window.opened ||= []).push(link.href); }
}, true)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLivePage:
    """The page of a project in the browser."""

    live: LivePage
    page: Page
    watched: Watched

    def choose(self, label: str) -> None:
        """Chooses a row of the list, and waits for its text."""
        self.page.locator(".row", has_text=label).last.click()

    def wait_for(self, expression: str) -> None:
        """Waits until an expression of the page is true; playwright's own function needs what the policy forbids."""
        for _ in range(1_000):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(20)
        pytest.fail(f"this did not become true: {expression}")

    def wait_for_text(self, title: str) -> None:
        """Waits until the text of an artifact is drawn."""
        self.wait_for(f"document.getElementById('title').textContent.startsWith('{title}')")
        self.wait_for("!document.getElementById('text').hasAttribute('aria-busy')")

    def texts(self) -> str:
        """Returns the characters of the text that is drawn, with a line end behind each row."""
        return "\n".join(self.page.locator("#text .tokens").all_text_contents())


@pytest.fixture
def shop(project: Project) -> Project:
    """Returns a project in a repository, committed."""
    project.write(SHOP)
    git(project.root, "init", "-q", "-b", "main")
    commit(project)
    return project


@pytest.fixture
def open_live(browser: Browser) -> Iterator[Callable[..., OpenLivePage]]:
    """Returns a function that opens a page; afterwards nothing went wrong, and nothing else was asked for."""
    opened: list[OpenLivePage] = []

    def open_page(
        live: LivePage,
        *,
        width: int = 1280,
        scheme: Any = "light",  # noqa: ANN401 - its literals
        awaited: str = "#text .tokens span",
    ) -> OpenLivePage:
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page = context.new_page()
        page.set_default_timeout(20_000)
        watched = Watched()
        watched.watch(page)
        page.add_init_script(RECORD_CLICKS)
        page.goto(live.server.address)
        page.locator(awaited).first.wait_for()
        opened.append(OpenLivePage(live=live, page=page, watched=watched))
        return opened[-1]

    yield open_page
    for item in opened:
        origin = item.live.server.address.partition("?")[0]
        assert item.watched.errors == []
        assert [url for url in item.watched.requests if not url.startswith((origin, "data:,"))] == []
        item.page.context.close()


def test_a_save_is_shown_at_its_first_change(shop: Project, open_live: Callable[..., OpenLivePage]) -> None:
    with live_page(shop) as live:
        opened = open_live(live)
        page = opened.page
        assert "token" not in page.url
        shop.edit("templates/rules.j2", "Rule 7: name the source", "Rule 7: give the origin")
        live.build()
        page.locator("#change", has_text="text edited").wait_for()
        assert page.locator("#change a").first.text_content() == "templates/rules.j2:8"
        assert page.locator("#change del").all_text_contents() == ["name", "source"]
        first = page.locator("#text .first")
        first.wait_for()
        assert first.text_content() == " give"
        assert page.locator("#text .first").evaluate(
            "span => { const text = document.getElementById('text').getBoundingClientRect();"
            " const own = span.getBoundingClientRect(); return own.top >= text.top && own.bottom <= text.bottom }"
        )
        assert "Rule 7: give the origin of each claim." in opened.texts()
        assert page.locator('.row[aria-selected="true"] .state').text_content() == "changed"
        numbers = dict(zip(page.locator("dt").all_text_contents(), page.locator("dd").all_text_contents(), strict=True))
        cached, recomputed = (page.locator(f"#text .{name}[data-token]").count() for name in ("cached", "new"))
        assert (f"{cached}", f"{recomputed}") == (numbers["still cached"], numbers["recomputed"])


def test_an_artifact_can_be_compared_with_the_last_save_head_and_the_main_branch(
    shop: Project, open_live: Callable[..., OpenLivePage]
) -> None:
    git(shop.root, "checkout", "-qb", "topic")
    shop.edit("templates/review.j2", "You review", "You check")
    commit(shop)
    shop.edit("templates/guess.j2", "You guess", "You suppose")
    with live_page(shop) as live:
        opened = open_live(live)
        page = opened.page
        shop.edit("templates/rules.j2", "Rule 0", "Rule zero")
        live.build()
        page.locator("#change", has_text="templates/rules.j2:1").wait_for()
        changed = {}
        for name in ("save", "head", "main"):
            page.locator(f"#compare-{name}").check()
            rows = page.locator(".row:not(.group)", has=page.locator(".state.changed"))
            changed[name] = {title.partition(" ")[0] for title in rows.evaluate_all("rows => rows.map(r => r.title)")}
        agents = {"shop/agent@city=Berlin", "shop/agent@city=Paris"}
        assert changed["save"] == {*agents, "shop/review"}
        assert changed["head"] == {*agents, "shop/review", "guess"}
        assert changed["main"] == changed["head"]
        opened.choose("review")
        page.locator("#change a", has_text="templates/review.j2:1").wait_for()
        page.locator("#compare-head").check()
        page.locator("#change a", has_text="templates/rules.j2:1").wait_for()


def test_scripts_and_invisible_characters_stay_text(project: Project, open_live: Callable[..., OpenLivePage]) -> None:
    text = f"{{% raw %}}{HOSTILE}{{% endraw %}}\n{INVISIBLE}\n日本語で答える。\n"
    project.write({**SHOP, "templates/review.j2": text})
    with live_page(project) as live:
        opened = open_live(live)
        page, title = opened.page, opened.page.title()
        opened.choose("review")
        opened.wait_for("document.getElementById('text').textContent.includes('日本')")
        assert HOSTILE in opened.texts()
        assert SHOWN_INVISIBLE in opened.texts()
        project.write({"prefixes/a.yaml": "system: review.j2\n'<img src=x onerror=alert(1)>\u202e': 1\n"})
        live.build()
        page.locator("#faults li", has_text="<img src=x onerror=alert(1)>\\u202e").wait_for()
        assert page.locator("#text script, img, i").count() == 0
        assert page.locator("script").count() == 1
        assert page.title() == f"✗ {title}"
        (project.root / "prefixes/a.yaml").unlink()
        (Path(os.fsdecode(os.fsencode(project.root) + b"/prefixes/\xff.yaml"))).write_text("system: review.j2\n")
        live.build()
        page.locator("#faults li", has_text="the name is not UTF-8").wait_for()


def test_faults_are_shown_over_the_last_good_state(shop: Project, open_live: Callable[..., OpenLivePage]) -> None:
    with live_page(shop) as live:
        opened = open_live(live)
        page = opened.page
        opened.choose("review")
        opened.wait_for_text("shop/review")
        shop.edit("templates/review.j2", "answers.\n", "answers.\n{{ nothing }}\n")
        live.build()
        page.locator("#faults", has_text="nothing").wait_for()
        assert page.locator("#faults a").text_content() == "templates/review.j2:2"
        assert "1 fault since" in str(page.locator("#build").text_content())
        assert "You review answers." in opened.texts()
        assert page.locator("#text.stale").count() == 1
        shop.edit("templates/review.j2", "{{ nothing }}", "Be kind.")
        live.build()
        page.locator("#text", has_text="Be kind.").wait_for()
        assert not page.locator("#faults").is_visible()
        assert page.locator("#text.stale").count() == 0


def test_a_project_that_never_compiled_shows_its_faults(
    project: Project, open_live: Callable[..., OpenLivePage]
) -> None:
    project.write({**SHOP, "templates/agent.j2": "{{ nothing }}"})
    with live_page(project) as live:
        opened = open_live(live, awaited="#faults li")
        assert "no build without faults yet" in str(opened.page.locator("#build").text_content())
        project.write({"templates/agent.j2": "You are an agent of {{ city }}.\n"})
        live.build()
        opened.page.locator("#text", has_text="You guess").wait_for()


def test_tokens_and_units_in_the_document_are_those_of_the_lock(
    shop: Project, open_live: Callable[..., OpenLivePage]
) -> None:
    with live_page(shop) as live:
        opened = open_live(live)
        lock = parse_lock(shop.read("cacheunit.lock"), "cacheunit.lock")
        units = {"small": 8, "large": 16}
        seen = 0
        for index in range(opened.page.locator(".row:not(.group)").count()):
            row = opened.page.locator(".row:not(.group)").nth(index)
            name, target = str(row.get_attribute("title")).split(" for ")
            row.click()
            opened.wait_for_text(f"{name} for {target}")
            if target == "guess":
                opened.page.locator("#remark", has_text="estimate").wait_for()
                assert opened.page.locator("span[data-token]").count() == 0
                continue
            tokens = lock.entries[name, target].tokens
            assert opened.page.locator("span[data-token]:not(.unstable)").count() == tokens
            assert opened.page.locator("#text [data-unit]").count() == tokens // units[target]
            seen += 1
        assert seen == 6


def test_a_token_tells_its_number_id_unit_and_source_and_a_click_opens_the_editor(
    shop: Project, open_live: Callable[..., OpenLivePage]
) -> None:
    with live_page(shop) as live:
        opened = open_live(live)
        page = opened.page
        opened.choose("review")
        opened.wait_for_text("shop/review")
        token = page.locator("span[data-token]", has_text="Rule").nth(3)
        token.scroll_into_view_if_needed()
        number = int(str(token.get_attribute("data-token")))
        token.hover()
        page.locator("#token", has_text=f"token {number} of ").wait_for()
        told = str(page.locator("#token").text_content())
        assert f"token {number} of " in told
        assert f"unit {number // 8} " in told
        tokens = shop.run("show", "shop/review", "--target", "small", "--tokens", "--format", "json").json
        assert f"id {tokens['tokens'][number]['id']} " in told
        assert "templates/rules.j2:4, in templates/review.j2:2, in prefixes/shop/review.yaml:1" in told
        token.click()
        path = (shop.root / "templates/rules.j2").as_posix()
        assert page.evaluate("window.opened") == [f"editor://open?file={path}&line=4"]


def test_what_lint_finds_is_shown_at_its_place(shop: Project, open_live: Callable[..., OpenLivePage]) -> None:
    with live_page(shop) as live:
        opened = open_live(live)
        page = opened.page
        page.locator("#filter").fill("guess small")
        opened.choose("small")
        page.locator("#lint", has_text="templates/guess.j2:1").wait_for()
        note = page.locator(".line", has_text="You guess").locator(".note")
        assert "CU101" in str(note.first.text_content())


def test_the_list_is_filtered_by_text_target_and_state(shop: Project, open_live: Callable[..., OpenLivePage]) -> None:
    with live_page(shop) as live:
        opened = open_live(live)
        page = opened.page
        rows = page.locator(".row:not(.group)")

        def titles() -> list[str]:
            found: list[str] = rows.evaluate_all("rows => rows.map(row => row.title)")
            return found

        assert len(titles()) == 7
        page.locator("#filter").fill("paris")
        assert titles() == ["shop/agent@city=Paris for large", "shop/agent@city=Paris for small"]
        page.locator("#target").select_option("small")
        assert titles() == ["shop/agent@city=Paris for small"]
        page.locator("#filter").fill("")
        page.locator("#kind").select_option("changed")
        assert page.locator("#empty").is_visible()
        shop.edit("templates/review.j2", "You review", "You check")
        live.build()
        opened.wait_for("document.querySelectorAll('.row:not(.group)').length === 1")
        assert titles() == ["shop/review for small"]


def test_the_page_works_by_keyboard_alone(shop: Project, open_live: Callable[..., OpenLivePage]) -> None:
    with live_page(shop) as live:
        opened = open_live(live)
        page = opened.page

        def focused() -> str:
            return str(page.evaluate("document.activeElement.id"))

        reached: list[str] = []
        while focused() != "text" and len(reached) < 12:
            page.keyboard.press("Tab")
            reached.append(focused())
        expected = ["filter", "target", "kind", "compare-save", "list", "follow", "text"]
        assert [name for name in reached if name] == expected
        page.locator("#list").focus()
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        opened.wait_for_text("shop/review for small")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowLeft")
        assert page.locator(".row").count() < 9
        page.keyboard.press("ArrowRight")
        page.locator("#text").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        line = page.locator(".line", has=page.locator(".current"))
        assert "Rule 1" in str(line.text_content())
        assert "templates/rules.j2:2" in str(page.locator("#token").text_content())
        page.keyboard.press("Enter")
        assert page.evaluate("window.opened.length") == 1
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_the_page_is_accessible_and_fits_the_screen(
    shop: Project, open_live: Callable[..., OpenLivePage], width: int, scheme: str
) -> None:
    with live_page(shop) as live:
        opened = open_live(live, width=width, scheme=scheme)
        shop.edit("templates/rules.j2", "Rule 0", "Rule zero")
        live.build()
        opened.page.locator("#text .first").wait_for()
        shop.edit("templates/review.j2", "answers.\n", "answers.\n{{ nothing }}\n")
        live.build()
        opened.page.locator("#faults li").wait_for()
        assert violations(opened.page) == []
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_long_text_is_drawn_as_it_scrolls(project: Project, open_live: Callable[..., OpenLivePage]) -> None:
    rules = "".join(f"- Rule {number}: name the source of each claim.\n" for number in range(3_000))
    project.write({**SHOP, "templates/review.j2": rules})
    with live_page(project) as live:
        opened = open_live(live)
        page = opened.page
        opened.choose("review")
        opened.wait_for("document.getElementById('text').textContent.includes('Rule 5:')")
        assert page.locator("#text .tokens").count() < 600
        page.locator("#text").focus()
        page.keyboard.press("End")
        opened.wait_for("document.getElementById('text').textContent.includes('Rule 2999:')")
        opened.wait_for("document.querySelectorAll('#text .tokens').length < 1000")
        project.edit("templates/review.j2", "Rule 1500:", "Rule fifteen hundred:")
        live.build()
        page.locator("#text .first", has_text="fif").wait_for()


def test_a_page_tells_that_the_server_was_restarted_and_goes_on_with_the_new_address(
    shop: Project, browser: Browser
) -> None:
    context = browser.new_context()
    with live_page(shop) as live:
        page = context.new_page()
        page.goto(live.server.address)
        page.locator("#text .tokens span").first.wait_for()
        port = int(live.server.address.rpartition(":")[2].partition("/")[0])
    page.locator("#connection", has_text="The server does not answer").wait_for()
    assert page.locator("#text .tokens span").count() > 0
    with live_page(shop, port) as live:
        page.locator("#connection", has_text="open the address that it printed").wait_for(timeout=20_000)
        other = context.new_page()
        other.goto(live.server.address)
        page.locator("#connection").wait_for(state="hidden", timeout=20_000)
        shop.edit("templates/rules.j2", "Rule 0", "Rule zero")
        live.build()
        page.locator("#text .first", has_text="zero").wait_for()
    context.close()


# Screenshots of the docs


@pytest.mark.parametrize("name", ["watch-page", "watch-page-dark"])
def test_the_docs_have_a_small_picture_of_the_page(
    project: Project,
    open_live: Callable[..., OpenLivePage],
    request: pytest.FixtureRequest,
    name: str,
) -> None:
    width, scheme = (400, "dark") if name.endswith("dark") else (1000, "light")
    file = IMAGES / f"{name}.png"
    if not request.config.getoption("--rewrite-goldens"):
        assert 0 < file.stat().st_size <= MOST_BYTES
        return
    for folder in ("prefixes", "templates", "tools"):
        shutil.copytree(ROOT / folder, project.root / folder)
    git(project.root, "init", "-q", "-b", "main")
    commit(project)
    with live_page(project) as live:
        opened = open_live(live, width=width, scheme=scheme)
        project.edit("templates/partials/secrets.md.j2", "reveal", "disclose")
        live.build()
        opened.page.locator("#text .first").wait_for()
        opened.page.set_viewport_size({"width": width, "height": 560 if width > 400 else 760})
        opened.page.keyboard.press("c")
        opened.page.locator("#text .first").scroll_into_view_if_needed()
        opened.page.screenshot(path=file)
    assert file.stat().st_size <= MOST_BYTES
