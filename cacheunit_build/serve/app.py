"""The application that serves the live page: the page and its two files, and what it shows as JSON and as events.

| path | answer |
| --- | --- |
| `/`, `/page.css`, `/page.js` | the page |
| `/state` | the list, the faults and the comparisons |
| `/text?prefix=…&target=…&number=…` | the chunks of the text of an artifact, without their tokens |
| `/chunk?…&chunk=…` | the rows and tokens of one chunk |
| `/lint?…` | what lint finds in the prefix |
| `/events` | an event with the number of the state whenever there is another one |

`number` is that of the state that the page shows: where there is another one meanwhile, the answer is null.
"""

from __future__ import annotations

import json
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from cacheunit_build.serve.live_state import NotCurrentError
from cacheunit_build.serve.security import PAGE, AccessMiddleware

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from cacheunit_build.serve.live_state import LiveState
    from cacheunit_build.serve.security import Access

PAGE_FILES = {
    PAGE: ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}


def live_app(state: LiveState, access: Access) -> Starlette:
    """Returns the application.

    Args:
        state: what the page shows.
        access: who may read it.
    """
    routes = [Route(path, partial(_file, data, media_type)) for path, (data, media_type) in _page_files().items()]
    routes += [
        Route("/state", lambda _: Response(state.json(), media_type="application/json")),
        Route("/text", _answer(lambda query: state.text_index(query.key, query.number))),
        Route("/chunk", _answer(lambda query: state.text_chunk(query.key, query.number, query.chunk))),
        Route("/lint", _answer(lambda query: state.violations(query.key, query.number))),
        Route("/events", lambda _: EventSourceResponse(_events(state))),
    ]
    return Starlette(routes=routes, middleware=[Middleware(AccessMiddleware, access=access)])


def _page_files() -> dict[str, tuple[bytes, str]]:
    """Returns path -> bytes and media type of each file of the page."""
    folder = files("cacheunit_build.serve") / "page"
    return {path: ((folder / name).read_bytes(), media_type) for path, (name, media_type) in PAGE_FILES.items()}


def _file(data: bytes, media_type: str, _: Request) -> Response:
    return Response(data, media_type=media_type)


class _Query:
    """What a request asks for; raises ValueError where a number is none."""

    def __init__(self, request: Request) -> None:
        parameters = request.query_params
        self.key = parameters.get("prefix", ""), parameters.get("target", "")
        self.number = int(parameters.get("number", ""))
        self.chunk = int(parameters.get("chunk", "0"))


def _answer(values: Callable[[_Query], dict[str, Any]]) -> Callable[[Request], Response]:
    """Returns a function that answers requests with JSON values; it runs in a thread of its own."""

    def answer(request: Request) -> Response:
        try:
            content = json.dumps(values(_Query(request)))
        except NotCurrentError:
            content = json.dumps(None)
        except ValueError:
            return PlainTextResponse("A number is needed.", 400)
        return Response(content, media_type="application/json")

    return answer


async def _events(state: LiveState) -> AsyncIterator[dict[str, str]]:
    """Yields an event for each state."""
    async for number in state.numbers():
        yield {"event": "state", "id": f"{number}", "data": f"{number}"}
