"""Loads a target: its vocabulary, and its frame as a function from a conversation to the text that the model reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cacheunit_build.compiler.estimated_frame import estimated_tokens
from cacheunit_build.compiler.frame import FrameLoader, fixed_frame, refuse_other_fixed_text
from cacheunit_build.compiler.per_tools import PerTools
from cacheunit_build.compiler.static_tokens import changes_with_system_message, static_tokens
from cacheunit_build.compiler.system_text import SystemTexts
from cacheunit_build.compiler.tool_checks import tool_notes, tool_texts
from cacheunit_build.compiler.turns import takes_json_arguments, user_message
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.file_names import COUNTS_FILE
from cacheunit_build.domain.fingerprint import compact_json, fingerprint, fingerprint_json
from cacheunit_build.domain.front_options import SYSTEM_MESSAGE, TEMPLATE_VARIABLES
from cacheunit_build.domain.lock import LockedOption, TargetIdentity
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.prompt import Conversation, Lookup, StaticTokens
from cacheunit_build.domain.recorded_count import RecordedCounts
from cacheunit_build.domain.target import FrameEstimate
from cacheunit_build.lockfile.counts import parse_counts
from cacheunit_build.request_formats.formats import FORMATS
from cacheunit_build.targets.loader import SHIPPED_ENCODERS
from cacheunit_build.templating.chat_template import ChatTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cacheunit_build.domain.prompt import Tool, TurnChange
    from cacheunit_build.domain.protocols import CompileInputs, SourceFiles, Tokenizer
    from cacheunit_build.domain.source_map import SourceLine
    from cacheunit_build.domain.target import Frame, RequestOption, Target
    from cacheunit_build.request_formats.base import RequestFormat


@dataclass(frozen=True, kw_only=True)
class LoadedTarget:
    """A target with its vocabulary and its frame.

    Attributes:
        target: the target; for prefixes of system text alone, its frame is what is enough for those.
        whole_frame: the frame of the target, for any prefix.
        tokenizer: its vocabulary.
        frame: returns the text that the model reads of a conversation.
        frame_lookups: the files of the project that the frame was loaded from, and those that were looked for.
        vocabulary_lookups: the files of the project that the vocabulary was loaded from.
        package_files: the sources of the files outside of the project that it was loaded from, with their sha256.
        traceable: whether all these files are all that decides its output; an unknown Python encoder may read others.
        system_texts: counts prefixes by what they share, where the frame is known to put the system text in as it is.
        per_tools: what is made of the tools of prefixes.
        counts: the recorded counts of the project; none for a target with the model's own vocabulary.
        counts_lookups: the file that has them, which an estimate depends on.
        json_arguments: whether the frame takes the arguments of tool calls as JSON text, not as a mapping.
        moves_system_messages: whether the frame puts a later system message in front, or lets it replace the first one.
    """

    target: Target
    whole_frame: Frame
    tokenizer: Tokenizer
    frame: Callable[[Conversation], str]
    frame_lookups: tuple[Lookup, ...]
    vocabulary_lookups: tuple[Lookup, ...]
    package_files: Mapping[str, str]
    traceable: bool
    moves_system_messages: bool = False
    json_arguments: bool = False
    system_texts: SystemTexts | None = None
    per_tools: PerTools = field(default_factory=PerTools)
    counts: RecordedCounts = field(default_factory=RecordedCounts)
    counts_lookups: tuple[Lookup, ...] = ()

    @property
    def request_format(self) -> RequestFormat:
        """The format of its requests."""
        return FORMATS[self.target.request]

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """The files of the project that it was loaded from."""
        return (*self.frame_lookups, *self.vocabulary_lookups, *self.counts_lookups)

    @cached_property
    def identity(self) -> TargetIdentity:
        """What the lock has of it: format, cache rule, options and models, fingerprints of frame and vocabulary."""
        target = self.target
        files = [lookup.fingerprint for lookup in self.frame_lookups if lookup.fingerprint is not None]
        frame = {**asdict(self.whole_frame), "files": files}
        if self.whole_frame.estimate is None:
            del frame["estimate"]  # so that the fingerprint of other frames is that of earlier versions
        return TargetIdentity(
            format=target.request,
            cache=replace(target.cache, evidence=(), warm_up_requests=1, best_effort=False),  # these decide no number
            frame=fingerprint_json(frame),
            tokenizer=self.tokenizer.identity,
            options=self._locked_options,
            models=target.model_ids,
        )

    @property
    def _locked_options(self) -> dict[str, LockedOption]:
        """The request options that change the front, and a later system message where the frame moves it there."""
        options = {item.name: _locked_option(item, self.whole_frame) for item in self.target.options}
        if self.moves_system_messages:
            options[SYSTEM_MESSAGE] = LockedOption(effect="text")
        return options

    def static_tokens(self, prefix: Conversation) -> StaticTokens:
        """Returns the tokens that all requests share; an estimate counts all tokens of the parts one after the other.

        Args:
            prefix: the conversation without the messages that follow.

        Raises:
            CacheunitError: the frame refuses the conversation.
        """
        if self.tokenizer.margin:
            return replace(self._all_tokens(prefix), margin=self.tokenizer.margin)
        estimate = self.frame_estimate(has_parts=bool(prefix.tools or prefix.turns))
        if estimate is not None:
            return estimated_tokens(self._all_tokens(prefix), prefix, estimate, self.tokenizer.encode)
        system_blocks = self.request_format.system_blocks
        if self.target.frame.plain and not system_blocks:  # the text in front of the user's words is fixed
            static = self._all_tokens(prefix)
            if static.ids and static.ids[-1] in self.tokenizer.control_ids:
                return static
        if self.system_texts is not None and not system_blocks:
            return self.system_texts.static_tokens(prefix)
        encode, controls = self.tokenizer.encode, self.tokenizer.control_ids
        return static_tokens(self.frame, prefix, encode, controls, system_blocks=system_blocks)

    def frame_estimate(self, *, has_parts: bool) -> FrameEstimate | None:
        """Returns how a prefix is counted in the model's own vocabulary without a frame; None where it is not.

        Where nothing is known of the frame, system text alone is counted exactly, as it stands in any frame.

        Args:
            has_parts: whether the prefix has tools or examples.
        """
        frame = self.target.frame
        if self.tokenizer.margin or frame.estimate is not None:
            return frame.estimate
        return FrameEstimate() if has_parts and frame.unknown and self.request_format.has_messages else None

    def is_estimate(self, *, has_parts: bool) -> bool:
        """Returns whether the count of a prefix is an estimate.

        Args:
            has_parts: whether the prefix has tools or examples.
        """
        return bool(self.tokenizer.margin) or self.frame_estimate(has_parts=has_parts) is not None

    def framed_tools(self, tools: Sequence[Tool]) -> tuple[Mapping[str, Any], ...]:
        """Returns the tools that the frame gets: without those that the provider keeps out of the prefix.

        For an exact count also without hosted ones, whose text is not known.
        """
        if not tools:
            return ()
        framed, is_deferred = self.request_format.framed_tool, self.request_format.is_deferred
        estimated = self.is_estimate(has_parts=bool(tools))

        def make() -> tuple[Mapping[str, Any], ...]:
            counted = (tool for tool in tools if tool.hosted is None or estimated)
            return tuple(framed(tool) for tool in counted if not is_deferred(tool))

        return self.per_tools.get(tools, "framed", make)

    def control_tokens_in_tools(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        """Returns the control tokens in what the tools add to a request, each once."""
        if not tools:
            return ()

        def find() -> tuple[str, ...]:
            found = (token for text in tool_texts(tools) for token in self.tokenizer.control_tokens_in(text))
            return tuple(dict.fromkeys(found))

        return self.per_tools.get(tools, "control tokens", find)

    def tool_notes(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        """Returns what the target leaves out of tools, and what is known of the tokens of hosted ones."""
        if not tools:
            return ()
        format_, estimated = self.request_format, self.is_estimate(has_parts=True)
        return self.per_tools.get(tools, "notes", lambda: tuple(tool_notes(tools, format_, estimated=estimated)))

    def tools_json(self, tools: Sequence[Tool]) -> bytes:
        """Returns all tools in the form that chat templates take, as JSON; nothing where there are none."""
        if not tools:
            return b""
        framed = self.request_format.framed_tool
        return self.per_tools.get(tools, "JSON", lambda: compact_json([framed(tool) for tool in tools]))

    def leaves_tools_out(self, prefix: Conversation) -> bool:
        """Returns whether the frame has no place for the tools of a prefix, so that the model does not read them."""
        if not prefix.tools:
            return False
        if self.system_texts is None:  # another frame may leave them out of some prefixes only
            return self._leaves_out(prefix)
        return self.per_tools.get(prefix.tools, "left out", lambda: self._leaves_out(prefix))

    def _leaves_out(self, prefix: Conversation) -> bool:
        conversation = replace(prefix, following=(user_message("a"),))
        try:
            return self.frame(replace(conversation, tools=())) == self.frame(conversation)
        except CacheunitError:  # the frame needs tools
            return False

    def _all_tokens(self, prefix: Conversation) -> StaticTokens:
        text = self.frame(prefix)
        ids = self.tokenizer.encode(text)
        return StaticTokens(framed_prefix=text, ids=ids, unstable=0, first_turn=len(ids))

    def source_of(self, change: TurnChange) -> SourceLine | None:
        """Returns the line of the chat template at which a later turn changes the framed text; None for an encoder."""
        if isinstance(self.frame, ChatTemplate):
            return self.frame.line_at(change.first, change.offset)
        return None

    def start_note(self, framed: str) -> str | None:
        """Returns what happens to the tokens that the tokenizer puts in front of a prompt; None if there are none.

        Only for requests without messages: a server adds no tokens to what a chat template makes of messages.

        Args:
            framed: a text that the model reads.
        """
        tokens = self.tokenizer.start_tokens
        if tokens == ():
            return None
        if tokens is None:
            return "the tokenizer's post-processor is of an unknown kind: what it puts in front is left out"
        start = "".join(text for text, _ in tokens)
        if framed.startswith(start):
            return f"counted with {start}, which the tokenizer puts in front of a text"
        return f"the tokenizer puts {start} in front of a text, the target's frame does not: left out"


def _locked_option(option: RequestOption, frame: Frame) -> LockedOption:
    """Returns an option as the lock has it: what the target's frame was counted with is neutral."""
    neutral = option.neutral
    if option.argument is not None and option.argument in frame.arguments:
        counted = frame.arguments[option.argument]
        neutral = tuple(value for value, argument in option.values.items() if argument == counted) or (counted,)
    elif option.name == TEMPLATE_VARIABLES and frame.arguments:
        neutral = (dict(frame.arguments),)
    return LockedOption(effect=option.effect, neutral=neutral)


