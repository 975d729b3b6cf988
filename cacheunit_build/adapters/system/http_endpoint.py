"""The HTTP client for live endpoints: limits the number of requests, retries where that helps, never prints the key."""

from __future__ import annotations

import json
import re
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from cacheunit_build.adapters.system.api_url import KEY_HINT, base_url
from cacheunit_build.adapters.system.http_answer import AnswerError
from cacheunit_build.adapters.system.http_client import HttpClient
from cacheunit_build.adapters.system.secret_mask import SecretMask, proxy_secrets
from cacheunit_build.domain.endpoint import LimitReachedError, RequestRefusedError
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.usage import Usage, read_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from cacheunit_build.adapters.system.http_answer import Answer
    from cacheunit_build.domain.endpoint_route import EndpointRoute

_MAX_TRIES = 4
_MAX_RETRY_WAIT = 60.0
_MAX_ERROR_LENGTH = 300
_MAX_MASKED_LENGTH = 1 << 16
_BASE_URL_HINT = "give the base URL of the API, such as http://127.0.0.1:8000/v1"
_BUSY_STATUSES = (429, 529)
_SERVER_ERROR = 500
_REDIRECTS = range(300, 400)
_KEY_REFUSED_STATUSES = (401, 403)
_REQUEST_REFUSED_STATUSES = (400, 413, 422)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointLimits:
    """Limits of a client.

    Attributes:
        max_requests: the most requests to send, retries included.
        timeout: seconds in which one whole response must arrive.
    """

    max_requests: int
    timeout: float


