"""Frames conversations by openai-harmony as vLLM does: the reference of the model gpt-oss, for tests and benchmarks.

The library downloads its vocabulary, unless it finds the file in a folder: that of bpe-openai is put there.
"""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Json = dict[str, Any]

DATE = "2026-01-01"
"""The date in the system message; the one of the model."""
FOLDER_VARIABLE = "TIKTOKEN_ENCODINGS_BASE"
"""The environment variable that names the folder in which the library finds vocabularies."""


def vocabulary_folder(folder: Path) -> Path:
    """Puts the tokens of o200k_base into a folder as the library reads them, and returns the folder."""
    spec = importlib.util.find_spec("bpe_openai")
    assert spec is not None
    assert spec.origin is not None
    packed = (Path(spec.origin).parent / "data/o200k_base.tiktoken.gz").read_bytes()
    (folder / "o200k_base.tiktoken").write_bytes(gzip.decompress(packed))
    return folder


class Reference:
    """Frames conversations by openai-harmony, with the messages that vLLM makes of a chat request.

    Args:
        library: the module openai_harmony.
    """

    def __init__(self, library: Any) -> None:  # noqa: ANN401 - a module that need not be installed
        self.library = library
        self.encoding = library.load_harmony_encoding(library.HarmonyEncodingName.HARMONY_GPT_OSS)

    def ids(self, messages: Sequence[Json], tools: Sequence[Json] = (), effort: str = "medium") -> list[int]:
        """Returns the token ids of a conversation."""
        of = self.library
        system = of.SystemContent.new().with_reasoning_effort(of.ReasoningEffort[effort.upper()])
        made = [of.Message.from_role_and_content(of.Role.SYSTEM, system.with_conversation_start_date(DATE))]
        instructions, later = (
            (messages[0]["content"], messages[1:]) if messages[0]["role"] == "system" else (None, messages)
        )
        if instructions or tools:
            made.append(self._developer(instructions, tools))
        names = {call["id"]: call["function"]["name"] for item in later for call in item.get("tool_calls", [])}
        made += [part for message in later for part in self._parts(message, names)]
        conversation = of.Conversation.from_messages(made)
        return list(self.encoding.render_conversation_for_completion(conversation, of.Role.ASSISTANT))

    def text(self, messages: Sequence[Json], tools: Sequence[Json] = (), effort: str = "medium") -> str:
        """Returns the text of a conversation."""
        return str(self.encoding.decode_utf8(self.ids(messages, tools, effort)))

    def _developer(self, instructions: str | None, tools: Sequence[Json]) -> Any:  # noqa: ANN401 - one of its messages
        of = self.library
        content = of.DeveloperContent.new()
        if instructions is not None:
            content = content.with_instructions(instructions)
        functions = [of.ToolDescription.new(**{"parameters": None, **item["function"]}) for item in tools]
        content = content.with_function_tools(functions) if functions else content
        return of.Message.from_role_and_content(of.Role.DEVELOPER, content)

    def _parts(self, message: Json, names: Json) -> Iterator[Any]:
        of, role = self.library, message["role"]
        content = message["content"] or ""
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        if role == "user":
            yield of.Message.from_role_and_content(of.Role.USER, text)
        if role == "system":
            yield self._developer(text, ())
        if role == "tool":
            author = of.Author.new(of.Role.TOOL, f"functions.{names[message['tool_call_id']]}")
            answer = of.Message.from_author_and_content(author, text)
            yield answer.with_channel("commentary").with_recipient("assistant")
        calls = message.get("tool_calls", [])
        if role == "assistant" and text:
            channel = "commentary" if calls else "final"
            yield of.Message.from_role_and_content(of.Role.ASSISTANT, text).with_channel(channel)
        for call in calls:
            made = of.Message.from_role_and_content(of.Role.ASSISTANT, call["function"]["arguments"])
            made = made.with_channel("commentary").with_recipient(f"functions.{call['function']['name']}")
            yield made.with_content_type("json")