def load_target(target: Target, adapters: CompileInputs, *, system_only: bool = False) -> LoadedTarget:
    """Loads the vocabulary and the frame of a target.

    Args:
        target: the target.
        adapters: the project's files, tokenizers and encoders.
        system_only: load only what prefixes without tools, examples and options need.

    Raises:
        CacheunitError: one of them is missing or broken, or the target has no vocabulary at all.
    """
    if target.tokenizer is None:
        hint = (
            f'in the settings, add [target.NAME] with extends = "{target.name}", and [target.NAME.tokenizer]; '
            "or the latter alone, if this is a target of the project"
        )
        raise fail(f'target "{target.name}" has no tokenizer of its own', hint=hint)
    used = replace(target, frame=target.frame.for_system_text) if system_only else target
    try:
        tokenizer = adapters.tokenizers.load(target.tokenizer)
        loaded = FrameLoader(adapters).load(used)
        refuse_other_fixed_text(used.frame, loaded.frame)
        start = _start_text(used, tokenizer)
    except CacheunitError as error:
        named = (replace(fault, message=f'target "{target.name}": {fault.message}') for fault in error.faults)
        raise CacheunitError(*named) from None
    frame = loaded.frame
    if used.frame.estimate is not None:
        tokenizer = tokenizer.without_control_tokens()
    if start:
        tokenizer, frame = tokenizer.with_start_tokens(), fixed_frame(replace(used.frame, before=start))
    may_estimate = bool(tokenizer.margin) or (used.frame.unknown and FORMATS[target.request].has_messages)
    counts, counts_lookups = _recorded_counts(adapters.files) if may_estimate else (RecordedCounts(), ())
    path = None if target.tokenizer.path is None else normal_path(target.tokenizer.path)
    vocabulary = () if path is None else (Lookup(path=path, fingerprint=tokenizer.identity),)
    return LoadedTarget(
        target=used,
        whole_frame=target.frame,
        tokenizer=tokenizer,
        frame=frame,
        frame_lookups=loaded.lookups,
        vocabulary_lookups=vocabulary,
        package_files={**tokenizer.files, **loaded.package_files},
        traceable=loaded.encoder_hash is None or loaded.encoder_hash in SHIPPED_ENCODERS,
        system_texts=_system_texts(frame, tokenizer) if loaded.encoder_hash in SHIPPED_ENCODERS else None,
        moves_system_messages=not used.frame.plain and changes_with_system_message(frame),
        json_arguments=not used.frame.plain and takes_json_arguments(frame),
        counts=counts,
        counts_lookups=counts_lookups,
    )


