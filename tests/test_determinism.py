"""Builds are reproducible: equal sources give equal bytes on every machine, in every folder and process."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build.adapters.system.isolated_rebuild import IsolatedRebuild
from cacheunit_build.builder.proof import prove
from cacheunit_build.builder.results import CheckResult
from cacheunit_build.cli.context import Context
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.reports.check import check_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from conftest import Project

PROGRAM = [sys.executable, "-c", "from cacheunit_build.cli.main import main; main()"]

SOURCES = {
    "cacheunit.toml": '[target.small]\nextends = "deepseek-v4"\ncache.unit = 16\n',
    "prefixes/büro/tür.yaml": """\
system: [front.md.j2, facts.md.j2]
targets: [small, deepseek-v4]
variables:
  zebra: {last: 1, first: 2, middle: {y: no, x: 3.10}}
  apple: [one, two, three]
data: {faq: data/faq.json, shop: data/shop.yaml}
matrix: {plan: [pro, free], locale: [ja, en, de]}
""",
    "prefixes/a.yaml": """\
system: facts.md.j2
variables: {zebra: {}, apple: []}
data: {faq: data/faq.json, shop: a.yaml}
""",
    "prefixes/Z.yaml": "system: [locale/en.md.j2]\nvariables: {plan: pro}\n",
    "a.yaml": "{}\n",
    "data/faq.json": '{"ß": 1, "z": {"b": [3, 1, 2], "a": null}, "A": 0.10}',
    "data/shop.yaml": "İstanbul: ı\nivory: I\nday: 2024-01-01\n",
    "templates/front.md.j2": "{% include 'locale/' ~ locale ~ '.md.j2' %}\n{{ plan | upper }} {{ 'İıiI' | lower }}\n",
    "templates/facts.md.j2": """\
{{ zebra | tojson }} {{ faq | tojson(indent=1) }}
{% for key, value in shop | dictsort %}{{ key }}: {{ value }}
{% endfor %}{{ apple | sort | join(', ') }} {{ apple | unique | join }} {{ shop | length }}
{% for group in apple | groupby('0') %}{{ group.grouper }} {{ group.list | join }}
{% endfor %}
""",
    "templates/locale/de.md.j2": "Antworte auf Deutsch.\n",
    "templates/locale/en.md.j2": "Answer in English on the {{ plan }} plan.\n",
    "templates/locale/ja.md.j2": "日本語で答えてください。\n",
}

ENVIRONMENTS = [
    {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC"},
    {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "Asia/Kathmandu"},
    {"PYTHONHASHSEED": "2", "LC_ALL": "tr_TR.UTF-8", "TZ": "America/St_Johns"},
    {"PYTHONHASHSEED": "3", "LANG": "de_DE.UTF-8", "TZ": "Pacific/Kiritimati"},
    {"PYTHONHASHSEED": "4", "USER": "nobody", "HOME": "/nowhere", "HOSTNAME": "elsewhere"},
    {"PYTHONHASHSEED": "5", "COLUMNS": "20", "TERM": "dumb", "NO_COLOR": "1"},
    {"PYTHONHASHSEED": "6", "PYTHONUTF8": "1", "LC_ALL": "POSIX"},
    {"PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "0", "CI": "true"},
    {"PYTHONHASHSEED": "123456", "PYTHONOPTIMIZE": "2"},
    {"PYTHONHASHSEED": "random", "PYTHONDONTWRITEBYTECODE": "1"},
]
FOLDERS = ["p", "a folder", "ordner-mit-einem-viel-längeren-namen/und/tief", "build", "日本"]


def _write(root: Path, paths: Iterable[str]) -> None:
    """Writes some of the sources, in that order."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(SOURCES[path].encode())


def _build(root: Path, number: int) -> dict[str, bytes]:
    """Builds in one of the environments, each from another working folder; returns the bytes of all outputs by path."""
    cwd = [root, root / "prefixes", root.parent][number % 3]
    folder = ["-C", os.path.relpath(root, cwd)] if number % 3 == 2 else []
    subprocess.run(
        [*PROGRAM, *folder, "build"],
        cwd=cwd,
        env={**os.environ, **ENVIRONMENTS[number]},
        check=True,
        capture_output=True,
    )
    outputs = [root / "cacheunit.lock", *(path for path in (root / "build").rglob("*") if path.is_file())]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in outputs}


@pytest.mark.slow
def test_builds_in_ten_environments_write_the_same_bytes(tmp_path: Path) -> None:
    roots = []
    for number in range(len(ENVIRONMENTS)):
        root = tmp_path / str(number) / FOLDERS[number % len(FOLDERS)]
        paths = list(SOURCES)
        _write(root, paths[number:] + paths[:number] if number % 2 else paths[::-1])
        roots.append(root)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        first, *others = pool.map(_build, roots, range(len(roots)))
    assert len(first) == 1 + 2 * (2 * 6 + 2)
    for number, other in enumerate(others, start=1):
        assert other == first, ENVIRONMENTS[number]


