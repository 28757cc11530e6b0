"""`understudy filter apply`: make the folder that a user sends."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.bars import bars
from understudy.cli.filter.options import Digest, EncoderFile, Part
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson, DatasetName, Home, names


@guarded
def command(
    encoder: EncoderFile,
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="[FILTER] DATA", help="Your filter file, and your own records."),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to send.")],
    send: Annotated[str, typer.Option(help="latents or images.")] = "latents",
    labels: Annotated[
        str | None, typer.Option(help="Kept labels to send, A,B ('' for none); all by default.")
    ] = None,
    mechanism: Annotated[str, typer.Option(help="filter or gaussian.")] = "filter",
    epsilon: Annotated[float | None, typer.Option(help="Of the Gaussian mechanism.")] = None,
    delta: Annotated[float, typer.Option(help="Of the Gaussian mechanism.")] = 1e-5,
    label_epsilon: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=E", help="Send this label randomised; repeatable."),
    ] = None,
    public_labels: Annotated[
        str, typer.Option(help="Send these labels as they are: you declare them public.")
    ] = "",
    part: Part = None,
    digest: Digest = None,
    dataset: DatasetName = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Filter DATA and write the folder to send; what is in it is listed, nothing else leaves."""
    from understudy.run.filter import Source, apply_for_collector, sending_of

    sending, data = sending_of(
        inputs,
        mechanism,
        content=send,
        labels=None if labels is None else names(labels),
        epsilon=epsilon,
        delta=delta,
        label_epsilons=label_epsilon or (),
        public_labels=names(public_labels),
    )
    found = apply_for_collector(
        Source(encoder, data, part, digest, dataset),
        sending,
        out,
        home=home,
        progress=bars(as_json),
    )
    if as_json:
        print_json(found.to_json())
        return
    for line in found.lines():
        typer.echo(line)
