"""`understudy verify`: does a release hold together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.colours import BAD, DOUBTFUL, GOOD, in_colour
from understudy.cli.guard import guarded, print_json
from understudy.cli.options import AsJson

if TYPE_CHECKING:
    from understudy.release.verify import Verification


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
        verdict, *lines = found.lines()
        typer.echo(in_colour(verdict, _colour_of(found)))
        for line in lines:
            typer.echo(line)
    if not found.ok:
        raise typer.Exit(1)


def _colour_of(found: Verification) -> str:
    if not found.ok:
        return BAD
    return GOOD if found.authenticated else DOUBTFUL
