"""Writes the report of the action into one comment of a pull request, and updates that comment at later pushes.

The comment is found by its author, who must be the one that the token stands for, and by a marker with the folder of
the project: anybody can write the marker. What the report says is data; it reaches GitHub as a JSON string only.

Environment: TOKEN, PULL_REQUEST (number), FOLDER (of the project), REPORT (path of the Markdown), STATUS (exit code of
the commands); GITHUB_REPOSITORY and GITHUB_GRAPHQL_URL of the runner. A comment that cannot be written is a warning.

GraphQL says whether the owner of the token wrote a comment (`viewerDidAuthor`), for tokens of users and of workflows
alike. REST says who wrote it, but refuses to say who the owner of the token of a workflow is.
https://docs.github.com/en/graphql/reference/objects#issuecomment (documented)
https://github.com/marocchino/sticky-pull-request-comment/pull/332 (measured by its author)
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

MOST_CHARACTERS = 65_536
"""The most characters of a comment: beyond, GitHub answers "Body is too long (maximum is 65536 characters)".

https://github.com/telia-oss/github-pr-resource/issues/259 (measured by its author)
"""
MOST_BYTES = 32 * 1024 * 1024
SECONDS = 30
CUT = "**The report is longer than a comment may be: its end is left out.** The summary of the job has all of it.\n\n"
NO_DIFFERENCE = "Prompt cache: nothing to report. The lock matches the sources, and no prefix changed.\n"
FAILED = "Prompt cache: the commands failed, and reported nothing. See the log of the job.\n"

COMMENTS = """
query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      id
      comments(first: 100, after: $after) {
        nodes { id body viewerDidAuthor }
        pageInfo { endCursor hasNextPage }
      }
    }
  }
}
"""
ADD = "mutation($id: ID!, $body: String!) { addComment(input: {subjectId: $id, body: $body}) { clientMutationId } }"
UPDATE = """
mutation($id: ID!, $body: String!) { updateIssueComment(input: {id: $id, body: $body}) { clientMutationId } }
"""


class RefusedError(Exception):
    """GitHub refused a request, or could not be reached."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which would take the token to another host."""

    def redirect_request(self, *_: Any) -> None:
        """Returns no request, so that the answer is an error."""


def main() -> int:
    """Writes the comment; returns the exit code."""
    env = os.environ
    if not env.get("TOKEN"):
        sys.stdout.write(command("error", 'the input "comment" needs the input "token"'))
        return 2
    marker = marker_of(env["FOLDER"])
    report = Path(env["REPORT"]).read_text(encoding="utf-8")
    try:
        write_comment(marker, report, failed=env.get("STATUS", "0") != "0")
    except RefusedError as error:
        hint = 'a comment needs "permissions: pull-requests: write"; pull requests from forks have a read-only token'
        sys.stdout.write(command("warning", f"the comment was not written: {error}\nhint: {hint}"))
    return 0


def marker_of(folder: str) -> str:
    """Returns the first line of the comment for a project in a folder: invisible, and without an end of its own."""
    return f"<!-- cacheunit {urllib.parse.quote(os.path.normpath(folder).replace(os.sep, '/'))} -->\n"


def write_comment(marker: str, report: str, *, failed: bool) -> None:
    """Adds the comment, or updates it if it differs; without a report, none is added."""
    subject, comment = find_comment(marker)
    if not report and comment is None:
        return
    body = marker + cut(report or (FAILED if failed else NO_DIFFERENCE), MOST_CHARACTERS - len(marker))
    if comment is None:
        ask(ADD, {"id": subject, "body": body})
    elif comment["body"].rstrip("\n") != body.rstrip("\n"):
        ask(UPDATE, {"id": comment["id"], "body": body})


def find_comment(marker: str) -> tuple[str, dict[str, str] | None]:
    """Returns the id of the pull request, and the comment of this token with the marker; None where there is none."""
    owner, _, name = os.environ["GITHUB_REPOSITORY"].partition("/")
    variables: dict[str, Any] = {"owner": owner, "name": name, "number": int(os.environ["PULL_REQUEST"]), "after": None}
    while True:
        data = ask(COMMENTS, variables)
        try:
            pull_request = data["repository"]["pullRequest"]
            comments, subject = pull_request["comments"], str(pull_request["id"])
            for comment in comments["nodes"]:
                if comment["viewerDidAuthor"] and comment["body"].replace("\r\n", "\n").startswith(marker):
                    return subject, {"id": str(comment["id"]), "body": comment["body"].replace("\r\n", "\n")}
            more, variables["after"] = comments["pageInfo"]["hasNextPage"], comments["pageInfo"]["endCursor"]
        except (KeyError, TypeError, AttributeError):
            raise RefusedError("the answer of GitHub has another form than expected") from None
        if not more:
            return subject, None


def ask(query: str, variables: dict[str, Any]) -> dict[str, Any]:
    """Sends a query to GitHub and returns its data.

    Raises:
        RefusedError: it was refused, or failed.
    """
    url = os.environ.get("GITHUB_GRAPHQL_URL") or "https://api.github.com/graphql"
    if not url.startswith(("https://", "http://")):
        raise RefusedError(f"{url} is not a valid API URL")
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}", "Content-Type": "application/json"}
    headers["User-Agent"] = "cacheunit-action"
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")  # noqa: S310 - checked above
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=SECONDS) as response:
            answer = json.loads(response.read(MOST_BYTES))
    except urllib.error.HTTPError as error:
        error.close()
        raise RefusedError(f"HTTP {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        raise RefusedError(str(error)) from None
    if not isinstance(answer, dict) or answer.get("errors") or not isinstance(answer.get("data"), dict):
        raise RefusedError(error_text(answer))
    data: dict[str, Any] = answer["data"]
    return data


def error_text(answer: object) -> str:
    """Returns the messages of an answer without data."""
    errors = answer.get("errors") if isinstance(answer, dict) else None
    messages = [str(error.get("message")) for error in errors or () if isinstance(error, dict)]
    return "; ".join(messages) or "the answer of GitHub has no data"


def cut(report: str, most: int) -> str:
    """Returns at most that many characters: whole lines, below one that says that the end is missing."""
    if len(report) <= most:
        return report
    kept = report[: most - len(CUT)]
    return CUT + kept[: kept.rfind("\n") + 1]


def command(level: str, message: str) -> str:
    """Returns a workflow command, in which nothing of the message can begin another one."""
    for character, escaped in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        message = message.replace(character, escaped)
    return f"::{level} title=cacheunit::{message}\n"


if __name__ == "__main__":
    sys.exit(main())
