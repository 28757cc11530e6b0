"""Audits of methods on a machine with a GPU that has only torch, numpy and safetensors.

    python benchmarks/audit_away.py pack METHOD DATA EPSILON -o JOB     (here)
    python benchmarks/audit_away.py run JOB --device cuda -o RESULT     (there)
    python benchmarks/audit_away.py judge RESULT ...                    (here: evidence)

As `understudy audit`, in three parts. `pack` fixes everything: it calibrates the plan that a
release would follow, enters it in the account book as an audit and writes JOB, which holds the
records. `run` tosses the coins and fits as a release would be fitted on that device, with
canaries; RESULT says how many guesses were right. `judge` computes what that shows.

A job is run once: an audit that was cut off cannot go on, because what its observer had seen is
lost; pack another. Nothing of it can be released: its ledger and the account book say so.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from understudy.audit.estimate import AuditPlan, require_some_power
from understudy.audit.run_audit import Subject, Surroundings, judge, right_guesses
from understudy.bench.away.fit_jobs import Lines, method_inputs, provenance_of
from understudy.bench.away.job import FitJob
from understudy.bench.away.joining import join_files
from understudy.bench.evidence.provenance import Provenance
from understudy.bench.work.measuring import peak_gigabytes
from understudy.durable import replace_durably
from understudy.errors import PrivacyError, UserError
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.plan.plan import Plan
from understudy.progress import Silent
from understudy.run.context import RunContext, choose_device

if TYPE_CHECKING:
    from understudy.privacy.ledger.account_book import Book
    from understudy.run.prepare import Prepared

FORMAT = "understudy-audit-away/2"
_PLAIN = ("method", "dataset", "public", "epsilon", "noise_factor", "token")
FILE, LEDGER, RUN = "audit.json", "ledger.jsonl", "run"
EVIDENCE = Path(__file__).resolve().parent / "evidence"


@dataclass(frozen=True)
class Asked:
    """An audit, fixed before anything is drawn.

    public: whether its records are those of a public dataset of the catalog.
    claimed: the plan that is audited; a twin's ledger begins with the same without a claim.
    """

    method: str
    dataset: str
    public: bool
    epsilon: float
    audit: AuditPlan
    noise_factor: float
    claimed: Plan
    token: str

    @property
    def title(self) -> str:
        return f"audit of {self.method} on {self.dataset}"

    @property
    def kind(self) -> str:
        return self.audit.view if self.noise_factor == 1 else "twin"

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in _PLAIN},
            "audit": asdict(self.audit),
            "claimed": self.claimed.to_json(),
        }

    @staticmethod
    def read(path: Path) -> tuple[Asked, dict[str, Any]]:
        """What was asked, and all that the file holds."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["format"] != FORMAT:
                raise UserError(f"{path} has format {data['format']!r}, not {FORMAT!r}.")
            plain = {name: data[name] for name in _PLAIN}
            claimed = Plan.from_json(data["claimed"])
            return Asked(**plain, audit=AuditPlan(**data["audit"]), claimed=claimed), data
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} cannot be read as an audit: {error!r}.") from error


