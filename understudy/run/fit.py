"""The fitting phase: through the door, saved block by block, resumable."""

from __future__ import annotations

import importlib

from understudy.errors import PrivacyError, UserError
from understudy.methods.contract import PublicInputs, Synthesizer
from understudy.privacy.account_book import Book
from understudy.privacy.door import Door
from understudy.privacy.journal import Journal
from understudy.privacy.noise import NoiseSource
from understudy.privacy.owner_log import OwnerLog
from understudy.progress import Progress
from understudy.run.context import RunContext, choose_device
from understudy.run.folder import RunFolder
from understudy.run.prepare import Prepared


def fit(
    prepared: Prepared, folder: RunFolder, book: Book, noise: NoiseSource, progress: Progress
) -> None:
    """Fit the method and keep its synthesizer; after a kill, go on where it stood.

    Guarantee: the whole plan stands in the owner's account book before the first record
    is used (rule 8), and in the ledger before the first noise is drawn.
    """
    plan, run = folder.read_plan()
    book.enter(plan.ident, plan, facts={"run folder": str(folder.path.resolve())})
    if folder.ledger.exists():
        journal = Journal.open(folder.path)
    else:
        journal = Journal.create(folder.path, plan, run)
    try:
        if journal.plan != plan:
            raise PrivacyError(
                f"the ledger in {folder.path} follows another plan than the one entered in the "
                "account book; restore the run folder, or start a new run."
            )
        if not (journal.ledger.closed and folder.synthesizer.exists()):
            _fit(prepared, folder, journal, book, noise, progress)
    finally:
        journal.release_lock()


def _fit(
    prepared: Prepared,
    folder: RunFolder,
    journal: Journal,
    book: Book,
    noise: NoiseSource,
    progress: Progress,
) -> None:
    device = choose_device(prepared.config.device)
    door = Door(
        journal,
        noise,
        device=device,
        progress=progress,
        owner_log=OwnerLog(folder.owner_log),
        shard_key=book.split_key(),
    )
    context = RunContext(door, progress, device, prepared.config.seed)
    handles = door.handles(prepared.material.parts, prepared.facts.counts)
    try:
        result = prepared.method.fit(
            prepared.settings.config, handles, journal.plan, PublicInputs(), context
        )
        door.settle()
    finally:
        door.abandon()
    folder.write_whole(folder.synthesizer, result.save)
    kind = type(result)
    folder.write_json("synthesizer.json", {"class": f"{kind.__module__}:{kind.__qualname__}"})
    journal.close()


def load_synthesizer(folder: RunFolder) -> Synthesizer:
    """The fitted synthesizer of a run folder."""
    if not folder.synthesizer.exists():
        raise UserError(f"{folder.path} has not been fitted yet; add --resume.")
    module, _, name = folder.read_json("synthesizer.json")["class"].partition(":")
    loaded = getattr(importlib.import_module(module), name).load(folder.synthesizer)
    if not isinstance(loaded, Synthesizer):
        raise UserError(f"{folder.path} holds a transformer, which cannot be sampled from.")
    return loaded
