"""Sends requests through the vendors' own clients, configured by environment variables as in the documentation."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def configure(environment: pytest.MonkeyPatch, url: str) -> None:
    """Sets the environment variables by which the clients find a server and its keys, and hides those of the user."""
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        environment.delenv(name, raising=False)
    values = {
        "OPENAI_API_KEY": "key",
        "OPENAI_BASE_URL": f"{url}/v1",
        "ANTHROPIC_API_KEY": "key",
        "ANTHROPIC_BASE_URL": url,
        "GEMINI_API_KEY": "key",
        "GOOGLE_GEMINI_BASE_URL": url,
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": "-",
        "AWS_SHARED_CREDENTIALS_FILE": "-",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    for name, value in values.items():
        environment.setenv(name, value)


@cache
def client(vendor: str) -> Any:  # noqa: ANN401 - a client
    """Returns the client of a vendor; importing one is slow, so each is made once for all tests of a module."""
    if vendor == "openai":
        import openai

        return openai.OpenAI(max_retries=0)
    if vendor == "anthropic":
        import anthropic

        return anthropic.Anthropic(max_retries=0)
    if vendor == "google":
        from google import genai

        return genai.Client()
    import boto3

    return boto3.client("bedrock-runtime")


def close_clients() -> None:
    """Closes the clients, since an open connection at the end of the tests is a warning."""
    for vendor in ("openai", "anthropic", "google", "aws"):
        client(vendor).close()
    client.cache_clear()


SENDERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "text": lambda request: client("openai").completions.create(**request),
    "openai-chat": lambda request: client("openai").chat.completions.create(**request),
    "openai-responses": lambda request: client("openai").responses.create(**request),
    "anthropic-messages": lambda request: client("anthropic").messages.create(**request),
    "gemini": lambda request: client("google").models.generate_content(**request),
    "bedrock-nova": lambda request: client("aws").converse(**request),
    "bedrock-converse": lambda request: client("aws").converse(**request),
}
"""The call of a vendor's client that sends a request, by format."""
