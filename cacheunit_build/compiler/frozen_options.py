"""The request options that a manifest freezes: which of its targets take them, and how the count includes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import did_you_mean
from cacheunit_build.domain.front_options import (
    RESPONSE_SCHEMA,
    TEMPLATE_VARIABLES,
    agrees,
    nested,
    not_frozen,
    split_by_name,
)
from cacheunit_build.domain.package_file import PackagedEncoder
from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.domain.cache_rule import OptionEffect
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.manifest import Manifest
    from cacheunit_build.domain.target import RequestOption, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenOptions:
    """The options of a manifest that one of its targets lists.

    Attributes:
        values: their values, by name.
        effects: what each of them changes, by name; without those whose value changes nothing, and without those that
            change only what stands in front of examples where there are none.
        arguments: what the frame gets of each of them, by name and argument; for an estimate on bare text, the mappings
            and lists. Empty for one that the count does not include.
        framed: whether the frame renders them where the model reads them.
        unfrozen: why the response schema of the manifest is not among them; None where it is, or there is none.
    """

    values: Mapping[str, Any]
    effects: Mapping[str, OptionEffect]
    arguments: Mapping[str, Mapping[str, Any]]
    framed: bool
    unfrozen: str | None = None

    @property
    def for_frame(self) -> Mapping[str, Any]:
        """What the frame gets of all options, by its argument."""
        return {name: value for arguments in self.arguments.values() for name, value in arguments.items()}

    @property
    def uncounted(self) -> tuple[str, ...]:
        """The names of the options that change the prefix, but that the count does not include."""
        return tuple(name for name, arguments in self.arguments.items() if not arguments)

    @property
    def hidden(self) -> Mapping[str, OptionEffect]:
        """The effects of the options that the token ids do not show, by option name."""
        return {name: effect for name, effect in self.effects.items() if not (self.framed and self.arguments.get(name))}

    def notes(self) -> Iterator[str]:
        """Yields what the count includes of them, and what it leaves out."""
        counted = [self._shown(name) for name, arguments in self.arguments.items() if arguments]
        if counted:
            yield f"{'passed to the frame' if self.framed else 'counted as JSON'}: {', '.join(counted)}"
        if self.uncounted:
            yield f"not counted: what {', '.join(map(self._shown, self.uncounted))} adds"
        if self.unfrozen is not None:
            yield f"the response schema is not frozen: {self.unfrozen}"

    def _shown(self, name: str) -> str:
        value = self.values[name]
        return name if isinstance(value, Mapping | list) else f"{name} = {_as_json(value)}"


def frozen_options(manifest: Manifest, target: Target) -> FrozenOptions:
    """Returns the options of a manifest that the target lists."""
    if not manifest.options:
        return FrozenOptions(values={}, effects={}, arguments={}, framed=not target.frame.plain)
    listed = {option.name: option for option in target.options}
    values, _ = split_by_name(nested(_own_options(manifest)), listed)
    schema_options = _schema_options(manifest, target)
    unfrozen = None
    if manifest.response_schema is not None and not listed.keys() & schema_options.keys():
        lacks = "target lists no option for it" if schema_options else f"format {target.request} has no place for one"
        unfrozen = f"the {lacks}" if schema_options else lacks
    else:  # an option that the target does not list goes with the one that it lists
        values = dict(sorted({**values, **schema_options}.items()))
    effects = {
        name: listed[name].effect
        for name, value in values.items()
        if name in listed
        and (manifest.examples or listed[name].effect != "examples")
        and not any(agrees(value, neutral) for neutral in listed[name].neutral)
    }
    return FrozenOptions(
        values=values,
        effects=effects,
        arguments={
            name: _arguments(target, listed[name], values[name])
            for name, effect in effects.items()
            if effect != "cache"
        },
        framed=not target.frame.plain,
        unfrozen=unfrozen,
    )


def _own_options(manifest: Manifest) -> Mapping[str, Any]:
    """Returns the options of a manifest that requests have under the same names: all but the response schema."""
    return {name: value for name, value in manifest.options.items() if name != RESPONSE_SCHEMA}


def _schema_options(manifest: Manifest, target: Target) -> Mapping[str, Any]:
    """Returns the request options by which a target's format sends the response schema of a manifest."""
    schema = manifest.response_schema
    return {} if schema is None else FORMATS[target.request].response_schema(schema)


