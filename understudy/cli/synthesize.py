"""`understudy synthesize`: from data and a budget to a verified release."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.bars import bars
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import (
    AsJson,
    Channels,
    Count,
    Data,
    DatasetName,
    Delta,
    Device,
    DeviceKind,
    Hide,
    Home,
    Keep,
    Label,
    MethodOrBest,
    Preset,
    Public,
    Runs,
    Seed,
    Settings,
    Size,
    Time,
    Unit,
    Weights,
    names,
    seconds_of,
)
from understudy.errors import UserError

if TYPE_CHECKING:
    from understudy.privacy.team.team import Team
    from understudy.progress import Progress
    from understudy.run.config import RunConfig
    from understudy.run.synthesize import Preview, RunResult


@guarded
def command(
    data: Data,
    method: MethodOrBest = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="The release to write.", show_default="DATA-METHOD-epsilonE"
        ),
    ] = None,
    time: Time = None,
    device_kind: DeviceKind = None,
    epsilon: Annotated[float | None, typer.Option(help="The privacy budget.")] = None,
    delta: Delta = 1e-5,
    label: Label = None,
    unit: Unit = None,
    count: Count = None,
    size: Size = None,
    channels: Channels = None,
    classes: Annotated[str | None, typer.Option(help="Declared class names, by comma.")] = None,
    hide: Hide = None,
    keep: Keep = None,
    public: Public = None,
    weights: Weights = None,
    preset: Preset = None,
    set_: Settings = None,
    samples: Annotated[int | None, typer.Option(help="How many records to make.")] = None,
    holdout: Annotated[float, typer.Option(help="Fraction kept for evaluation.")] = 0.15,
    seed: Seed = 0,
    device: Device = "auto",
    dataset: DatasetName = None,
    name: Annotated[str | None, typer.Option(help="The run's name under --runs.")] = None,
    runs: Runs = Path("runs"),
    title: Annotated[str | None, typer.Option(help="Title of the card and the reports.")] = None,
    sign: Annotated[Path | None, typer.Option(help="Private key file to sign with.")] = None,
    selected_by: Annotated[
        str | None, typer.Option(help="What these settings were chosen by, or `nothing`.")
    ] = None,
    selected_among: Annotated[
        list[str] | None, typer.Option(help="What they were chosen among; repeatable.")
    ] = None,
    selection_covered: Annotated[
        bool, typer.Option("--selection-covered", help="That choice is public or charged.")
    ] = False,
    noise: Annotated[
        str | None, typer.Option(help="exact or float; exact where the method can have it.")
    ] = None,
    insecure_noise_seed: Annotated[
        int | None, typer.Option(help="Repeatable noise; the run can never be released.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show plan and cost only.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Make a synthetic stand-in for DATA and release it with a claim that can be checked."""
    from understudy.run.config import RECOMMENDED, RunConfig

    config = RunConfig(
        source=data,
        method=method or RECOMMENDED,
        epsilon=epsilon,
        delta=delta,
        label=label,
        unit=unit,
        size=size,
        channels=channels,
        classes=names(classes),
        hide=names(hide),
        keep=names(keep),
        public=tuple(public or ()),
        weights=tuple(weights or ()),
        count=count,
        holdout=holdout,
        dataset=dataset,
        preset=preset,
        changes=tuple(set_ or ()),
        samples=samples,
        seed=seed,
        device=device,
        selected_among=tuple(selected_among or ()),
        selected_by=selected_by,
        selection_covered=selection_covered,
        noise=noise,
        insecure_noise_seed=insecure_noise_seed,
        time=_time(time, preset),
        device_kind=device_kind,
    )
    out = out or Path(_release_name(config))
    asked = _Asked(config, out, runs / _run_name(name, out), resume, sign, title, home)
    if dry_run:
        _show_preview(asked.preview(bars(as_json)), as_json)
        return
    team = _team(device)
    if team is not None and not team.leads:
        _fit_along(config, team, home)
        return
    try:
        result = asked.run(bars(as_json), team)
    except KeyboardInterrupt as stop:
        begun = "what was finished is kept, add --resume to go on"
        raise UserError(
            f"stopped by Ctrl-C; {begun if asked.run_folder.exists() else 'nothing had begun'}."
        ) from stop
    if team is not None:
        team.leave()
    _show_result(result, as_json)


@dataclass(frozen=True)
class _Asked:
    """One run with its places, so that a dry run is given what the run would be."""

    config: RunConfig
    out: Path
    run_folder: Path
    resume: bool
    signing_key: Path | None
    title: str | None
    home: Path | None

    def preview(self, progress: Progress) -> Preview:
        from understudy.run.synthesize import preview

        return preview(
            self.config,
            self.out,
            run_folder=self.run_folder,
            resume=self.resume,
            signing_key=self.signing_key,
            title=self.title,
            home=self.home,
            progress=progress,
        )

    def run(self, progress: Progress, team: Team | None) -> RunResult:
        from understudy.run.synthesize import synthesize

        try:
            return synthesize(
                self.config,
                self.out,
                run_folder=self.run_folder,
                resume=self.resume,
                signing_key=self.signing_key,
                title=self.title,
                home=self.home,
                progress=progress,
                team=team,
            )
        except KeyboardInterrupt as stop:
            raise UserError(
                "stopped by Ctrl-C; what was finished is kept, add --resume to go on."
            ) from stop