def _system_texts(frame: Callable[[Conversation], str], tokenizer: Tokenizer) -> SystemTexts:
    encode, controls = tokenizer.encode, tokenizer.control_ids
    return SystemTexts(frame, tokenizer, lambda prefix: static_tokens(frame, prefix, encode, controls))


def _recorded_counts(files: SourceFiles) -> tuple[RecordedCounts, tuple[Lookup, ...]]:
    """Returns the recorded counts of a project, and the look at their file; both of the same bytes.

    Raises:
        CacheunitError: every fault in the file.
    """
    data = files.read(COUNTS_FILE)
    lookup = Lookup(path=COUNTS_FILE, fingerprint=None if data is None else fingerprint(data))
    return parse_counts(data, COUNTS_FILE), (lookup,)


def _start_text(target: Target, tokenizer: Tokenizer) -> str:
    """Returns the start tokens that a server adds to the prompts of a target, where no frame says what it adds.

    Raises:
        CacheunitError: it is not known what the tokenizer puts in front of a text.
    """
    frame = target.frame
    if FORMATS[target.request].has_messages or tokenizer.margin or not frame.unknown or frame.estimate is not None:
        return ""
    if tokenizer.start_tokens is None:
        hint = "set it: frame.before is the text in front of the prompt"
        raise fail("the tokenizer's post-processor is of an unknown kind: it may put tokens in front", hint=hint)
    return "".join(text for text, _ in tokenizer.start_tokens)
