"""The stable codes of lint: what each means, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cacheunit_build.lint.results import Severity

GROUPS = {"CU1": "volatile", "CU2": "leaks", "CU3": "characters", "CU4": "layout", "CU5": "project"}
"""The first three characters of a code say what kind of thing it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One kind of finding: its usual severity, its name, what it means, what to do."""

    code: str
    severity: Severity
    name: str
    meaning: str
    hint: str


def _table(rows: Iterable[tuple[str, Severity, str, str, str]]) -> dict[str, Code]:
    return {row[0]: Code(code=row[0], severity=row[1], name=row[2], meaning=row[3], hint=row[4]) for row in rows}


_MOVE = "leave it out, or send it after the prefix, in the user's message"

CODES = _table(
    (
        ("CU101", "error", "timestamp", "a date with a time of day: a clock's value", _MOVE),
        ("CU102", "warning", "date", "a date: an error where the text calls it today's", _MOVE),
        ("CU103", "warning", "time", "a time of day to the second, or one that is called the present one", _MOVE),
        ("CU104", "error", "epoch", "a number that is a time in seconds or milliseconds since 1970", _MOVE),
        ("CU105", "error", "uuid", "a UUID: most name one session, run or request", _MOVE),
        ("CU106", "warning", "long-hex", "32 or more hex digits: a hash, a checksum or a key", _MOVE),
        (
            *("CU107", "warning", "live-counter"),
            "a count in a tool's description that grows with the data behind it",
            "leave the number out of the description, or round it to a limit that stays",
        ),
        (
            *("CU201", "warning", "absolute-path"),
            "a path of one machine or one person: it differs in each clone, and tells a name",
            "write the path relative to the project, or a placeholder",
        ),
        (
            *("CU202", "warning", "host-name"),
            "a host of an internal network, or an address on the Internet",
            "use a name for the role, or one of those for documentation (example.com, 192.0.2.1)",
        ),
        (
            *("CU203", "warning", "e-mail"),
            "an e-mail address that is not of a domain for documentation",
            "if it is meant for users, ignore it here; else use one at example.com",
        ),
        (
            *("CU204", "error", "secret"),
            "a key, token or password, by the patterns of detect-secrets (extra: secrets)",
            "take it out and revoke it: artifacts, lock history and caches keep it",
        ),
        (
            *("CU301", "warning", "html-entity"),
            "an HTML entity outside of code: a text was escaped on its way here",
            "write the character itself",
        ),
        (
            *("CU302", "warning", "zero-width"),
            "a character that is not seen and yet is a token; an error if it is one that hides text",
            "delete it; where it is meant, show it as {{ '\\u200b' }}, and ignore it there",
        ),
        (
            *("CU303", "error", "bidirectional"),
            "a character that makes text look as if it stood in another order",
            "delete it: what is reviewed must be what the model reads",
        ),
        ("CU304", "error", "control-character", "a control character other than tab and line feed", "delete it"),
        (
            *("CU305", "warning", "line-separator"),
            "a line end other than LF: U+2028, U+2029, U+0085, a vertical tab or a form feed",
            "end lines with LF",
        ),
        (
            *("CU306", "error", "carriage-return"),
            "a carriage return, which reaches the text by an escape in a template",
            'end lines with LF: "\\n"',
        ),
        (
            *("CU307", "warning", "mixed-normalization"),
            "decomposed characters in a prefix that has composed ones: equal to the eye, other tokens",
            "save the file in composed form (NFC)",
        ),
        (
            *("CU308", "warning", "control-token"),
            "the text of a control token, of the target that lets it in or of another model",
            "reword it: what reads it as a control token sees a turn begin or end",
        ),
        (
            *("CU309", "warning", "json-escape"),
            "an escape such as \\u00e9 or \\u003c where the character itself would do: it costs four tokens or more",
            "write the character; the filter tojson keeps it",
        ),
        (
            *("CU401", "warning", "volatile-before-stable"),
            "something volatile in front of a long stable part; most severe in the first unit",
            "move it behind the stable part, or out of the prefix",
        ),
        (
            *("CU402", "info", "just-over-a-unit"),
            "a few tokens past the last full unit, not padded: read anew by each request",
            "cut as many tokens",
        ),
        (
            *("CU403", "warning", "below-minimum"),
            "fewer tokens than the target caches at all; info where an estimate leaves it open",
            'join prefixes, or fill up where it pays: "padding: {floor: true, reuses: N}"',
        ),
        (
            *("CU404", "info", "soft-boundary"),
            "the last tokens change with what follows, and are not cached; a warning if that costs a unit",
            "end the text so that nothing merges with it, as a blank line and a mark do",
        ),
        (
            *("CU405", "info", "variants-part-early"),
            "variants differ in front of text that they share; a warning in the first unit or if that is most of it",
            "move what all variants share to the front",
        ),
        (
            *("CU406", "info", "prefixes-part-early"),
            "two prefixes of a target share much text but not their beginning",
            "move what they share to the front, in the same order",
        ),
        (
            *("CU501", "warning", "unused"),
            "a variable, data file or matrix axis that no template of the prefix reads",
            "remove it, or print it",
        ),
        (
            *("CU502", "warning", "unreachable-template"),
            "a file among the templates that no prefix looks for or names",
            "delete it, or include it",
        ),
        (
            *("CU503", "warning", "look-alike"),
            "two names that differ only in case, in - and _, or in characters that look alike",
            "rename one of them",
        ),
        (
            *("CU504", "warning", "ignore-comment"),
            "a comment that is to ignore a code, and names none that is known",
            "write: cacheunit: ignore CU101",
        ),
    )
)
"""Every code that lint knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which codes are wanted: those in `select`, all if it is empty, without those in `ignore`; the longer one wins."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def takes(self, code: str) -> bool:
        """Whether findings of that code are wanted."""
        wanted = max((len(part) for part in self.select if code.startswith(part)), default=0 if self.select else 1)
        return wanted > max((len(part) for part in self.ignore if code.startswith(part)), default=0)


def chosen(select: Iterable[str], ignore: Iterable[str]) -> Chosen:
    """The choice by words of the command line, each one or several codes or groups with commas between them.

    Raises:
        CacheunitError: every word that is neither.
    """
    faults: list[Fault] = []
    words = {"select": select, "ignore": ignore}
    found: dict[str, tuple[str, ...]] = {}
    for option, given in words.items():
        parts = [part.strip() for word in given for part in word.split(",") if part.strip()]
        faults += [
            Fault(message=f'--{option}: there is no code "{part}"', hint=nearest(part))
            for part in parts
            if code_or_group(part) is None
        ]
        found[option] = tuple(code_or_group(part) or "" for part in parts)
    if faults:
        raise CacheunitError(*faults)
    return Chosen(select=found["select"], ignore=found["ignore"])


def code_or_group(word: str) -> str | None:
    """The code or the first characters of a group that `word` means: `CU101`, `CU1`, `CU1xx`, or a name; else None."""
    upper = word.upper()
    start = upper.rstrip("X") if len(upper) == len("CU101") else upper
    if start in CODES or start in GROUPS or start == "CU":
        return start
    names = {code.name: code.code for code in CODES.values()} | {name: group for group, name in GROUPS.items()}
    return names.get(word.lower())


def nearest(word: str) -> str:
    """A hint for a word that is no code."""
    names = [*CODES, *GROUPS, *(code.name for code in CODES.values()), *GROUPS.values()]
    upper = word.upper()
    near = did_you_mean(upper if upper.startswith("CU") else word.lower(), names)
    return near or '"cacheunit lint --codes" lists them'
