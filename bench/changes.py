"""Sends the old and then the new version of a changed prefix to an engine, and holds its hits against `diff`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import review
from corpus import START, USER, normal
from servers import encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servers import Answer, Engine

SETTINGS = review.SETTINGS.replace("unit = 16", "unit = 128")
"""A unit that vLLM's server has on a CPU."""


def try_changes(
    engine: Engine, targets: Sequence[str], sources: Mapping[str, bytes], tools: Path, users: tuple[str, str]
) -> list[dict[str, Any]]:
    """Sends both versions of each artifact that an edit changes; a row for each kind of edit.

    Args:
        engine: what they are sent to.
        targets: of review.py; others are left out.
        sources: prompts by name.
        tools: the folder of tools.
        users: what follows the old version, and the new one.
    """
    described = [json.dumps(review.first_tool(path), indent=1) for path in sorted(tools.glob("*.json"))]
    prompts = [
        review.cut(name.lower(), normal(data), described[index % len(described)])
        for index, (name, data) in enumerate(sources.items())
    ]
    rows = []
    before: dict[tuple[str, str], Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for edit, report in review.versions(Path(folder), prompts, SETTINGS):
            after = fragments(Path(folder))
            row: dict[str, Any] = {"edit": edit, "engine": engine.name, "sent": 0, "equal": 0, "hit": 0, "static": 0}
            row["faults"] = []
            for item in report["changes"] if report is not None else ():
                key = (item["prefix"], item["target"])
                if key[1] in targets:
                    versions = (before[key], after[key])
                    row["faults"] += add(row, item, send(engine, versions, key[1], users, f"{edit} {key}"))
            rows += [] if report is None else [row]
            before = after
    return rows


def add(row: dict[str, Any], item: dict[str, Any], answered: tuple[Answer, int]) -> list[str]:
    """Adds one change to its row; gives what is wrong with it."""
    answer, tokens = answered
    row["sent"] += 1
    row["equal"] += answer.hit == item["still_cached"]
    row["hit"] += answer.hit
    row["static"] += item["tokens"]["new"]
    what = f"{row['engine']}, {row['edit']}, {item['prefix']} for {item['target']}"
    faults = {
        f"{what}: {answer.hit} hit for {item['warm']} warm": answer.hit != item["still_cached"],
        f"{what}: {answer.tokens} tokens for {tokens}": answer.tokens != tokens,
    }
    return [fault for fault, wrong in faults.items() if wrong]


def fragments(root: Path) -> dict[tuple[str, str], Any]:
    """The request fragments of all that is built."""
    return {
        (path.parent.relative_to(root / "build").as_posix(), path.stem): json.loads(path.read_bytes())
        for path in sorted((root / "build").rglob("*.json"))
    }


def send(
    engine: Engine, versions: tuple[Any, Any], target: str, users: tuple[str, str], salt: str
) -> tuple[Answer, int]:
    """Sends the old version, then the new one; its answer, and its tokens as this script counts them."""
    answers = []
    for fragment, user in zip(versions, users, strict=True):
        text = read(fragment, target) + user
        if target == "chat":
            messages = [*fragment["messages"], {"role": "user", "content": user}]
            more = {"chat_template": review.CHAT, "add_generation_prompt": False, "tool_choice": "none"}
            answers.append((engine.chat({**fragment, **more, "messages": messages}, salt), len(encode(text))))
        else:
            answers.append((engine.complete(text, salt), len(encode(text))))
    return answers[-1]


def read(fragment: dict[str, Any], target: str) -> str:
    """What the model reads of a fragment, up to the user's words."""
    if target == "exact":
        return f"<|s|>{fragment['prompt']}{USER}"
    system: str = fragment["messages"][0]["content"]
    if target == "chat":
        return (
            "".join(f"{json.dumps(tool, ensure_ascii=False)}\n" for tool in fragment.get("tools", ())) + system + USER
        )
    return f"{START}{system}{USER}"
