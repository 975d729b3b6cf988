"""The table of all request formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.request_formats.anthropic_messages import AnthropicMessages
from cacheunit_build.request_formats.openai_chat import OpenAIChat
from cacheunit_build.request_formats.openai_responses import OpenAIResponses
from cacheunit_build.request_formats.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.target import FormatName
    from cacheunit_build.request_formats.base import Json, RequestFormat

FORMATS: Mapping[FormatName, RequestFormat] = {
    format_.name: format_ for format_ in (OpenAIChat(), OpenAIResponses(), AnthropicMessages(), Text())
}
"""Every request format, by its name in targets."""


def format_of(fragment: Json) -> RequestFormat:
    """Returns a format that appends to `fragment` as its own does, told from the keys of the fragment.

    The lock does not yet record the format of a target. A fragment of tools alone is one of the responses API where
    its tools are flat.
    """
    if "prompt" in fragment:
        return FORMATS["text"]
    flat_tools = any("parameters" in tool for tool in fragment.get("tools", ()))
    return FORMATS["openai-responses" if "input" in fragment or flat_tools else "openai-chat"]
