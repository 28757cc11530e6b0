"""`understudy audit`: a lower bound on a method's epsilon, from canaries."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli import completion
from understudy.cli.bars import bars
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import (
    AsJson,
    Channels,
    DatasetName,
    Device,
    Hide,
    Home,
    Keep,
    Public,
    Settings,
    Size,
    Unit,
    Weights,
    names,
)

if TYPE_CHECKING:
    from understudy.run.audit import MethodAudit


_WIDTH = 80


@guarded
def command(
    method: Annotated[
        str, typer.Argument(help="See `understudy methods`.", autocompletion=completion.methods)
    ],
    data: Annotated[
        str, typer.Option(help="What it runs on.", autocompletion=completion.datasets)
    ] = "digits",
    epsilon: Annotated[float, typer.Option(help="The claim to audit.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Of the claim and of the bound.")] = 1e-5,
    canaries: Annotated[
        int | None, typer.Option(help="Units that join by a coin.", show_default="5000 or 500")
    ] = None,
    guesses: Annotated[
        int | None, typer.Option(help="Coins that are guessed.", show_default="40% of them")
    ] = None,
    black_box: Annotated[
        bool,
        typer.Option(
            "--black-box/--white-box",
            help="Guess from the released records, or from every output of the door.",
        ),
    ] = False,
    estimator: Annotated[str, typer.Option(help="f-dp or one-run.")] = "f-dp",
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 0.95,
    noise: Annotated[
        str | None, typer.Option(help="exact or float.", show_default="as for synthesize")
    ] = None,
    noise_factor: Annotated[
        float, typer.Option(help="0 audits a twin without noise; public data only.")
    ] = 1.0,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Keep the ledger and audit.json here.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The attribute to learn.")] = None,
    unit: Unit = None,
    hide: Hide = None,
    keep: Keep = None,
    size: Size = None,
    channels: Channels = None,
    dataset: DatasetName = None,
    public: Public = None,
    weights: Weights = None,
    set_: Settings = None,
    seed: Annotated[int, typer.Option(help="For everything but noise, coins and sampling.")] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Attack METHOD's claim with canaries; exit code 1 if the claim does not hold."""
    from understudy.errors import UserError
    from understudy.run.audit import audit_method
    from understudy.run.config import RunConfig

    if math.isinf(epsilon):
        raise UserError(f"--epsilon must be a finite number above 0, not {epsilon}.")
    config = RunConfig(
        time=None,
        source=data,
        method=method,
        epsilon=epsilon,
        delta=delta,
        label=label,
        unit=unit,
        hide=names(hide),
        keep=names(keep),
        size=size,
        channels=channels,
        dataset=dataset,
        public=tuple(public or ()),
        weights=tuple(weights or ()),
        noise=noise,
        changes=tuple(set_ or ()),
        seed=seed,
        device=device,
    )
    try:
        found = audit_method(
            config,
            canaries=canaries,
            guesses=guesses,
            view="black-box" if black_box else "white-box",
            estimator=estimator,
            confidence=confidence,
            noise_factor=noise_factor,
            out=out,
            home=home,
            progress=bars(as_json),
        )
    except KeyboardInterrupt as stop:
        raise UserError(
            "stopped by Ctrl-C, and nothing is kept; what the account book has of it stays there, "
            "and another audit is counted again."
        ) from stop
    if as_json:
        print_json(found.to_json())
    else:
        _show(found)
    if found.result.contradicted:
        raise typer.Exit(1)


def _show(found: MethodAudit) -> None:
    result = found.result
    plan = result.plan
    twin = "" if found.noise_factor == 1 else f", noise times {found.noise_factor:g}"
    typer.echo(f"{found.method} on {found.dataset}, {plan.view}{twin}")
    typer.echo(
        f"lower bound  epsilon {result.lower_bound:.3f} at delta {plan.delta:g}, "
        f"confidence {plan.confidence:g} ({plan.estimator})"
    )
    typer.echo(f"claim        epsilon {result.claim:.3f}")
    typer.echo(f"ceiling      epsilon {result.ceiling:.3f}, if every guess were right")
    typer.echo(
        f"guesses      {result.correct:,} of {plan.guesses:,} right, "
        f"about {plan.canaries:,} canaries"
    )
    typer.echo(textwrap.fill(result.verdict(), _WIDTH))
    typer.echo("The run is in the account book as an audit; it cannot be released.")
