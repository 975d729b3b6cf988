"""Lists all lint rules, and selects rules by code, group or name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean
from cacheunit_build.lint.rules import cu1_volatile, cu2_leaks, cu3_characters, cu4_layout, cu5_project, cu6_tools

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cacheunit_build.lint.rule import Rule

GROUPS = {
    "CU1": "volatile",
    "CU2": "leaks",
    "CU3": "characters",
    "CU4": "layout",
    "CU5": "project",
    "CU6": "tools",
}
"""The first three characters of a code -> the name of its group; its module in `rules` has both in its name."""

RULES: dict[str, Rule] = {
    rule.code: rule
    for module in (cu1_volatile, cu2_leaks, cu3_characters, cu4_layout, cu5_project, cu6_tools)
    for rule in module.RULES
}
"""Every rule by its code, in the order of codes."""

FORMER_NAMES = {"soft-boundary": "CU404", "variants-part-early": "CU405", "prefixes-part-early": "CU406"}
"""Names that rules had in earlier versions, still accepted in options and ignore comments -> code."""

_NAMES = (
    FORMER_NAMES | {name: group for group, name in GROUPS.items()} | {rule.name: rule.code for rule in RULES.values()}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSelection:
    """The rules that a run reports.

    | select | ignore | CU101 is                                     |
    | ------ | ------ | -------------------------------------------- |
    | (none) | (none) | reported: no `select` means every rule       |
    | (none) | CU1    | not reported                                 |
    | CU102  | (none) | not reported                                 |
    | CU101  | CU1    | reported: the longer, more specific one wins |
    | CU101  | CU101  | not reported: `ignore` wins a tie            |

    Attributes:
        select: codes or the beginnings of codes to report.
        ignore: codes or the beginnings of codes not to report.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def includes(self, code: str) -> bool:
        """Returns whether violations of this rule are reported."""
        selected = _longest_match(self.select, code) if self.select else 1
        return selected > _longest_match(self.ignore, code)

    def over(self, settings: RuleSelection) -> RuleSelection:
        """Returns this selection, of the command line, together with that of the settings, over which it wins.

        | settings      | command line   | result                                             |
        | ------------- | -------------- | -------------------------------------------------- |
        | select CU1    | select CU2     | CU2                                                |
        | select CU101  | ignore CU1     | nothing                                            |
        | ignore CU102  | select CU102   | CU102                                              |
        | ignore CU102  | select CU1     | CU1 without CU102: the more specific one wins      |
        """
        if not self.select:
            ignored = tuple(code for code in RULES if _longest_match(self.ignore, code))
            return RuleSelection(select=settings.select, ignore=(*settings.ignore, *ignored))
        still_ignored = (
            code for code in RULES if _longest_match(settings.ignore, code) > _longest_match(self.select, code)
        )
        return RuleSelection(select=self.select, ignore=(*self.ignore, *still_ignored))


def _longest_match(prefixes: tuple[str, ...], code: str) -> int:
    """Returns the length of the longest of the prefixes that the code starts with; 0 where there is none."""
    return max((len(prefix) for prefix in prefixes if code.startswith(prefix)), default=0)


def select_rules(select: Iterable[str], ignore: Iterable[str]) -> RuleSelection:
    """Returns the selection for the values of `--select` and `--ignore`.

    Args:
        select: values of `--select`; each is one code, group or name, or several separated by commas.
        ignore: values of `--ignore`, in the same form.

    Raises:
        CacheunitError: one fault for each unknown code, group or name.
    """
    options = {"select": _split(select), "ignore": _split(ignore)}
    faults = [
        Fault(message=f'--{option}: unknown rule "{word}"', hint=unknown_rule_hint(word))
        for option, words in options.items()
        for word in words
        if code_prefix(word) is None
    ]
    if faults:
        raise CacheunitError(*faults)
    select_codes, ignore_codes = (tuple(filter(None, map(code_prefix, words))) for words in options.values())
    return RuleSelection(select=select_codes, ignore=ignore_codes)


def find_rule(word: str) -> Rule:
    """Returns the rule with a code or a name.

    Raises:
        CacheunitError: there is none; the hint of a group lists its rules.
    """
    prefix = code_prefix(word)
    if prefix in RULES:
        return RULES[prefix]
    if prefix is None:
        raise CacheunitError(Fault(message=f'unknown rule "{word}"', hint=unknown_rule_hint(word)))
    names = ", ".join(code for code in RULES if code.startswith(prefix))
    raise CacheunitError(Fault(message=f'"{word}" is a group of rules, not one rule', hint=f"choose one of {names}"))


def _split(values: Iterable[str]) -> list[str]:
    """Returns the words of option values that may hold several, separated by commas."""
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


def code_prefix(word: str) -> str | None:
    """Returns the beginning of all codes that a word selects; None where it selects no rule.

    | word               | result |
    | ------------------ | ------ |
    | CU101, timestamp   | CU101  |
    | CU1, CU1xx, volatile | CU1  |
    | CU                 | CU     |
    | CU9, tiemstamp     | None   |
    """
    upper = word.upper()
    prefix = upper.rstrip("X") if len(upper) == len("CU1XX") else upper
    if prefix in RULES or prefix in GROUPS or prefix == "CU":
        return prefix
    return _NAMES.get(word.lower())


def unknown_rule_hint(word: str) -> str:
    """Returns a hint for a word that selects no rule: the most similar code or name, or how to list them."""
    names = [*RULES, *GROUPS, *(rule.name for rule in RULES.values()), *GROUPS.values()]
    is_code = word.upper().startswith("CU")
    similar = did_you_mean(word.upper() if is_code else word.lower(), names)
    return similar or 'run "cacheunit lint --codes" to list all rules'
