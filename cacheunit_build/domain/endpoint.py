"""The protocol of an endpoint: a server of models that requests are sent to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from cacheunit_build.domain.errors import CacheunitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.domain.endpoint_route import EndpointRoute
    from cacheunit_build.domain.usage import Usage


class LimitReachedError(CacheunitError):
    """The limit of requests or tokens for an endpoint is reached."""


class RequestRefusedError(CacheunitError):
    """An endpoint works, but refuses this request."""


class Endpoint(Protocol):
    """A live endpoint of an LLM API; the number of requests is limited."""

    @property
    def requests_sent(self) -> int:
        """The number of requests sent so far, retries included."""

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

    def ask(self, route: EndpointRoute, model: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """Returns the JSON that a route answers to a body; raises what `send` raises."""

    def models(self) -> Sequence[str]:
        """Returns the names of the models that it serves; empty where it does not list them."""

    def tokenize(self, model: str, text: str) -> Sequence[int] | None:
        """Returns the token ids of a text; None where the endpoint has no route for that."""

    def tokenize_chat(self, body: Mapping[str, Any]) -> Sequence[int] | None:
        """Returns the token ids that the model reads for a chat request; None where there is no route for that."""

    def metrics(self) -> str | None:
        """Returns the server's metrics in Prometheus' text format; None where it has none."""

    def wait(self, seconds: float) -> None:
        """Waits before the next request."""
