"""The first half of the story: manifests -> variants -> texts -> requests -> plans -> artifacts, in memory."""

from __future__ import annotations

import bisect
import unicodedata
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.align import pad_text_to
from cacheunit_build.boundary import static_tokens
from cacheunit_build.compose import compose, freeze_fragment, freeze_text
from cacheunit_build.config import parse_config
from cacheunit_build.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.fingerprint import fingerprint, fingerprint_ids, fingerprint_json
from cacheunit_build.manifest import expand, parse_manifest
from cacheunit_build.model import Artifact, Entry, Lookup, TargetIdentity
from cacheunit_build.plan import make_plan
from cacheunit_build.ports import Selection
from cacheunit_build.render import Renderer
from cacheunit_build.targets import all_targets, find_target, target_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cacheunit_build.model import Config, Manifest, Rendered, Static, Target, Variant
    from cacheunit_build.ports import Edges, Files, Key, Tokenizer

_MANIFEST = ".yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What the sources give now: artifacts in the order of their names, and every fault on the way."""

    config: Config
    targets: Mapping[str, Target]
    artifacts: tuple[Artifact, ...]
    identities: Mapping[str, TargetIdentity]
    engines: Mapping[str, str]
    faults: tuple[Fault, ...]

    @property
    def keys(self) -> set[Key]:
        """The artifacts by prefix and target."""
        return {artifact.key for artifact in self.artifacts}

    def find(self, key: Key) -> Artifact | None:
        """The artifact of that key."""
        index = bisect.bisect_left(self.artifacts, key, key=lambda artifact: artifact.key)
        found = self.artifacts[index : index + 1]
        return found[0] if found and found[0].key == key else None


def read_project(files: Files) -> tuple[Config, dict[str, Target]]:
    """The settings of a project, and the targets that it knows.

    Raises:
        CacheunitError: every fault in the settings.
    """
    config = parse_config(files.read("pyproject.toml"), files.read("cacheunit.toml"))
    return config, all_targets(config)


def compile_project(
    edges: Edges, selection: Selection | None = None, progress: Callable[[int, int], None] | None = None
) -> Compiled:
    """Compiles what `selection` takes, everything if None. Nothing is written.

    Args:
        edges: the outside world.
        selection: which artifacts.
        progress: called with the number of manifests done and of all.

    Raises:
        CacheunitError: the settings or the selection are wrong, or there is nothing to compile.
    """
    config, targets = read_project(edges.files)
    selection = _settled(selection or Selection(), targets)
    manifests = _chosen(manifest_names(edges.files, config), selection, config)
    compiler = _Compiler(edges, config, targets, selection)
    for done, (name, path) in enumerate(manifests):
        if progress is not None:
            progress(done, len(manifests))
        compiler.compile_manifest(name, path)
    return compiler.compiled()


def manifest_names(files: Files, config: Config) -> list[tuple[str, str]]:
    """The name of each prefix and the path of its manifest, by code point.

    Raises:
        CacheunitError: there is none, or two differ only in letter case.
    """
    faults: list[Fault] = []
    found: dict[str, str] = {}
    folded: dict[str, str] = {}
    for path in files.walk(config.prefixes):
        stem, dot, extension = path.removeprefix(f"{config.prefixes}/").rpartition(".")
        if extension.lower() == "yml" or (extension.lower() == "yaml" and extension != "yaml"):
            faults.append(Fault(message="a manifest's name ends in .yaml", path=path, hint="rename it"))
        if dot + extension != _MANIFEST:
            continue
        if "@" in stem:
            faults.append(Fault(message='"@" stands between a prefix and its variant', path=path, hint="rename it"))
        other = folded.setdefault(unicodedata.normalize("NFC", stem).casefold(), path)
        if other != path:
            message = f'differs from "{other}" only in letter case: on some systems they are one file'
            faults.append(Fault(message=message, path=path, hint="rename one of them"))
        found[stem] = path
    if faults:
        raise CacheunitError(*faults)
    if not found:
        raise fail(f"no manifests under {config.prefixes}/", hint='"cacheunit init" makes a first one')
    return list(found.items())


