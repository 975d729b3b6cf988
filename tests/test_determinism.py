"""Builds are reproducible: equal sources give equal bytes on every machine, in every folder and process."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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
