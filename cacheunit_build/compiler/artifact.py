"""Compiles one variant for one target: counts its static tokens, plans and adds padding, and freezes the bytes."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from cacheunit_build.compiler.control_tokens import refuse_control_tokens
from cacheunit_build.compiler.frozen_options import frozen_options, option_keys
from cacheunit_build.compiler.markers import (
    MarkerPlacer,
    PlacedMarkers,
    lifetime_notes,
    marker_lifetimes,
    marker_places,
    tokens_in_front,
)
from cacheunit_build.compiler.padding import AlignmentError, pad_text_to
from cacheunit_build.compiler.padding_plan import PaddingRequest, make_plan
from cacheunit_build.compiler.recorded import estimated_request
from cacheunit_build.compiler.request_bodies import frozen_bodies, prefix_parts, segment_fingerprints
from cacheunit_build.compiler.tool_checks import tool_texts
from cacheunit_build.compiler.turns import user_message
from cacheunit_build.domain.artifact import Artifact, ArtifactRecord, LaterTurns, PaddingPlan
from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.domain.fingerprint import fingerprint, fingerprint_ids
from cacheunit_build.domain.lock import LockEntry
from cacheunit_build.domain.prompt import Conversation, StaticTokens
from cacheunit_build.domain.recorded_count import CountedTokens
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.domain.settings import DEFAULT_HITS_PER_MISS
from cacheunit_build.domain.token_count import TokenCount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.manifest import Variant
    from cacheunit_build.domain.prompt import Rendered, Tool
    from cacheunit_build.domain.recorded_count import EstimatedRequest
    from cacheunit_build.request_formats.parts import MarkerPlace, PrefixParts


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
    if variant.manifest.special_tokens == "refuse":
        refuse_control_tokens(steps.name, variant.manifest, rendered, steps.control_tokens, read)
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
        self.name = f"{readable_name(variant.name)} for {loaded.target.name}"
        self._counts: dict[str, StaticTokens] = {}
        self._options = frozen_options(variant.manifest, loaded.target)
        self._is_estimate = loaded.is_estimate(has_parts=bool(tools or rendered.turns))
        self._lifetimes = marker_lifetimes(variant.manifest, loaded.target.cache)
        self._content = [rendered.system, *(turn.content for turn in rendered.turns)]
        self._framed_tools = loaded.framed_tools(tools)

    @property
    def control_tokens(self) -> list[str]:
        """The control tokens of the target in the text, in order."""
        found = (token for text in self._content for token in self._loaded.tokenizer.control_tokens_in(text))
        return list(dict.fromkeys([*found, *self._loaded.control_tokens_in_tools(self._tools)]))

    def count(self, padding: str) -> StaticTokens:
        """Returns the static tokens with this padding; each padding is counted once."""
        if padding not in self._counts:
            try:
                self._counts[padding] = self._counted(padding)
            except CacheunitError as error:
                raise CacheunitError(*map(self._of_artifact, error.faults)) from None
        return self._counts[padding]

    def _counted(self, padding: str) -> StaticTokens:
        return self._loaded.static_tokens(self._conversation(padding))

    def counted(self, static: StaticTokens) -> CountedTokens:
        """Returns the number of static tokens, as far as the vocabulary and the recorded counts tell it."""
        if self._estimated is None:
            return CountedTokens(tokens=static.tokens, margin=0.0, counted="exact", inner_margin=0.0)
        return self._estimated.counted(self._variant.name, self._target.name, self._loaded.counts)

    @cached_property
    def _estimated(self) -> EstimatedRequest | None:
        """What a provider is asked to count; None for an exact count. No estimate is padded."""
        if not self._is_estimate:
            return None
        return estimated_request(self._parts(""), self._rendered.shared_blocks, self._loaded, self.count(""))

    def _conversation(self, padding: str) -> Conversation:
        """Returns the prefix with this padding, without the messages that follow."""
        return Conversation(
            system=self._rendered.system + padding,
            tools=self._framed_tools,
            turns=self._rendered.turns,
            options=self._options.for_frame,
            json_arguments=self._loaded.json_arguments,
        )

    def refuse_missing_places(self) -> None:
        """Raises a fault for tools, examples or options that the request format or the frame has no place for."""
        fixed_frame = self._target.frame.plain and not self._is_estimate
        for key, present in (("tools", self._tools), ("examples", self._rendered.turns)):
            if present and not self._loaded.request_format.has_messages:
                hint = "use a target whose request format has messages"
                message = f'request format "{self._target.request}" has no {key}'
                raise CacheunitError(self._fault(message, key, hint))
            if present and fixed_frame:
                hint = "give the target the model's own chat_template or encoder"
                raise CacheunitError(self._fault(f"the target's frame has no template for {key}", key, hint))
        estimates_text = self._loaded.is_estimate(has_parts=False)
        for name in () if estimates_text else self._options.uncounted:
            message = f"{self.name}: the target's frame does not tell how `{name}` changes the prefix"
            hint = 'give the target a chat_template or encoder, and the option an "argument" that takes its value'
            raise CacheunitError(self._manifest.fault(message, *option_keys(self._manifest, name), hint=hint))

    def plan(self, unpadded: StaticTokens) -> PaddingPlan:
        """Returns whether to pad, and the reason with everything that the count depends on."""
        rule, padding = self._target.cache.written_for(self._lifetimes["prefix"]), self._manifest.padding
        counted = self.counted(unpadded)
        count = TokenCount(tokens=counted.tokens, margin=counted.margin)
        wanted = PaddingRequest(
            mode=padding.mode,
            floor=padding.floor,
            hits_per_miss=padding.hits_per_miss or DEFAULT_HITS_PER_MISS,
            budget=self._manifest.budget,
        )
        plan = make_plan(count, rule, wanted, counted.counted)
        if rule.marker is not None and self._loaded.request_format.last_markable(self._parts("")) is None:
            reason = f"format {self._target.request} cannot mark tools alone: they are cached only with what follows"
            plan = PaddingPlan(action="unmarkable", goal=None, reason=reason)
        notes = [plan.reason, *self._notes(unpadded, counted)]
        if plan.goal is not None and not self._rendered.system:
            plan = replace(plan, action="unpadded", goal=None)
            notes.append("but there is no system text to pad")
        return replace(plan, reason="; ".join(notes)) if len(notes) > 1 else plan

    def _notes(self, unpadded: StaticTokens, counted: CountedTokens) -> Iterator[str]:
        """Yields what a count includes of options, what an exact one leaves out, and what later turns change."""
        frame = self._target.frame
        if counted.note is not None:
            yield counted.note
        yield from self._options.notes()
        yield from lifetime_notes(self._manifest, self._target.cache)
        yield from self._loaded.tool_notes(self._tools)
        if self._is_estimate:
            if not self._loaded.tokenizer.margin:
                yield "the margin is for what the provider puts around messages and tools"
            return
        if frame.plain and not frame.before and not frame.after and self._loaded.request_format.has_messages:
            yield "the target has no frame: counted on the bare text"
        if self._tools and self._loaded.leaves_tools_out(self._conversation("")):
            yield "the target's frame leaves the tools out"
        if not self._loaded.request_format.has_messages and (note := self._loaded.start_note(unpadded.framed_prefix)):
            yield note
        if unpadded.change is not None:
            lost = unpadded.first_turn - unpadded.tokens
            yield f"later turns change {lost:,} tokens that requests of one turn share, so these are not counted"

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
        if budget is None:
            return
        counted = self.counted(padded)
        tokens = TokenCount(tokens=counted.tokens, margin=counted.margin).low
        if tokens > budget:
            least = "at least " if counted.margin else ""
            padding = padded.tokens - unpadded.tokens
            of_padding = f" ({padding:,} of them padding)" if padding > 0 else ""
            message = f"{least}{tokens:,} static tokens{of_padding}, {tokens - budget:,} over the budget of {budget:,}"
            raise CacheunitError(self._fault(message, "budget"))

    def freeze(self, plan: PaddingPlan, padding: str, unpadded: StaticTokens, padded: StaticTokens) -> Artifact:
        """Returns the artifact with its bytes and its lock entry."""
        parts, counted = self._parts(padding), self.counted(padded)
        placed = PlacedMarkers() if self._target.cache.marker is None else self._markers(parts, padded, counted)
        if placed.markers:
            plan = replace(plan, reason="; ".join([plan.reason, *placed.notes]))
            parts = replace(parts, markers=placed.markers)
        elif placed.notes:
            plan = PaddingPlan(action="below-minimum", goal=None, reason=placed.notes[0])
        text, (request, cached_content) = parts.system.encode(), frozen_bodies(self._loaded, parts)
        added = padded.tokens - unpadded.tokens
        record = ArtifactRecord(
            prefix=self._variant.name,
            target=self._target.name,
            entry=self._entry(padded, added, placed, (text, request, cached_content)),
            unit=self._target.cache.unit or 0,
            plan=plan,
            lookups=(*self._rendered.lookups, *self._loaded.lookups),
        )
        return Artifact(
            record=record,
            text=text,
            request=request,
            cached_content=cached_content,
            padding_text=padding,
            framed_prefix=padded.framed_prefix,
            unstable=padded.unstable,
            later_turns=self._later_turns(padded),
            literal=self._literal(padded),
            segments=segment_fingerprints(
                self._rendered, self._loaded.tools_json(self._tools), padding, self._options.values
            ),
            variant=self._variant,
            tools=tuple(self._tools),
            options=self._options.values,
            estimated=self._estimated,
            scale=counted.scale,
        )

    def _entry(
        self, padded: StaticTokens, padding: int, placed: PlacedMarkers, files: tuple[bytes, bytes, bytes | None]
    ) -> LockEntry:
        """Returns the lock entry of an artifact with so many tokens of padding, and these files."""
        counted = self.counted(padded)
        return LockEntry(
            tokens=counted.tokens,
            counted=counted.counted,
            margin=counted.margin,
            markers=placed.tokens,
            lifetimes=self._locked_lifetimes(placed),
            padding=padding,
            text=fingerprint(files[0]),
            request=fingerprint(files[1]),
            cached_content=None if files[2] is None else fingerprint(files[2]),
            token_ids=fingerprint_ids(padded.ids) if counted.counted == "exact" else None,
        )

    def _parts(self, padding: str) -> PrefixParts:
        """Returns the parts of the request, without markers."""
        return prefix_parts(self._rendered, padding, self._tools, self._options.values, self._fields)

    @property
    def _fields(self) -> Mapping[str, str]:
        """The values of a request that choose its cache and set its lifetime."""
        rule, lifetime = self._target.cache, self._lifetimes["prefix"]
        key = {} if rule.key is None else {rule.key: self._manifest.cache_key}
        return key if rule.lifetime_option is None or lifetime is None else {**key, rule.lifetime_option: lifetime}

    def _markers(self, parts: PrefixParts, padded: StaticTokens, counted: CountedTokens) -> PlacedMarkers:
        """Returns the markers of the request; none where nothing in front of them is cached."""
        tokenizer, rule = self._loaded.tokenizer, self._target.cache
        places = marker_places(parts, self._rendered.shared_blocks, self._loaded.request_format)

        def tokens_to(place: MarkerPlace) -> int | None:
            if place.part == "tools" and place != parts.last:
                tools_alone = replace(self._conversation(""), system="", turns=(), following=(user_message("a"),))
                return common_prefix(padded.ids, tokenizer.encode(self._loaded.frame(tools_alone)))
            return tokens_in_front(place, parts, padded, tokenizer.encode, exact=not self._is_estimate)

        return MarkerPlacer(counted, rule, tokens_to).place(places, self._lifetimes)

    def _locked_lifetimes(self, placed: PlacedMarkers) -> tuple[str, ...]:
        """Returns the lifetimes that the request asks for: of each marker, or of the whole prefix."""
        rule, lifetime = self._target.cache, self._lifetimes["prefix"]
        if rule.lifetime_option is not None:
            return () if lifetime is None else (lifetime,)
        default = rule.default_lifetime or ""
        lifetimes = tuple(marker.lifetime or default for marker in placed.markers)
        return lifetimes if any(marker.lifetime for marker in placed.markers) else ()

    def _later_turns(self, padded: StaticTokens) -> LaterTurns | None:
        """Returns what later turns do to the static tokens; None where none were tried."""
        if self._is_estimate or self._target.frame.plain:
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
        if self._manifest.special_tokens == "refuse" or not self.control_tokens:
            return None
        content = [*self._content, *tool_texts(self._tools)]
        more = (len(tokenizer.encode(text, literal=True)) - len(tokenizer.encode(text)) for text in content)
        return padded.tokens + sum(more)

    def _fault(self, message: str, key: str, hint: str | None = None) -> Fault:
        return self._of_artifact(self._manifest.fault(message, key, hint=hint))

    def _of_artifact(self, fault: Fault) -> Fault:
        """Returns a fault whose message begins with the name of the artifact."""
        key = self._variant.name, self._target.name
        return replace(fault, message=f"{self.name}: {fault.message}", artifact=key)