def _settled(selection: Selection, targets: Mapping[str, Target]) -> Selection:
    """The selection with its target by the target's own name."""
    if selection.target is None:
        return selection
    target = find_target(selection.target, targets)
    if target is None:
        raise fail(f'unknown target "{selection.target}"', hint=did_you_mean(selection.target, target_names(targets)))
    return replace(selection, target=target.name)


def _chosen(manifests: list[tuple[str, str]], selection: Selection, config: Config) -> list[tuple[str, str]]:
    known = dict(manifests)
    faults = [
        Fault(message=f'no prefix "{name}" under {config.prefixes}/', hint=did_you_mean(name, known))
        for name in selection.names
        if name.partition("@")[0] not in known
    ]
    if faults:
        raise CacheunitError(*faults)
    wanted = {name.partition("@")[0] for name in selection.names} or known.keys()
    return [(name, path) for name, path in manifests if name in wanted]


class _Compiler:
    """Compiles manifests one after the other, going on after faults."""

    def __init__(self, edges: Edges, config: Config, targets: Mapping[str, Target], selection: Selection) -> None:
        self._edges = edges
        self._config = config
        self._targets = targets
        self._selection = selection
        self._renderer = Renderer(edges.files.read, self._template_names, config.templates)
        self._names: list[str] = []
        self._tokenizers: dict[str, Tokenizer] = {}
        self._artifacts: list[Artifact] = []
        self._faults: list[Fault] = []

    def compiled(self) -> Compiled:
        faults = list(self._faults)
        if not faults:
            faults += self._unmet()
        return Compiled(
            config=self._config,
            targets=self._targets,
            artifacts=tuple(sorted(self._artifacts, key=lambda artifact: artifact.key)),
            identities={
                name: TargetIdentity(profile=_profile(self._targets[name]), tokenizer=tokenizer.identity)
                for name, tokenizer in self._tokenizers.items()
            },
            engines={name: tokenizer.engine for name, tokenizer in self._tokenizers.items()},
            faults=tuple(dict.fromkeys(faults)),
        )

    def _unmet(self) -> list[Fault]:
        """What was selected and yet is nowhere."""
        faults = [
            Fault(message=f'there is no variant "{name}"', hint=did_you_mean(name, self._names))
            for name in self._selection.names
            if "@" in name and name not in self._names
        ]
        if not faults and not self._artifacts:
            faults.append(Fault(message=f'nothing is compiled for target "{self._selection.target}"'))
        return faults

    def _template_names(self) -> list[str]:
        folder = self._config.templates
        return [path.removeprefix(f"{folder}/") for path in self._edges.files.walk(folder)]

    def compile_manifest(self, name: str, path: str) -> None:
        """Compiles the variants of one manifest for each of its targets."""
        data = self._edges.files.read(path) or b""
        try:
            manifest = parse_manifest(data, name=name, path=path)
            targets = self._targets_of(manifest)
            variants = expand(manifest)
        except CacheunitError as error:
            self._faults += error.faults
            return
        self._names += [variant.name for variant in variants]
        source = Lookup(path=path, found=fingerprint(data))
        for variant in variants:
            if targets and self._selection.takes(variant.name):
                self._compile_variant(variant, targets, source)

    def _targets_of(self, manifest: Manifest) -> list[Target]:
        """The targets of a manifest, or the project's; of these, the one that is selected."""
        found: list[Target] = []
        faults: list[Fault] = []
        for index, name in enumerate(manifest.targets or self._config.targets):
            target = find_target(name, self._targets)
            if target is None:
                faults.append(self._unknown_target(manifest, name, index))
            elif target in found:
                faults.append(manifest.fault(f'"{name}" is target "{target.name}" again', "targets", index))
            elif self._selection.target in (None, target.name):
                found.append(target)
        if faults:
            raise CacheunitError(*faults)
        return found

    def _unknown_target(self, manifest: Manifest, name: str, index: int) -> Fault:
        """The fault stands in the manifest, or in the settings where the manifest names no targets."""
        message = f'unknown target "{name}"'
        hint = did_you_mean(name, target_names(self._targets)) or '"cacheunit targets" lists the known ones'
        if manifest.targets:
            return manifest.fault(message, "targets", index, hint=hint)
        document = self._config.document
        line = document.line((*self._config.under, "targets"))
        return Fault(message=message, path=document.path or None, line=line, hint=hint)

    def _compile_variant(self, variant: Variant, targets: list[Target], source: Lookup) -> None:
        try:
            rendered = self._renderer.render(variant)
        except CacheunitError as error:
            self._faults += error.faults
            return
        rendered = replace(rendered, lookups=(source, *rendered.lookups))
        for target in targets:
            try:
                self._artifacts.append(_compile_artifact(variant, rendered, target, self._tokenizer(target)))
            except CacheunitError as error:
                self._faults += error.faults

    def _tokenizer(self, target: Target) -> Tokenizer:
        if target.name not in self._tokenizers:
            try:
                self._tokenizers[target.name] = self._edges.tokenizers.load(target.tokenizer)
            except CacheunitError as error:
                message = f'target "{target.name}": '
                raise CacheunitError(
                    *(replace(fault, message=message + fault.message) for fault in error.faults)
                ) from None
        return self._tokenizers[target.name]


