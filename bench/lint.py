"""Lints a corpus of prompts, instructions and tools with the installed command, and counts violations by rule.

Usage: python bench/lint.py [CORPUS] [--json FILE] [--show CODE] [--first N]

Exit codes: 0 linted, 1 the command failed, 2 the corpus has no Markdown files.
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

from cacheunit_build.lint.registry import RULES
from cacheunit_build.lint.rule import SEVERITIES

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Makes a project of the corpus, lints it and prints the counts; returns the exit code."""
    parser = argparse.ArgumentParser(description="Lints a corpus and counts violations by rule.")
    parser.add_argument(
        "corpus",
        nargs="?",
        type=Path,
        default=ROOT / "../shared/corpus",
        help="folder of Markdown texts and tools/*.json",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the violations to this file")
    parser.add_argument(
        "--show",
        metavar="CODE",
        action="append",
        default=[],
        help="print the violations of this rule with their source lines",
    )
    parser.add_argument("--first", type=int, metavar="N", default=50, help="how many of each rule to print; default 50")
    arguments = parser.parse_args()
    texts = sorted(path for path in arguments.corpus.rglob("*.md") if path.stem not in ("LICENSE", "README"))
    tools = sorted(arguments.corpus.glob("tools/*.json"))
    if not texts:
        print(f"error: no Markdown files in {arguments.corpus}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_project(root, arguments.corpus, texts, tools)
        started = time.perf_counter()
        violations = lint(root)
        if violations is None:
            return 1
        print(f"{len(texts)} texts, {len(tools)} tools, {time.perf_counter() - started:.1f} s\n")
        print_counts(violations)
        for code in arguments.show:
            of_rule = [violation for violation in violations if violation["code"] == code]
            print_violations(root, of_rule[: arguments.first])
    if arguments.json:
        arguments.json.write_text(json.dumps(violations, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 0


def make_project(root: Path, corpus: Path, texts: list[Path], tools: list[Path]) -> None:
    """Writes a project with one prefix for each text, and one for all tools.

    Each text is a data file that one template prints, so that braces in it are not template syntax.
    """
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


def lint(root: Path) -> list[dict[str, Any]] | None:
    """Returns the violations that the installed command reports; None, after printing its errors, where it fails."""
    program = shutil.which("cacheunit", path=sysconfig.get_path("scripts"))
    if program is None:
        print("error: cacheunit is not installed in this Python environment", file=sys.stderr)
        return None
    process = subprocess.run([program, "-C", str(root), "lint", "--format", "json"], capture_output=True, check=False)
    if process.returncode not in (0, 1):
        print(process.stderr.decode(), file=sys.stderr)
        return None
    violations: list[dict[str, Any]] = json.loads(process.stdout)["findings"]
    return violations


def print_counts(violations: list[dict[str, Any]]) -> None:
    """Prints a Markdown table with the number of violations of each rule by severity, and of the files they are in."""
    counts = Counter((violation["code"], violation["severity"]) for violation in violations)
    files = Counter(code for code, _ in {(violation["code"], violation["path"]) for violation in violations})
    print("| code | name | errors | warnings | info | files |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for rule in RULES.values():
        cells = " | ".join(f"{counts[rule.code, severity]:,}" for severity in SEVERITIES)
        print(f"| {rule.code} | {rule.name} | {cells} | {files[rule.code]:,} |")
    print(flush=True)


def print_violations(root: Path, violations: list[dict[str, Any]]) -> None:
    """Prints each violation with the source around it, so that a person can judge it."""
    for violation in violations:
        line, column = violation["line"], violation["column"]
        lines = (root / violation["path"]).read_text(encoding="utf-8-sig").split("\n")
        source = lines[line - 1] if line <= len(lines) else ""
        excerpt = re.sub(r"\s+", " ", source[max(0, column - 60) : column + 100])
        print(f"{violation['code']} {violation['severity']} {violation['path']}:{line}:{column}")
        print(f"    {violation['message']}\n    …{excerpt}…")


if __name__ == "__main__":
    sys.exit(main())