class HttpEndpoint:
    """Sends requests to the API below one URL; implements the `Endpoint` protocol.

    Args:
        url: base URL of the API, such as `http://127.0.0.1:8000/v1`; the version is added to a URL without a path.
        limits: the limits of this client.
        key: the API key, sent in the header that the request format defines; None for an endpoint without one.

    Raises:
        CacheunitError: the URL or the key is not valid, or httpx is not installed.
    """

    def __init__(self, url: str, limits: EndpointLimits, *, key: str | None = None) -> None:
        self._base = base_url(url)
        if key and not re.fullmatch(r"[!-~]+", key):  # httpx would fail, and quote the key in its message
            raise fail("the API key has a space, a line end or a character that is not ASCII")
        self._without_secrets = SecretMask([key or "", *proxy_secrets()])
        if self._without_secrets.is_in(url):
            raise fail("a URL with the API key is refused, since it would be printed", hint=KEY_HINT)
        self._limits = limits
        self._key = key
        self._client = self._open_client(limits.timeout)
        self.requests_sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Closes the client.

        Raises:
            RuntimeError: in place of a bug whose traceback would show the key: with that traceback, the key masked.
        """
        self._client.close()
        if isinstance(error, Exception) and not isinstance(error, CacheunitError):
            shown = "".join(traceback.format_exception(error))
            if self._without_secrets(shown) != shown:
                raise RuntimeError(
                    f"an unexpected error; its traceback, with the key masked:\n{self._without_secrets(shown)}"
                ) from None

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
        model = str(body.get("model", ""))
        try:
            reply = self.ask(route, model, route.sent(body, route.output_limit_key))
        except RequestRefusedError as error:
            newer_key = route.newer_output_limit_key
            if newer_key is None or newer_key not in error.faults[0].message:
                raise
            reply = self.ask(route, model, route.sent(body, newer_key))
        return read_usage(reply)

    def ask(self, route: EndpointRoute, model: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """Returns the JSON that a route answers to a body; raises what `send` raises."""
        url = f"{self._base_for(route.version)}/{route.path_for(model)}"
        return self._request("POST", url, {**route.headers, **self._key_header(route.key_header)}, body)

    def models(self) -> list[str]:
        """Returns the names of the models that it serves, in its order; empty where it does not list them."""
        try:
            reply = self._request("GET", f"{self._base_for()}/models", self._key_header())
        except CacheunitError:
            return []
        listed = reply.get("data") if isinstance(reply, dict) else None
        items = listed if isinstance(listed, list) else ()
        return [item["id"] for item in items if isinstance(item, dict) and isinstance(item.get("id"), str)]

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
        if self.requests_sent >= self._limits.max_requests:
            return None
        self.requests_sent += 1
        try:
            answer = self._exchange("GET", f"{self._root}/metrics", {}, None)
        except (CacheunitError, _RetryableError):
            return None
        return answer.text if answer.is_success else None

    def wait(self, seconds: float) -> None:
        """Waits before the next request."""
        _sleep(seconds)

    def _base_for(self, version: str = "v1") -> str:
        """Returns the base URL of an API; one without a path gets the version of the API."""
        has_path = "/" in self._base.partition("://")[2]
        return self._base if has_path or not version else f"{self._base}/{version}"

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
                    _sleep(error.retry_after or 2.0**attempt)
        raise last_error or fail(f"{url} does not answer")

    def _request_once(self, method: str, url: str, headers: Mapping[str, str], body: Mapping[str, Any] | None) -> Any:  # noqa: ANN401 - JSON
        """Sends one request and returns its JSON.

        Raises:
            _RetryableError: the server is busy, slow or broke off.
            RequestRefusedError: the endpoint refuses this request.
            CacheunitError: the endpoint cannot be reached, answers with an error, not with JSON, or over a limit.
        """
        answer = self._exchange(method, url, headers, body)
        self._raise_for_status(answer, url)
        try:
            return answer.json()
        except AnswerError as error:
            raise fail(f"{url} {error}", hint=_BASE_URL_HINT) from None
        except ValueError:
            if _is_html(answer):
                raise fail(f"{url} answers with HTML, not JSON", hint=_BASE_URL_HINT) from None
            raise _RetryableError(fail(f"{url} answers with incomplete JSON")) from None

    def _exchange(self, method: str, url: str, headers: Mapping[str, str], body: Mapping[str, Any] | None) -> Answer:
        """Sends one request and returns the answer, whatever its status.

        Raises:
            _RetryableError: the server is slow or broke off.
            CacheunitError: the endpoint cannot be reached, or its answer is over a limit.
        """
        import httpx

        failure: Exception
        try:
            return self._client.send(method, url, headers, body)
        except TimeoutError:
            failure = _RetryableError(fail(f"{url} does not answer within {self._limits.timeout:g} s"))
        except AnswerError as error:
            failure = fail(f"{url} {error}", hint=_BASE_URL_HINT)
        except (httpx.ConnectError, httpx.ProxyError, httpx.InvalidURL) as error:
            failure = fail(f"cannot reach {url}: {self._reason(str(error))}", hint="is the server running?")
        except httpx.HTTPError as error:
            failure = _RetryableError(fail(f"{url} closed the connection: {self._reason(str(error))}"))
        raise failure  # not while the exception of httpx is handled, which holds the request and so the key

    def _open_client(self, timeout: float) -> HttpClient:
        """Returns an HTTP client.

        Raises:
            CacheunitError: httpx is not installed, or refuses what the environment sets.
        """
        try:
            return HttpClient(timeout)
        except CacheunitError:
            raise
        except Exception as error:  # noqa: BLE001 - of httpx, ssl and socks, for proxies and certificates
            reason = self._reason(str(error))
        hint = "are HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR right?"
        raise fail(f"cannot use the proxy or the certificates of the environment: {reason}", hint=hint)

    def _raise_for_status(self, answer: Answer, url: str) -> None:
        """Raises the error that fits a response without success; see `_request_once`."""
        if answer.is_success:
            return
        reason = self._reason(_error_text(answer)) or "no reason is given"
        status = answer.status
        message = f"{url} answers {status}: {reason}"
        if status in _BUSY_STATUSES or status >= _SERVER_ERROR:
            raise _busy(message, _retry_after(answer))
        if status in _KEY_REFUSED_STATUSES:
            raise fail(message, hint=KEY_HINT)
        if status in _REDIRECTS:
            raise fail(message, hint="redirects are not followed: give the URL of the API itself")
        hint_of_model = "choose another model with --model" if "model" in reason else None
        error = RequestRefusedError if status in _REQUEST_REFUSED_STATUSES else CacheunitError
        raise error(Fault(message=message, hint=hint_of_model))

    def _key_header(self, name: str = "Authorization") -> dict[str, str]:
        """Returns the header with the API key; none without a key."""
        if not self._key:
            return {}
        return {name: f"Bearer {self._key}" if name == "Authorization" else self._key}

    def _reason(self, text: str) -> str:
        """Returns a text from outside on one line, without the key, and shortened."""
        return " ".join(self._without_secrets(text[:_MAX_MASKED_LENGTH]).split())[:_MAX_ERROR_LENGTH]


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


def _busy(message: str, retry_after: float | None) -> Exception:
    """Returns the error for a server that cannot answer now: worth another try, unless it asks for too long a wait."""
    if retry_after is not None and retry_after > _MAX_RETRY_WAIT:
        hint = (
            f"it asks to wait longer than {_MAX_RETRY_WAIT:g} s before the next request (Retry-After); try again later"
        )
        return fail(message, hint=hint)
    return _RetryableError(fail(message), retry_after)


def _retry_after(answer: Answer) -> float | None:
    """Returns the seconds of the header `Retry-After`; None where it is absent or a date."""
    try:
        return max(0.0, float(answer.headers.get("retry-after", "")))
    except ValueError:
        return None


def _is_html(answer: Answer) -> bool:
    return answer.data.lstrip().startswith(b"<")


def _error_text(answer: Answer) -> str:
    """Returns the error message of a response."""
    try:
        error = answer.json()
    except (ValueError, AnswerError):
        return "HTML" if _is_html(answer) else answer.text
    error = error.get("error", error) if isinstance(error, dict) else error
    return str(error.get("message", error)) if isinstance(error, dict) else json.dumps(error)
