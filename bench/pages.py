"""How heavy is the page of `diff`, and how long does it take? Run by hand; needs a browser for nothing.

Two synthetic projects, each compared with an older version of itself: 200 prefixes for 3 targets that one edit of a
partial changes, and a single prefix of 200,000 tokens. The weight is that of the page without the texts that artifacts
open to; fails above 200,000 bytes.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from cacheunit_build.cli.baseline import find_baseline
from cacheunit_build.cli.context import Context
from cacheunit_build.diff.diff import diff
from cacheunit_build.reports.diff import diff_json
from cacheunit_build.reports.diff_html import diff_html

GOAL = 200_000
TARGETS = """targets = ["deepseek-v4", "second", "third"]
[target.second]
extends = "deepseek-v4"
cache = {unit = 64}
[target.third]
extends = "deepseek-v4"
cache = {unit = 256}
"""
WORDS = ("name", "source", "claim", "answer", "policy", "refund", "short", "never", "customer", "request")
TEXT = re.compile(r'<div class="artifact".*?</div>', re.DOTALL)


def rules(count: int, word: str) -> str:
    """Returns that many lines of rules; the one in the middle has the word."""
    lines = [
        f"- Rule {index}: {' '.join(WORDS[(index * 7 + k * k) % 10] for k in range(9))}." for index in range(count)
    ]
    lines[count // 2] += f" Never {word} them."
    return "".join(f"{line}\n" for line in lines)


def create(folder: Path, prefixes: int, lines: int, word: str) -> None:
    """Creates a project of prefixes that include the same rules."""
    (folder / "prefixes/team").mkdir(parents=True)
    (folder / "templates").mkdir()
    (folder / "cacheunit.toml").write_text(TARGETS if prefixes > 1 else 'targets = ["deepseek-v4"]\n')
    (folder / "templates/rules.md.j2").write_text(rules(lines, word))
    for index in range(prefixes):
        name = f"agent-{index}"
        (folder / f"prefixes/team/{name}.yaml").write_text(f"system: {name}.md.j2\n")
        text = f"You are agent {index} of the team.\n\n{{% include 'rules.md.j2' %}}\nThis was for agent {index}.\n"
        (folder / f"templates/{name}.md.j2").write_text(text)


def measure(name: str, prefixes: int, lines: int) -> bool:
    """Prints a row for a project; returns whether its page is light enough."""
    with tempfile.TemporaryDirectory() as temporary:
        old, new = Path(temporary) / "old", Path(temporary) / "new"
        create(old, prefixes, lines, "reveal")
        create(new, prefixes, lines, "disclose")
        context = Context(new, quiet=True, verbose=False)
        project = context.project()
        begun = time.perf_counter()
        result = diff(project.adapters, find_baseline(context.folder, project, "../old"))
        compared = time.perf_counter()
        page = diff_html(result)
        done = time.perf_counter()
        shutil.rmtree(old)
    tokens = max(item["tokens"]["new"] for item in diff_json(result)["changes"])
    texts = len(TEXT.findall(page))
    bare = len(TEXT.sub("", page).encode())
    times = f"{compared - begun:.2f} s | {done - compared:.2f} s"
    print(f"| {name} | {tokens:,} | {bare:,} | {texts} | {len(page.encode()):,} | {times} |")
    return bare <= GOAL


def main() -> int:
    """Measures both projects."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("| project | tokens | bytes without texts | texts | bytes | comparing | page |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    light = [
        measure("200 prefixes × 3 targets, one cause", 200, 70),
        measure("1 prefix", 1, 13_000),
    ]
    return 0 if all(light) else 1


if __name__ == "__main__":
    sys.exit(main())
