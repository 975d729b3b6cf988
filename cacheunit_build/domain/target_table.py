"""The table of a target in TOML: applies what it refers to, other targets and models, and the former names of keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean
from cacheunit_build.domain.model_names import same_family
from cacheunit_build.domain.tool_limit import merged_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LONGEST_CHAIN = 20

_FORMER_KEYS = {"models": "model_ids"}
_FORMER_CACHE_KEYS = {"primes": "warm_up_requests"}
"""Former name -> present name of keys of a target, and of those in `cache`."""

_KEYS_OF_RULE = ("request", "cache", "options", "tool_limits")
"""What a target takes of another one whose cache rule it names."""
_KEYS_OF_MODEL = ("tokenizer", "frame", "evidence")
"""What a target takes of the model that it names."""
_SOURCES = {
    "tokenizer": ("package", "file", "path", "encoding", "estimate"),
    "frame": ("before", "after", "chat_template", "encoder"),
}
"""The keys that say where the contents of a table come from; without any of them, it is merged with its base."""
_KEYS_OF_FOLDER = ("encoder", "path")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTables:
    """The tables that a target may be made of, by name.

    Attributes:
        project: the targets of the project. One that is named like a known target and extends no other is laid over it.
        known: the targets of the package, with what they refer to applied.
        models: the models of the package: what they count by, and how they frame a conversation.
    """

    project: Mapping[str, Mapping[str, Any]]
    known: Mapping[str, Mapping[str, Any]]
    models: Mapping[str, Mapping[str, Any]]


class TargetReferenceError(CacheunitError):
    """A target refers to what does not exist.

    Attributes:
        keys: the keys in the table of the target under which the reference is.
    """

    def __init__(self, message: str, *keys: str, hint: str | None = None) -> None:
        super().__init__(Fault(message=message, hint=hint))
        self.keys = keys


def whole_table(name: str, tables: TargetTables) -> dict[str, Any]:
    """Returns the table of a target of the project, or else of the package, with everything that it refers to.

    What a table refers to is applied in this order, each over the one before; keys of its own come last:

        extends = "vllm"          the whole table of a target
        cache = "vllm"            the cache rule, request format, options and limits of a target
        cache.extends = "vllm"    the same, where the table has keys of the cache rule itself
        model = "qwen-3.5"        the vocabulary and the frame of a model

    Raises:
        TargetReferenceError: the table refers to an unknown target or model, or targets refer to each other in a cycle.
    """
    table = _whole(name, tables, (), own=name in tables.project)
    rule = table.get("cache", {})
    if "model" in table and "request" not in table and isinstance(rule, dict):
        hint = 'add the name of a target that has it: cache = "vllm"'
        raise TargetReferenceError("the target names a model, but no cache rule", "model", hint=hint)
    return table


def _whole(name: str, tables: TargetTables, chain: tuple[tuple[str, bool], ...], *, own: bool) -> dict[str, Any]:
    """Returns a whole table; `own` says whether it is the project's, or else the known one of that name."""
    chain = (*chain, (name, own))
    table = _with_present_keys((tables.project if own else tables.known)[name])
    base = table.pop("extends", name if own and name in tables.known else None)
    merged = {} if base is None else _referred(base, tables, chain, "extends")
    reference, *keys = _rule_reference(table)
    if reference is not None:
        rule = _referred(reference, tables, chain, *keys)
        merged = _replaced(merged, _KEYS_OF_RULE, rule)
    if "model" in table:
        model = table.pop("model")
        merged = {**_replaced(merged, _KEYS_OF_MODEL, _model(model, tables)), "model": _model_name(model)}
    return _overlaid(merged, table)


def _referred(name: object, tables: TargetTables, chain: tuple[tuple[str, bool], ...], *keys: str) -> dict[str, Any]:
    """Returns the whole table of a target that another one refers to at `keys`."""
    if not isinstance(name, str):
        message = f'"{".".join(keys)}" must be the name of a target'
        raise TargetReferenceError(message, *keys, hint=f'{keys[-1]} = "vllm"')
    if name not in tables.project and name not in tables.known:
        hint = did_you_mean(name, {**tables.known, **tables.project}) or '"cacheunit targets" lists the known ones'
        raise TargetReferenceError(f'unknown target "{name}"', *keys, hint=hint)
    # A target may extend the known one of its own name.
    own = name in tables.project and not (chain[-1] == (name, True) and name in tables.known)
    if (name, own) in chain:
        names_in_order = " -> ".join([*(link for link, _ in chain), name])
        raise TargetReferenceError(f"targets extend each other in a cycle: {names_in_order}", *keys)
    if len(chain) >= _LONGEST_CHAIN:
        raise TargetReferenceError(f"more than {_LONGEST_CHAIN} targets extend each other", *keys)
    try:
        return _whole(name, tables, chain, own=own)
    except TargetReferenceError as error:
        error.keys = keys
        raise


