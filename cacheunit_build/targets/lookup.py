"""Finds a target by its name, or by the id of one of its models, as APIs and gateways spell it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.domain.model_names import is_listed_model, same_family
from cacheunit_build.targets.loader import known_targets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cacheunit_build.domain.target import Target

_BEDROCK_ID = re.compile(r"(?:[a-z]{2,6}\.)?[a-z0-9]+\.[a-z].*")
"""An id of Amazon Bedrock, such as us.anthropic.claude-opus-4-8-v1:0: its maker stands in front of a dot."""


def find_target(name: str, targets: Mapping[str, Target]) -> Target | None:
    """Returns the target of that name, or the one with a model of that id; None where there is none.

    An id may have a date at the end, and the name of a provider in front. Targets of the project come before known
    ones; a target that only inherits a list of models is not found by it.

        deepseek-v4               the target of that name
        claude-sonnet-4-5         the target that lists "Claude Sonnet 4.5"
        gpt-5.2-2025-12-11        the target that lists "gpt-5.2"
        openai/gpt-5.2            the same, only among targets whose name begins with "openai"

    Raises:
        CacheunitError: targets of several providers list the model.
    """
    if name in targets:
        return targets[name]
    found = _with_model(name, targets)
    if len(found) > 1:
        providers = " or ".join(f'"{target.name}/{name}"' for target in found)
        raise fail(f'several targets list the model "{name}"', hint=f"say which one is meant: {providers}")
    return found[0] if found else None


def named_target(name: str, targets: Mapping[str, Target]) -> Target:
    """Returns the target of that name, or the one with a model of that id.

    Raises:
        CacheunitError: there is none, or there are several.
    """
    target = find_target(name, targets)
    if target is None:
        raise CacheunitError(unknown_target(name, targets))
    return target


def unknown_target(name: str, targets: Mapping[str, Target]) -> Fault:
    """Returns the fault for a name that no target has, with a similar name of the same family, or the family's targets.

    claude-sonnet-4-9        did you mean "claude-sonnet-4-6"?
    openai/gpt-5.9           did you mean "gpt-5.6"?
    google/gemini-3-ultra    targets of that family: gemini, gemini-explicit
    """
    near, models = _family(name, targets)
    provider, _, model = name.rpartition("/")
    siblings = same_family(model, models) if same_family(provider, near) else []
    hint = did_you_mean(model, siblings) if siblings else did_you_mean(name, [*near, *models] or targets)
    if hint is None:
        hint = f"targets of that family: {', '.join(near)}" if near else '"cacheunit targets" lists the known ones'
    return Fault(message=f'unknown target "{name}"', hint=hint)


def _family(name: str, targets: Mapping[str, Target]) -> tuple[list[str], list[str]]:
    """Returns the targets of the family of a model, and the models that they list; none where it has none.

    The family is that of the provider in front of a slash, where there are targets of it, or else that of the model.
    """
    parts = ["bedrock"] if _BEDROCK_ID.fullmatch(name) else name.split("/")
    families = [family for part in parts if (family := same_family(part, target_names(targets)))]
    near = [target for target in targets.values() if families and _has_any(target, families[0])]
    models = [_as_id(model) for target in near if target.names_models for model in target.model_ids]
    return [target.name for target in near], models


def _has_any(target: Target, names: Iterable[str]) -> bool:
    """Returns whether one of these names is that of a target, or of a model that it lists itself."""
    return target.name in names or (target.names_models and any(_as_id(model) in names for model in target.model_ids))


def target_names(targets: Mapping[str, Target]) -> Iterable[str]:
    """Returns the names of all targets, and the ids of all models as APIs spell them."""
    return [*targets, *(_as_id(model) for target in targets.values() for model in target.model_ids)]


def _as_id(model: str) -> str:
    """Returns the id of a model that is listed by its name: claude-sonnet-4-5 for "Claude Sonnet 4.5"."""
    return re.sub(r"[ .]", "-", model.casefold()) if " " in model else model


def _with_model(name: str, targets: Mapping[str, Target]) -> list[Target]:
    """Returns the targets that list a model; those of the project alone where there are any."""
    provider, slash, model = name.partition("/")
    if _BEDROCK_ID.fullmatch(name):
        provider, slash = "bedrock", "/"
    naming = [target for target in targets.values() if target.names_models]
    listed = [target for target in naming if is_listed_model(name, target.model_ids)]
    scoped = [target for target in listed if target.name == provider or target.name.startswith(f"{provider}-")]
    if slash and (scoped or any(known.startswith(provider) for known in targets)):
        listed = scoped
    known = known_targets()
    listed = [target for target in listed if known.get(target.name) != target] or listed
    return [target for target in listed if {name, model} & set(target.model_ids)] or listed
