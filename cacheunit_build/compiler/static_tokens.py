r"""Finds the static tokens of a framed prefix: those that stay the same whatever is said next, now and in later turns.

The last token of a text may merge with the words that follow it. With the vocabulary of DeepSeek:

    framed prefix       tokens                      static  unstable, because
    Be kind.<|User|>    Be, kind, ., <|User|>       4       nothing: a control token never merges
    Be kind.\n          Be, kind, .\n               2       ".\n": more line ends would be one token with it
    Be ki               Be, ki                      1       "ki": untried letters could go on
    Section 12          Section, space, 12          2       "12": a third digit would be one token with it
    Section 123         Section, space, 123         3       nothing: a group has three digits at most
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.turns import later_turns, user_message
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.prompt import Conversation, StaticTokens, TurnChange
from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from cacheunit_build.compiler.turns import TurnShape
    from cacheunit_build.domain.prompt import Message

_LETTERS = ("a", "e", "n", "s", "t", "y", "Z", "ed", "er", "ing", "ly", "tion", "able")
_MARKS = (".", ",", ":", ")", "]", "-", "_", "/", "'s", '"', "=", "*", "`")
_SPACES = (" ", "  ", "\u00a0", "\u3000", "\t", "\n", "\n\n", "\r\n", " the", " .")
_OTHERS = ("7", "42", "2024", "\u4e2d", "\u6211", "\u3042", "\u00e9", "\u0301", "\U0001f642", "\u200d")
_LONG = "A longer message, of several sentences. It asks for two things at once, and gives 3 numbers.\n" * 8
TRIED_CONTINUATIONS = ("A short one.", *_LETTERS, *_MARKS, *_SPACES, *_OTHERS, _LONG)
"""The user's words that are tried: letters, endings, marks, white space, digits, other scripts, whole texts."""
_TRIED_IN_LATER_TURNS = ("A short one.", _LONG)
"""The user's first words in later turns that leave the prefix as it is, so that the first turn tried all others."""


def static_tokens(
    frame: Callable[[Conversation], str],
    prefix: Conversation,
    encode: Callable[[str], Sequence[int]],
    controls: Collection[int],
    *,
    system_blocks: bool = False,
) -> StaticTokens:
    """Returns the tokens that all requests share, with the framed prefix that they are of.

    The framed prefix is what the framed texts of all tried requests begin with. If it ends in a control token, all of
    its tokens are static. Otherwise each framed text is encoded, and the ids that all of them begin with are static, up
    to the last run of letters, marks or digits, which an untried continuation could go on.

    Args:
        frame: returns the text that the model reads of a conversation.
        prefix: the conversation without the messages that follow.
        encode: returns the token ids of a text, with control tokens read as such.
        controls: the ids of the control tokens.
        system_blocks: whether a request may have further text after the system text, as a block of its own.

    Raises:
        CacheunitError: the frame refuses the first turn.
    """
    framed = _FramedTexts(frame, prefix, system_blocks=system_blocks)
    first = _common_text(framed.first_turn)
    whole = _static(first, framed.first_turn, encode, controls)
    framed_prefix = _common_text([first, *framed.later_turns])
    if framed_prefix != first:
        static = _static(framed_prefix, [*framed.first_turn, *framed.later_turns], encode, controls)
        change = framed.change(len(framed_prefix))
        return replace(static, first_turn=whole.tokens, refused_turns=framed.refused, change=change)
    # What stands in front of the user's words is the same: only later texts are left to encode, if any need be.
    static = whole if _ends_in_control(whole, controls) else _cut(whole, framed.later_turns, encode)
    return replace(static, first_turn=whole.tokens, refused_turns=framed.refused)


def changes_with_system_message(frame: Callable[[Conversation], str]) -> bool:
    """Returns whether a later system message changes what a frame puts in front of the user's first words.

    Some chat templates put all system messages in front, or take only the last one. One that refuses such a message
    does not change.

    Args:
        frame: returns the text that the model reads of a conversation.
    """
    user, system = user_message("First words."), {"role": "system", "content": "Later instructions."}
    answer, again = {"role": "assistant", "content": "An answer."}, user_message("Further words.")
    prefix = Conversation(system="First instructions.", tools=(), turns=())
    try:
        usual = frame(replace(prefix, following=(user, answer, again)))
        with_system = frame(replace(prefix, following=(user, answer, system, again)))
    except CacheunitError:
        return False
    return common_prefix(usual, with_system) < usual.find("First words.")


