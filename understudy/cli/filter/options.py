"""Arguments that the verbs of `understudy filter` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EncoderFile = Annotated[Path, typer.Argument(help="The encoder file that its owner published.")]
Data = Annotated[str, typer.Argument(help="Your own records: folder, Parquet file or name.")]
Part = Annotated[str | None, typer.Option(help="Which part of DATA, where it is divided.")]
Digest = Annotated[str | None, typer.Option(help="The encoder's digest as its owner states it.")]
