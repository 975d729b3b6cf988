"""Lints a corpus of prompts, instructions and tools with the real command line, and counts findings by code.

Usage: python bench/lint.py [CORPUS] [--json FILE] [--show CODE] [--first N]

Exit codes: 0 linted, 1 the program failed, 2 the corpus is not there.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from cacheunit_build.lint.registry import CODES

ROOT = Path(__file__).resolve().parent.parent
SEVERITIES = ("error", "warning", "info")


def main() -> int:
    """Runs everything; gives the exit code."""
    parser = argparse.ArgumentParser(description="Lints a corpus and counts findings by code.")
    parser.add_argument("corpus", nargs="?", type=Path, default=ROOT / "../shared/corpus", help="a folder of texts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the findings there")
    parser.add_argument("--show", metavar="CODE", action="append", default=[], help="print findings with their lines")
    parser.add_argument("--first", type=int, metavar="N", default=50, help="how many of each; default 50")
    arguments = parser.parse_args()
    texts = sorted(path for path in arguments.corpus.rglob("*.md") if path.stem not in ("LICENSE", "README"))
    tools = sorted(arguments.corpus.glob("tools/*.json"))
    if not texts:
        print(f"error: no Markdown in {arguments.corpus}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_project(root, arguments.corpus, texts, tools)
        begun = time.perf_counter()
        report = run(root)
        if report is None:
            return 1
        print(f"{len(texts)} texts, {len(tools)} tools, {time.perf_counter() - begun:.1f} s\n")
        print_counts(report)
        for code in arguments.show:
            print_findings(root, [finding for finding in report if finding["code"] == code][: arguments.first])
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 0


def make_project(root: Path, corpus: Path, texts: list[Path], tools: list[Path]) -> None:
    """Each text is data that one template prints, so that braces in it mean nothing; all tools are one prefix."""
    for folder in ("prefixes", "templates", "texts", "tools"):
        (root / folder).mkdir()
    (root / "cacheunit.toml").write_bytes(b'targets = ["deepseek-v4"]\n')
    (root / "templates/literal.md.j2").write_bytes(b"{{ text }}")
    for path in texts:
        name = "-".join(path.relative_to(corpus).with_suffix("").parts)
        (root / "texts" / f"{name}.md").write_bytes(path.read_bytes())
        manifest = f"system: literal.md.j2\ndata: {{text: texts/{name}.md}}\nspecial_tokens: allow\n"
        (root / "prefixes" / f"{name}.yaml").write_bytes(manifest.encode())
    for path in tools:
        shutil.copy(path, root / "tools" / path.name)
    if tools:
        (root / "templates/tools.md.j2").write_bytes(b"Use the tools.")
        listed = "".join(f"  - tools/{path.name}\n" for path in tools)
        (root / "prefixes/tools.yaml").write_bytes(
            f"system: tools.md.j2\ntargets: [anthropic-1024]\ntools:\n{listed}".encode()
        )


def run(root: Path) -> list[dict[str, Any]] | None:
    """The findings of the installed program; None where it fails."""
    program = shutil.which("cacheunit", path=sysconfig.get_path("scripts"))
    if program is None:
        print("error: the program is not installed beside this Python", file=sys.stderr)
        return None
    done = subprocess.run([program, "-C", str(root), "lint", "--format", "json"], capture_output=True, check=False)
    if done.returncode not in (0, 1):
        print(done.stderr.decode(), file=sys.stderr)
        return None
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return findings


def print_counts(findings: list[dict[str, Any]]) -> None:
    """A Markdown table: findings and files of each code, by severity."""
    counts = Counter((finding["code"], finding["severity"]) for finding in findings)
    files = {code: len({f["path"] for f in findings if f["code"] == code}) for code in CODES}
    print("| code | name | errors | warnings | info | files |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for code, row in CODES.items():
        cells = " | ".join(f"{counts[code, severity]:,}" for severity in SEVERITIES)
        print(f"| {code} | {row.name} | {cells} | {files[code]:,} |")
    print(flush=True)


def print_findings(root: Path, findings: list[dict[str, Any]]) -> None:
    """Each finding with the source around it, to be judged."""
    for finding in findings:
        lines = (root / finding["path"]).read_text(encoding="utf-8-sig").split("\n")
        line = lines[finding["line"] - 1] if finding["line"] <= len(lines) else ""
        around = re.sub(r"\s+", " ", line[max(0, finding["column"] - 60) : finding["column"] + 100])
        place = f"{finding['path']}:{finding['line']}:{finding['column']}"
        print(f"{finding['code']} {finding['severity']} {place}\n    {finding['message']}\n    …{around}…")


if __name__ == "__main__":
    sys.exit(main())
