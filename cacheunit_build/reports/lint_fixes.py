"""Formats what `lint --fix` changes: as text, as a text diff, and as JSON."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.document import decode
from cacheunit_build.lint.certain_secrets import certain_secrets
from cacheunit_build.reports.formatting import plural
from cacheunit_build.reports.layout import Verbatim
from cacheunit_build.reports.lint import lint_blocks, lint_json
from cacheunit_build.reports.lint_rows import position_text
from cacheunit_build.reports.text_diff import diff_lines, show_white_space

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.lint.edits import Edit
    from cacheunit_build.lint.fix_plan import Unfixed
    from cacheunit_build.lint.fixes import FixResult
    from cacheunit_build.reports.layout import Block

_MOST_KINDS = 3
"""The most rows for one rule in one file that differ in what was replaced."""


def fix_blocks(fixes: FixResult, *, verbose: bool = False) -> list[Block]:
    """Returns what was fixed by file and line, and the violations that are left, with the reason.

    Args:
        fixes: what was fixed.
        verbose: whether to show every place.
    """
    violations = {(item.code, item.path, item.line) for item in fixes.left.violations}
    reasons: dict[tuple[str, str, int], list[str]] = {}
    for item in fixes.unfixed:
        reasons.setdefault((item.code, item.path, item.line), []).append(item.reason)
    elsewhere = tuple(item for item in fixes.unfixed if (item.code, item.path, item.line) not in violations)
    return [
        [*_edit_lines(fixes.edits, verbose=verbose)],
        [*_unfixed_lines(elsewhere)],
        *lint_blocks(fixes.left, verbose=verbose, reasons=reasons),
        [summary(fixes, written=True)],
    ]


def summary(fixes: FixResult, *, written: bool) -> str:
    """Returns how much was fixed, or would be: `3 replacements in 2 files`."""
    if not fixes.edits:
        return "nothing was fixed" if written else "nothing would be fixed"
    done = "fixed" if written else "would fix"
    return f"{done} {plural(len(fixes.edits), 'place')} in {plural(len(fixes.after), 'file')}"


def diff_blocks(fixes: FixResult) -> list[Block]:
    """Returns a text diff for each file that would change; keys and tokens in it are left out."""
    return [
        Verbatim(diff_lines(_shown_text(fixes.before[path], path), _shown_text(data, path), name=path))
        for path, data in sorted(fixes.after.items())
    ]


def _shown_text(data: bytes, path: str) -> str:
    """Returns the text of a file without secrets of a certain form, in as many lines."""
    text = decode(data, path)
    parts, done = [], 0
    for secret in certain_secrets(text):
        parts += [text[done : secret.start], "\u2026", "\n" * text.count("\n", secret.start, secret.end)]
        done = secret.end
    return "".join([*parts, text[done:]])


def fixes_json(fixes: FixResult) -> dict[str, Any]:
    """Returns the JSON report: the violations that are left, each replacement, and what was left alone."""
    fixed = [
        {
            "code": edit.code,
            "path": edit.path,
            "line": edit.line,
            "column": edit.column,
            "old": edit.old,
            "new": edit.new,
        }
        for edit in fixes.edits
    ]
    unfixed = [
        {"code": item.code, "path": item.path, "line": item.line, "column": item.column, "reason": item.reason}
        for item in fixes.unfixed
    ]
    return {**lint_json(fixes.left), "fixed": fixed, "unfixed": unfixed}


def _edit_lines(edits: tuple[Edit, ...], *, verbose: bool) -> Iterator[str]:
    """Yields `fixed a.md.j2:1, 7 and 2 more: CU301: &amp; -> &`, one line for each rule, file and replacement."""
    groups: dict[tuple[str, str], dict[str, list[Edit]]] = {}
    for edit in edits:
        groups.setdefault((edit.path, edit.code), {}).setdefault(_change_text(edit), []).append(edit)
    for (path, code), kinds in groups.items():
        if len(kinds) > _MOST_KINDS and not verbose:
            first, *others = kinds
            positions = [(edit.line, edit.column) for items in kinds.values() for edit in items]
            yield f"fixed {position_text(path, sorted(positions))}: {code}: {first}; {len(others):,} others"
            continue
        for kind, items in kinds.items():
            for group in [[edit] for edit in items] if verbose else [items]:
                yield f"fixed {position_text(path, [(edit.line, edit.column) for edit in group])}: {code}: {kind}"


def _change_text(edit: Edit) -> str:
    """Returns what an edit does: `&amp; -> &`, `⟨U+200B⟩ deleted`, `⟨U+2028⟩ -> a line end`, `é composed`."""
    if unicodedata.normalize("NFC", edit.old) == edit.new:
        return f"{edit.new} composed"
    old = show_white_space(edit.old)
    if not edit.new:
        return f"{old} deleted"
    return f"{old} -> {show_white_space(edit.new) if edit.new.strip() else 'a line end'}"


def _unfixed_lines(unfixed: tuple[Unfixed, ...]) -> Iterator[str]:
    """Yields `not fixed: a.md.j2:3:7: CU302: reason`, one line for each rule, file and reason."""
    groups: dict[tuple[str, ...], list[Unfixed]] = {}
    for item in unfixed:
        groups.setdefault((item.path, item.code, item.reason), []).append(item)
    for (path, code, reason), items in groups.items():
        yield f"not fixed: {position_text(path, [(item.line, item.column) for item in items])}: {code}: {reason}"
