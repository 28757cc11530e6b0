"""What may be in a release, and what may not; every refusal says why.

The rules here look at the run: was the noise secret, was it finished, was nothing chosen
on test data, are private records repeated. `leaks.folder_refusals` looks at the files.

Real data never decide whether a differentially private release goes out: whether it did
would itself depend on them. The near-copy scan is therefore a gate for empirical
releases alone; for others `scan_copies` serves an owner-only warning.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.data.records import Records
from understudy.errors import PrivacyError
from understudy.privacy.ledger.ledger import Entry
from understudy.release.build import run_facts
from understudy.release.claim import ON_TEST_DATA, Claim
from understudy.release.near_copies import scan_copies


def run_refusals(claim: Claim, entries: Sequence[Entry]) -> list[str]:
    """Why a run may not be released, from its claim and ledger alone; empty if it may."""
    facts = run_facts(entries)
    reasons = []
    if claim.randomness.insecure_seed or facts.randomness.insecure_seed:
        reasons.append("its noise came from an insecure seed, which anybody could repeat.")
    if facts.audited:
        reasons.append("it was audited: canaries were planted among its records.")
    if facts.limit is not None:
        reasons.append(f"it was a smoke run, limited to about {facts.limit} records.")
    if claim.tuning.by == ON_TEST_DATA:
        reasons.append("it was selected on test data; such results are for benchmarks only.")
    if entries[-1].kind != "close":
        reasons.append("it is not finished: its ledger is not closed.")
    return [f"the run may not be released: {reason}" for reason in reasons]


def copy_refusals(
    claim: Claim, synthetic: Records, private: Records | None, held_out: Records | None = None
) -> list[str]:
    """Why an empirical release may not go out: it repeats private records, or nearly does.

    Guarantee: for a central or local claim neither `private` nor `held_out` is looked at.
    """
    if claim.kind != "empirical":
        return []
    if private is None:
        return ["an empirical release needs the private records, to scan for copies of them."]
    return scan_copies(synthetic, private, held_out).sentences()


def require(reasons: Sequence[str]) -> None:
    """Raise one error that lists every reason, if there is one."""
    if reasons:
        raise PrivacyError("no release was written: " + " ".join(reasons))