def main(words: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(words)
    try:
        if asked.verb == "pack":
            pack(asked)
        elif asked.verb == "run":
            run(asked.job, asked.device, asked.out)
        else:
            write_evidence(asked.results, asked.evidence)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def pack(asked: argparse.Namespace) -> None:
    """Write JOB. Guarantee: the run stands in the account book before anything leaves, with its
    whole plan, as one that is audited and cannot be released."""
    from understudy.bench.away.pack import check_importable
    from understudy.run.audit import audit_plan, check_twin, claim_to_audit, enter_audit, is_public
    from understudy.run.books import open_book
    from understudy.run.config import RunConfig
    from understudy.run.prepare import prepare

    settings = {"public": asked.public, "changes": tuple(asked.set), "seed": asked.seed}
    config = RunConfig(
        asked.data, asked.method, asked.epsilon, limit=asked.limit, time=None, **settings
    )
    factor = 0.0 if asked.twin else 1.0
    audit = audit_plan(config, asked.canaries, None, asked.view, "f-dp", asked.confidence)
    require_some_power(audit)
    check_twin(config, factor)
    if asked.out.exists():
        raise UserError(f"-o {asked.out} exists already; choose another or delete it.")
    prepared = prepare(config, asked.home, Silent())
    check_importable(prepared)
    claimed = claim_to_audit(prepared)
    book, token = open_book(config, asked.home), secrets.token_hex(16)
    packed = {"packed for another machine as": token}
    entered = enter_audit(prepared, claimed, audit, book, factor, packed)
    dataset = prepared.material.dataset.name
    public = is_public(config.source)
    told = Asked(asked.method, dataset, public, asked.epsilon, audit, factor, claimed, token)
    _write_job(asked.out, told, prepared, entered, book)
    print(f"packed   {told.title} at epsilon {asked.epsilon:g}, {told.kind}: {asked.out}")


def _write_job(out: Path, told: Asked, prepared: Prepared, entered: Plan, book: Book) -> None:
    """The whole job or nothing of it, for its owner alone."""
    from understudy.bench.away.pack import JobName, describe_job, write_job_folder
    from understudy.bench.away.packed_files import PackedFiles
    from understudy.run.audit import audited_facts

    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as name:
        room = Path(name) / out.name
        files, named = PackedFiles.open(room), JobName(told.title, told.token, {})
        job = describe_job(prepared, entered, audited_facts(prepared), named, files, book)
        write_job_folder(room / "job", job)
        replace_durably(room / FILE, json.dumps(told.to_json(), indent=1).encode())
        room.rename(out)


def run(path: Path, device: str, out: Path) -> None:
    """Fit with canaries as a release would be fitted on this device, and count right guesses."""
    asked, told = Asked.read(path / FILE)
    job = FitJob.read(path / "job")
    fitting = method_inputs(job, join_files(path, job.files), device)
    where, lines = choose_device(device), Lines(job.title)
    folder = path / RUN
    if folder.exists():
        raise UserError(f"{path} was begun before, and its plan is single-use; pack another.")
    provenance = provenance_of(job)
    folder.mkdir(mode=0o700)
    journal = Journal.create(folder, job.plan, job.run)
    subject = Subject(fitting.method, fitting.config, fitting.parts, fitting.counts, fitting.public)
    around = Surroundings(
        journal, where, lines, job.shard_key, lambda door: RunContext(door, lines, where, job.seed)
    )
    start = time.perf_counter()
    try:
        correct = right_guesses(
            subject, asked.claimed, asked.audit, around, noise_factor=asked.noise_factor
        )
    finally:
        journal.release_lock()
    found = {
        **told,
        "correct": correct,
        "seconds": time.perf_counter() - start,
        "peak_gigabytes": _peak(where),
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else "cpu",
        "settings": dict(job.config),
        "seed": job.seed,
        "ledger": (folder / LEDGER).read_text(encoding="utf-8"),
        "provenance": provenance.to_json(),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_durably(out, json.dumps(found, indent=1).encode())
    out.chmod(0o600)
    lines.say(f"{correct:,} of {asked.audit.guesses:,} guesses were right; wrote {out}")


def write_evidence(results: Sequence[Path], evidence: Path) -> None:
    """What each result shows, all of one method in one file of evidence."""
    from understudy.bench.evidence.evidence import write_measurement

    read = [Asked.read(path) for path in results]
    methods = sorted({asked.method for asked, _ in read})
    if len(methods) != 1:
        raise UserError(f"the results are of {', '.join(methods)}; judge one method at a time.")
    found: dict[str, Any] = {}
    for asked, told in read:
        name = f"{asked.kind}, epsilon {asked.epsilon:g}"
        if name in found:
            raise UserError(f"two results are of {name}; judge every audit that was run, once.")
        found[name] = {**_judged(asked, told), "device": told["device"]}
    first = read[0][1]
    write_measurement(
        evidence,
        f"audit-{methods[0]}-gpu",
        provenance=Provenance.from_json(first["provenance"]),
        command="python benchmarks/audit_away.py judge RESULT ...",
        config={"settings": first["settings"], "data": first["dataset"]},
        seeds=sorted({told["seed"] for _, told in read}),
        seconds={n: told["seconds"] for n, (_, told) in zip(found, read, strict=True)},
        peak_gigabytes=max(told["peak_gigabytes"] for _, told in read),
        result=found,
        audience="public" if all(asked.public for asked, _ in read) else "owner",
    )
    for name, row in found.items():
        print(
            f"{name}: bound {row['lower_bound']:.2f} of claim {row['claim']:.2f}; {row['verdict']}"
        )


def _judged(asked: Asked, told: dict[str, Any]) -> dict[str, Any]:
    from understudy.audit.trade_off import family_of
    from understudy.run.audit import MethodAudit

    _check_ledger(asked, told["ledger"])
    result = judge(asked.audit, family_of(asked.claimed), asked.claimed.epsilon, told["correct"])
    shown = MethodAudit(asked.method, asked.dataset, result, asked.noise_factor, asked.claimed)
    return shown.to_json()


def _check_ledger(asked: Asked, text: str) -> None:
    """A whole run of the audited plan, which says of itself that it is audited."""
    from understudy.privacy.ledger.ledger import read_ledger
    from understudy.privacy.ledger.story import ledger_plan

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / LEDGER
        path.write_text(text, encoding="utf-8")
        entries = read_ledger(path)
    if ledger_plan(entries).mechanisms != asked.claimed.mechanisms:
        raise PrivacyError("the ledger of this result follows another plan than was audited.")
    if entries[-1].kind != "close" or entries[0].body["run"].get("audited") is not True:
        raise PrivacyError("the ledger of this result is not that of a finished audit.")


def _peak(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device) / 1e9
    return peak_gigabytes()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack", help="here: fix an audit and write its job")
    packing.add_argument("method")
    packing.add_argument("data")
    packing.add_argument("epsilon", type=float)
    packing.add_argument("-o", "--out", type=Path, required=True, help="the job folder to write")
    packing.add_argument("--public", help="public data, for methods that need it")
    packing.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    packing.add_argument("--seed", type=int, default=0)
    packing.add_argument("--limit", type=int, help="about so many records only")
    packing.add_argument("--view", default="white-box", help="white-box or black-box")
    packing.add_argument("--canaries", type=int)
    packing.add_argument("--confidence", type=float, default=0.95)
    packing.add_argument("--twin", action="store_true", help="without noise: must be found out")
    packing.add_argument("--home", type=Path, help="where the account book lies")
    running = verbs.add_parser("run", help="there: how many guesses are right")
    running.add_argument("job", type=Path)
    running.add_argument("--device", default="auto")
    running.add_argument("-o", "--out", type=Path, required=True, help="the result file to write")
    judging = verbs.add_parser("judge", help="here: what results show, as evidence")
    judging.add_argument("results", type=Path, nargs="+")
    judging.add_argument("--evidence", type=Path, default=EVIDENCE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
