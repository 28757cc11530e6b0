"""`understudy filter train`: a filter for one's own choice, on one's own records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.bars import bars
from understudy.cli.filter.options import Data, Digest, EncoderFile, Part
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson, Settings, names


@guarded
def command(
    encoder: EncoderFile,
    data: Data,
    hide: Annotated[str, typer.Option(help="Attributes to hide, A,B.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The file, NAME.filter; keep it.")],
    keep: Annotated[str, typer.Option(help="Attributes to keep, C,D.")] = "",
    constraint: Annotated[str, typer.Option(help="kl, reverse-kl, chi-square or l2.")] = "kl",
    budget: Annotated[float, typer.Option(help="Most distortion, by that measure.")] = 3.0,
    set_: Settings = None,
    part: Part = None,
    digest: Digest = None,
    seed: Annotated[int, typer.Option(help="For training; never for noise.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train a filter on DATA that hides and keeps what you choose. Nothing leaves."""
    from understudy.filters.choice import Choice
    from understudy.filters.distortion import Distortion
    from understudy.filters.game import GameConfig
    from understudy.methods.config import changed_config
    from understudy.run.filter import Source, train_own_filter

    found = train_own_filter(
        Source(encoder, data, part, digest),
        Choice(names(hide), names(keep)),
        Distortion(constraint, budget),
        out,
        changed_config(GameConfig, set_ or ()),
        seed=seed,
        progress=bars(as_json),
    )
    if as_json:
        print_json(
            {
                "file": str(out),
                "hides": list(found.choice.private),
                "keeps": list(found.choice.useful),
                "constraint": constraint,
                "budget": budget,
                "distortion": found.measured,
                "encoder": found.encoder_digest,
            }
        )
        return
    typer.echo(f"filter      {out}  (keep it: it was trained on your records)")
    typer.echo(f"hides       {', '.join(found.choice.private)}")
    typer.echo(f"keeps       {', '.join(found.choice.useful) or 'no label'}")
    typer.echo(f"distortion  {found.measured:.4g} of {budget:g} ({constraint}) on these records")
    typer.echo("No epsilon: a stronger attacker than those it was tried against may read more.")
