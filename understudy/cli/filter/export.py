"""`understudy filter export`: encoder and filter as one ONNX graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.filter.options import EncoderFile
from understudy.cli.guard import guarded


@guarded
def command(
    encoder: EncoderFile,
    out: Annotated[Path, typer.Option("-o", "--out", help="The file, NAME.onnx.")],
    filter_: Annotated[
        Path | None, typer.Argument(metavar="[FILTER]", help="A filter for this encoder.")
    ] = None,
    decode: Annotated[
        bool, typer.Option("--decode", help="Give decoded records in place of latents.")
    ] = False,
) -> None:
    """Write an ONNX graph of encoder and filter. Its noise is an input: no local claim."""
    from understudy.run.filter import export_graph

    export_graph(encoder, filter_, out, decode=decode)
    typer.echo(f"graph  {out}")
    typer.echo("The noise is an input of the graph, so what comes out carries no local claim.")
