"""Compiles one variant for one target: counts its static tokens, plans and adds padding, and freezes the bytes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.padding import AlignmentError, pad_text_to
from cacheunit_build.compiler.padding_plan import Count, make_plan
from cacheunit_build.compiler.static_tokens import static_tokens
from cacheunit_build.domain.artifact import Artifact, ArtifactRecord
from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.fingerprint import compact_json, fingerprint, fingerprint_ids
from cacheunit_build.domain.lock import LockEntry
from cacheunit_build.domain.prompt import Conversation, StaticTokens
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.request_formats.base import PrefixParts, openai_tool, plain_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.artifact import PaddingPlan
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
        CacheunitError: the target has no place for tools or examples, the text contains control tokens of the target,
            no padding reaches the boundary, or the budget is exceeded.
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
        schemas = (compact_json([tool.name, tool.description, tool.schema]).decode() for tool in tools)
        self._content = [rendered.system, *(turn.text for turn in rendered.turns), *schemas]

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
        tokenizer = self._loaded.tokenizer
        if tokenizer.margin:
            text = self._framed(padding, "")
            return StaticTokens(framed_prefix=text, ids=tokenizer.encode(text), unstable=0)
        if self._target.frame.plain:  # the text in front of the user's words is fixed, so one count may be enough
            text = self._framed(padding, "")
            ids = tokenizer.encode(text)
            if ids and ids[-1] in tokenizer.control_ids:
                return StaticTokens(framed_prefix=text, ids=ids, unstable=0)
        return static_tokens(lambda user: self._framed(padding, user), tokenizer.encode, tokenizer.control_ids)

    def _framed(self, padding: str, user: str) -> str:
        """Returns the text that the model reads, padding and the user's words included."""
        conversation = Conversation(
            system=self._rendered.system + padding,
            tools=tuple(openai_tool(tool) for tool in self._tools),
            turns=self._rendered.turns,
            user=user,
        )
        return self._loaded.frame(conversation)

    def refuse_missing_places(self) -> None:
        """Raises a fault for tools or examples that the request format or the frame has no place for."""
        fixed_frame = self._target.frame.plain and not self._loaded.tokenizer.margin
        for key, present in (("tools", self._tools), ("examples", self._rendered.turns)):
            if present and not self._loaded.request_format.has_messages:
                hint = "use a target whose request format has messages"
                message = f'request format "{self._target.request}" has no {key}'
                raise CacheunitError(self._fault(message, key, hint))
            if present and fixed_frame:
                hint = "give the target the model's own chat_template or encoder"
                raise CacheunitError(self._fault(f"the target's frame has no template for {key}", key, hint))

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
        count = Count(tokens=unpadded.tokens, margin=self._loaded.tokenizer.margin)
        plan = make_plan(count, self._target.cache, self._manifest.padding)
        texts = [self._rendered.system, *(turn.text for turn in self._rendered.turns)]
        if self._target.cache.marker == "prompt_cache_breakpoint" and not any(texts):
            reason = "tools alone cannot be marked: they are cached with what follows"
            plan = replace(plan, action="unmarkable", reason=reason)
        notes = [plan.reason, *self._notes()]
        if plan.goal is not None and not self._rendered.system:
            plan = replace(plan, action="unpadded", goal=None)
            notes.append("but there is no system text to pad")
        return replace(plan, reason="; ".join(notes))

    def _notes(self) -> Iterator[str]:
        """Yields what an exact count leaves out."""
        frame = self._target.frame
        if self._loaded.tokenizer.margin:
            return
        if frame.plain and not frame.before and not frame.after and self._loaded.request_format.has_messages:
            yield "the target has no frame: counted on the bare text"
        if self._tools and self._leaves_tools_out():
            yield "the target's frame leaves the tools out"
        if not self._loaded.request_format.has_messages and (note := self._loaded.start_note(self._framed("", "a"))):
            yield note

    def _leaves_tools_out(self) -> bool:
        bare = Conversation(system=self._rendered.system, tools=(), turns=self._rendered.turns, user="a")
        try:
            return self._loaded.frame(bare) == self._framed("", "a")
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
        system = self._rendered.system
        try:
            return plan, pad_text_to(system, plan.goal, lambda text: self.count(text[len(system) :]).tokens)
        except AlignmentError as error:
            if self._manifest.padding.mode == "auto":
                reason = f"{plan.reason}; but {error.faults[0].message.partition(';')[0]}"
                return replace(plan, action="unreachable", goal=None, reason=reason), ""
            hint = '"padding: off" leaves the text unpadded'
            raise CacheunitError(*(self._fault(fault.message, "padding", hint) for fault in error.faults)) from None

    def refuse_over_budget(self, unpadded: StaticTokens, padded: StaticTokens) -> None:
        """Raises a fault where the budget is exceeded; an estimate must exceed it by more than its margin."""
        budget = self._manifest.budget
        tokens = Count(tokens=padded.tokens, margin=self._loaded.tokenizer.margin).low
        if budget is not None and tokens > budget:
            least = "at least " if self._loaded.tokenizer.margin else ""
            padding = padded.tokens - unpadded.tokens
            of_padding = f" ({padding} of them padding)" if padding > 0 else ""
            message = f"{least}{tokens} static tokens{of_padding}, {tokens - budget} over the budget of {budget}"
            raise CacheunitError(self._fault(message, "budget"))

    def freeze(self, plan: PaddingPlan, padding: str, unpadded: StaticTokens, padded: StaticTokens) -> Artifact:
        """Returns the artifact with its bytes and its lock entry."""
        system = self._rendered.system + padding
        text = system.encode()
        marker = None if plan.action == "below-minimum" else self._target.cache.marker
        parts = PrefixParts(system=system, tools=self._tools, turns=self._rendered.turns, marker=marker)
        request = compact_json(self._loaded.request_format.fragment(parts))
        margin = self._loaded.tokenizer.margin
        entry = LockEntry(
            tokens=padded.tokens,
            counted="estimate" if margin else "exact",
            padding=padded.tokens - unpadded.tokens,
            unit=self._target.cache.unit or 0,
            text=fingerprint(text),
            request=fingerprint(request),
            token_ids=None if margin else fingerprint_ids(padded.ids),
        )
        record = ArtifactRecord(
            prefix=self._variant.name,
            target=self._target.name,
            entry=entry,
            margin=margin,
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
            literal=self._literal(padded),
            segments=segment_fingerprints(self._rendered, self._tools, padding),
            variant=self._variant,
            tools=tuple(self._tools),
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


def segment_fingerprints(rendered: Rendered, tools: Sequence[Tool], padding: str) -> Mapping[str, str]:
    """Returns the fingerprint of each part that a prefix has: system text, padding, tools, examples."""
    parts = {
        "system": rendered.system.encode(),
        "padding": padding.encode(),
        "tools": compact_json([openai_tool(tool) for tool in tools]) if tools else b"",
        "examples": compact_json(plain_messages(rendered.turns)) if rendered.turns else b"",
    }
    return {name: fingerprint(data) for name, data in parts.items() if data}
