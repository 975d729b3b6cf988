"""What a project has and does not use, and names that are taken for one another: CU5xx."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from cacheunit_build.domain.manifest import Manifest

_ALIKE = str.maketrans(
    # Cyrillic, then Greek, then digits and signs that pass for a Latin letter or for one another.
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d\u043a\u043c\u0442\u0432\u043d"
    "\u03bf\u03b1\u03bd\u03c1\u03b9\u03ba\u03c4\u03c5\u03c7"
    "01l-",
    "aeopcyxijsdhqwkmtbh" + "oavpiktux" + "oii_",
)
_REFERENCE = re.compile(
    r"\{%[-+]?\s*(?:include|import|from|extends)\b(.*?)%\}|\{\{.*?\}\}|\{%[-+]?\s*set\b(.*?)%\}", re.DOTALL
)
_QUOTED = re.compile(r"\"([^\"\n]+)\"|'([^'\n]+)'")
_NOT_TEMPLATES = re.compile(r"(?:^|/)(?:readme|license|copying|notice|changelog)(?:\.\w+)?$", re.IGNORECASE)


def unused(manifest: Manifest, asked: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Key, name and message of each variable, data file and axis that no template asked for."""
    kinds: dict[str, tuple[str, Iterable[str]]] = {
        "variables": ("variable", manifest.variables),
        "data": ("data file", manifest.data),
        "matrix": ("matrix axis", manifest.matrix),
    }
    for key, (kind, names) in kinds.items():
        for name in names:
            if name not in asked:
                yield key, name, f'no template reads the {kind} "{name}"'


def unreachable(templates: Mapping[str, str], looked_for: Collection[str], folder: str) -> Iterator[str]:
    """The paths of templates (path -> text) that no prefix looked for, and that none that was looked for names."""
    reached: set[str] = set()
    waiting = [path for path in looked_for if path in templates]
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            named = (f"{folder}/{name}" for name in _named_in(templates[path]))
            waiting += (name for name in named if name in templates)
    for path in sorted(templates.keys() - reached):
        if not _NOT_TEMPLATES.search(path):
            yield path


def _named_in(text: str) -> Iterator[str]:
    """Every quoted text in a template's statements: a branch that no variant took may name a template in it."""
    for match in _REFERENCE.finditer(text):
        yield from (double or single for double, single in _QUOTED.findall(match[0]))


def look_alikes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each name with the earlier one that it looks like."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(_skeleton(name), name)
        if other != name:
            yield name, other


def _skeleton(name: str) -> str:
    """What is left of a name to the hurried eye."""
    return unicodedata.normalize("NFKC", name).casefold().translate(_ALIKE)
