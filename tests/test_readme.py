"""What the README shows is what happens: its session is run, its code is run, its links lead somewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Cacheunit

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "bench/README.md"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """This repository's own project, committed."""
    root = tmp_path / "repository"
    root.mkdir()
    for name in ("prefixes", "templates", "build"):
        shutil.copytree(ROOT / name, root / name)
    for name in ("pyproject.toml", "cacheunit.lock"):
        shutil.copy(ROOT / name, root)
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    for arguments in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "all"]):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    return root


def test_the_session_is_what_the_terminal_shows(repository: Path, cacheunit: Cacheunit) -> None:
    (session,) = blocks("console")
    for step in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, shown = step.partition("\n")
        program, *arguments = command.split()
        if program == "sed":
            subprocess.run([program, *(word.strip("'") for word in arguments)], cwd=repository, check=True)
            continue
        assert program == "cacheunit"
        ran = cacheunit("-C", repository, *arguments)
        told = re.sub(r"\([0-9a-f]{7}\)", "(4ce51e4)", ran.out + ran.err)
        assert told.rstrip("\n") == shown.rstrip("\n"), command


def test_the_code_runs(repository: Path) -> None:
    for code in blocks("python"):
        subprocess.run([sys.executable, "-c", code], cwd=repository, check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link