@pytest.mark.slow
def test_outputs_contain_no_names_of_the_machine(tmp_path: Path) -> None:
    root = tmp_path / "telltale-folder"
    _write(root, SOURCES)
    for path, data in _build(root, 4).items():
        for text in (b"telltale", b"nobody", b"elsewhere", b"nowhere", b"\r", os.fsencode(tmp_path)):
            assert text not in data, path


# check --prove


@pytest.mark.slow
def test_a_check_proves_that_other_conditions_give_the_same_bytes(project: Project) -> None:
    project.write(SOURCES)
    project.build()
    ran = project.run("check", "--prove")
    expected = "ok: 3 rebuilds under other conditions, without a cache, gave the same bytes\n"
    assert (ran.code, ran.out.endswith(expected)) == (0, True), ran.out + ran.err


def test_rebuilds_find_the_packages_of_this_process(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be in the user's home, or in a folder that PYTHONPATH names relative to the working folder."""
    monkeypatch.chdir(project.root)
    monkeypatch.setattr(sys, "path", [*sys.path, "own", "/else where"])
    ran: list[dict[str, str]] = []

    def run(*_: object, **keywords: Any) -> subprocess.CompletedProcess[bytes]:
        ran.append(keywords["env"])
        return subprocess.CompletedProcess((), 0)

    monkeypatch.setattr(subprocess, "run", run)
    rebuild = IsolatedRebuild()
    for conditions in rebuild.conditions:
        rebuild(conditions, {}, ())
    paths = [environment["PYTHONPATH"].split(os.pathsep) for environment in ran]
    assert [path[-2:] for path in paths] == [[str(project.root / "own"), "/else where"]] * 3
    assert {environment["PYTHONUSERBASE"] for environment in ran} == {site.getuserbase()}


def test_a_rebuild_without_room_fails_with_a_reason(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "One.\n"})
    project.build()
    monkeypatch.setattr(tempfile, "tempdir", str(project.root / "missing"))
    ran = project.run("check", "--prove")
    assert (ran.code, "a rebuild failed: cannot write a copy: No such file or directory" in ran.out) == (1, True)


ENCODER = """\
import os

def encode(messages):
    return {}
"""


@pytest.mark.slow
@pytest.mark.parametrize("text", ["str(sorted(os.environ)) + os.getcwd()", "str({'a', 'b', 'c', 'd', 'e', 'f'})"])
def test_an_encoder_that_depends_on_its_surroundings_is_found(project: Project, text: str) -> None:
    target = '[target.own]\nextends = "deepseek-v4"\nframe = {encoder = "own.py:encode"}\n'
    project.write({"cacheunit.toml": f'targets = ["own"]\n{target}', "templates/a.md.j2": "One.\n"})
    project.write({"prefixes/a.yaml": "system: a.md.j2\npadding: off\n"})
    project.write({"own.py": ENCODER.format(f"messages[0]['content'] + {text}")})
    project.run("build")
    ran = project.run("check", "--prove", "--format", "json")
    deviations = ran.json["proof"]["deviations"]
    assert (ran.code, ran.json["ok"], bool(deviations)) == (1, False, True)
    assert all(item["path"] == "cacheunit.lock" and item["byte"] > 0 for item in deviations)


class OtherText:
    """A rebuild that changes the text of an artifact; stands for a template engine that is not repeatable."""

    conditions = ("another machine",)

    def __init__(self, old: bytes, new: bytes) -> None:
        self._change = (old, new)

    def __call__(
        self, conditions: str, sources: Mapping[str, bytes], outputs: Sequence[str]
    ) -> Mapping[str, bytes] | str:
        assert conditions == "another machine"
        assert {"prefixes/a.yaml", "templates/a.md.j2", "templates/b.md.j2"} <= sources.keys()
        assert outputs == ("build", "cacheunit.lock")
        return {**self.built, "build/a/deepseek-v4.txt": self.built["build/a/deepseek-v4.txt"].replace(*self._change)}

    built: Mapping[str, bytes]


def test_the_first_differing_byte_is_named_with_its_template_line(project: Project) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "Öne.\n{% include 'b.md.j2' %}\n"})
    project.write({"templates/b.md.j2": "First.\nSecond line.\n"})
    project.build()
    rebuild = OtherText(b"line", b"lime")
    rebuild.built = {**project.files("build"), "cacheunit.lock": project.read("cacheunit.lock")}
    proof = prove(Context(project.root, quiet=True, verbose=False).adapters(), rebuild)
    (deviation,) = proof.deviations
    assert "build/a/deepseek-v4.txt at byte" in check_markdown(CheckResult(proof=proof))
    assert deviation.source == SourceLine(path="templates/b.md.j2", line=2)
    assert project.read("build/a/deepseek-v4.txt")[: deviation.offset].decode() == "Öne.\nFirst.\nSecond li"


def test_a_proof_is_about_the_whole_project(project: Project) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "One.\n"})
    ran = project.run("check", "a", "--prove")
    assert (ran.code, "leave out names" in ran.err) == (2, True)
