"""One variant for one target: composed, counted, planned, padded, counted again, frozen."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.padding import AlignmentError, pad_text_to
from cacheunit_build.compiler.padding_plan import Count, make_plan
from cacheunit_build.compiler.static_tokens import static_tokens
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.fingerprint import compact_json, fingerprint, fingerprint_ids, fingerprint_json
from cacheunit_build.domain.models import Artifact, Conversation, LockEntry, Lookup, StaticTokens, TargetIdentity
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.request_formats.fragments import (
    conversation,
    flat_frame,
    freeze_fragment,
    freeze_text,
    plain_frame,
    segment_fingerprints,
)
from cacheunit_build.templating.chat_template import chat_template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cacheunit_build.domain.models import PaddingPlan, Rendered, Tool, Variant
    from cacheunit_build.domain.protocols import CompileInputs, Tokenizer
    from cacheunit_build.domain.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTarget:
    """A target whose vocabulary and frame are loaded, and what they were loaded from."""

    target: Target
    tokenizer: Tokenizer
    frame: Callable[[Conversation], str]
    frame_lookups: tuple[Lookup, ...]
    vocabulary_lookups: tuple[Lookup, ...]

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """The files of the project that it was loaded from."""
        return (*self.frame_lookups, *self.vocabulary_lookups)

    @property
    def traceable(self) -> bool:
        """Whether these files are all that decides; a Python encoder may read others."""
        return self.target.frame.encoder is None

    @property
    def identity(self) -> TargetIdentity:
        """The fingerprints of the vocabulary, and of what else decides an artifact: format, frame, cache rule."""
        rules = asdict(self.target.cache)
        del rules["evidence"], rules["warm_up_requests"]  # neither decides a byte
        frame = {**asdict(self.target.frame), "files": [lookup.found for lookup in self.frame_lookups]}
        profile = fingerprint_json({"request": self.target.request, "frame": frame, "cache": rules})
        return TargetIdentity(profile=profile, tokenizer=self.tokenizer.identity)


def load_target(target: Target, adapters: CompileInputs) -> LoadedTarget:
    """Loads what `target` names.

    Raises:
        CacheunitError: its vocabulary or frame is missing or broken, or it has no vocabulary at all.
    """
    if target.tokenizer is None:
        hint = (
            f'extend it in your settings: [tool.cacheunit.target.NAME] with extends = "{target.name}" and a tokenizer'
        )
        raise fail(f'target "{target.name}" has no tokenizer of its own', hint=hint)
    try:
        tokenizer = adapters.tokenizers.load(target.tokenizer)
        frame, lookups = _load_frame(target, adapters)
    except CacheunitError as error:
        named = (replace(fault, message=f'target "{target.name}": {fault.message}') for fault in error.faults)
        raise CacheunitError(*named) from None
    path = None if target.tokenizer.path is None else normal_path(target.tokenizer.path)
    vocabulary = () if path is None else (Lookup(path=path, found=tokenizer.identity),)
    return LoadedTarget(
        target=target, tokenizer=tokenizer, frame=frame, frame_lookups=lookups, vocabulary_lookups=vocabulary
    )


def _load_frame(target: Target, adapters: CompileInputs) -> tuple[Callable[[Conversation], str], tuple[Lookup, ...]]:
    frame = target.frame
    if frame.plain:
        estimated = target.tokenizer is not None and target.tokenizer.estimate is not None
        return (flat_frame if estimated else plain_frame(frame)), ()
    file, _, function = (frame.chat_template or frame.encoder or "").partition(".py:")
    path = normal_path(file if frame.chat_template else f"{file}.py")
    data = adapters.files.read(path)
    if data is None:
        raise fail(f'there is no file "{path}"', hint="the path is relative to the project root")
    lookups = (Lookup(path=path, found=fingerprint(data)),)
    if frame.chat_template is not None:
        return chat_template(data, path, frame.arguments), lookups
    return adapters.encoder(data, path, function, frame.arguments), lookups


def compile_artifact(
    variant: Variant,
    rendered: Rendered,
    tools: Sequence[Tool],
    ready: LoadedTarget,
    read: Callable[[str], bytes | None],
) -> Artifact:
    """The artifact of a variant for a target; `read` gives the sources again, to say where in them a fault is.

    Raises:
        CacheunitError: the target has no place for a segment, the text spells its control tokens, no padding fits, or
            the budget is passed.
    """
    maker = _Maker(variant, rendered, tools, ready)
    maker.refuse_homeless()
    maker.refuse_control_tokens(read)
    plain = maker.static("")
    plan = maker.plan(plain)
    plan, padding = maker.padding(plan)
    final = maker.static(padding)
    maker.refuse_over_budget(plain, final)
    return maker.freeze(plan, padding, plain, final)


class _Maker:
    """The steps of one artifact, on the same segments and target."""

    def __init__(self, variant: Variant, rendered: Rendered, tools: Sequence[Tool], ready: LoadedTarget) -> None:
        self._variant = variant
        self._manifest = variant.manifest
        self._rendered = rendered
        self._tools = tools
        self._ready = ready
        self._target = ready.target
        self._named = f"{variant.name} for {ready.target.name}"
        self._seen: dict[str, StaticTokens] = {}
        schemas = (compact_json([tool.name, tool.description, tool.schema]).decode() for tool in tools)
        self._content = [rendered.system, *(turn.text for turn in rendered.turns), *schemas]

    def static(self, padding: str) -> StaticTokens:
        """The static tokens with that padding; each is measured once."""
        if padding not in self._seen:
            try:
                self._seen[padding] = self._measured(padding)
            except CacheunitError as error:
                raise CacheunitError(
                    *(replace(f, message=f"{self._named}: {f.message}") for f in error.faults)
                ) from None
        return self._seen[padding]

    def _measured(self, padding: str) -> StaticTokens:
        tokenizer = self._ready.tokenizer
        if tokenizer.margin:
            framed_prefix = self._framed(padding, "")
            return StaticTokens(framed_prefix=framed_prefix, ids=tokenizer.encode(framed_prefix), unstable=0)
        if self._target.frame.plain:  # what stands in front of the user's words is known, and need not be found out
            framed_prefix = self._framed(padding, "")
            ids = tokenizer.encode(framed_prefix)
            if ids and ids[-1] in tokenizer.controls:
                return StaticTokens(framed_prefix=framed_prefix, ids=ids, unstable=0)
        return static_tokens(lambda user: self._framed(padding, user), tokenizer.encode, tokenizer.controls)

    def _framed(self, padding: str, user: str) -> str:
        return self._ready.frame(conversation(self._rendered, self._tools, padding, user))

    def refuse_homeless(self) -> None:
        """Segments that the frame or the request format has no place for."""
        plain = self._target.frame.plain and not self._ready.tokenizer.margin
        for key, present in (("tools", self._tools), ("examples", self._rendered.turns)):
            if present and self._target.request == "text":
                hint = "use a target whose request format has messages"
                raise CacheunitError(self._fault(f'request format "text" has no {key}', key, hint))
            if present and plain:
                hint = "give the target a chat_template or an encoder, the model's own"
                raise CacheunitError(self._fault(f"the target's frame does not say where {key} stand", key, hint))

    def refuse_control_tokens(self, read: Callable[[str], bytes | None]) -> None:
        """Control tokens of the target that a source spells, each at the first place that spells it."""
        if self._manifest.special_tokens == "allow":
            return
        spelt = dict.fromkeys(token for text in self._content for token in self._ready.tokenizer.controls_in(text))
        hint = 'reword it, or say "special_tokens: allow"'
        faults: list[Fault] = []
        for token in spelt:
            message = f"{self._named}: the text spells the control token {token}"
            found = self._place_of(token, read)
            faults.append(
                self._manifest.fault(message, "system", hint=hint)
                if found is None
                else Fault(message=message, path=found[0], line=found[1], hint=hint)
            )
        if faults:
            raise CacheunitError(*faults)

    def _place_of(self, token: str, read: Callable[[str], bytes | None]) -> tuple[str, int] | None:
        """The first source line that spells a token, comments and descriptions aside; templates and data first."""
        *others, manifest = [*self._rendered.lookups[1:], self._rendered.lookups[0]]
        texts = {*self._manifest.data.values(), *self._manifest.tools}
        for lookup in (*others, manifest):
            data = (read(lookup.path) or b"").decode("utf-8", "replace")
            if lookup is manifest:
                data = re.sub(r"^description:.*$", "", data, flags=re.MULTILINE)
            elif lookup.path not in texts:
                data = re.sub(r"\{#.*?#\}", lambda comment: "\n" * comment[0].count("\n"), data, flags=re.DOTALL)
            if token in data:
                return lookup.path, data.count("\n", 0, data.index(token)) + 1
        return None

    def plan(self, plain: StaticTokens) -> PaddingPlan:
        count = Count(tokens=plain.tokens, margin=self._ready.tokenizer.margin)
        plan = make_plan(count, self._target.cache, self._manifest.padding)
        if self._target.cache.marker == "prompt_cache_breakpoint" and not self._rendered.system + "".join(
            turn.text for turn in self._rendered.turns
        ):
            plan = replace(
                plan, action="unmarkable", reason="tools alone cannot be marked: they are cached with what follows"
            )
        notes = [plan.reason, *self._notes()]
        if plan.goal is not None and not self._rendered.system:
            plan = replace(plan, action="unpadded", goal=None)
            notes.append("but there is no system text to pad")
        return replace(plan, reason="; ".join(notes))

    def _notes(self) -> Iterator[str]:
        """What the count rests on, where that is not what a user would take for granted."""
        frame = self._target.frame
        if self._ready.tokenizer.margin:
            return
        if frame.plain and not frame.before and not frame.after and self._target.request != "text":
            yield "the target has no frame: counted on the bare text"
        if self._tools and self._leaves_tools_out():
            yield "the target's frame leaves the tools out"

    def _leaves_tools_out(self) -> bool:
        bare = Conversation(system=self._rendered.system, tools=(), turns=self._rendered.turns, user="a")
        try:
            return self._ready.frame(bare) == self._framed("", "a")
        except CacheunitError:  # it cannot do without them
            return False

    def padding(self, plan: PaddingPlan) -> tuple[PaddingPlan, str]:
        """The padding that the plan asks for; where none fits, a plan that was only meant well is given up."""
        if plan.goal is None:
            return plan, ""
        system = self._rendered.system
        try:
            return plan, pad_text_to(system, plan.goal, lambda text: self.static(text[len(system) :]).tokens)
        except AlignmentError as error:
            if self._manifest.padding.mode == "auto":
                why = f"{plan.reason}; but {error.faults[0].message.partition(';')[0]}"
                return replace(plan, action="unreachable", goal=None, reason=why), ""
            hint = '"padding: off" leaves it as it is'
            raise CacheunitError(*(self._fault(fault.message, "padding", hint) for fault in error.faults)) from None

    def refuse_over_budget(self, plain: StaticTokens, final: StaticTokens) -> None:
        """An estimate is over only where it is for sure."""
        budget = self._manifest.budget
        tokens = Count(tokens=final.tokens, margin=self._ready.tokenizer.margin).low
        if budget is not None and tokens > budget:
            least = "at least " if self._ready.tokenizer.margin else ""
            padded = f" ({final.tokens - plain.tokens} of them padding)" if final.tokens > plain.tokens else ""
            message = f"{least}{tokens} static tokens{padded}, {tokens - budget} over the budget of {budget}"
            raise CacheunitError(self._fault(message, "budget"))

    def freeze(self, plan: PaddingPlan, padding: str, plain: StaticTokens, final: StaticTokens) -> Artifact:
        cache, margin = self._target.cache, self._ready.tokenizer.margin
        text = freeze_text(self._rendered, padding)
        marker = None if plan.action == "below-minimum" else cache.marker
        fragment = freeze_fragment(self._rendered, self._tools, padding, self._target.request, marker)
        entry = LockEntry(
            tokens=final.tokens,
            counted="estimate" if margin else "exact",
            padding=final.tokens - plain.tokens,
            unit=cache.unit or 0,
            text=fingerprint(text),
            request=fingerprint(fragment),
            token_ids=None if margin else fingerprint_ids(final.ids),
        )
        return Artifact(
            prefix=self._variant.name,
            target=self._target.name,
            entry=entry,
            text=text,
            request=fragment,
            padding_text=padding,
            framed_prefix=final.framed_prefix,
            unstable=final.unstable,
            literal=self._literal(final),
            margin=margin,
            segments=segment_fingerprints(self._rendered, self._tools, padding),
            plan=plan,
            variant=self._variant,
            tools=tuple(self._tools),
            lookups=(*self._rendered.lookups, *self._ready.lookups),
        )

    def _literal(self, final: StaticTokens) -> int | None:
        """The count with control tokens in the content as characters, where `special_tokens: allow` let them in."""
        tokenizer = self._ready.tokenizer
        if self._manifest.special_tokens == "refuse" or not any(map(tokenizer.controls_in, self._content)):
            return None
        more = (len(tokenizer.encode(text, literal=True)) - len(tokenizer.encode(text)) for text in self._content)
        return final.tokens + sum(more)

    def _fault(self, message: str, key: str, hint: str | None = None) -> Fault:
        return self._manifest.fault(f"{self._named}: {message}", key, hint=hint)
