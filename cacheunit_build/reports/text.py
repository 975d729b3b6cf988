"""Results -> text for people."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from cacheunit_build.reports.data import status_of
from cacheunit_build.reports.table import columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.builder.explain import Explanation
    from cacheunit_build.builder.results import BuildResult, CheckResult, InputChange
    from cacheunit_build.compiler.count import TextCount
    from cacheunit_build.domain.models import Artifact, ArtifactRecord, Drift, Lookup
    from cacheunit_build.domain.target import Target


def built_text(built: BuildResult, *, reasons: bool = False) -> str:
    """One line an artifact, and a summary; with `reasons`, why each is padded or not."""
    header = ("prefix", "target", "tokens", "units", "padding", "state", "plan")
    rows = [
        (
            artifact.prefix,
            artifact.target,
            f"{'about ' if artifact.margin else ''}{artifact.entry.tokens:,}",
            units_cell(artifact),
            f"{artifact.entry.padding:,}",
            status_of(artifact, built),
            artifact.plan.reason if reasons else artifact.plan.action,
        )
        for artifact in built.artifacts
    ]
    rows += [(prefix, target, "", "", "", "removed", "") for prefix, target in built.removed]
    return columns([header, *rows], right=(2, 3, 4)) + f"\n\n{_summary(built)}" if rows else _summary(built)


def _summary(built: BuildResult) -> str:
    count = len(built.artifacts)
    exact = sum(artifact.entry.tokens for artifact in built.artifacts if not artifact.margin)
    about = sum(artifact.entry.tokens for artifact in built.artifacts if artifact.margin)
    tokens = f"{exact:,} static tokens" + (f" and about {about:,} more by estimate" if about else "")
    states = [f"{len(built.written):,} built", f"{count - len(built.written):,} unchanged"]
    states += [f"{len(built.removed):,} removed"] if built.removed else []
    return f"{_plural(count, 'artifact')}, {tokens}: {', '.join(states)}; lock {built.lock}"


def units_cell(artifact: ArtifactRecord) -> str:
    """An estimate claims no units."""
    return "-" if artifact.margin else units_text(artifact.entry.tokens, artifact.entry.unit)


def units_text(tokens: int, unit: int) -> str:
    """Full units, and what is past them: `13`, `1 + 107`; a dash where the unit is unknown."""
    if unit == 0:
        return "-"
    full, past = divmod(tokens, unit)
    return f"{full:,} + {past:,}" if past else f"{full:,}"


def checked_text(checked: CheckResult) -> str:
    """Each drift with what explains it, or how much was verified."""
    if checked.ok:
        return f"ok: {_plural(checked.verified, 'artifact')} as locked"
    return f"{drift_text(checked.drift)}\n\n{_plural(len(checked.drift), 'difference')}"


def drift_text(drift: Sequence[Drift]) -> str:
    """One line a drift."""
    return columns([(item.kind, item.prefix or item.path or "", item.target, _because(item)) for item in drift])


def _because(drift: Drift) -> str:
    if drift.because:
        return f"because of {', '.join(drift.because)}"
    return drift.path if drift.path and drift.prefix else ""


def explained_text(explained: Sequence[Explanation]) -> str:
    """The artifacts side by side where there are several, then each: numbers, plan and reason, inputs, changes."""
    header = ("prefix", "target", "tokens", "counted", "unit", "padding", "plan")
    rows = [
        (
            item.artifact.prefix,
            item.artifact.target,
            f"{item.artifact.entry.tokens:,}",
            _counted(item.artifact),
            f"{item.artifact.entry.unit:,}" if item.artifact.entry.unit else "-",
            f"{item.artifact.entry.padding:,}",
            f"{item.artifact.plan.action}: {item.artifact.plan.reason}",
        )
        for item in explained
    ]
    beside = [columns([header, *rows], right=(2, 4, 5))] if len(explained) > 1 else []
    return "\n\n".join([*beside, *(_explained(item) for item in explained)])


def _counted(artifact: Artifact) -> str:
    return f"within {artifact.margin:.0%}" if artifact.margin else artifact.entry.counted


def _explained(explained: Explanation) -> str:
    artifact, entry = explained.artifact, explained.artifact.entry
    unit = f"{units_cell(artifact)} of {entry.unit:,}" if entry.unit else "none known"
    facts = [
        ("  tokens", f"{entry.tokens:,} static, {_counted(artifact)} ({explained.engine})"),
        (
            "  soft",
            f"{artifact.unstable:,} more at the end, which may change with what follows" if artifact.unstable else "",
        ),
        (
            "  literal",
            f"{artifact.literal:,} with control tokens as characters" if artifact.literal is not None else "",
        ),
        ("  units", unit),
        ("  padding", f"{entry.padding:,} tokens"),
        ("  plan", f"{artifact.plan.action}: {artifact.plan.reason}"),
        ("  text", entry.text),
        ("  request", entry.request),
        ("  token ids", entry.token_ids or "of another vocabulary, not locked"),
        ("  lock", _LOCKED[explained.locked]),
    ]
    segments = [(f"    {name}", fingerprint) for name, fingerprint in artifact.segments.items()]
    parts = ["  segments", columns(segments), "  inputs", columns(_tree(artifact.lookups))]
    changed = [_change(change) for change in explained.changed]
    told = columns([fact for fact in facts if fact[1]])
    return "\n".join([f"{artifact.prefix} for {artifact.target}", told, *parts, *changed])


def _change(change: InputChange) -> str:
    return (
        f"  changed since the lock: {change.path}\n    was {change.old or 'absent'}\n    is  {change.new or 'absent'}"
    )


_LOCKED = {
    "same": "as locked",
    "different": "differs from the lock",
    "absent": "not in the lock",
    "unknown": "the lock cannot be read",
}


def _tree(lookups: Sequence[Lookup]) -> list[tuple[str, str]]:
    """Each file below the one that asked for it, with its fingerprint."""
    depth = {lookup.path: 0 for lookup in lookups}
    rows = []
    for lookup in _in_order(lookups):
        depth[lookup.path] = depth.get(lookup.asked_by or "", -1) + 1
        rows.append((f"    {'  ' * depth[lookup.path]}{lookup.path}", lookup.found or "absent"))
    return rows


def _in_order(lookups: Sequence[Lookup], asked_by: str | None = None) -> list[Lookup]:
    """Depth first, each asker before what it asked for."""
    ordered = []
    for lookup in lookups:
        if lookup.asked_by == asked_by:
            ordered += [lookup, *_in_order(lookups, lookup.path)]
    return ordered


def targets_text(targets: Mapping[str, Target]) -> str:
    """One line a target."""
    header = ("target", "kind", "unit", "minimum", "read", "write", "counted", "request", "description")
    rows = [
        (
            target.name,
            target.cache.kind,
            _unit(target),
            _known(target.cache.minimum),
            _known(target.cache.read),
            _known(target.cache.write),
            _how_counted(target),
            target.request,
            target.description,
        )
        for target in targets.values()
    ]
    return columns([header, *rows], right=(2, 3, 4, 5))


def target_text(target: Target) -> str:
    """Everything about one target, with the evidence of its numbers."""
    cache, frame = target.cache, target.frame
    facts = [
        ("  description", target.description),
        ("  models", ", ".join(target.models)),
        ("  request", target.request),
        ("  tokenizer", "the project's own" if target.tokenizer is None else str(target.tokenizer)),
        ("  before", repr(frame.before) if frame.before else ""),
        ("  after", repr(frame.after) if frame.after else ""),
        ("  chat template", frame.chat_template or ""),
        ("  encoder", frame.encoder or ""),
        ("  cache", f"{cache.kind}, unit {_unit(target)}, minimum {_known(cache.minimum)}"),
        ("  prices", f"read {_known(cache.read)}, write {_known(cache.write)} (an uncached token is 1)"),
        ("  money", _money(target)),
        ("  marker", cache.marker or ""),
    ]
    evidence = [f"\n  {e.grade}, checked {e.checked}: {e.claim}\n    {e.source}" for e in cache.evidence]
    return "\n".join([target.name, columns([fact for fact in facts if fact[1]]), *evidence])


def _money(target: Target) -> str:
    price = target.price
    return "" if price is None else f"{price.input:,} {price.currency} for a million uncached input tokens"


def _unit(target: Target) -> str:
    return _known(target.cache.unit) if target.cache.kind in ("blocks", "unknown") else "-"


def _how_counted(target: Target) -> str:
    if target.tokenizer is None:
        return "own"
    return f"within {target.tokenizer.margin:.0%}" if target.tokenizer.margin else "exact"


def _known(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,}"


def measured_text(measured: TextCount) -> str:
    """A count, in words."""
    lines = [f"{_plural(measured.tokens, 'token')}, {measured.counted} ({measured.tokenizer})"]
    if measured.unit:
        units = units_text(measured.tokens, measured.unit)
        missing = f"{_plural(measured.padding, 'token')} to the next boundary" if measured.padding else "aligned"
        lines.append(f"units of {measured.unit:,}: {units}; {missing}")
    if measured.unstable:
        lines.append(f"{measured.unstable} more at the end may change with what follows, and are not counted")
    if measured.control_tokens:
        lines.append(f"control tokens in the text: {', '.join(measured.control_tokens)}")
        lines.append(f"with these read as plain characters: {measured.literal:,} tokens")
    return "\n".join(lines)


def tokens_text(artifact: Artifact, pieces: Sequence[bytes]) -> str:
    """The tokens of what the model reads in front of the user's words, each unit and the padding set apart.

    Args:
        artifact: what is shown.
        pieces: the bytes of each token of its framed_prefix.
    """
    unit, entry = artifact.entry.unit, artifact.entry
    marks = _marks(artifact, pieces)
    lines: list[str] = [""]
    for index, piece in enumerate(pieces):
        if index in marks:
            lines += [*marks[index], ""]
        lines[-1] += f"|{_visible(piece)}"
    units = f"{units_text(entry.tokens, unit)} units of {unit:,}" if unit else "unit unknown"
    lines.append(f"=== {entry.tokens:,} static tokens, {units}")
    return "\n".join(line for line in lines if line)


def _marks(artifact: Artifact, pieces: Sequence[bytes]) -> dict[int, list[str]]:
    """What is to be said before the token of that index."""
    entry, framed_prefix = artifact.entry, artifact.framed_prefix.encode()
    marks: dict[int, list[str]] = {}
    starts = list(accumulate(map(len, pieces), initial=0))
    padding = artifact.padding_text.encode()
    start = framed_prefix.rfind(padding) if padding else -1
    if start >= 0:
        first, after = bisect_right(starts, start) - 1, bisect_left(starts, start + len(padding))
        marks.setdefault(first, []).append(f"--- padding: {entry.padding:,} tokens more")
        marks.setdefault(after, []).append("--- end of padding")
    for boundary in range(entry.unit, len(pieces), entry.unit) if entry.unit else ():
        marks.setdefault(boundary, []).append(f"=== unit {boundary // entry.unit:,} ends after {boundary:,} tokens")
    if artifact.unstable:
        marks.setdefault(entry.tokens, []).append(f"... {artifact.unstable} tokens that may change with what follows")
    return marks


def _visible(piece: bytes) -> str:
    """A token's bytes as one readable run: line ends and bars escaped, half characters as hex."""
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return "".join(f"\\x{byte:02x}" for byte in piece)
    return "".join(_ESCAPES.get(c) or escaped(c) for c in text)


def escaped(character: str) -> str:
    """The character, or its escape if it is not seen."""
    return character if character.isprintable() else character.encode("unicode_escape").decode()


_ESCAPES = {"\n": "\\n", "|": "\\|", "\\": "\\\\", "\u3000": "\u3000"}


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