def _compile_artifact(variant: Variant, rendered: Rendered, target: Target, tokenizer: Tokenizer) -> Artifact:
    """One variant for one target: composed, counted, planned, padded, counted again, frozen."""
    manifest = variant.manifest
    request = compose(rendered, target)
    seen: dict[str, Static] = {}

    def static(padding: str) -> Static:
        if padding not in seen:
            seen[padding] = static_tokens(request.framed(padding), tokenizer.encode, tokenizer.controls)
        return seen[padding]

    plain = static("")
    plan = make_plan(plain.tokens, target.cache, manifest.padding)
    named = f"{variant.name} for {target.name}"
    try:
        padding = "" if plan.goal is None else _padding(request.system, plan.goal, lambda text: static(text).tokens)
    except CacheunitError as error:
        raise CacheunitError(*(manifest.fault(f"{named}: {f.message}", "padding") for f in error.faults)) from None
    final = static(padding)
    if manifest.budget is not None and final.tokens > manifest.budget:
        over = f"{final.tokens} static tokens, {final.tokens - manifest.budget} over its budget of {manifest.budget}"
        raise CacheunitError(manifest.fault(f"{named} has {over}", "budget"))
    text, fragment = freeze_text(request, padding), freeze_fragment(request, padding)
    entry = Entry(
        tokens=final.tokens,
        counted="exact",
        padding=final.tokens - plain.tokens,
        unit=target.cache.unit,
        text=fingerprint(text),
        request=fingerprint(fragment),
        token_ids=fingerprint_ids(final.ids),
    )
    return Artifact(
        prefix=variant.name,
        target=target.name,
        entry=entry,
        text=text,
        request=fragment,
        padding_text=padding,
        soft=final.soft,
        plan=plan,
        lookups=rendered.lookups,
    )


def _padding(system: str, goal: int, count: Callable[[str], int]) -> str:
    """Padding for `system` up to `goal` static tokens; `count` takes the padding alone."""
    return pad_text_to(system, goal, lambda text: count(text[len(system) :]))


def _profile(target: Target) -> str:
    """The fingerprint of what decides an artifact besides its vocabulary: request format, frame, cache rule."""
    rules = asdict(target.cache)
    del rules["evidence"]
    return fingerprint_json({"request": target.request, "frame": asdict(target.frame), "cache": rules})
