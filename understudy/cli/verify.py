"""`understudy verify`: does a release hold together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson


@guarded
def command(
    release: Annotated[Path, typer.Argument(help="A release folder.")],
    digest: Annotated[str | None, typer.Option(help="The digest that its owner published.")] = None,
    key: Annotated[Path | None, typer.Option(help="The owner's public key file.")] = None,
    encoder: Annotated[
        Path | None, typer.Option(help="Of a collection: the encoder file that it must cite.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute the cost and every hash of a release; exit code 1 if it does not hold."""
    from understudy.federated.collection_check import verify_any

    found = verify_any(release, digest=digest, key=key, encoder=encoder)
    if as_json:
        print_json(
            {
                "ok": found.ok,
                "verdict": found.verdict,
                "problems": list(found.problems),
                "notes": list(found.notes),
                "digest": found.digest,
                "authenticated": found.authenticated,
            }
        )
    else:
        for line in found.lines():
            typer.echo(line)
    if not found.ok:
        raise typer.Exit(1)
