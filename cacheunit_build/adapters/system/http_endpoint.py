"""A live endpoint: few and bounded requests, patient where a server asks for it, and never a key in a message."""

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

    from cacheunit_build.domain.target import FormatName

KEY_VARIABLE = "CACHEUNIT_API_KEY"
"""The environment variable that holds the key, where no other is named."""

_PATHS: dict[FormatName, str] = {
    "openai-chat": "chat/completions",
    "openai-responses": "responses",
    "anthropic-messages": "messages",
    "text": "completions",
}
_LIMITS: dict[FormatName, dict[str, int]] = {
    "openai-chat": {"max_tokens": 1},
    "openai-responses": {"max_output_tokens": 16},
    "anthropic-messages": {"max_tokens": 1},
    "text": {"max_tokens": 1},
}
_VERSION = "2023-06-01"  # of Anthropic's API, which its servers and their likes ask for
_TRIES = 4
_LONGEST_WAIT = 60.0
_MOST_SHOWN = 300
_BUSY = (429, 529)
_NO_ENTRY = (401, 403)
_NOT_SO = (400, 413, 422)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most that may be sent: requests (retries count), and seconds to wait for one answer."""

    requests: int
    seconds: float


class HttpEndpoint:
    """The API below one URL.

    Args:
        url: where it begins, such as `http://127.0.0.1:8000/v1`; without a path, `/v1` is meant.
        bounds: the most that may be sent.
        key: goes into the header of the request format, and nowhere else.

    Raises:
        CacheunitError: the URL is none, or httpx is not installed.
    """

    def __init__(self, url: str, bounds: Bounds, *, key: str | None = None) -> None:
        scheme, _, rest = url.partition("://")
        if scheme not in ("http", "https") or not _is_host(url):
            raise fail(f'"{url}" is no URL of an API', hint="write it whole, such as http://127.0.0.1:8000/v1")
        if "@" in rest.partition("/")[0] or "?" in rest:
            hint = f"a key belongs into {KEY_VARIABLE}, or the variable that --key-env names"
            raise fail("a URL with a password or a query is not taken: it would be printed", hint=hint)
        base = url.rstrip("/")
        self._base = base if "/" in rest.rstrip("/") else f"{base}/v1"
        self._bounds = bounds
        self._key = key
        self._client = _client(bounds.seconds)
        self.sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, form: FormatName, body: Mapping[str, Any]) -> Usage:
        """Sends one request that asks for as little output as may be; gives what it says of the cache.

        Raises:
            CacheunitError: no answer, or none that is of use; the bounds are reached.
        """
        limits = dict(_LIMITS[form])
        try:
            reply = self._post(_PATHS[form], {**limits, **body}, form)
        except _UnknownLimitError:
            limits = {"max_completion_tokens": limits.pop("max_tokens")}
            reply = self._post(_PATHS[form], {**limits, **body}, form)
        return read_usage(reply)

    @property
    def host(self) -> str:
        """Where it is, by name."""
        return self._base.partition("://")[2].partition("/")[0]

    @staticmethod
    def output(form: FormatName) -> int:
        """The tokens of output that a request asks for."""
        return next(iter(_LIMITS[form].values()))

    def models(self) -> list[str]:
        """The models that it serves, in its order; none where it does not tell."""
        try:
            reply = self._send("GET", f"{self._base}/models", None, "openai-chat")
        except CacheunitError:
            return []
        listed = reply.get("data") if isinstance(reply, dict) else None
        return [str(item["id"]) for item in listed if "id" in item] if isinstance(listed, list) else []

    def tokenize(self, model: str, text: str) -> Sequence[int] | None:
        """The ids that the server gives to a text, control tokens read as such; None where it does not offer that."""
        plain = {"add_special": False, "parse_special": True, "add_special_tokens": False}
        return self._tokens({"model": model, "prompt": text, **plain}) or self._tokens({"content": text, **plain})

    def tokenize_chat(self, body: Mapping[str, Any]) -> Sequence[int] | None:
        """The ids that the server reads for a chat request, by its own template; None where it does not offer that."""
        tokens = self._tokens({**body, "add_generation_prompt": True})  # vLLM
        if tokens is not None:
            return tokens
        reply = self._offered("apply-template", body)  # llama.cpp
        text = reply.get("prompt") if isinstance(reply, dict) else None
        return self.tokenize(str(body.get("model")), text) if isinstance(text, str) else None

    def _tokens(self, body: Mapping[str, Any]) -> Sequence[int] | None:
        reply = self._offered("tokenize", body)
        tokens = reply.get("tokens") if isinstance(reply, dict) else None
        whole = isinstance(tokens, list) and tokens and all(isinstance(item, int) for item in tokens)
        return tokens if whole else None

    def _offered(self, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """The answer of a route that need not be there; None where it is not."""
        try:
            return self._send("POST", f"{self._base.removesuffix('/v1')}/{path}", body, "openai-chat", tries=1)
        except CacheunitError:
            return None

    def metrics(self) -> str | None:
        """The text of `/metrics`, None where there is none."""
        if self.sent >= self._bounds.requests:
            return None
        self.sent += 1
        try:
            answer = self._client.get(f"{self._base.removesuffix('/v1')}/metrics")
        except Exception:  # noqa: BLE001 - it need not be there
            return None
        return answer.text if answer.is_success else None

    def wait(self, seconds: float) -> None:
        """Waits."""
        _pause(seconds)

    def _post(self, path: str, body: Mapping[str, Any], form: FormatName) -> Any:  # noqa: ANN401 - JSON
        return self._send("POST", f"{self._base}/{path}", body, form)

    def _send(
        self, method: str, url: str, body: Mapping[str, Any] | None, form: FormatName, *, tries: int = _TRIES
    ) -> Any:  # noqa: ANN401 - JSON
        """One request, tried again where the server is busy or broke off."""
        fault: CacheunitError | None = None
        for attempt in range(tries):
            if self.sent >= self._bounds.requests:
                message = f"more than {self._bounds.requests} requests are needed"
                raise LimitReachedError(Fault(message=message, hint="--max-requests allows more"))
            self.sent += 1
            try:
                return self._answer(method, url, body, form)
            except _BusyError as busy:
                fault = busy.fault
                if attempt + 1 < tries:
                    _pause(min(busy.seconds or 2.0**attempt, _LONGEST_WAIT))
        raise fault or fail(f"{url} does not answer")

    def _answer(self, method: str, url: str, body: Mapping[str, Any] | None, form: FormatName) -> Any:  # noqa: ANN401
        import httpx

        try:
            answer = self._client.request(method, url, json=body, headers=self._headers(form))
        except httpx.TimeoutException:
            raise _BusyError(fail(f"{url} does not answer within {self._bounds.seconds:g} s")) from None
        except httpx.ConnectError as error:
            raise fail(f"cannot reach {url}: {self._masked(str(error))}", hint="is the server running?") from None
        except httpx.HTTPError as error:
            raise _BusyError(fail(f"{url} broke off: {self._masked(str(error))}")) from None
        self._refuse(answer, url)
        try:
            return answer.json()
        except ValueError:
            if answer.text.lstrip().startswith("<"):
                hint = "the URL is where the API begins, such as http://127.0.0.1:8000/v1"
                raise fail(f"{url} answers HTML, not JSON", hint=hint) from None
            raise _BusyError(fail(f"{url} broke off in the middle of its answer")) from None

    def _refuse(self, answer: httpx.Response, url: str) -> None:
        """Raises for an answer that is none."""
        if answer.is_success:
            return
        said = self._masked(_said(answer))
        status = answer.status_code
        if status in _BUSY or answer.is_server_error:
            raise _BusyError(fail(f"{url} answers {status}: {said}"), _retry_after(answer))
        if "max_completion_tokens" in said:
            raise _UnknownLimitError
        if status in _NO_ENTRY:
            hint = f"the key is read from {KEY_VARIABLE}, or from the variable that --key-env names"
            raise fail(f"{url} answers {status}: {said}", hint=hint)
        other = "--model names another model" if "model" in said else None
        kind = RequestRefusedError if status in _NOT_SO else CacheunitError
        raise kind(Fault(message=f"{url} answers {status}: {said}", hint=other))

    def _headers(self, form: FormatName) -> dict[str, str]:
        if form == "anthropic-messages":
            return {"anthropic-version": _VERSION, **({"x-api-key": self._key} if self._key else {})}
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def _masked(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def _is_host(url: str) -> bool:
    """Whether a URL names a host, and a port only if it is one."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", url)
    except ValueError:
        return False


def _pause(seconds: float) -> None:
    time.sleep(seconds)


class _BusyError(Exception):
    """Worth another try, after so many seconds where the server said how many."""

    def __init__(self, fault: CacheunitError, seconds: float | None = None) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.seconds = seconds


class _UnknownLimitError(Exception):
    """The model wants another word for the most tokens."""


def _client(seconds: float) -> httpx.Client:
    try:
        import httpx
    except ImportError:
        raise fail("this needs the package httpx", hint='pip install "cacheunit-build[live]"') from None
    return httpx.Client(timeout=seconds, follow_redirects=False)


def _retry_after(answer: httpx.Response) -> float | None:
    try:
        return max(0.0, float(answer.headers.get("retry-after", "")))
    except ValueError:
        return None


def _said(answer: httpx.Response) -> str:
    """What an error says, in few words."""
    try:
        error = answer.json()
    except ValueError:
        text = "HTML" if answer.text.lstrip().startswith("<") else answer.text
    else:
        error = error.get("error", error) if isinstance(error, dict) else error
        text = str(error.get("message", error)) if isinstance(error, dict) else json.dumps(error)
    return " ".join(text.split())[:_MOST_SHOWN]
