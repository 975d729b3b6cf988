"""The table of all request formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.request_formats.anthropic_messages import AnthropicMessages
from cacheunit_build.request_formats.bedrock_converse import BedrockConverse, BedrockNova
from cacheunit_build.request_formats.gemini import Gemini
from cacheunit_build.request_formats.openai_chat import OpenAIChat
from cacheunit_build.request_formats.openai_responses import OpenAIResponses
from cacheunit_build.request_formats.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.target import FormatName
    from cacheunit_build.request_formats.base import RequestFormat

FORMATS: Mapping[FormatName, RequestFormat] = {
    format_.name: format_
    for format_ in (
        OpenAIChat(),
        OpenAIResponses(),
        AnthropicMessages(),
        Gemini(),
        BedrockConverse(),
        BedrockNova(),
        Text(),
    )
}
"""Every request format, by its name in targets."""
