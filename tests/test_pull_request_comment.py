"""The action writes one comment for a project, finds it again by author and marker, and updates it in place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTION = Path(__file__).parent.parent / ".github/actions/cacheunit"
MARKER = "<!-- cacheunit services/bot -->\n"


@dataclass(slots=True)
class PullRequest:
    """A pull request on a server that speaks as much of GitHub's GraphQL API as the action uses.

    Attributes:
        url: the URL of the API.
        comments: the comments by id: their text, and whether the owner of the token wrote them.
        sent: the changes that were asked for.
        answer: an answer that is given in place of the usual one: status, headers, body.
        tokens: the Authorization header of each request.
        page: how many comments a page has.
    """

    url: str = ""
    comments: dict[str, tuple[str, bool]] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    answer: tuple[int, dict[str, str], bytes] | None = None
    tokens: list[str | None] = field(default_factory=list)
    page: int = 100

    def run(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        """Returns the data of a query."""
        if "addComment" in query:
            assert variables["id"] == "pull request 12"
            self.comments[f"c{len(self.comments)}"] = variables["body"], True
            self.sent.append("add")
        elif "updateIssueComment" in query:
            self.comments[variables["id"]] = variables["body"], True
            self.sent.append("update")
        else:
            assert (variables["owner"], variables["name"], variables["number"]) == ("acme", "shop", 12)
            start = int(variables["after"] or 0)
            nodes = [{"id": key, "body": text, "viewerDidAuthor": own} for key, (text, own) in self.comments.items()]
            info = {"endCursor": str(start + self.page), "hasNextPage": start + self.page < len(nodes)}
            comments = {"nodes": nodes[start : start + self.page], "pageInfo": info}
            return {"repository": {"pullRequest": {"id": "pull request 12", "comments": comments}}}
        return {"x": {"clientMutationId": None}}


@pytest.fixture
def pull_request() -> Iterator[PullRequest]:
    served = PullRequest()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Prints no log."""

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.tokens.append(self.headers["Authorization"])
            if served.answer is None:
                self.reply(200, {}, json.dumps({"data": served.run(request["query"], request["variables"])}).encode())
            else:
                self.reply(*served.answer)

        def do_GET(self) -> None:
            served.tokens.append(self.headers["Authorization"])
            self.reply(200, {}, b"{}")

        def reply(self, status: int, headers: dict[str, str], data: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}/graphql"
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def comment(pull_request: PullRequest, tmp_path: Path) -> Any:  # noqa: ANN401 - a function
    """Runs the step of the action that comments."""
    steps = yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    (step,) = (step for step in steps if "comment.py" in step.get("run", ""))

    def run(report: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
        file = tmp_path / "report.md"
        file.write_text(report, encoding="utf-8")
        known = {"TOKEN": "s3cret", "PULL_REQUEST": "12", "FOLDER": "./services/bot", "REPORT": str(file)}
        known |= {"STATUS": "0", "ACTION": str(ACTION), "GITHUB_REPOSITORY": "acme/shop"}
        known |= {"GITHUB_GRAPHQL_URL": pull_request.url, "no_proxy": "*"}
        known |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=tmp_path,
            env={**os.environ, **known, **environment},
            capture_output=True,
            check=False,
        )

    return run


def test_the_report_is_posted_once_and_updated_in_place(pull_request: PullRequest, comment: Any) -> None:  # noqa: ANN401
    report = "### Prompt cache: 1 changed\n\n`$(touch x)` \"'; exit 1\n| a |\n\n"
    assert comment(report).returncode == 0
    assert pull_request.comments == {"c0": (MARKER + report, True)}
    assert comment("### 2 changed\n").returncode == 0
    assert pull_request.comments == {"c0": (f"{MARKER}### 2 changed\n", True)}
    assert pull_request.sent == ["add", "update"]
    assert {*pull_request.tokens} == {"Bearer s3cret"}


