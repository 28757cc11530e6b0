"""`understudy filter init`: teach an encoder and publish its file (the owner's side)."""

from __future__ import annotations

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
    Home,
    Runs,
    Seed,
    Settings,
    Size,
    Unit,
    names,
)

if TYPE_CHECKING:
    from understudy.data.schema import Schema
    from understudy.run.encoder import PublishedEncoder


@guarded
def command(
    data: Data,
    out: Annotated[Path, typer.Option("-o", "--out", help="The file, NAME.safetensors.")],
    kind: Annotated[str, typer.Option(help="dense or densenet.")] = "dense",
    epsilon: Annotated[float | None, typer.Option(help="Learn privately at this budget.")] = None,
    delta: Delta = 1e-5,
    public_data: Annotated[
        bool, typer.Option("--public-data", help="You declare that DATA is public.")
    ] = False,
    reveal: Annotated[
        str | None, typer.Option(help="Read private DATA freely, for this reason: no guarantee.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The attribute that tells classes.")] = None,
    declare: Annotated[
        str | None,
        typer.Option(help="Attributes that users may send: names and classes become public."),
    ] = None,
    unit: Unit = None,
    count: Count = None,
    size: Size = None,
    channels: Channels = None,
    set_: Settings = None,
    seed: Seed = 0,
    device: Device = "auto",
    dataset: DatasetName = None,
    runs: Runs = Path("runs"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Teach an encoder on DATA and write the one file that users need."""
    from understudy.errors import UserError
    from understudy.run.config import RunConfig
    from understudy.run.encoder import EncoderRequest, init_encoder

    config = RunConfig(
        time=None,
        source=data,
        method=kind,
        epsilon=epsilon,
        delta=delta,
        label=label,
        unit=unit,
        size=size,
        channels=channels,
        count=count,
        dataset=dataset,
        changes=tuple(set_ or ()),
        seed=seed,
        device=device,
    )
    request = EncoderRequest(config, reveal, public_data, names(declare))
    try:
        found = init_encoder(
            request,
            out,
            run_folder=runs / out.stem,
            resume=resume,
            home=home,
            progress=bars(as_json),
        )
    except KeyboardInterrupt as stop:
        raise UserError("stopped by Ctrl-C; add --resume to go on with what is kept.") from stop
    _tell(found, as_json)


def _tell(found: PublishedEncoder, as_json: bool) -> None:
    encoder = found.encoder
    if as_json:
        print_json(
            {
                "file": str(found.path),
                "digest": found.digest,
                "latent": encoder.latent,
                "radius": encoder.radius,
                "declares": {a.name: list(a.classes) for a in encoder.schema.attributes},
                "provenance": encoder.provenance.to_json(),
            }
        )
        return
    typer.echo(encoder.provenance.statement)
    if encoder.provenance.licence:
        typer.echo(f"licence   {encoder.provenance.licence}  (of the training data)")
    typer.echo(f"encoder   {found.path}  ({encoder.latent} values, radius {encoder.radius:.4g})")
    typer.echo(f"digest    {found.digest}")
    typer.echo(f"declares  {_declared(encoder.schema)}")


def _declared(schema: Schema) -> str:
    """What users may send, and everybody who has the file can read."""
    if not schema.attributes:
        return "no attribute: users can send no labels; name public ones with --declare"
    return ", ".join(f"{a.name} ({len(a.classes)} classes)" for a in schema.attributes)
