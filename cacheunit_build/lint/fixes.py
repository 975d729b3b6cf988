"""Replaces what rules report in the sources, where it is certain what is to stand there.

Each round lints the whole project in memory, since prefixes share files, and edits the places that literally hold what
is reported. A file is edited only if the project then still compiles, and no text changed but by these replacements.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cacheunit_build.compiler.project import manifest_names, read_project
from cacheunit_build.compiler.selection import select
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.selection import Selection
from cacheunit_build.lint.configuration import LintOptions
from cacheunit_build.lint.edits import EditedFiles, EditedProject, edited
from cacheunit_build.lint.fix_plan import LintedVersion, plan_fixes
from cacheunit_build.lint.linter import lint, lint_result
from cacheunit_build.lint.registry import RULES
from cacheunit_build.lint.results import LintResult
from cacheunit_build.lint.rules.cu3_characters import MIXED_NORMALIZATION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.domain.protocols import Adapters, ProgressCallback, ProjectFiles, SecretScanner
    from cacheunit_build.lint.edits import Edit
    from cacheunit_build.lint.fix_plan import FixPlan, Unfixed

_MOST_ROUNDS = 100
"""More rounds than any text needs: each one can find what the one before uncovered, or the next 500 of one kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixResult:
    """What can be fixed in a project. Nothing is written yet.

    Attributes:
        edits: the replacements, in the order of files and lines.
        unfixed: violations of rules with a fix that need a person.
        before: path -> the bytes of each file that changes.
        after: path -> the bytes that it is to have.
        left: the violations that are left with these bytes.
        folders: the folders of manifests and templates.
    """

    edits: tuple[Edit, ...] = ()
    unfixed: tuple[Unfixed, ...] = ()
    before: Mapping[str, bytes] = field(default_factory=dict)
    after: Mapping[str, bytes] = field(default_factory=dict)
    left: LintResult = LintResult(violations=())  # noqa: RUF009 - a frozen value
    folders: tuple[str, ...] = ()


def find_fixes(
    adapters: Adapters,
    selection: Selection | None = None,
    options: LintOptions | None = None,
    *,
    scan_secrets: SecretScanner | None = None,
    progress: ProgressCallback | None = None,
) -> FixResult:
    """Finds what can be fixed in the selected prefixes of a project, and what is left then. Nothing is written.

    Args:
        adapters: the outside world.
        selection: which prefixes and targets; everything if None.
        options: what the command line decides.
        scan_secrets: finds secrets for the report of what is left.
        progress: called with the number of manifests compiled, and of all.

    Raises:
        CacheunitError: every fault in the sources of the whole project, or in the selection.
    """
    selection, options = selection or Selection(), options or LintOptions()
    fixer = _Fixer(adapters, selection, options, progress)
    unfixed = fixer.run()
    after = dict(fixer.version.project.files.changed)
    project = fixer.version.project
    left = (
        lint(project, selection, options, scan_secrets=scan_secrets)
        if selection
        else lint_result(project, fixer.version.compiled, options, scan_secrets)
    )
    return FixResult(
        edits=tuple(sorted(fixer.edits, key=lambda edit: (edit.path, edit.line, edit.column))),
        unfixed=unfixed,
        before={path: adapters.files.read(path) or b"" for path in after},
        after=after,
        left=left,
        folders=(fixer.version.compiled.settings.prefixes, fixer.version.compiled.settings.templates),
    )


def write_fixes(files: ProjectFiles, result: FixResult) -> None:
    """Writes the edited files, all or none.

    Raises:
        CacheunitError: a file cannot be written, or is not what it was when it was read.
    """
    if not result.after:
        return
    with files.exclusive():
        for path, data in result.before.items():
            if files.fingerprint(path) != fingerprint(data):
                raise fail("the file changed while it was being fixed", path=path, hint="run it again")
        for folder in result.folders:
            files.remove_leftovers(folder)
        files.commit(result.after, (), None)