def test_an_equal_report_changes_nothing(pull_request: PullRequest, comment: Any) -> None:  # noqa: ANN401
    pull_request.comments["c0"] = (f"{MARKER}same\nreport".replace("\n", "\r\n"), True)
    comment("same\nreport\n\n")
    assert pull_request.sent == []


def test_comments_of_others_and_of_other_projects_are_left_alone(
    pull_request: PullRequest,
    comment: Any,  # noqa: ANN401
) -> None:
    others = {
        "by somebody else": (f"{MARKER}forged", False),
        "of another project": ("<!-- cacheunit services -->\nold", True),
        "quoted": (f"> {MARKER}", True),
    }
    pull_request.comments.update(others)
    comment("new\n")
    assert pull_request.sent == ["add"]
    assert others.items() <= pull_request.comments.items()


def test_the_comment_is_found_on_a_later_page(pull_request: PullRequest, comment: Any) -> None:  # noqa: ANN401
    pull_request.comments.update({f"x{number}": ("talk", False) for number in range(5)})
    pull_request.comments["mine"] = (f"{MARKER}old", True)
    pull_request.page = 2
    comment("new\n")
    assert (pull_request.sent, pull_request.comments["mine"][0]) == (["update"], f"{MARKER}new\n")


@pytest.mark.parametrize(("status", "text"), [("0", "nothing to report"), ("2", "commands failed")])
def test_without_a_report_only_an_existing_comment_says_so(
    pull_request: PullRequest,
    comment: Any,  # noqa: ANN401
    status: str,
    text: str,
) -> None:
    assert comment("", STATUS=status).returncode == 0
    assert pull_request.comments == {}
    pull_request.comments["c0"] = (f"{MARKER}### 1 changed\n", True)
    comment("", STATUS=status)
    assert text in pull_request.comments["c0"][0]


def test_a_long_report_is_cut_behind_a_line_and_says_so(pull_request: PullRequest, comment: Any) -> None:  # noqa: ANN401
    comment("".join(f"| {number:06} | \U0001f600 |\n" for number in range(6_000)))
    ((body, _),) = pull_request.comments.values()
    assert 65_500 < len(body) <= 65_536
    assert body.startswith(f"{MARKER}**The report is longer than a comment may be")
    assert body.endswith(" | \U0001f600 |\n")


def test_a_folder_cannot_end_the_marker(pull_request: PullRequest, comment: Any) -> None:  # noqa: ANN401
    comment("x\n", FOLDER="a --> <b>")
    ((body, _),) = pull_request.comments.values()
    assert body == "<!-- cacheunit a%20--%3E%20%3Cb%3E -->\nx\n"


@pytest.mark.parametrize(
    "answer",
    [
        (403, {}, b"{}"),
        (200, {}, b'{"data": null, "errors": [{"type": "FORBIDDEN", "message": "no\\n::error::access"}]}'),
        (200, {}, b'{"data": {"repository": null}}'),
        (200, {}, b"no JSON"),
        (302, {"Location": "/elsewhere"}, b""),
    ],
)
def test_a_comment_that_github_refuses_is_one_warning(
    pull_request: PullRequest,
    comment: Any,  # noqa: ANN401
    answer: tuple[int, dict[str, str], bytes],
) -> None:
    pull_request.answer = answer
    ran = comment("new\n")
    assert (ran.returncode, ran.stderr, ran.stdout.count(b"\n")) == (0, b"", 1)
    assert ran.stdout.startswith(b"::warning title=cacheunit::the comment was not written: ")
    assert b"pull-requests: write" in ran.stdout
    assert len(pull_request.tokens) == 1, "a redirect would take the token elsewhere"


def test_without_a_token_the_step_fails(pull_request: PullRequest, comment: Any) -> None:  # noqa: ANN401
    ran = comment("new\n", TOKEN="")
    message = b'::error title=cacheunit::the input "comment" needs the input "token"\n'
    assert (ran.returncode, ran.stdout, pull_request.tokens) == (2, message, [])
