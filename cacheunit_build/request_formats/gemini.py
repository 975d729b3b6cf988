"""The request format of Google's Gemini API, and the arguments by which its client takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.endpoint_route import EndpointRoute
from cacheunit_build.domain.front_options import merged, with_arguments
from cacheunit_build.domain.lifetimes import lifetime_seconds
from cacheunit_build.request_formats.base import RequestFormat, body
from cacheunit_build.request_formats.counting import CountRoute
from cacheunit_build.request_formats.following import MessageForm
from cacheunit_build.request_formats.parts import Json, PrefixParts

if TYPE_CHECKING:
    from cacheunit_build.domain.prompt import Tool, Turn
    from cacheunit_build.domain.response_schema import ResponseSchema

_GENERATION = "generationConfig"
_OUTSIDE = (
    *("systemInstruction", "tools", "toolConfig", "cachedContent"),
    *("safetySettings", "labels", "serviceTier", "store"),
)
"""The keys of a request that the client takes in its `config` too; all others in there are of `generationConfig`."""
_OF_CLIENT = frozenset({"httpOptions", "automaticFunctionCalling", "shouldReturnHttpResponse"})
"""The keys of `config` that the client does not send."""
_OPAQUE = frozenset({"responseJsonSchema", "responseSchema", "parametersJsonSchema", "parameters", "args", "labels"})
"""The keys whose values have keys of the caller in them."""
_HOSTED = frozenset(
    {"codeExecution", "computerUse", "fileSearch", "googleMaps", "googleSearch", "googleSearchRetrieval", "urlContext"}
)
"""The keys of the tools that Google runs: those of Tool in google-genai 3.6.1 that the Gemini API takes."""
_ROLES = {"user": "user", "assistant": "model", "tool": "user"}


class Gemini(RequestFormat):
    """`systemInstruction`, `tools` and `contents` of `generateContent`. What it caches is not marked in the request."""

    name = "gemini"
    route = EndpointRoute(
        path="models/{model}:generateContent",
        version="v1beta",
        output_limit_key="generationConfig.maxOutputTokens",
        key_header="x-goog-api-key",
    )
    # The request is in generateContentRequest, since contents alone leave out system text and tools; it needs a model
    # of its own: https://ai.google.dev/api/tokens and github.com/googleapis/python-genai/issues/432
    count_route = CountRoute(
        route=EndpointRoute(path="models/{model}:countTokens", version="v1beta", key_header="x-goog-api-key"),
        url="https://generativelanguage.googleapis.com/v1beta",
        keys=frozenset({"contents", "generationConfig", "systemInstruction", "toolConfig", "tools"}),
        answer_key="totalTokens",
        inside="generateContentRequest",
        model_prefix="models/",
    )
    messages_key = "contents"
    system_path = "systemInstruction.parts"
    stored_keys = ("systemInstruction", "tools", "toolConfig")
    name_key = "cachedContent"
    tool_keys = frozenset({"responseJsonSchema"})  # FunctionDeclaration of google-genai 3.6.1
    form = MessageForm(
        content_key="parts",
        takes_text=False,
        text_type=None,
        roles=frozenset({"user", "model"}),
        item_keys=("parts",),
        leading_types=frozenset({"functionResponse", "function_response"}),
    )

    def fragment(self, parts: PrefixParts) -> Json:
        """Returns `contents`, `systemInstruction` and `tools`; the keys of a block are in the order of the client."""
        return body(parts, **self._content(parts))

    def stored(self, parts: PrefixParts) -> tuple[Json, Json]:
        """Returns the body that stores a prefix as cached content, and the fragment of the requests that name it."""
        lifetime = lifetime_seconds(str(parts.fields.get("ttl")))
        options = body(PrefixParts(blocks=(), options=parts.options))
        tool_config = {key: options.pop(key) for key in ("toolConfig",) if key in options}
        ttl = {} if lifetime is None else {"ttl": f"{lifetime}s"}
        content = {key: part for key, part in self._content(parts).items() if part}
        return dict(sorted({**content, **tool_config, **ttl}.items())), options

    def _content(self, parts: PrefixParts) -> dict[str, Any]:
        """Returns the tools, the system text and the examples, each empty where there is none."""
        contents: list[Json] = []
        for index, turn in enumerate(parts.turns):
            if turn.result_of is not None and index and parts.turns[index - 1].result_of is not None:
                contents[-1]["parts"] += _parts(turn)  # all results of a message stand in one message
            else:
                contents.append({"parts": _parts(turn), "role": _ROLES[turn.role]})
        return {
            "contents": contents,
            "systemInstruction": {"parts": [{"text": text} for text in parts.blocks]} if parts.blocks else {},
            "tools": self._tools(parts),
        }

    def _tools(self, parts: PrefixParts) -> list[Json]:
        """Returns the hosted tools, and then one entry with all functions: so the client sends them too."""
        functions = [self.tool(tool) for tool in parts.tools if tool.hosted is None]
        hosted = [self.tool(tool) for tool in parts.tools if tool.hosted is not None]
        return [*hosted, {"functionDeclarations": functions}] if functions else hosted

    def tool(self, tool: Tool) -> Json:
        """Returns a function in Gemini's form, which has no `strict`; a hosted tool as it is."""
        if tool.hosted is not None:
            return dict(tool.hosted)
        body = {"description": tool.description, "name": tool.name, "parametersJsonSchema": tool.schema}
        return body | tool.known(self.tool_keys)

    def knows_hosted(self, definition: Mapping[str, Any]) -> bool:
        """Returns whether its API takes this entry of `tools`, which has one key."""
        return len(definition) == 1 and not _HOSTED.isdisjoint(definition)

    def response_schema(self, schema: ResponseSchema) -> Json:
        """Returns the options of `generationConfig` for JSON by a schema."""
        options = {"responseMimeType": "application/json", "responseJsonSchema": schema.schema}
        return {f"{_GENERATION}.{key}": value for key, value in options.items()}

    def tools_in(self, fragment: Json) -> list[Json]:
        """Returns the functions of a fragment, and its hosted tools."""
        tools: list[Json] = []
        for tool in fragment.get("tools", ()):
            tools += tool.get("functionDeclarations", [tool])
        return tools

    def has_examples(self, fragment: Json) -> bool:
        """Returns whether a fragment has worked examples: it has no other contents."""
        return bool(fragment.get("contents"))

    def sent(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns what the client's arguments set in a request: `config` holds keys of the body and of its options."""
        config = _config(arguments)
        request: dict[str, Any] = {key: value for key, value in arguments.items() if key != "config"}
        options: dict[str, Any] = {}
        for key, value in config.items():
            if key not in _OF_CLIENT:
                (request if key in _OUTSIDE else options)[key] = value if key in _OPAQUE else _camel(value)
        request = merged(request, {_GENERATION: options} if options else {})
        extra = _camel(config.get("httpOptions") or {}).get("extraBody")
        return merged(request, extra) if isinstance(extra, Mapping) else request

    def arguments(self, request: Json, others: Mapping[str, Any]) -> Json:
        """Returns the arguments of the client's call for a request, with further ones."""
        config: dict[str, Any] = {_snake(key): value for key, value in request.items() if key in _OUTSIDE}
        config |= {_snake(key): value for key, value in request.get(_GENERATION, {}).items()}
        known = {*_OUTSIDE, _GENERATION, self.messages_key}
        if extra := {key: value for key, value in request.items() if key not in known}:
            config["http_options"] = {"extraBody": extra}
        frozen = {self.messages_key: request[self.messages_key], **({"config": config} if config else {})}
        given: dict[str, Any] = {}
        for key, value in _config(others).items():
            frozen_value = config.get(_snake(key))
            given[_snake(key)] = _camel(value) if isinstance(frozen_value, Mapping) and key not in _OPAQUE else value
        return with_arguments(frozen, {**others, "config": given} if given else others)


def _parts(turn: Turn) -> list[Json]:
    """Returns the parts of one message of a worked example."""
    if turn.result_of is not None:
        return [{"functionResponse": {"name": turn.result_of.name, "response": {"output": turn.text}}}]
    calls = [{"functionCall": {"args": dict(call.arguments), "name": call.name}} for call in turn.calls]
    return [*([{"text": turn.text}] if turn.text else []), *calls]


def _config(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `config` of a call by the keys of a request; empty where it is left out.

    Raises:
        TypeError: it is neither a mapping nor an object of the client.
    """
    config = arguments.get("config")
    if config is None:
        return {}
    mapping = _mapping(config)
    if mapping is None:
        raise TypeError(f"config must be a mapping or a GenerateContentConfig, not {type(config).__name__}")
    return {_camel_name(key): value for key, value in mapping.items()}


def _mapping(value: Any) -> Mapping[str, Any] | None:  # noqa: ANN401 - whatever a caller passes
    """Returns a mapping, or an object of the client as one; None for anything else."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type) or not hasattr(value, "model_dump"):
        return None
    dumped = value.model_dump(exclude_none=True)
    return dumped if isinstance(dumped, Mapping) else None


def _camel(value: Any) -> Any:  # noqa: ANN401 - a value of JSON
    """Returns a value with the keys of the API in its own spelling, which the client takes in another one too."""
    if isinstance(value, list | tuple):
        return [_camel(item) for item in value]
    mapping = _mapping(value)
    if mapping is None:
        return value
    names = {key: _camel_name(key) for key in mapping}
    return {name: mapping[key] if name in _OPAQUE else _camel(mapping[key]) for key, name in names.items()}


def _camel_name(name: object) -> str:
    """Returns a name as in JSON: max_output_tokens -> maxOutputTokens.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(name, str):
        raise TypeError(f"config has the key {name!r}, which must be a str")
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def _snake(name: str) -> str:
    """Returns a name as in Python: maxOutputTokens -> max_output_tokens."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
