"""The HTTP client for live endpoints: limits the number of requests, retries where that helps, never prints the key."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.protocols import LimitReachedError, RequestRefusedError
from cacheunit_build.domain.usage import Usage, read_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx

    from cacheunit_build.domain.endpoint_route import EndpointRoute

KEY_VARIABLE = "CACHEUNIT_API_KEY"
"""The environment variable that holds the API key, where no other is named."""

_MAX_TRIES = 4
_MAX_RETRY_WAIT = 60.0
_MAX_ERROR_LENGTH = 300
_BUSY_STATUSES = (429, 529)
_KEY_REFUSED_STATUSES = (401, 403)
_REQUEST_REFUSED_STATUSES = (400, 413, 422)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointLimits:
    """Limits of a client.

    Attributes:
        max_requests: the most requests to send, retries included.
        timeout: seconds to wait for one response.
    """

    max_requests: int
    timeout: float


class HttpEndpoint:
    """Sends requests to the API below one URL; implements the `Endpoint` protocol.

    Args:
        url: base URL of the API, such as `http://127.0.0.1:8000/v1`; `/v1` is added to a URL without a path.
        limits: the limits of this client.
        key: the API key, sent in the header that the request format defines; None for an endpoint without one.

    Raises:
        CacheunitError: the URL or the key is not valid, or httpx is not installed.
    """

    def __init__(self, url: str, limits: EndpointLimits, *, key: str | None = None) -> None:
        self._base = _base_url(url)
        if key and not re.fullmatch(r"[!-~]+", key):  # httpx would fail, and quote the key in its message
            raise fail("the API key has a space, a line end or a character that is not ASCII")
        self._limits = limits
        self._key = key
        self._client = _client(limits.timeout)
        self.requests_sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def host(self) -> str:
        """The host of the URL, with its port."""
        return self._base.partition("://")[2].partition("/")[0]

    def send(self, route: EndpointRoute, body: Mapping[str, Any]) -> Usage:
        """Sends a request that asks for as little output as possible; returns the usage that its response reports.

        Args:
            route: the route of the request's format.
            body: the request as JSON, without a limit of output.

        Raises:
            LimitReachedError: the limit of requests is reached.
            RequestRefusedError: the endpoint refuses this request.
            CacheunitError: the endpoint does not answer, or not with JSON.
        """
        url, headers = f"{self._base}/{route.path}", {**route.headers, **self._key_header(route.key_header)}
        try:
            reply = self._request("POST", url, headers, {route.output_limit_key: route.output_tokens, **body})
        except RequestRefusedError as error:
            newer_key = route.newer_output_limit_key
            if newer_key is None or newer_key not in error.faults[0].message:
                raise
            reply = self._request("POST", url, headers, {newer_key: route.output_tokens, **body})
        return read_usage(reply)

    def models(self) -> list[str]:
        """Returns the names of the models that it serves, in its order; empty where it does not list them."""
        try:
            reply = self._request("GET", f"{self._base}/models", self._key_header())
        except CacheunitError:
            return []
        listed = reply.get("data") if isinstance(reply, dict) else None
        return [str(item["id"]) for item in listed if "id" in item] if isinstance(listed, list) else []

    def tokenize(self, model: str, text: str) -> Sequence[int] | None:
        """Returns the token ids of a text, control tokens read as such; None where there is no route for that."""
        flags = {"add_special": False, "parse_special": True, "add_special_tokens": False}
        vllm_body, llama_cpp_body = {"model": model, "prompt": text, **flags}, {"content": text, **flags}
        return self._token_ids(vllm_body) or self._token_ids(llama_cpp_body)

    def tokenize_chat(self, body: Mapping[str, Any]) -> Sequence[int] | None:
        """Returns the token ids of a chat request in the server's own template; None where no route offers that."""
        token_ids = self._token_ids({**body, "add_generation_prompt": True})  # vLLM
        if token_ids is not None:
            return token_ids
        reply = self._request_optional("apply-template", body)  # llama.cpp
        text = reply.get("prompt") if isinstance(reply, dict) else None
        return self.tokenize(str(body.get("model")), text) if isinstance(text, str) else None

    def metrics(self) -> str | None:
        """Returns the text of `/metrics`; None where there is none, or no request is left."""
        import httpx

        if self.requests_sent >= self._limits.max_requests:
            return None
        self.requests_sent += 1
        try:
            response = self._client.get(f"{self._root}/metrics")
        except (httpx.HTTPError, httpx.InvalidURL):
            return None
        return response.text if response.is_success else None

    def wait(self, seconds: float) -> None:
        """Waits before the next request."""
        _sleep(seconds)

    @property
    def _root(self) -> str:
        """The URL of the server, where vLLM and llama.cpp have the routes that are not part of OpenAI's API."""
        return self._base.removesuffix("/v1")

    def _token_ids(self, body: Mapping[str, Any]) -> Sequence[int] | None:
        """Returns the ids that the route `/tokenize` answers with; None where there are none."""
        reply = self._request_optional("tokenize", body)
        token_ids = reply.get("tokens") if isinstance(reply, dict) else None
        is_list_of_ids = isinstance(token_ids, list) and token_ids and all(isinstance(item, int) for item in token_ids)
        return token_ids if is_list_of_ids else None

    def _request_optional(self, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """Returns the response of a route that not every server has; None where it fails. Never retries."""
        try:
            return self._request("POST", f"{self._root}/{path}", self._key_header(), body, tries=1)
        except CacheunitError:
            return None

    def _request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        *,
        tries: int = _MAX_TRIES,
    ) -> Any:  # noqa: ANN401 - JSON
        """Sends one request and returns its JSON; retries where the server is busy, slow or breaks off."""
        last_error: CacheunitError | None = None
        for attempt in range(tries):
            if self.requests_sent >= self._limits.max_requests:
                message = f"more than {self._limits.max_requests} requests are needed"
                raise LimitReachedError(Fault(message=message, hint="raise --max-requests"))
            self.requests_sent += 1
            try:
                return self._request_once(method, url, headers, body)
            except _RetryableError as error:
                last_error = error.to_raise
                if attempt + 1 < tries:
                    _sleep(min(error.retry_after or 2.0**attempt, _MAX_RETRY_WAIT))
        raise last_error or fail(f"{url} does not answer")

    def _request_once(self, method: str, url: str, headers: Mapping[str, str], body: Mapping[str, Any] | None) -> Any:  # noqa: ANN401 - JSON
        """Sends one request and returns its JSON.

        Raises:
            _RetryableError: the server is busy, slow or broke off.
            RequestRefusedError: the endpoint refuses this request.
            CacheunitError: the endpoint cannot be reached, answers with an error, or not with JSON.
        """
        import httpx

        try:
            response = self._client.request(method, url, json=body, headers=headers)
        except httpx.TimeoutException:
            raise _RetryableError(fail(f"{url} does not answer within {self._limits.timeout:g} s")) from None
        except (httpx.ConnectError, httpx.InvalidURL) as error:
            raise fail(f"cannot reach {url}: {self._without_key(str(error))}", hint="is the server running?") from None
        except httpx.HTTPError as error:
            message = f"{url} closed the connection: {self._without_key(str(error))}"
            raise _RetryableError(fail(message)) from None
        self._raise_for_status(response, url)
        try:
            return response.json()
        except ValueError:
            if response.text.lstrip().startswith("<"):
                hint = "give the base URL of the API, such as http://127.0.0.1:8000/v1"
                raise fail(f"{url} answers with HTML, not JSON", hint=hint) from None
            raise _RetryableError(fail(f"{url} answers with incomplete JSON")) from None

    def _raise_for_status(self, response: httpx.Response, url: str) -> None:
        """Raises the error that fits a response without success; see `_request_once`."""
        if response.is_success:
            return
        reason = self._without_key(_error_text(response))
        status = response.status_code
        message = f"{url} answers {status}: {reason}"
        if status in _BUSY_STATUSES or response.is_server_error:
            raise _RetryableError(fail(message), _retry_after(response))
        if status in _KEY_REFUSED_STATUSES:
            hint = f"set the API key in {KEY_VARIABLE}, or name another variable with --key-env"
            raise fail(message, hint=hint)
        hint_of_model = "choose another model with --model" if "model" in reason else None
        error = RequestRefusedError if status in _REQUEST_REFUSED_STATUSES else CacheunitError
        raise error(Fault(message=message, hint=hint_of_model))

    def _key_header(self, name: str = "Authorization") -> dict[str, str]:
        """Returns the header with the API key; none without a key."""
        if not self._key:
            return {}
        return {name: f"Bearer {self._key}" if name == "Authorization" else self._key}

    def _without_key(self, text: str) -> str:
        """Replaces the key in a text that comes from the server."""
        return text.replace(self._key, "***") if self._key else text