class _Fixer:
    """Plans edits in rounds, until none is left that can be verified.

    Attributes:
        version: the project with all edits so far.
        edits: these edits.
    """

    def __init__(
        self, adapters: Adapters, selection: Selection, options: LintOptions, progress: ProgressCallback | None
    ) -> None:
        self._adapters = adapters
        self._options = options
        self._refused: dict[str, str] = {}  # path -> why it is not edited
        self.edits: list[Edit] = []
        self.version = self._version({}, progress)
        settings, targets = read_project(adapters.files)
        manifests = dict(manifest_names(adapters.files, settings))
        self._selected = select(selection, manifests, targets, settings.prefixes)

    def _version(self, changed: Mapping[str, bytes], progress: ProgressCallback | None = None) -> LintedVersion:
        """Compiles the project with other bytes for some files."""
        files = EditedFiles(self._adapters.files, changed)
        project = EditedProject(files=files, tokenizers=self._adapters.tokenizers, encoder=self._adapters.encoder)
        return LintedVersion.compile(project, self._options, progress)

    def run(self) -> tuple[Unfixed, ...]:
        """Fixes what it can; returns what it cannot."""
        for _ in range(_MOST_ROUNDS):
            plan = plan_fixes(self.version, self._selected)
            for path in plan.edits:
                problem = self._adapters.files.edit_problem(path)
                if problem is not None:
                    self._refused.setdefault(path, problem)
            paths = [path for path in plan.edits if path not in self._refused]
            before = self.version
            accepted = self._accept(before, plan, paths, [])
            self.edits += [edit for path in accepted for edit in plan.edits[path]]
            if not accepted:
                return plan.unfixed_without(self._refused)
        return plan_fixes(self.version, self._selected).unfixed_without(self._refused)

    def _accept(
        self, before: LintedVersion, plan: FixPlan, paths: Sequence[str], accepted: Sequence[str]
    ) -> Sequence[str]:
        """Returns the files whose edits can be verified, together with those that are accepted already.

        Where they cannot, each half is tried, down to the single files to refuse.
        """
        if not paths:
            return accepted
        together = [*accepted, *paths]
        after, problem = self._try(before, plan, together)
        if after is not None and problem is None:
            self.version = after
            return together
        if len(paths) == 1:
            self._refused[paths[0]] = problem or ""
            return accepted
        middle = len(paths) // 2
        return self._accept(before, plan, paths[middle:], self._accept(before, plan, paths[:middle], accepted))

    def _try(
        self, before: LintedVersion, plan: FixPlan, paths: Sequence[str]
    ) -> tuple[LintedVersion | None, str | None]:
        """Returns the project with the edits of some files, and what is wrong with it; None for nothing."""
        files = before.project.files
        changed = {path: edited(files.read(path) or b"", plan.edits[path]) for path in paths}
        try:
            after = self._version({**files.changed, **changed})
        except CacheunitError as error:
            fault = error.faults[0]
            place = "" if fault.path is None else f"{fault.path}:{fault.line or 1}: "
            return None, f"the project would not compile: {place}{fault.message}"
        return after, _difference(before, after, plan, frozenset(paths))


def _difference(before: LintedVersion, after: LintedVersion, plan: FixPlan, paths: frozenset[str]) -> str | None:
    """Returns how a project with edits differs by more than its replacements; None where it does not."""
    old, new = before.texts(), after.texts()
    expected = plan.expected_texts(old, paths)
    for key in (*expected, *new):
        if key not in expected or key not in new or expected[key] != new[key].text:
            return f'"{key.prefix}" would change in other places too'
    if before.other_values() != after.other_values():
        return "values that are no text would change too"
    return _new_violation(before, after)


def _new_violation(before: LintedVersion, after: LintedVersion) -> str | None:
    """Returns which rule would find something new; None for none. Of very many in one text, not all are known."""
    old, new, texts = before.subjects(), after.subjects(), before.texts()
    for key, subjects in new.items():
        known = old.get(key, Counter())
        counts: Counter[str] = Counter()
        for (code, _), count in known.items():
            counts[code] += count
        for (code, subject), count in subjects.items():
            is_known = count <= known[code, subject] or texts[key].is_cut(counts[code])
            if not is_known and code != MIXED_NORMALIZATION.code:
                return f"it would cause {code} {RULES[code].name}"
    return None
