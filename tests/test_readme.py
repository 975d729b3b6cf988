"""The README is executed: its console session and its Python code. Links of all pages lead to existing files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cacheunit_build.adapters.system import model_prices

if TYPE_CHECKING:
    from conftest import Cacheunit

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "bench/README.md"]


def code_blocks(language: str) -> list[str]:
    """Returns the code blocks of the README in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Returns a copy of this repository's own project, committed to git."""
    root = tmp_path / "repository"
    root.mkdir()
    for name in ("prefixes", "templates", "tools", "build"):
        shutil.copytree(ROOT / name, root / name)
    for name in ("pyproject.toml", "cacheunit.lock"):
        shutil.copy(ROOT / name, root)
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    for arguments in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "all"]):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    return root


@pytest.fixture
def without_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away the extra `prices`, which the README's set-up does not install, and whose numbers change."""
    monkeypatch.setattr(model_prices, "price_list", lambda: None)


@pytest.mark.usefixtures("without_prices")
def test_the_console_session_shows_the_actual_output(
    repository: Path, cacheunit: Cacheunit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    (session,) = code_blocks("console")
    for step in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, shown = step.partition("\n")
        program, *arguments = command.split()
        if program == "sed":
            subprocess.run([program, *(word.strip("'") for word in arguments)], cwd=repository, check=True)
            continue
        assert program == "cacheunit"
        ran = cacheunit("-C", repository, *arguments)
        output = re.sub(r"\([0-9a-f]{7}\)", "(4ce51e4)", ran.out + ran.err)
        assert output.rstrip("\n") == shown.rstrip("\n"), command


def test_the_python_examples_run(repository: Path) -> None:
    for code in code_blocks("python"):
        subprocess.run([sys.executable, "-c", code], cwd=repository, check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_existing_files(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link