def changed_options(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Returns the names of the options that two versions of a prefix freeze with different values, sorted."""
    return sorted(name for name in {*old, *new} if _as_json(old.get(name)) != _as_json(new.get(name)))


def hidden_effects(old: FrozenOptions, new: FrozenOptions) -> set[OptionEffect]:
    """Returns the effects of the options that differ between two versions.

    Only those where the token ids do not show the difference.
    """
    return {
        effect
        for name in changed_options(old.values, new.values)
        for side in (old, new)
        if (effect := side.hidden.get(name)) is not None
    }


def _as_json(value: object) -> str:
    """Returns a value as JSON, where true and 1 differ, and so do two orders of keys."""
    return json.dumps(value, ensure_ascii=False)


def _arguments(target: Target, option: RequestOption, value: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """Returns what the frame gets of an option, by its argument; nothing where it does not render the option.

    frame          option                                    value                     arguments
    template       reasoning_effort, argument "effort"       high                      {effort: high}
    template       chat_template_kwargs                      {enable_thinking: false}  {enable_thinking: false}
    template       chat_template_kwargs.enable_thinking      false                     {enable_thinking: false}
    fixed text     any                                       any                       {}
    none, for an   response_format                           {type: json_schema, …}    {response_format: {…}}
    estimate       reasoning_effort                          high                      {}
    """
    if target.frame.plain:
        by_another = target.tokenizer is not None and bool(target.tokenizer.margin)
        estimated = by_another or target.frame.estimate is not None
        return {option.name: value} if estimated and isinstance(value, Mapping | list) else {}
    encoder = target.frame.encoder
    if isinstance(encoder, PackagedEncoder) and option.name not in encoder.options:
        return {}
    if option.argument is not None:
        return {option.argument: option.values.get(value, value) if isinstance(value, str) else value}
    if option.name == TEMPLATE_VARIABLES and isinstance(value, Mapping):
        return value
    first, _, variable = option.name.partition(".")
    return {variable: value} if first == TEMPLATE_VARIABLES and variable else {}


def repeated_schema_faults(manifest: Manifest, targets: Sequence[Target]) -> Iterator[Fault]:
    """Yields a fault for each option that sets what the response schema sets in a request to one of the targets."""
    if manifest.response_schema is None:
        return
    names: dict[str, str] = {}
    for target in targets:
        listed = {option.name for option in target.options}
        for name in _schema_options(manifest, target).keys() & listed:
            names.setdefault(name, target.name)
    values, _ = split_by_name(nested(_own_options(manifest)), names)
    for name in values:
        message = f'"{name}" and "{RESPONSE_SCHEMA}" set the same for target "{names[name]}"'
        yield manifest.fault(message, *option_keys(manifest, name), hint="keep one of them")


def unlisted_options(manifest: Manifest, targets: Sequence[Target]) -> list[Fault]:
    """Returns a fault for each option of a manifest that none of its targets lists, or that cannot be frozen."""
    if not manifest.options:
        return []
    names = sorted({option.name for target in targets for option in target.options if not_frozen(option.name) is None})
    _, others = split_by_name(nested(_own_options(manifest)), names)
    problems = {name: problem for name in others if (problem := not_frozen(name)) is not None}
    faults = [
        manifest.fault(message, *option_keys(manifest, name), hint=hint) for name, (message, hint) in problems.items()
    ]
    listed = f"its targets list {', '.join(names)}" if names else "its targets list no options"
    return faults + [
        manifest.fault(
            f'no target of the manifest lists the option "{name}"',
            *option_keys(manifest, name),
            hint=did_you_mean(name, names) or listed,
        )
        for name in others
        if name not in problems
    ]


def option_keys(manifest: Manifest, name: str) -> tuple[str, ...]:
    """Returns the keys in the manifest under which an option is, by its dotted name.

    options: {reasoning: {effort: high}}  ->  options, reasoning, effort
    options: {reasoning.effort: high}     ->  options, reasoning.effort
    """
    for key in manifest.options:
        if name == key or name.startswith(f"{key}."):
            rest = name[len(key) + 1 :]
            return ("options", key, *(rest.split(".") if rest else ()))
    return ("options", *((RESPONSE_SCHEMA,) if RESPONSE_SCHEMA in manifest.options else ()))
