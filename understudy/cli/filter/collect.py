"""`understudy filter collect`: merge what users sent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson


@guarded
def command(
    sent: Annotated[list[Path], typer.Argument(help="Folders that users sent.")],
    encoder: Annotated[Path, typer.Option(help="The encoder file that all of them used.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write.")],
    send: Annotated[str, typer.Option(help="What was agreed on: latents or images.")] = "latents",
    mechanism: Annotated[str, typer.Option(help="any, filter or gaussian.")] = "any",
    epsilon: Annotated[
        float | None, typer.Option(help="Take no weaker local promise, and no filters.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="The same for delta (1e-5).")] = None,
    title: Annotated[str, typer.Option(help="One line.")] = "Collected from many users",
    sign: Annotated[Path | None, typer.Option(help="Private key file to sign with.")] = None,
    as_json: AsJson = False,
) -> None:
    """Merge filtered data of many users; what cannot be taken is named and left out."""
    from understudy.run.filter import collect_folders

    found = collect_folders(
        sent,
        encoder,
        out,
        content=send,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=delta,
        title=title,
        signing_key=sign,
    )
    if as_json:
        print_json(found.to_json())
        return
    for line in found.lines():
        typer.echo(line)
