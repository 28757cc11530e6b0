"""Publishing a fitted run: its records, the plan and declared facts become a release.

Private records are out of reach here: nothing in this module takes `Prepared`, and a release with a
formal claim is the same, byte for byte, whatever the private records are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import ledger_plan
from understudy.privacy.plan.plan import Plan
from understudy.release import layout
from understudy.release.bundle import write_release
from understudy.release.claim import Claim
from understudy.release.files import remove_partial
from understudy.release.near_copies import CopyScan
from understudy.release.verify import verify
from understudy.run.claiming import facts_of
from understudy.run.folder import RunFolder


@dataclass(frozen=True)
class Target:
    """Where a release goes, what it is called, who signs it, and who is told beforehand.

    pictured: whether a contact sheet lies in it; not where the terms of the data forbid it.
    """

    out: Path
    title: str
    signing_key: Path | None
    announce: Callable[[str], None]
    pictured: bool = True


def publish(
    folder: RunFolder, records: Records, claim: Claim, target: Target, scan: CopyScan | None
) -> tuple[Claim, str]:
    """Write the release of a run, or accept the one that an earlier start of it wrote.

    Guarantee: for a formal claim, the release is a function of the records that the method's
    synthesizer made, of the plan and of declared facts. `scan` is for empirical claims alone.
    Gives the claim that is in the release: what was released stands, whatever happened since.
    """
    plan = folder.read_plan()[0]
    if target.out.exists():
        return _accepted(target, plan)
    remove_partial(target.out)
    info = write_release(
        target.out,
        records=records,
        claim=claim,
        plan=plan,
        facts=facts_of(folder),
        title=target.title,
        signing_key=target.signing_key,
        scan=scan,
        announce=target.announce,
        pictured=target.pictured,
    )
    return claim, info.digest


def _accepted(target: Target, plan: Plan) -> tuple[Claim, str]:
    found = verify(target.out)
    if (
        not found.ok
        or found.claim is None
        or ledger_plan(read_ledger(target.out / layout.LEDGER)) != plan
    ):
        raise UserError(
            f"{target.out} exists and is not this run's release; choose another with -o."
        )
    target.announce(str(found.digest))
    return found.claim, str(found.digest)
