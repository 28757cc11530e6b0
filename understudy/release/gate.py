"""What may be in a release, and what may not; every refusal says why.

The rules here look at the run: was the noise secret, was nothing chosen on test data, are
private records repeated. `leaks.folder_refusals` looks at the files.

Real data never decide whether a differentially private release goes out: whether it did
would itself depend on them. The near-copy scan is therefore a gate for empirical
releases alone, and it ran before; for others it serves an owner-only warning.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.errors import PrivacyError
from understudy.release.claim import ON_TEST_DATA, Claim
from understudy.release.facts import RunFacts
from understudy.release.near_copies import CopyScan


def run_refusals(claim: Claim, facts: RunFacts) -> list[str]:
    """Why a run may not be released, from its claim and declared facts; empty if it may."""
    reasons = []
    if claim.randomness.insecure_seed or facts.randomness.insecure_seed:
        reasons.append("its noise came from an insecure seed, which anybody could repeat.")
    if facts.audited:
        reasons.append("it was audited: canaries were planted among its records.")
    if facts.limit is not None:
        reasons.append(f"it was a smoke run, limited to about {facts.limit} records.")
    if claim.tuning.by == ON_TEST_DATA:
        reasons.append("it was selected on test data; such results are for benchmarks only.")
    return [f"the run may not be released: {reason}" for reason in reasons]


def copy_refusals(claim: Claim, count: int, scan: CopyScan | None) -> list[str]:
    """Why an empirical release of `count` records may not go out: it repeats private ones.

    Guarantee: a central or local claim that comes with a scan is refused whatever the scan found,
    so that no private record can decide about it.
    """
    if claim.kind != "empirical":
        return [] if scan is None else ["a scan of private records decides about no such claim."]
    if scan is None or scan.count != count or scan.looked_at not in (0, count):
        return ["an empirical release needs a scan of all its records for copies of private ones."]
    return scan.sentences()


def require(reasons: Sequence[str]) -> None:
    """Raise one error that lists every reason, if there is one."""
    if reasons:
        raise PrivacyError("no release was written: " + " ".join(reasons))
