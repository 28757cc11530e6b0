"""The phases of one cell: fit, sample, evaluate, record. Each is done once for its key.

Every phase may be asked for again at any time, in another process, after any death: it goes
on where it stood, or finds that it is done. The caller holds the cell folder's lock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.bench.evidence.evidence import (
    PhaseEvidence,
    Provenance,
    RunEvidence,
    write_run_evidence,
)
from understudy.bench.evidence.index import EvidenceIndex
from understudy.bench.evidence.shareable import dataset_name
from understudy.bench.suite.cell import Cell
from understudy.bench.suite.method_lookup import Lookup
from understudy.bench.work.cell_folder import (
    AWAY_RECORD,
    CLASSIFY_RECORD,
    FIGURES,
    PACKED,
    CellFolder,
    Failure,
    Phase,
)
from understudy.bench.work.measuring import measured
from understudy.bench.work.phase_keys import (
    EVALUATE_VERSION,
    EVALUATION_SEED,
    Keys,
    digests_of_weights,
)
from understudy.bench.work.source_version import Source
from understudy.errors import UserError
from understudy.methods.config import config_to_json
from understudy.methods.contract import Method
from understudy.privacy.plan.mechanisms import mechanism_to_json
from understudy.progress import Progress
from understudy.run.books import open_book, require_own_book
from understudy.run.config import RunConfig
from understudy.run.folder import RunFolder
from understudy.run.prepare import Prepared, prepare, sample_count
from understudy.run.public_options import name_and_source

if TYPE_CHECKING:
    from understudy.bench.away.classify_job import Classified
    from understudy.data.records import Records
    from understudy.evaluation.protocol import Protocol


@dataclass(frozen=True)
class Work:
    """One cell in one process. `prepared` loads the data when a phase first needs it."""

    cell: Cell
    keys: Keys
    source: Source
    folder: CellFolder
    suite: str
    command: str
    home: Path | None
    progress: Progress

    def is_done(self, phase: Phase) -> bool:
        return self.folder.record(phase, self.keys) is not None

    @cached_property
    def provenance(self) -> Provenance:
        return Provenance.read()

    @cached_property
    def device(self) -> str:
        from understudy.run.context import choose_device

        return str(choose_device(self.cell.device))

    @cached_property
    def config(self) -> RunConfig:
        return self.cell.run_config()

    @cached_property
    def prepared(self) -> Prepared:
        return prepare(self.config, self.home, self.progress)


def fit_cell(work: Work) -> None:
    """Calibrate, enter in the account book, and fit through the door."""
    from understudy.run.start import begin, check_same_facts, enter_and_execute, noise_of

    if work.is_done("fit"):
        return
    folder, noise = work.folder.run, noise_of(work.config)
    if (folder.path / PACKED).exists():
        raise UserError(
            f"{work.cell.title} was packed for another machine; its plan is single-use, so "
            "bring the result home with understudy bench collect."
        )
    require_own_book(work.config, folder, work.home)
    if not folder.path.exists():
        plain = replace(work.prepared, config=replace(work.config, samples=None))
        begin(folder.path, plain, noise)
    check_same_facts(folder, work.prepared, noise)
    book = open_book(work.config, work.home)
    with _phase(work, "fit", work.folder.path, work.device):
        enter_and_execute(work.prepared, folder, book, noise, work.progress)


def sample_cell(work: Work) -> None:
    """Sample as many records as the cell asks for, and state the claim about them."""
    from understudy.run.claiming import claim_of, tuning_of_run
    from understudy.run.sampling import sample, sampling_device

    if work.is_done("sample"):
        return
    kept, count = work.folder.sampled(work.keys), sample_count(work.prepared)
    book = open_book(work.config, work.home)
    fitted, method, device = work.folder.run, work.prepared.method, work.device
    with _phase(work, "sample", kept.path, str(sampling_device(method, device))):
        records = sample(fitted, kept, method, count, work.cell.seed, device, work.progress)
        tuning = tuning_of_run(work.folder.run, work.config, work.prepared.settings, book)
        claim = claim_of(work.folder.run, records, tuning)
        kept.write_json("claim.json", claim.to_json())


def evaluate_cell(work: Work) -> None:
    """Measure the samples by the cell's protocol, on the owner's side.

    Classifiers that another machine trained for it are not trained again, nor are those of
    real records that another cell of this workspace trained.
    """
    from understudy.evaluation.classifier_figures import ClassifierFigures
    from understudy.evaluation.protocol import load_protocol
    from understudy.evaluation.references import References
    from understudy.run.evaluate import measure

    if work.is_done("evaluate"):
        return
    records, prepared = work.folder.sampled(work.keys).load_samples(), work.prepared
    protocol, kept = load_protocol(work.cell.protocol), work.folder.evaluated(work.keys)
    known = _classified(work, records, protocol)
    with _phase(work, "evaluate", kept.path, work.device):
        result = measure(
            records,
            prepared,
            protocol,
            device=work.device,
            progress=work.progress,
            figures=ClassifierFigures(() if known is None else known.figures),
            references=References(work.folder.references, EVALUATE_VERSION),
        )
        result.write(kept.path)
        if known is not None:
            kept.write_json(CLASSIFY_RECORD, dict(known.phase))


def _classified(work: Work, records: Records, protocol: Protocol) -> Classified | None:
    """Figures that came home for this evaluation; those of another are refused."""
    from understudy.bench.away.classify_job import Classified
    from understudy.evaluation.classifier_figures import Binding
    from understudy.run.evaluate import test_part
    from understudy.run.limit import limited_protocol

    path = work.folder.evaluated(work.keys).path / FIGURES
    if not path.exists():
        return None
    wanted = Binding.of(
        records,
        work.prepared.material.private,
        test_part(work.prepared),
        limited_protocol(protocol, work.cell.limit),
        seed=EVALUATION_SEED,
        version=EVALUATE_VERSION,
    )
    found = Classified.read(path)
    found.binding.check(wanted, str(path))
    return found


PHASE_WORK = {"fit": fit_cell, "sample": sample_cell, "evaluate": evaluate_cell}


def record(work: Work, evidence: Path, failure: Failure | None = None) -> Path:
    """Write the evidence of a finished or failed cell; an ok one only once for its key.

    Of data that is not public a failure gives only the error's class: its words may name
    what was in the data.
    """
    found = evidence_of(work, failure)
    name = found.name(set())
    if failure is None and is_recorded(EvidenceIndex(evidence), name):
        return EvidenceIndex(evidence).path(name)
    return write_run_evidence(evidence, found)


def is_recorded(index: EvidenceIndex, name: str) -> bool:
    """Whether evidence of this name counts; a crash may have left it before its last rename."""
    if index.path(name).exists():
        return True
    return index.staged_path(name).exists() and name in index.listed()


def evidence_of(work: Work, failure: Failure | None) -> RunEvidence:
    """What is known of a cell, in the form of evidence."""
    done = {p: work.folder.record(p, work.keys) for p in PHASE_WORK}  # type: ignore[arg-type]
    classify = work.folder.evaluated(work.keys).path / CLASSIFY_RECORD
    away = json.loads(classify.read_text()) if done["evaluate"] and classify.exists() else None
    records = {**done, "classify": away}
    reason = None
    if failure is not None:
        reason = failure.words if work.source.public else failure.kind
    return RunEvidence(
        command=work.command,
        provenance=work.provenance,
        config=evidence_config(work.cell),
        keys={name: getattr(work.keys, name) for name in PHASE_WORK},
        public=work.source.public,
        data_hash=work.source.hash,
        phases={name: _phase_evidence(r) for name, r in records.items() if r is not None},
        claim=_claim(work) if failure is None else None,
        metrics=_metrics(work) if failure is None else None,
        suite=work.suite,
        status="ok" if failure is None else "failed",
        reason=reason,
        limit=work.cell.limit,
    )


def _metrics(work: Work) -> dict[str, Any]:
    """As measured. Of data that is not public, why a metric failed stays in the workspace."""
    found = work.folder.evaluated(work.keys).read_json("metrics.json")
    if not work.source.public:
        told = "failed; the workspace says why"
        found["rows"] = [{**r, "reason": r["reason"] and told} for r in found["rows"]]
    return found


def evidence_config(cell: Cell) -> dict[str, Any]:
    """A cell with its method's settings resolved, and without places on the machine."""
    lookup = Lookup()
    resolved = lookup.config(cell)
    return {
        "method": cell.method_name,
        "dataset": dataset_name(cell.dataset),
        "epsilon": cell.epsilon,
        "settings": config_to_json(resolved.config),
        "preset": resolved.preset,
        "changes": list(cell.settings),
        "protocol": lookup.protocol(cell.protocol).name,
        **_public_inputs(cell, lookup.method(cell.method)),
        **{name: list(some) for name in ("hide", "keep") if (some := getattr(cell, name))},
        **{name: getattr(cell, name) for name in ("delta", "seed", "samples", "limit", "label")},
        **{name: getattr(cell, name) for name in ("unit", "size", "channels", "device")},
    }