def _rule_reference(table: dict[str, Any]) -> tuple[Any, ...]:
    """Takes the name of the target whose cache rule a table starts from out of it.

    Returns:
        The name, and the keys under which it is; None alone where there is no such name.
    """
    rule = table.get("cache")
    if isinstance(rule, str):
        del table["cache"]
        return rule, "cache"
    if isinstance(rule, dict) and "extends" in rule:
        table["cache"] = {key: value for key, value in rule.items() if key != "extends"}
        return rule["extends"], "cache", "extends"
    return (None,)


def _replaced(merged: dict[str, Any], keys: tuple[str, ...], other: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a table whose values under `keys` are those of another one, or absent where that has none."""
    kept = {key: value for key, value in merged.items() if key not in keys}
    return {**kept, **{key: other[key] for key in keys if key in other}}


def _model(model: object, tables: TargetTables) -> Mapping[str, Any]:
    """Returns the vocabulary and the frame of a model, by its name or its folder in the project."""
    if not isinstance(model, str):
        return _folder_model(model)
    if model in tables.models:
        return tables.models[model]
    listed = f"the models are {', '.join(sorted(tables.models))}"
    hint = did_you_mean(model, same_family(model, tables.models)) or listed
    raise TargetReferenceError(f'unknown model "{model}"', "model", hint=hint)


def _folder_model(model: object) -> dict[str, Any]:
    """Returns the vocabulary and the frame of a model whose files are in a folder, as Hugging Face lays them out."""
    texts = isinstance(model, dict) and all(isinstance(value, str) and value for value in model.values())
    if not isinstance(model, dict) or not texts or "path" not in model or not model.keys() <= set(_KEYS_OF_FOLDER):
        hint = 'model = {path = "DIR"}, with encoder = "FILE.py:FUNCTION" if it has one'
        raise TargetReferenceError('"model" must be the name of a model, or name its folder', "model", hint=hint)
    folder = model["path"].rstrip("/")
    encoder = model.get("encoder")
    framed = {"encoder": f"{folder}/{encoder}"} if encoder else {"chat_template": f"{folder}/tokenizer_config.json"}
    return {"tokenizer": {"path": f"{folder}/tokenizer.json"}, "frame": framed}


def _model_name(model: Any) -> str:  # noqa: ANN401 - a name, or a table with a path
    return str(model["path"] if isinstance(model, dict) else model)


def _with_present_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a table whose keys with former names have their present names."""
    renamed = {_present(key, table, _FORMER_KEYS): value for key, value in table.items()}
    rule = table.get("cache")
    if isinstance(rule, dict):
        renamed["cache"] = {_present(key, rule, _FORMER_CACHE_KEYS): value for key, value in rule.items()}
    return renamed


def _present(key: str, table: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Returns the present name of a key; its own where the table has both."""
    name = names.get(key, key)
    return key if name in table else name


def _overlaid(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `over` laid over `base`: tables are merged, other values replaced.

    A vocabulary and a frame of another source, and a cache rule of another kind, replace the whole table of the base.
    Options are merged by name, limits of tools by kind and effect.
    """
    merged = dict(base)
    for key, value in over.items():
        old: Any = merged.get(key)
        if key in _MERGED_LISTS and isinstance(value, list) and isinstance(old, list):
            merged[key] = _MERGED_LISTS[key](old, value)
            continue
        merges = isinstance(value, dict) and isinstance(old, dict) and _merges(key, old, value)
        merged[key] = _overlaid(_without_fixed_text(key, old), value) if merges else value
    return merged


def _without_fixed_text(key: str, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a table of the base; a frame without the text that an encoder puts around a system text.

    With other arguments, the encoder may put other text there.
    """
    if key == "frame" and "encoder" in table:
        return {name: value for name, value in table.items() if name not in ("before", "after")}
    return table


def _merged_options(base: list[Any], over: list[Any]) -> list[Any]:
    """Returns the options of `base` and `over`; one of the same name replaces that of the base."""
    names = [option.get("name") for option in over if isinstance(option, dict)]
    kept = [option for option in base if not (isinstance(option, dict) and option.get("name") in names)]
    return [*kept, *over]


_MERGED_LISTS: Mapping[str, Callable[[list[Any], list[Any]], list[Any]]] = {
    "options": _merged_options,
    "tool_limits": merged_limits,
}
"""The function that merges the list under a key with that of the base."""


def _merges(key: str, base: Mapping[str, Any], over: Mapping[str, Any]) -> bool:
    """Returns whether a table is merged with that of its base, and does not replace it."""
    if key == "cache":
        return bool(over.get("kind", base.get("kind")) == base.get("kind"))
    return not any(source in over for source in _SOURCES.get(key, ()))
