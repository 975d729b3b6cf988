"""Results -> the JSON reports that other tools read. Their keys are stable."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cacheunit_build.builder.explain import Explanation
    from cacheunit_build.builder.results import BuildResult, CheckResult
    from cacheunit_build.compiler.count import TextCount
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.models import ArtifactRecord, Drift
    from cacheunit_build.domain.target import Target


def built_data(built: BuildResult) -> dict[str, Any]:
    """The report of `build`; `drift` says why `--locked` refused."""
    report: dict[str, Any] = {
        "artifacts": [
            {"prefix": artifact.prefix, "target": artifact.target, "status": status_of(artifact, built)}
            | _numbers(artifact)
            for artifact in built.artifacts
        ],
        "removed": [{"prefix": prefix, "target": target} for prefix, target in built.removed],
        "orphans": [drift.path for drift in built.orphans],
        "errors": errors_data(built.faults),
        "lock": built.lock,
    }
    return report | ({"drift": [drift_data(drift) for drift in built.drift]} if built.drift else {})


def status_of(artifact: ArtifactRecord, built: BuildResult) -> str:
    """What a build did with an artifact: `built`, `unchanged`, or `refused`."""
    return "built" if artifact.key in built.written else "refused" if built.lock == "refused" else "unchanged"


def _numbers(artifact: ArtifactRecord) -> dict[str, Any]:
    entry = artifact.entry
    return {
        "tokens": entry.tokens,
        "counted": entry.counted,
        "unit": entry.unit,
        "padding": entry.padding,
        "plan": artifact.plan.action,
        "reason": artifact.plan.reason,
    }


def checked_data(checked: CheckResult) -> dict[str, Any]:
    """The report of `check`."""
    return {
        "ok": checked.ok,
        "verified": checked.verified,
        "drift": [drift_data(drift) for drift in checked.drift],
        "errors": errors_data(checked.faults),
    }


def drift_data(drift: Drift) -> dict[str, Any]:
    """One drift; `path` where a file in `build/` is meant."""
    report: dict[str, Any] = {"prefix": drift.prefix, "target": drift.target, "kind": drift.kind}
    return report | {"because": list(drift.because)} | ({"path": drift.path} if drift.path else {})


def with_former_keys(report: dict[str, Any], former: Mapping[str, str]) -> dict[str, Any]:
    """Returns a report that has its renamed keys under their former names too, for programs that still read those.

    Args:
        report: the report, with its present keys.
        former: former name -> present name.
    """
    return report | {old: report[new] for old, new in former.items()}


def errors_data(faults: Iterable[Fault]) -> list[dict[str, Any]]:
    """Faults with message, path, line and hint."""
    return [asdict(fault) for fault in faults]


def explained_data(explained: Explanation) -> dict[str, Any]:
    """The report of `explain` for one artifact."""
    artifact, entry = explained.artifact, explained.artifact.entry
    report = {"prefix": artifact.prefix, "target": artifact.target, "tokenizer": explained.engine}
    return {
        **report,
        **_numbers(artifact),
        "margin": artifact.margin,
        "unstable": artifact.unstable,
        "soft": artifact.unstable,
        "literal": artifact.literal,
        "segments": dict(artifact.segments),
        "text": entry.text,
        "request": entry.request,
        "token_ids": entry.token_ids,
        "inputs": [
            {"path": lookup.path, "fingerprint": lookup.found, "asked_by": lookup.asked_by}
            for lookup in artifact.lookups
        ],
        "locked": explained.locked,
        "changed": [asdict(change) for change in explained.changed],
    }


def targets_data(targets: Mapping[str, Target]) -> dict[str, Any]:
    """The report of `targets`."""
    return {"targets": [_target_data(target) for target in targets.values()]}


def _target_data(target: Target) -> dict[str, Any]:
    spec = {} if target.tokenizer is None else asdict(target.tokenizer)
    tokenizer = {key: value for key, value in spec.items() if value is not None}
    report = {"name": target.name, "description": target.description, "models": list(target.models)}
    return {
        **report,
        "request": target.request,
        "tokenizer": tokenizer,
        "frame": asdict(target.frame),
        "cache": with_former_keys(asdict(target.cache), {"primes": "warm_up_requests"}),
        "price": None if target.price is None else asdict(target.price),
    }


def measured_data(measured: TextCount) -> dict[str, Any]:
    """The report of `count` and `pad`."""
    return with_former_keys(asdict(measured), {"soft": "unstable"})
