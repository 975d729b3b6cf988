"""CU109: what git prints about a work tree."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cacheunit_build.lint.rule import Rule, template_example
from cacheunit_build.lint.rules.cu1_dates import MOVE
from cacheunit_build.lint.segment import first_of_each_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.lint.segment import Match, Segment

GIT_STATE = Rule(
    code="CU109",
    name="git-state",
    severity="warning",
    meaning="the state of a git work tree: its branch, its commit, or what has changed",
    hint=MOVE,
    why=(
        "What git says about a work tree changes with each commit, each branch and each edited file. Prefixes "
        "that were built in two checkouts then differ, and a release changes the prefix even where no prompt has "
        "changed."
    ),
    bad=template_example("You work on branch: feature/checkout-form.\nYour version is v1.2.3-14-g1a2b3c4.\n"),
    good=template_example("The user message has the branch on which you work.\n"),
)

# "branch: main", "branch is feature/x": a name, not a word of a sentence
_BRANCH = re.compile(
    r"(?:branch|Branch|BRANCH)[`'\"*]{0,3} ?(?:[:=]{1,2}|is:?)[ `'\"*]{0,4}"
    r"(?:main|master|develop|trunk|[\w.-]+/(?:[\w./-]*\w)?)\b"
)
# In front of it: the start of a line, "current", "git_".
_BRANCH_BEFORE = re.compile(r"(?:^[ \t>*-]{0,8}|\b(?:current|active|checked[ -]out|git)[ _-])$", re.IGNORECASE)
_GIT_STATES = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        # The output of git status
        (
            r"On branch(?<![^\s`'\">:]On branch) [`'\"]?"
            r"(?:(?:main|master|develop|trunk)\b|\w[\w.-]*/(?:[\w./-]*\w)?|\w(?:[\w.-]*\w)?(?=[`'\".]{0,3}[ \t]*$))"
        ),
        r"(?:HEAD detached (?:at|from)|HEAD is now at) [`'\"]?\w(?:[\w./-]*\w)?",
        r"(?:you are|You are|currently|Currently|now) on (?:the )?(?:git )?branch [`'\"]?\w(?:[\w./-]*\w)?",
        r"on branch [`'\"]?\w[\w.-]*/(?:[\w./-]*\w)?",
        r"Switched to (?:a new )?branch '[^'\n]{1,100}'|\(HEAD -> [^)\n]{1,100}\)",
        r"\b\d{1,5} commits? (?:ahead of|behind)\b",
        r"Your branch (?:is (?:ahead of|behind|up to date with) '|and '[^'\n]{1,100}' have diverged)[^\n]{0,60}",
        r"(?:nothing|Nothing) (?:added )?to commit(?:, working (?:tree|directory) clean\b| \([^)\n]{1,90}\))",
        r"(?:(?:git|Git) status|(?:working|Working) tree): ?(?:clean|dirty)\b",
        r"nothing added to commit but|no changes added to commit\b|(?:working|Working) (?:tree|directory) clean\b",
        r"(?:Changes (?:to be committed|not staged for commit)|Untracked files|Unmerged paths|No commits yet):$",
        r"## (?:HEAD \(no branch\)|[\w./-]+\.\.\.[\w./-]+(?: \[(?:ahead|behind|gone)[^\]\n]{0,40}\])?)[ \t]*$",
    )
)
# 14-g1a2b3c4 of v1.2.3-14-g1a2b3c4, and g1a2b3c4 of 1.2.4.dev14+g1a2b3c4.d20261130
_DESCRIPTION = re.compile(r"(?:-\d{1,5}-|\+(?:\d{1,5}\.)?)g[0-9a-f]{7,40}(?:-dirty|\.\w{1,12})?(?![\w-])")
_VERSION_BEFORE = re.compile(r"(?<![\w/@.-])[\w.-]{1,60}$")
# A hash with digits and letters, shorter than what CU106 reports.
_SHORT_HASH = re.compile(r"(?<![\w@/#.+$-])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,31}(?![\w-]|\.\w)")
# What presents the commit that follows as the one at hand, in front of it: not "the commit 3f2b8c1 broke it".
_COMMIT_BEFORE = re.compile(
    r"(?:\b(?:at|on|from|of|current|latest|last|head|built|this|git)[ _-](?:commit|revision|sha|head)"
    r"(?:[ _-](?:hash|sha|id))?(?: is(?: now)?)?[^\w\n]{1,5}"
    r"|(?<![\w-])(?:(?:git|commit|revision|rev|build|source)(?:[ _-]?(?:commit|hash|sha|rev(?:ision)?|id))?"
    r"|head|sha|version)"
    r"(?:[`'\"*]{0,3} ?[:=(@][ `'\"(*]{0,4}| is (?:now )?[`'\"]?)"
    r"|\b(?:checked out|built|deployed|released|rendered|generated) (?:at|from) [`'\"]?"
    r"|\b(?:head|detached)(?: is)?(?: now)? at [`'\"]?"
    r"|(?:^|\()[ \t]*(?:commit|rev(?:ision)?|head) |^[ \t]*(?:[*|] )?)$",
    re.IGNORECASE,
)


def git_matches(segment: Segment) -> Iterator[Match]:
    """Yields states of a git work tree: its branch, its commit, and what has changed."""
    states = (_git_states(segment, pattern) for pattern in _GIT_STATES)
    yield from first_of_each_place((*states, _branches(segment), _git_descriptions(segment), _commits(segment)))


def _git_states(segment: Segment, pattern: re.Pattern[str]) -> Iterator[Match]:
    """Yields what git prints about a work tree."""
    for match in segment.finditer(pattern):
        yield segment.volatile_match(GIT_STATE, match.span(), f'"{match[0]}" is the state of a git work tree')


def _branches(segment: Segment) -> Iterator[Match]:
    """Yields the name of the branch as a value, with its label."""
    for match in segment.finditer(_BRANCH):
        before = _BRANCH_BEFORE.search(segment.line_before(match.start()))
        if before:
            span = (match.start() - len(before[0].lstrip(" \t>*-")), match.end())
            message = f'"{segment.text[span[0] : span[1]]}" is the state of a git work tree'
            yield segment.volatile_match(GIT_STATE, span, message)


def _git_descriptions(segment: Segment) -> Iterator[Match]:
    """Yields versions that `git describe` or a build tool made of a tag and a commit."""
    for match in segment.finditer(_DESCRIPTION):
        version = _VERSION_BEFORE.search(segment.line_before(match.start()))
        if version and any(map(str.isdigit, version[0])):
            span = (match.start() - len(version[0]), match.end())
            message = f'"{segment.text[span[0] : span[1]]}" is a version made of a git commit'
            yield segment.volatile_match(GIT_STATE, span, message)


def _commits(segment: Segment) -> Iterator[Match]:
    """Yields short hashes of commits that the text presents as the one at hand, or lists at the start of a line."""
    for match in segment.finditer(_SHORT_HASH):
        before = segment.line_before(match.start())
        in_list = not before.strip(" \t*|") and not segment.text.startswith(" ", match.end())
        if _COMMIT_BEFORE.search(before) and not in_list:
            yield segment.volatile_match(GIT_STATE, match.span(), f'"{match[0]}" is the hash of a commit')
