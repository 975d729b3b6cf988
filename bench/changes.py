"""Sends the old and then the new version of a changed prefix to an engine; compares its hits with those of `diff`."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import review
from corpus import START, USER, source_text
from servers import encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servers import Answer, Engine

SETTINGS = review.SETTINGS.replace("unit = 16", "unit = 128")
"""The settings of review.py, with a unit that vLLM's server supports on a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentChange:
    """The new version of a prefix, as it was sent after the old one.

    Attributes:
        answer: the engine's numbers.
        tokens: tokens of the request, counted by the reference implementation.
    """

    answer: Answer
    tokens: int


def send_changes(
    engine: Engine, targets: Sequence[str], sources: Mapping[str, bytes], tools: Path, users: tuple[str, str]
) -> list[dict[str, Any]]:
    """Sends both versions of each artifact that an edit changes; returns a row for each kind of edit.

    Args:
        engine: the engine.
        targets: the targets of review.py whose artifacts are sent.
        sources: name -> text of each prompt.
        tools: the folder of tool definitions.
        users: the user messages after the old and the new version.
    """
    tool_texts = [json.dumps(review.first_tool(path), indent=1) for path in sorted(tools.glob("*.json"))]
    prompts = [
        review.split_prompt(name.lower(), source_text(data), tool_texts[index % len(tool_texts)])
        for index, (name, data) in enumerate(sources.items())
    ]
    rows = []
    before: dict[tuple[str, str], Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for edit, report in review.versions(Path(folder), prompts, SETTINGS):
            after = fragments(Path(folder))
            if report is not None:  # None for the first version, which changes nothing
                row = {"edit": edit, "engine": engine.name, "sent": 0, "equal": 0, "hit": 0, "static": 0, "faults": []}
                for change in report["changes"]:
                    key = (change["prefix"], change["target"])
                    if key[1] in targets:
                        versions = (before[key], after[key])
                        add_change(row, change, send_versions(engine, versions, key[1], users, f"{edit} {key}"))
                rows.append(row)
            before = after
    return rows


def add_change(row: dict[str, Any], change: dict[str, Any], sent: SentChange) -> None:
    """Adds one change to the row of its edit, and a fault for each number that differs."""
    hit, predicted = sent.answer.hit, change["still_cached"]
    row["sent"] += 1
    row["equal"] += hit == predicted
    row["hit"] += hit
    row["static"] += change["tokens"]["new"]
    what = f"{row['engine']}, {row['edit']}, {change['prefix']} for {change['target']}"
    if hit != predicted:
        row["faults"].append(f"{what}: {hit} tokens hit, {predicted} predicted")
    if sent.answer.tokens != sent.tokens:
        row["faults"].append(f"{what}: {sent.answer.tokens} tokens, {sent.tokens} counted here")


def fragments(root: Path) -> dict[tuple[str, str], Any]:
    """Returns the request fragments of a built project by prefix and target."""
    return {
        (path.parent.relative_to(root / "build").as_posix(), path.stem): json.loads(path.read_bytes())
        for path in sorted((root / "build").rglob("*.json"))
    }


def send_versions(
    engine: Engine, versions: tuple[Any, Any], target: str, users: tuple[str, str], salt: str
) -> SentChange:
    """Sends the old version, then the new one.

    Args:
        engine: the engine.
        versions: the old and the new request fragment.
        target: their target, of review.py.
        users: the user messages that follow them.
        salt: keeps these requests apart from others in the engine's cache.
    """
    (old, new), (old_user, new_user) = versions, users
    send_version(engine, old, target, old_user, salt)
    answer = send_version(engine, new, target, new_user, salt)
    return SentChange(answer=answer, tokens=len(encode(model_text(new, target) + new_user)))


def send_version(engine: Engine, fragment: dict[str, Any], target: str, user: str, salt: str) -> Answer:
    """Sends one request fragment with a user message: as chat messages for the target `chat`, else as text."""
    if target != "chat":
        return engine.complete(model_text(fragment, target) + user, salt)
    messages = [*fragment["messages"], {"role": "user", "content": user}]
    options = {"chat_template": review.CHAT, "add_generation_prompt": False, "tool_choice": "none"}
    return engine.chat({**fragment, **options, "messages": messages}, salt)


def model_text(fragment: dict[str, Any], target: str) -> str:
    """Returns the text that the model reads for a request fragment, up to the user message."""
    if target == "exact":
        return f"<|s|>{fragment['prompt']}{USER}"
    system: str = fragment["messages"][0]["content"]
    if target == "chat":
        tools = "".join(f"{json.dumps(tool, ensure_ascii=False)}\n" for tool in fragment.get("tools", ()))
        return tools + system + USER
    return f"{START}{system}{USER}"