def _base_url(url: str) -> str:
    """Validates the URL of an API and returns it without a final slash, with `/v1` if it has no path.

    http://127.0.0.1:8000       http://127.0.0.1:8000/v1
    https://api.example.com/x/  https://api.example.com/x

    Raises:
        CacheunitError: it is not a valid URL, or it holds a password or a query.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in ("http", "https") or not _has_valid_host(url):
        raise fail(f'"{url}" is not a valid API URL', hint="give the full URL, such as http://127.0.0.1:8000/v1")
    if "@" in rest.partition("/")[0] or "?" in rest:
        hint = f"set the API key in {KEY_VARIABLE}, or name another variable with --key-env"
        raise fail("a URL with a password or a query is refused, since it would be printed", hint=hint)
    base = url.rstrip("/")
    return base if "/" in rest.rstrip("/") else f"{base}/v1"


def _has_valid_host(url: str) -> bool:
    """Whether a URL names a host, and a valid port if it names one."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", url)
    except ValueError:
        return False


def _sleep(seconds: float) -> None:
    """Waits; tests replace this function."""
    time.sleep(seconds)


class _RetryableError(Exception):
    """A failed request that is worth another try.

    Args:
        to_raise: the error to raise after the last try.
        retry_after: seconds to wait first, where the server says so.
    """

    def __init__(self, to_raise: CacheunitError, retry_after: float | None = None) -> None:
        super().__init__(str(to_raise))
        self.to_raise = to_raise
        self.retry_after = retry_after


def _client(timeout: float) -> httpx.Client:
    """Returns an HTTP client; raises `CacheunitError` if httpx is not installed."""
    try:
        import httpx
    except ImportError:
        raise fail("the package httpx is not installed", hint='pip install "cacheunit-build[live]"') from None
    return httpx.Client(timeout=timeout, follow_redirects=False)


def _retry_after(response: httpx.Response) -> float | None:
    """Returns the seconds of the header `Retry-After`; None where it is absent or a date."""
    try:
        return max(0.0, float(response.headers.get("retry-after", "")))
    except ValueError:
        return None


def _error_text(response: httpx.Response) -> str:
    """Returns the error message of a response on one line, shortened."""
    try:
        error = response.json()
    except ValueError:
        text = "HTML" if response.text.lstrip().startswith("<") else response.text
    else:
        error = error.get("error", error) if isinstance(error, dict) else error
        text = str(error.get("message", error)) if isinstance(error, dict) else json.dumps(error)
    return " ".join(text.split())[:_MAX_ERROR_LENGTH]
