"""The house keeps its rooms: arrows point down, stages do not know one another or the outside world."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "cacheunit_build"

GROUND = {"errors", "fingerprint", "paths", "document", "yaml12", "source", "schema", "sequences", "usage"}
GROUND |= {"gauge"}
VALUES = {"model", "target", "origin", "finding", "codes"}
STAGES = {
    "manifest",
    "config",
    "environment",
    "traced",
    "render",
    "tools",
    "chat",
    "compose",
    "boundary",
    "align",
    "plan",
    "lock",
}
STAGES |= {"targets", "scaffold", "impact", "locate", "family", "merging", "lint", "fit"}
STORY = {"ports", "artifact", "prefix", "compiler", "trace", "result", "quick", "since", "build", "explain", "measure"}
STORY |= {"version", "contrast", "diff", "kin", "verify"}
STORY |= {"linting", "inspection", "readings", "places"}
STORY |= {"specimen", "trial", "reach", "survey", "probe"}
EDGES = {"edges"}
DOORS = {"report", "commands", "cli", "entry", "__main__", "runtime"}
MAY_IMPORT = {
    **dict.fromkeys(GROUND, GROUND),
    **dict.fromkeys(VALUES, GROUND | VALUES),
    **dict.fromkeys(STAGES, GROUND | VALUES),
    **dict.fromkeys(STORY, GROUND | VALUES | STAGES | STORY),
    **dict.fromkeys(EDGES, GROUND | VALUES | EDGES | {"ports", "trace"}),
    "report": GROUND | VALUES | STORY | {"report", "impact", "family"},
    "commands": GROUND | VALUES | STAGES | STORY | EDGES | DOORS,
    "cli": GROUND | {"commands"},
    "entry": {"cli", "commands"},
    "__main__": {"entry"},
    "runtime": GROUND,
}
# One noun in several rooms: Jinja's environment is what templates are rendered in, traced or not.
MAY_IMPORT["traced"] = MAY_IMPORT["chat"] = GROUND | VALUES | {"environment"}
MAY_IMPORT["render"] = GROUND | VALUES | {"environment", "traced"}


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room != "__init__":
            found.append((room, path))
    return found


def imports(path: Path) -> set[str]:
    """The rooms that a module imports, for types too."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("cacheunit_build"):
            parts = node.module.split(".")[1:]
            rooms |= {parts[0]} if parts else {alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            rooms |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("cacheunit_build.")}
    return rooms


@pytest.mark.parametrize(("room", "path"), modules(), ids=lambda value: str(getattr(value, "stem", value)))
def test_a_module_imports_only_rooms_below_it(room: str, path: Path) -> None:
    assert room in MAY_IMPORT, f"{room} has no place in the house yet"
    assert imports(path) - MAY_IMPORT[room] - {room} == set()


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import sys, cacheunit_build; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {"jinja2", "yaml", "pydantic", "tiktoken", "tokenizers", "click", "rich"} & set(done.stdout.split()) == set()


def test_modules_stay_short() -> None:
    assert {path.name: n for _, path in modules() if (n := len(path.read_text("utf-8").splitlines())) > 320} == {}