class _FramedTexts:
    """The framed texts of all tried requests.

    Attributes:
        first_turn: those of the first turn, one for each tried continuation.
        later_turns: those of later turns.
        refused: the shapes of later turns that the frame refuses.

    A later turn that changes the prefix may put the user's words where other text was: then all continuations are tried
    again, since they may begin as that text does, or merge with what is in front of it.
    """

    def __init__(
        self, frame: Callable[[Conversation], str], prefix: Conversation, *, system_blocks: bool = False
    ) -> None:
        self._frame = frame
        self._prefix = prefix
        self._first = self._conversation(user_message(TRIED_CONTINUATIONS[0]))
        self._shapes: list[str] = []
        self.first_turn = [frame(self._conversation(user_message(words))) for words in TRIED_CONTINUATIONS]
        self.later_turns: list[str] = []
        self.refused: tuple[str, ...] = ()
        if system_blocks and prefix.system and not prefix.turns:
            self.first_turn += map(self._with_system_block, TRIED_CONTINUATIONS)
        unchanged = _common_text(self.first_turn)
        for shape in later_turns(prefix):
            texts = self._texts(shape, _TRIED_IN_LATER_TURNS)
            if not all(text.startswith(unchanged) for text in texts):
                texts = self._texts(shape, TRIED_CONTINUATIONS)
            self.later_turns += texts
            self._shapes += [shape.name] * len(texts)
            self.refused += () if texts else (shape.name,)

    def _conversation(self, *following: Message) -> Conversation:
        return replace(self._prefix, following=following)

    def _with_system_block(self, text: str) -> str:
        """Returns the framed text of a request whose system text goes on with `text`."""
        user = user_message(TRIED_CONTINUATIONS[0])
        return self._frame(replace(self._prefix, system=self._prefix.system + text, following=(user,)))

    def _texts(self, shape: TurnShape, continuations: Sequence[str]) -> list[str]:
        """Returns the framed text of a shape after each continuation; none where the frame refuses it."""
        for messages_after in shape.message_builders:
            try:
                return [self._frame(self._conversation(*messages_after(words))) for words in continuations]
            except CacheunitError:
                continue
        return []

    def change(self, offset: int) -> TurnChange:
        """Returns the change that leaves only `offset` characters in common, with the first shape that makes it."""
        first = self.first_turn[0]
        shape = next(
            shape
            for shape, text in zip(self._shapes, self.later_turns, strict=True)
            if common_prefix(first, text) == offset
        )
        return TurnChange(shape=shape, first=self._first, offset=offset)


def _common_text(texts: Sequence[str]) -> str:
    """Returns the text that all texts begin with."""
    common = texts[0]
    for text in texts[1:]:
        common = common[: common_prefix(common, text)]
    return common


def _static(
    framed_prefix: str, texts: Sequence[str], encode: Callable[[str], Sequence[int]], controls: Collection[int]
) -> StaticTokens:
    """Returns the static tokens of a framed prefix that all `texts` begin with."""
    whole = StaticTokens(framed_prefix=framed_prefix, ids=encode(framed_prefix), unstable=0)
    if _ends_in_control(whole, controls):
        return whole
    return _cut(whole, [framed_prefix[: _start_of_last_run(framed_prefix)], *texts], encode)


def _ends_in_control(static: StaticTokens, controls: Collection[int]) -> bool:
    """Returns whether no text behind a framed prefix can change its tokens: a control token ends it, or it is empty."""
    return not static.unstable and (not static.ids or static.ids[-1] in controls)


def _cut(static: StaticTokens, texts: Sequence[str], encode: Callable[[str], Sequence[int]]) -> StaticTokens:
    """Returns the static tokens that the ids of all `texts` begin with; the others are unstable."""
    stable = min((common_prefix(static.ids, encode(text)) for text in texts), default=static.tokens)
    unstable = static.unstable + static.tokens - min(stable, static.tokens)
    return replace(static, ids=static.ids[:stable], unstable=unstable)


def _start_of_last_run(text: str) -> int:
    r"""Returns where the last run of letters, or of punctuation and symbols, begins, with a space in front of it.

    Full groups of three digits are no run, since the next digit begins another group; neither is ASCII white space, of
    which all kinds are tried.

        "Be kind"   -> 2     "Be kind."  -> 7     "No. 1234" -> 7     "kind\n" -> 5
    """
    kind = _kind(text[-1])
    if kind == "space" and text[-1].isascii():
        return len(text)
    start = len(text)
    while start and _kind(text[start - 1]) == kind:
        start -= 1
    if kind == "digit":
        return len(text) - (len(text) - start) % 3
    before = text[start - 1 : start]
    return start - 1 if before and before not in "\r\n" and _kind(before) in ("space", "mark") else start


def _kind(character: str) -> str:
    """Returns whether a character is a letter (combining marks included), a digit, a space or any other mark."""
    if character.isspace():
        return "space"
    category = unicodedata.category(character)[0]
    return {"L": "letter", "M": "letter", "N": "digit"}.get(category, "mark")
