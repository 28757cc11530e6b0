"""`understudy keygen`: keys to sign releases with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.guard import guarded


@guarded
def command(
    private: Annotated[Path, typer.Argument(help="File for the private key; keep it secret.")],
    public: Annotated[Path, typer.Argument(help="File for the public key; publish it.")],
) -> None:
    """Make an Ed25519 key pair to sign releases and collections with (`--sign`, `verify --key`)."""
    from understudy.release.signing import make_keys

    make_keys(private, public)
    typer.echo(f"private key {private} (keep it secret); public key {public} (publish it)")