def _public_inputs(cell: Cell, method: Method) -> dict[str, Any]:
    """What was taken as public, without places; weights by their SHA-256, where there are some."""
    data = [(name, dataset_name(source)) for name, source in map(name_and_source, cell.public)]
    said = [source if name is None else f"{name}={source}" for name, source in data]
    weights = {n: dataset_name(w) for n, w in digests_of_weights(cell, method).items()}
    public = said if len(said) > 1 else next(iter(said), None)
    return {"public": public, **({"weights": weights} if weights else {})}


@contextmanager
def _phase(work: Work, phase: Phase, room: Path, device: str) -> Iterator[None]:
    """Time the body, and keep the record of the phase last of all: that makes it done.

    What another machine did of it keeps that machine's record. Loading the data and
    calibrating are not timed: they are the same for every method.
    """
    room.mkdir(parents=True, exist_ok=True, mode=0o700)
    timed = RunFolder(room)
    with measured(work.provenance, device) as found, timed.timed(phase):
        yield
    if (room / AWAY_RECORD).exists():
        done = timed.read_json(AWAY_RECORD)
    else:
        done = found.to_json(getattr(work.keys, phase), timed.times()[phase])
    work.folder.write_record(phase, work.keys, done)


def _phase_evidence(found: Mapping[str, Any]) -> PhaseEvidence:
    return PhaseEvidence(found["seconds"], found["peak_gigabytes"], Provenance.from_json(found))


def _claim(work: Work) -> dict[str, Any]:
    """The claim's figures, and every mechanism of the plan that it follows.

    Guarantee: the mechanisms are whole, so that epsilon follows from the evidence alone; the
    plan's `ident` and whatever the ledger says of blocks stay with the owner.
    """
    claim = work.folder.sampled(work.keys).read_json("claim.json")
    parts = ("kind", "epsilon", "delta", "accountant", "relation", "tuning", "ledger")
    plan = work.folder.run.read_plan()[0]
    mechanisms = [mechanism_to_json(mechanism) for mechanism in plan.mechanisms]
    return {**{name: claim[name] for name in parts}, "mechanisms": mechanisms}
