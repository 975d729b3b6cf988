"""How fast, how big and how heavy is the page of `watch --serve`? Run by hand; needs chromium and the extra `test`.

`cacheunit watch --serve 0` runs as a process of its own on three synthetic projects, with the page open in a browser:

| project | measured |
| --- | --- |
| 1 prefix of 10,000 tokens | from a save to the changed token in the document: 30 saves; fails above 500 ms (p95) |
| 1 prefix of 200,000 tokens | from opening to the first token, a jump to the last token, and a save |
| 1,000 prefixes | from opening to the first token, a key of the filter, and a save |

And for each: the memory of the server, and the bytes of the page without texts (page, style, script), which fail above
200,000.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from chromium import FLAGS, executable
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

MOST_MILLISECONDS, MOST_BYTES = 500, 200_000
LIMITED = "1 prefix of 10,000 tokens"
MAXIMUM_MEMORY = re.compile(r"VmHWM:\s+(\d+) kB")
WAIT_FOR_TEXT = """text => new Promise(resolve => {
  const look = () => [...document.querySelectorAll('#text .tokens')].some(line => line.textContent.includes(text))
    ? resolve(Date.now()) : requestAnimationFrame(look);
  look();
})"""
FILTER = """text => new Promise(resolve => {
  const begun = performance.now();
  const filter = document.getElementById('filter');
  filter.value = text;
  filter.dispatchEvent(new Event('input'));
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - begun)));
})"""


def rules(count: int, word: str) -> str:
    """Returns lines of rules of about 13 tokens each; the one in the middle has the word."""
    lines = [f"- Rule {index}: name the source of each claim, and keep it short." for index in range(count)]
    lines[count // 2] += f" Never {word}."
    return "\n".join(lines) + "\n"


def create(root: Path, prefixes: int, lines: int) -> Path:
    """Creates a project; returns the template that is edited."""
    for folder in ("prefixes/team", "templates"):
        (root / folder).mkdir(parents=True)
    for index in range(prefixes):
        (root / f"prefixes/team/agent-{index}.yaml").write_text(f"system: agent-{index}.md.j2\n")
        (root / f"templates/agent-{index}.md.j2").write_text(rules(lines, "first"))
    return root / f"templates/agent-{prefixes // 2}.md.j2"


@contextmanager
def watch(root: Path) -> Iterator[tuple[str, int]]:
    """Runs the command; yields the address of the page and the id of the process."""
    program = [sys.executable, "-u", "-P", "-c", "from cacheunit_build.cli.main import main; main()"]
    environment = {**os.environ, "CACHEUNIT_CACHE_DIR": f"{root}-cache"}
    process = subprocess.Popen(
        [*program, "-C", root, "watch", "--serve", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        address = next(line for line in process.stderr or () if "http" in line).split()[-1]
        next(iter(process.stdout or ()))  # the first build
        yield address, process.pid
    finally:
        process.terminate()
        process.communicate()


def saved(page: Page, template: Path, lines: int, word: str) -> float:
    """Returns the milliseconds from a save to the changed token in the document."""
    temporary = template.with_suffix(".tmp")
    temporary.write_text(rules(lines, word))
    begun = time.time()
    temporary.replace(template)
    done: float = page.evaluate(WAIT_FOR_TEXT, f"Never {word}.")
    return done - begun * 1000


def measure(browser: Browser, name: str, prefixes: int, lines: int, saves: int) -> bool:
    """Prints the row of a project; returns whether its page is fast and light enough."""
    is_limited = name == LIMITED
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "project"
        template = create(root, prefixes, lines)
        with watch(root) as (address, process):
            page = browser.new_page()
            sizes: list[int] = []
            page.set_default_timeout(20_000)
            page.on("response", lambda answer: sizes.append(_size(answer)))
            begun = time.time()
            page.goto(address)
            opened = page.evaluate(WAIT_FOR_TEXT, "Rule 1:") - begun * 1000
            page.locator("#text").focus()
            begun = time.time()
            page.keyboard.press("End")
            jumped = page.evaluate(WAIT_FOR_TEXT, f"Rule {lines - 1}:") - begun * 1000
            typed = page.evaluate(FILTER, "agent-7")
            page.evaluate(FILTER, "")
            times = []
            for index in range(saves):
                times.append(saved(page, template, lines, f"word{index}"))
                page.wait_for_timeout(700)  # a person pauses, and lint runs
            drawn = page.locator("*").count()
            memory = int(MAXIMUM_MEMORY.findall(Path(f"/proc/{process}/status").read_text())[0]) // 1024
            page.close()
    p50, p95 = statistics.median(times), sorted(times)[max(0, -(-len(times) * 95 // 100) - 1)]
    weight = sum(sizes)
    times_text = f"{opened:.0f} | {jumped:.0f} | {typed:.0f} | {p50:.0f} | {p95:.0f}"
    print(f"| {name} | {times_text} | {drawn:,} | {memory} | {weight:,} |", flush=True)
    return weight <= MOST_BYTES and (not is_limited or p95 <= MOST_MILLISECONDS)


def _size(answer: Any) -> int:  # noqa: ANN401 - a response of playwright
    """Returns the bytes of a file of the page; 0 for what it shows."""
    path = answer.url.partition("?")[0].rpartition("/")[2]
    return int(answer.headers.get("content-length", 0)) if path in ("", "page.js", "page.css") else 0


def main() -> int:
    """Measures the projects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--saves", type=int, default=30)
    saves = parser.parse_args().saves
    timed = "open, ms | jump to the end, ms | filter, ms | save p50, ms | save p95, ms"
    print(f"| project | {timed} | elements | MiB | bytes |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=executable(), args=FLAGS)
        good = [
            measure(browser, LIMITED, 1, 650, saves),
            measure(browser, "1 prefix of 200,000 tokens", 1, 13_000, 5),
            measure(browser, "1,000 prefixes of 150 tokens", 1_000, 8, 5),
        ]
        browser.close()
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
