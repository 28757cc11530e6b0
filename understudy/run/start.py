"""A run starts: it gets its folder and its plan, is entered in the account book, and executed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from understudy.errors import UserError
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.team.team import Team
from understudy.progress import Progress, Silent
from understudy.run.books import open_book, require_own_book
from understudy.run.config import RunConfig, read_config, write_config
from understudy.run.execute_plan import MethodInputs, execute_plan
from understudy.run.folder import RunFolder, create_run_folder
from understudy.run.prepare import Prepared, calibrate, prepare, run_facts, sample_count
from understudy.run.public import cache_beside, public_inputs
from understudy.run.team_worker import work_for_leader


def taken_together(config: RunConfig, team: Team) -> RunConfig:
    """The config that all processes of a team can follow: tried by each, settings would differ."""
    return config if team.size == 1 else replace(config, time=None)


def noise_of(config: RunConfig, rank: int = 0) -> NoiseSource:
    """Secret noise, unless the config asks for a seed; each process of a team has its own."""
    if config.insecure_noise_seed is None:
        return NoiseSource()
    return NoiseSource.insecure(config.insecure_noise_seed + (rank << 64))


def resumed(path: Path, config: RunConfig, home: Path | None) -> tuple[RunFolder, RunConfig]:
    """The folder of an earlier start, and its config.

    Guarantee: a run goes on with the options it began with, and in the book that it stands in.
    What it had left open stays as it was decided when it began.
    """
    began = read_config(path)
    differing = began.differing(config.decided_as(began))
    if differing:
        raise UserError(
            f"--resume must repeat the run's options, as in {path / 'config.yaml'}; "
            f"not the same: {', '.join(differing)}."
        )
    folder = RunFolder(path)
    require_own_book(began, folder, home)
    return folder, began


def begin(
    path: Path,
    prepared: Prepared,
    noise: NoiseSource,
    also: Callable[[RunFolder], None] | None = None,
) -> RunFolder:
    """A new run folder with its config and its calibrated plan; nothing is spent yet.

    also: writes what else must be there from the first moment.
    """
    plan = calibrate(prepared)

    def fill(folder: RunFolder) -> None:
        write_config(folder.path, prepared.config)
        folder.write_plan(plan, run_facts(prepared, noise).to_json())
        if also is not None:
            also(folder)

    return create_run_folder(path, fill)


def check_same_facts(folder: RunFolder, prepared: Prepared, noise: NoiseSource) -> None:
    """The plan was made for declared facts; going on with others would not follow it."""
    began = folder.read_plan()[1]
    facts = run_facts(prepared, noise)
    if not any("use" in stated for stated in began.get("public_inputs", ())):
        facts = facts.as_version_0_1()
    now = json.loads(json.dumps(facts.to_json()))
    differing = sorted(k for k in now.keys() | began.keys() if now.get(k) != began.get(k))
    if differing:
        raise UserError(
            f"{folder.path} was begun with other data, or by another version of Understudy or of "
            f"the method ({', '.join(differing)} differ); restore what it began with, or start a "
            "new run."
        )


def enter_and_execute(
    prepared: Prepared,
    folder: RunFolder,
    book: Book,
    noise: NoiseSource,
    progress: Progress,
    team: Team | None = None,
) -> None:
    """Fit the method and keep its synthesizer; after a kill, go on where it stood.

    Guarantee: the whole plan stands in the owner's account book before the first record
    is used (rule 8), and in the ledger before the first noise is drawn. Where `team` has
    several processes this is called in the first, and `execute_along` in every other.
    """
    team = team or Team()
    plan, _ = folder.read_plan()
    book.enter(plan.ident, plan, facts={"run folder": str(folder.path.resolve())})
    team.number()  # from now on the others find the book and its split key
    execute_plan(folder, method_inputs(prepared, book), noise, progress, team)


def execute_along(config: RunConfig, team: Team, *, home: Path | None = None) -> None:
    """What every process but the first does for a run: read the same records, and follow.

    Guarantee: as `work_for_leader`. It waits until the run stands in the account book and writes
    nothing, there or elsewhere.
    """
    team.number()
    prepared = prepare(taken_together(config, team), home, Silent())
    inputs = method_inputs(prepared, open_book(config, home))
    work_for_leader(inputs, team, noise_of(config, team.rank))


def method_inputs(prepared: Prepared, book: Book) -> MethodInputs:
    """What this run's method is fitted with, here or on another machine."""
    return MethodInputs(
        method=prepared.method,
        config=prepared.settings.config,
        parts=prepared.parts,
        counts=prepared.facts.counts,
        device=prepared.config.device,
        seed=prepared.config.seed,
        samples=sample_count(prepared),
        shard_key=book.split_key(),
        public=public_inputs(prepared.public, cache_beside(book)),
    )
