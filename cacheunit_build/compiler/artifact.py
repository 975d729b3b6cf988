"""Compiles one variant for one target: counts its static tokens, plans and adds padding, and freezes the bytes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.compiler.frozen_options import frozen_options, option_keys
from cacheunit_build.compiler.markers import tokens_in_front
from cacheunit_build.compiler.padding import AlignmentError, pad_text_to
from cacheunit_build.compiler.padding_plan import PaddingRequest, make_plan
from cacheunit_build.compiler.tool_checks import tool_notes, tool_texts
from cacheunit_build.compiler.turns import user_message
from cacheunit_build.domain.artifact import Artifact, ArtifactRecord, LaterTurns, PaddingPlan
from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.fingerprint import compact_json, fingerprint, fingerprint_ids
from cacheunit_build.domain.lock import LockEntry
from cacheunit_build.domain.prompt import Conversation, StaticTokens
from cacheunit_build.domain.settings import DEFAULT_HITS_PER_MISS
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.domain.token_count import TokenCount
from cacheunit_build.request_formats.base import PrefixParts, plain_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.manifest import Variant
    from cacheunit_build.domain.prompt import Rendered, Tool

_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_DESCRIPTION = re.compile(r"^description:.*$", re.MULTILINE)


def compile_artifact(
    variant: Variant,
    rendered: Rendered,
    tools: Sequence[Tool],
    loaded: LoadedTarget,
    read: Callable[[str], bytes | None],
) -> Artifact:
    """Compiles a variant for a target.

    Args:
        variant: the variant.
        rendered: its rendered texts.
        tools: its tools.
        loaded: the target.
        read: returns the bytes of a source file, to find the line of a fault.

    Raises:
        CacheunitError: the target has no place for tools, examples or options, the text contains control tokens of the
            target, no padding reaches the boundary, or the budget is exceeded.
    """
    steps = _ArtifactCompiler(variant, rendered, tools, loaded)
    steps.refuse_missing_places()
    steps.refuse_control_tokens(read)
    unpadded = steps.count("")
    plan, padding = steps.padding(steps.plan(unpadded))
    padded = steps.count(padding)
    steps.refuse_over_budget(unpadded, padded)
    return steps.freeze(plan, padding, unpadded, padded)


class _ArtifactCompiler:
    """The steps that compile one variant for one target."""

    def __init__(self, variant: Variant, rendered: Rendered, tools: Sequence[Tool], loaded: LoadedTarget) -> None:
        self._variant = variant
        self._manifest = variant.manifest
        self._rendered = rendered
        self._tools = tools
        self._loaded = loaded
        self._target = loaded.target
        self._name = f"{variant.name} for {loaded.target.name}"
        self._counts: dict[str, StaticTokens] = {}
        self._options = frozen_options(variant.manifest, loaded.target)
        self._content = [rendered.system, *(turn.text for turn in rendered.turns), *tool_texts(tools)]

    def count(self, padding: str) -> StaticTokens:
        """Returns the static tokens with this padding; each padding is counted once."""
        if padding not in self._counts:
            try:
                self._counts[padding] = self._counted(padding)
            except CacheunitError as error:
                faults = (replace(fault, message=f"{self._name}: {fault.message}") for fault in error.faults)
                raise CacheunitError(*faults) from None
        return self._counts[padding]

    def _counted(self, padding: str) -> StaticTokens:
        return self._loaded.static_tokens(self._conversation(padding))

    def _conversation(self, padding: str) -> Conversation:
        """Returns the prefix with this padding, without the messages that follow."""
        return Conversation(
            system=self._rendered.system + padding,
            tools=self._loaded.framed_tools(self._tools),
            turns=self._rendered.turns,
            options=self._options.for_frame,
        )

    def refuse_missing_places(self) -> None:
        """Raises a fault for tools, examples or options that the request format or the frame has no place for."""
        fixed_frame = self._target.frame.plain and not self._loaded.tokenizer.margin
        for key, present in (("tools", self._tools), ("examples", self._rendered.turns)):
            if present and not self._loaded.request_format.has_messages:
                hint = "use a target whose request format has messages"
                message = f'request format "{self._target.request}" has no {key}'
                raise CacheunitError(self._fault(message, key, hint))
            if present and fixed_frame:
                hint = "give the target the model's own chat_template or encoder"
                raise CacheunitError(self._fault(f"the target's frame has no template for {key}", key, hint))
        for name in () if self._loaded.tokenizer.margin else self._options.uncounted:
            message = f"{self._name}: the target's frame does not tell how `{name}` changes the prefix"
            hint = 'give the target a chat_template or encoder, and the option an "argument" that takes its value'
            raise CacheunitError(self._manifest.fault(message, *option_keys(self._manifest, name), hint=hint))

    def refuse_control_tokens(self, read: Callable[[str], bytes | None]) -> None:
        """Raises a fault for each control token of the target in the text, at the first source line that has it."""
        if self._manifest.special_tokens == "allow":
            return
        tokens = dict.fromkeys(
            token for text in self._content for token in self._loaded.tokenizer.control_tokens_in(text)
        )
        faults = [self._control_token_fault(token, read) for token in tokens]
        if faults:
            raise CacheunitError(*faults)

    def _control_token_fault(self, token: str, read: Callable[[str], bytes | None]) -> Fault:
        message = f"{self._name}: the text contains the control token {token}"
        hint = 'reword it, or set "special_tokens: allow"'
        source = self._source_of(token, read)
        if source is None:
            return self._manifest.fault(message, "system", hint=hint)
        return Fault(message=message, path=source.path, line=source.line, hint=hint)

    def _source_of(self, token: str, read: Callable[[str], bytes | None]) -> SourceLine | None:
        """Returns the first source line that has a token: templates and data first, then the manifest.

        Comments of templates and the description of the manifest do not count.
        """
        manifest, *others = self._rendered.lookups
        plain_files = {*self._manifest.data.values(), *self._manifest.tools}
        for lookup in (*others, manifest):
            text = (read(lookup.path) or b"").decode("utf-8", "replace")
            if lookup is manifest:
                text = _DESCRIPTION.sub("", text)
            elif lookup.path not in plain_files:
                text = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
            if token in text:
                return SourceLine(path=lookup.path, line=text.count("\n", 0, text.index(token)) + 1)
        return None

    def plan(self, unpadded: StaticTokens) -> PaddingPlan:
        """Returns whether to pad, and the reason with everything that the count depends on."""
        rule, padding = self._target.cache, self._manifest.padding
        count = TokenCount(tokens=unpadded.tokens, margin=self._loaded.tokenizer.margin)
        wanted = PaddingRequest(
            mode=padding.mode,
            floor=padding.floor,
            hits_per_miss=padding.hits_per_miss or DEFAULT_HITS_PER_MISS,
            budget=self._manifest.budget,
        )
        plan = make_plan(count, rule, wanted)
        if rule.marker is not None and self._loaded.request_format.marker_place(self._parts("")) is None:
            reason = f"format {self._target.request} cannot mark tools alone: they are cached only with what follows"
            plan = PaddingPlan(action="unmarkable", goal=None, reason=reason)
        notes = [plan.reason, *self._notes(unpadded)]
        if plan.goal is not None and not self._rendered.system:
            plan = replace(plan, action="unpadded", goal=None)
            notes.append("but there is no system text to pad")
        return replace(plan, reason="; ".join(notes))

    def _notes(self, unpadded: StaticTokens) -> Iterator[str]:
        """Yields what a count includes of options, what an exact one leaves out, and what later turns change."""
        frame = self._target.frame
        estimated = bool(self._loaded.tokenizer.margin)
        yield from self._options.notes()
        yield from tool_notes(self._tools, self._loaded.request_format, estimated=estimated)
        if estimated:
            return
        if frame.plain and not frame.before and not frame.after and self._loaded.request_format.has_messages:
            yield "the target has no frame: counted on the bare text"
        if self._loaded.framed_tools(self._tools) and self._leaves_tools_out():
            yield "the target's frame leaves the tools out"
        if not self._loaded.request_format.has_messages and (note := self._loaded.start_note(unpadded.framed_prefix)):
            yield note
        if unpadded.change is not None:
            lost = unpadded.first_turn - unpadded.tokens
            yield f"later turns change {lost:,} tokens that requests of one turn share, so these are not counted"

    def _leaves_tools_out(self) -> bool:
        conversation = replace(self._conversation(""), following=(user_message("a"),))
        try:
            return self._loaded.frame(replace(conversation, tools=())) == self._loaded.frame(conversation)
        except CacheunitError:  # the frame needs tools
            return False

    def padding(self, plan: PaddingPlan) -> tuple[PaddingPlan, str]:
        """Returns the padding text that reaches the plan's goal, and the plan.

        Where no padding reaches it, `padding: auto` leaves the text unpadded and says so in the plan.

        Raises:
            CacheunitError: no padding reaches the goal, and the manifest asks for padding.
        """
        if plan.goal is None:
            return plan, ""
        if self._padding_is_behind():
            behind = "the user's words" if self.count("").change is None else "what later turns change"
            reason = f"{plan.reason}; but padding would stand behind {behind}"
            return replace(plan, action="unreachable", goal=None, reason=reason), ""
        system = self._rendered.system
        try:
            return plan, pad_text_to(system, plan.goal, lambda text: self.count(text[len(system) :]).tokens)
        except AlignmentError as error:
            if self._manifest.padding.mode == "auto":
                reason = f"{plan.reason}; but {error.faults[0].message.partition(';')[0]}"
                return replace(plan, action="unreachable", goal=None, reason=reason), ""
            hint = '"padding: off" leaves the text unpadded'
            raise CacheunitError(*(self._fault(fault.message, "padding", hint) for fault in error.faults)) from None

    def _padding_is_behind(self) -> bool:
        """Returns whether padding would stand behind the framed prefix, since the frame puts the system text there."""
        framed_prefix = self.count("").framed_prefix
        return self._rendered.system.strip() not in framed_prefix and self.count(" .").framed_prefix == framed_prefix

    def refuse_over_budget(self, unpadded: StaticTokens, padded: StaticTokens) -> None:
        """Raises a fault where the budget is exceeded; an estimate must exceed it by more than its margin."""
        budget = self._manifest.budget
        tokens = TokenCount(tokens=padded.tokens, margin=self._loaded.tokenizer.margin).low
        if budget is not None and tokens > budget:
            least = "at least " if self._loaded.tokenizer.margin else ""
            padding = padded.tokens - unpadded.tokens
            of_padding = f" ({padding:,} of them padding)" if padding > 0 else ""
            message = f"{least}{tokens:,} static tokens{of_padding}, {tokens - budget:,} over the budget of {budget:,}"
            raise CacheunitError(self._fault(message, "budget"))

    def freeze(self, plan: PaddingPlan, padding: str, unpadded: StaticTokens, padded: StaticTokens) -> Artifact:
        """Returns the artifact with its bytes and its lock entry."""
        parts = self._parts(padding)
        markers, note = self._markers(parts, padded)
        if note is not None and markers:
            plan = replace(plan, reason=f"{plan.reason}; {note}")
        elif note is not None:
            plan = PaddingPlan(action="below-minimum", goal=None, reason=note)
        parts = parts if markers else replace(parts, marker=None)
        text, request = parts.system.encode(), compact_json(self._loaded.request_format.fragment(parts))
        tools = [self._loaded.request_format.framed_tool(tool) for tool in self._tools]
        added = padded.tokens - unpadded.tokens
        record = ArtifactRecord(
            prefix=self._variant.name,
            target=self._target.name,
            entry=self._entry(padded, added, markers, (text, request)),
            unit=self._target.cache.unit or 0,
            plan=plan,
            lookups=(*self._rendered.lookups, *self._loaded.lookups),
        )
        return Artifact(
            record=record,
            text=text,
            request=request,
            padding_text=padding,
            framed_prefix=padded.framed_prefix,
            unstable=padded.unstable,
            later_turns=self._later_turns(padded),
            literal=self._literal(padded),
            segments=segment_fingerprints(self._rendered, tools, padding, self._options.values),
            variant=self._variant,
            tools=tuple(self._tools),
            options=self._options.values,
        )

    def _entry(
        self, padded: StaticTokens, padding: int, markers: tuple[int, ...], files: tuple[bytes, bytes]
    ) -> LockEntry:
        """Returns the lock entry of an artifact with so many tokens of padding, and its text and request."""
        margin = self._loaded.tokenizer.margin
        return LockEntry(
            tokens=padded.tokens,
            counted="estimate" if margin else "exact",
            margin=margin,
            markers=markers,
            padding=padding,
            text=fingerprint(files[0]),
            request=fingerprint(files[1]),
            token_ids=None if margin else fingerprint_ids(padded.ids),
        )

    def _parts(self, padding: str) -> PrefixParts:
        """Returns the parts of the request, with the marker that the target needs."""
        return PrefixParts(
            system=self._rendered.system + padding,
            tools=self._tools,
            turns=self._rendered.turns,
            marker=self._target.cache.marker,
            options=self._options.values,
        )

    def _markers(self, parts: PrefixParts, padded: StaticTokens) -> tuple[tuple[int, ...], str | None]:
        """Returns how many static tokens stand in front of each marker, and a note for the plan.

        There is no marker where nothing in front of it is cached; the note then says why, if the plan does not yet.
        """
        tokenizer, rule = self._loaded.tokenizer, self._target.cache
        place = self._loaded.request_format.marker_place(parts)
        if place is None:
            return (), None
        tokens = tokens_in_front(place, parts, padded, tokenizer.encode, exact=not tokenizer.margin)
        if tokens is None:
            return (), "a marker would stand behind the static tokens, so nothing is cached"
        if rule.caches(TokenCount(tokens=tokens, margin=tokenizer.margin)) is not False:
            behind = padded.tokens - tokens
            return (tokens,), f"the {behind:,} tokens behind the marker are not cached" if behind else None
        if tokens == padded.tokens:
            return (), None
        return (), f"only {tokens:,} tokens stand in front of the marker, so nothing is cached"

    def _later_turns(self, padded: StaticTokens) -> LaterTurns | None:
        """Returns what later turns do to the static tokens; None where none were tried."""
        if self._loaded.tokenizer.margin or self._target.frame.plain:
            return None
        change = padded.change
        return LaterTurns(
            first_turn=padded.first_turn,
            refused=padded.refused_turns,
            shape=None if change is None else change.shape,
            source=None if change is None else self._loaded.source_of(change),
        )

    def _literal(self, padded: StaticTokens) -> int | None:
        """Returns the count with control tokens read as characters; None where the text has none."""
        tokenizer = self._loaded.tokenizer
        if self._manifest.special_tokens == "refuse" or not any(map(tokenizer.control_tokens_in, self._content)):
            return None
        more = (len(tokenizer.encode(text, literal=True)) - len(tokenizer.encode(text)) for text in self._content)
        return padded.tokens + sum(more)

    def _fault(self, message: str, key: str, hint: str | None = None) -> Fault:
        return self._manifest.fault(f"{self._name}: {message}", key, hint=hint)


def segment_fingerprints(
    rendered: Rendered, tools: Sequence[Mapping[str, Any]], padding: str, options: Mapping[str, Any] | None = None
) -> Mapping[str, str]:
    """Returns the fingerprint of each part that a prefix has: system text, padding, tools, examples, options."""
    parts = {
        "system": rendered.system.encode(),
        "padding": padding.encode(),
        "tools": compact_json(list(tools)) if tools else b"",
        "examples": compact_json(plain_messages(rendered.turns)) if rendered.turns else b"",
        "options": compact_json(options) if options else b"",
    }
    return {name: fingerprint(data) for name, data in parts.items() if data}