def _release_name(config: RunConfig) -> str:
    """What a release is called that nobody named, in the folder where one works."""
    from understudy.run.config import RECOMMENDED

    data = config.dataset or Path(config.source).name
    budget = "" if config.epsilon is None else f"-epsilon{config.epsilon:g}"
    method = "" if config.method == RECOMMENDED else f"-{Path(config.method).name}"
    words = f"{data}{method}{budget}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", words).strip("-.")


def _time(asked: str | None, preset: str | None) -> float | None:
    """Seconds that settings are fitted into; several processes cannot try each for itself."""
    from understudy.run.config import TEN_MINUTES

    together = "WORLD_SIZE" in os.environ
    if asked is None:
        return None if together or preset is not None else TEN_MINUTES
    if together:
        raise UserError("--time is for one process; under torchrun choose settings by --preset.")
    if preset is not None:
        raise UserError("--time fits settings and --preset names them; give one of the two.")
    return seconds_of(asked)


def _run_name(name: str | None, out: Path) -> str:
    """What the run folder is called; the release's name, where the owner gives none."""
    if name is None:
        return out.name
    if name in ("", ".", "..") or Path(name).name != name:
        raise UserError(f"--name must be one name without '/', not {name!r}; see --runs.")
    return name


def _team(device: str) -> Team | None:
    """The processes that `torchrun` started beside this one, if it did."""
    if "WORLD_SIZE" not in os.environ:
        return None
    from understudy.privacy.team.team import Team
    from understudy.run.context import choose_device

    return Team.join(choose_device(device))


def _fit_along(config: RunConfig, team: Team, home: Path | None) -> None:
    """In every process but the first, which does all the talking."""
    from understudy.run.start import execute_along

    try:
        execute_along(config, team, home=home)
        team.leave()
    except KeyboardInterrupt as stop:
        raise typer.Exit(2) from stop


def _show_preview(found: Preview, as_json: bool) -> None:
    from understudy.privacy.plan.mechanisms import mechanism_from_json
    from understudy.privacy.plan.mechanisms.registry import RESERVED
    from understudy.run.listing import duration
    from understudy.run.notices import guess_in_words, protected_in_words

    shown = found.to_json()
    if as_json:
        print_json(shown)
        return
    cost = shown["epsilon"]
    if not isinstance(cost, str):
        cost = f"{cost:.4f}" if cost >= 0.01 else f"{cost:.3g}"
    typer.echo(f"epsilon {cost} at delta {shown['delta']:g} ({shown['accountant']})")
    typer.echo(f"in all: {found.composed.sentence()}")
    typer.echo(protected_in_words(shown["unit"]))
    if not isinstance(shown["epsilon"], str):
        typer.echo(guess_in_words(shown["epsilon"], shown["unit"]))
    parts = {part: n for part, n in shown["counts"].items() if n != shown["count"]}
    used = "".join(f", {n:,} of them to {part}" for part, n in parts.items())
    units = "" if shown["unit"] is None else f" (each one {shown['unit']}, with all its images)"
    typer.echo(f"count {shown['count']:,}{units}{used}; makes {shown['records']:,} records")
    typer.echo(f"method {shown['method']}; settings: {_settings_in_words(found)}")
    for given in shown["public_inputs"]:
        licence = given["licence"] or "unknown"
        typer.echo(f"public {given['kind']}: {given['use']} = {given['name']} (licence: {licence})")
    apart = ("name", "part", *RESERVED)
    for mechanism in shown["plan"]["mechanisms"]:
        numbers = {k: v for k, v in mechanism.items() if k not in apart}
        written = ", ".join(
            f"{k} {v:g}" if isinstance(v, int | float) else f"{k} {v}" for k, v in numbers.items()
        )
        typer.echo(f"  {mechanism['name']}: {mechanism['kind']} on {mechanism['part']}, {written}")
        typer.echo(f"    {mechanism_from_json(mechanism).words()}")
    if shown["expected"]:
        expected = shown["expected"]
        took = duration(expected["seconds"])
        anew = "" if found.prepared.tried is None else "; tried anew when it begins"
        typer.echo(f"expected {expected['where']}: about {took}, {expected['gigabytes']} GB{anew}")
    typer.echo("Nothing was spent and nothing was written.")


def _settings_in_words(found: Preview) -> str:
    config, preset = found.prepared.config, found.prepared.settings.preset
    return f"preset {preset}" if not config.fitted else f"{preset} ({', '.join(config.fitted)})"


def _show_result(result: RunResult, as_json: bool) -> None:
    from understudy.release.layout import SHEET

    claim = result.claim
    if as_json:
        print_json(
            {
                "epsilon": claim.to_json()["epsilon"],
                "delta": claim.delta,
                "composed": result.composed.to_json(),
                "claim": claim.to_json(),
                "release": None if result.release is None else str(result.release),
                "digest": result.digest,
                "run": str(result.run),
                "report": str(result.report),
                "refusals": list(result.refusals),
            }
        )
        return
    for reason in result.refusals:
        typer.echo(reason)
    if result.release is not None:
        typer.echo(claim.statement[0])
        typer.echo(f"release   {result.release}  (all of it may be handed on)")
        typer.echo(f"digest    {result.digest}")
        typer.echo(f"pictures  {result.release / SHEET}")
    typer.echo(f"report    {result.report}  (the owner's)")
    typer.echo(f"in all    {result.composed.sentence()}")
    typer.echo(f"next      understudy evaluate --run {shlex.quote(str(result.run))}")
    typer.echo("          (minutes; --test DATA judges it on pictures from elsewhere)")
