"""Results of manifests as a build has them, for tests of the remote cache."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from cacheunit_build.domain.artifact import ArtifactRecord, PaddingPlan
from cacheunit_build.domain.build_record import prefix_record
from cacheunit_build.domain.cache_rule import CacheRule
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.lock import LockEntry, TargetIdentity
from cacheunit_build.domain.prompt import Lookup
from cacheunit_build.domain.remote_cache import CacheableManifest, CacheContext, CachedManifest

if TYPE_CHECKING:
    from collections.abc import Mapping

TARGETS = ("deepseek-v4", "other")
IDENTITIES = {
    name: TargetIdentity(
        format="openai-chat",
        cache=CacheRule(kind="blocks", unit=128),
        frame=fingerprint(f"frame of {name}".encode()),
        tokenizer=fingerprint(f"vocabulary of {name}".encode()),
    )
    for name in TARGETS
}
CONTEXT = CacheContext(software={"python": "cpython 3"}, settings={"build": "build"}, identities=IDENTITIES)


def manifest(number: int = 0, context: CacheContext = CONTEXT) -> CacheableManifest:
    """Returns a manifest; another number is another one."""
    name = f"support/agent{number}"
    return CacheableManifest(
        name=name, path=f"prefixes/{name}.yaml", fingerprint=fingerprint(name.encode()), context=context
    )


def result(
    of: CacheableManifest,
    sources: Mapping[str, str | None] | None = None,
    text: bytes = b"You are helpful.",
    variants: tuple[str, ...] = ("", "@locale=de"),
) -> CachedManifest:
    """Returns the result of a manifest: an artifact for each variant and target.

    Args:
        of: the manifest.
        sources: path -> fingerprint of the files that it looked for, besides itself.
        text: what its texts have in common.
        variants: what follows its name in the names of its variants.
    """
    inputs = {of.path: of.fingerprint, **({"templates/a.md.j2": fingerprint(text)} if sources is None else sources)}
    records: list[ArtifactRecord] = []
    contents: dict[str, bytes] = {}
    for variant in variants:
        for target in TARGETS:
            files = [text + variant.encode(), b'{"system":1}\n', b'{"cached":1}\n'][: 3 if target == "other" else 2]
            names = [fingerprint(data) for data in files]
            contents |= dict(zip(names, files, strict=True))
            entry = LockEntry(
                tokens=256,
                counted="exact",
                padding=28,
                text=names[0],
                request=names[1],
                cached_content=names[2] if len(names) > len(TARGETS) else None,
                token_ids=fingerprint(b"ids"),
            )
            records.append(
                ArtifactRecord(
                    prefix=of.name + variant,
                    target=target,
                    entry=entry,
                    unit=128,
                    plan=PaddingPlan(action="pad", goal=None, reason="padded to 2 units"),
                    lookups=tuple(Lookup(path=path, fingerprint=digest) for path, digest in inputs.items()),
                )
            )
    return CachedManifest(manifest=of, record=prefix_record(records, IDENTITIES), contents=contents)


def with_plan(cached: CachedManifest, plan: PaddingPlan) -> CachedManifest:
    """Returns a result whose artifacts have this plan."""
    artifacts = tuple(replace(artifact, plan=plan) for artifact in cached.record.artifacts)
    return replace(cached, record=replace(cached.record, artifacts=artifacts))


_PARTS = st.text("abcdefä日-_ ", min_size=1, max_size=8).filter(lambda part: part.strip(" -") == part)
PATHS = st.lists(_PARTS, min_size=1, max_size=3).map("/".join)
FINGERPRINTS = st.binary(max_size=4).map(fingerprint)
RESULTS = st.builds(
    result,
    st.integers(0, 3).map(manifest),
    st.dictionaries(PATHS, st.none() | FINGERPRINTS, max_size=5),
    st.binary(max_size=300),
    st.lists(st.sampled_from(["", "@a=1", "@a=2,b=x"]), min_size=1, unique=True).map(tuple),
)
