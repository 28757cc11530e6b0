"""The faces' encoder at its full size, taught on a machine that has only torch and a GPU.

    python benchmarks/encoder_away.py pack UTKFACE -o JOB [--set KEY=VALUE]        (here)
    python benchmarks/encoder_away.py teach JOB -o OUT/faces.safetensors \
        --device cuda --minutes 8                                                  (there)
    python benchmarks/encoder_away.py join OUT -o faces.safetensors                (here)
    python benchmarks/encoder_away.py settle JOB -o faces.safetensors              (anywhere)

`pack` writes the JPEG files of the encoder's share (`faces.py`) as they are, and the settings.
`teach` decodes them, by Pillow or torchvision, whichever is there, and runs the training of
`understudy filter init`. Out of time, it leaves its checkpoint in JOB and, in pieces, beside the
file it was to write: the same command goes on, there or, with the pieces put into JOB, on
another machine. Files above 15 MB are written in pieces; `join` puts them together again. `settle`
takes the encoder as the checkpoint in JOB has it; its file says after how many steps that was.

UTKFace is for non-commercial research. A job holds its pictures and an encoder is a model of them:
neither is to be published, and the encoder's file says so.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from face_job import (
    ENDS,
    FORMAT,
    PIECE_BYTES,
    decoded,
    files_of,
    joined_pieces,
    read_job,
    write_job,
    write_pieces,
)

from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.durable import replace_durably
from understudy.encoders.autoencoder_training import Checkpoint, settings_mark
from understudy.encoders.encoder import Encoder
from understudy.encoders.file import read_encoder, write_encoder
from understudy.encoders.provenance import REVEALED, Provenance
from understudy.errors import UserError
from understudy.methods.config import build_config, config_to_json
from understudy.methods.vae import DenseNetVAE
from understudy.progress import Task
from understudy.run.context import choose_device

CHECKPOINT = "training.safetensors"
DONE, UNFINISHED = 0, 3
_SAY_EVERY, _SAVE_EVERY = 10.0, 30.0


def main(words: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(words)
    try:
        if asked.verb == "pack":
            pack(asked.data, asked.out, asked.set, asked.seed, asked.limit)
        elif asked.verb == "teach":
            return teach(asked.job, asked.out, asked.device, asked.minutes)
        elif asked.verb == "settle":
            settle(asked.job, asked.out)
        else:
            encoder = join_encoder(asked.folder, asked.out)
            print(f"joined   {asked.out}: digest {encoder.digest}")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return DONE


def pack(data: Path, out: Path, changes: Sequence[str], seed: int, limit: int | None) -> None:
    """Write JOB: the pictures of the encoder's share as files, settings, and what to say of it.

    Guarantee: none; the encoder that comes of it says epsilon infinite for these people.
    """
    from faces import ENCODER, NAME, face_parts, taught_on

    from understudy.data.catalog import DATA_VARIABLE
    from understudy.data.load import load
    from understudy.data.terms import licence_of_models
    from understudy.methods.config import resolve_config

    if data.name != NAME or not data.is_dir():
        raise UserError(f"{data} must be a folder called {NAME} that holds UTKFace.tar.gz.")
    if out.exists():
        raise UserError(f"-o {out} exists already; choose another or delete it.")
    os.environ[DATA_VARIABLE] = str(data.resolve().parent)
    dataset = load(NAME)
    records = face_parts(dataset)[ENCODER]
    records = records.select(np.arange(min(limit or len(records), len(records))))
    settings = resolve_config(DenseNetVAE(), NAME, None, changes)
    changed = f"; changed by hand: {', '.join(settings.changed)}" if settings.changed else ""
    provenance = Provenance(
        taught_on(dataset.provenance, records),
        REVEALED,
        math.inf,
        settings=f"preset {settings.preset} ({settings.tuned_on}){changed}",
        licence=licence_of_models(NAME, dataset.licence),
    )
    told = {
        "format": FORMAT,
        "config": config_to_json(settings.config),
        "seed": seed,
        "shape": list(records.shape),
        "schema": dataset.schema.to_json(),
        "provenance": provenance.to_json(),
    }
    size = write_job(out, told, records, files_of(data, records))
    print(f"packed   {len(records):,} pictures, {size / 2**20:.1f} MiB, {out}")


def teach(job: Path, out: Path, device: str, minutes: float) -> int:
    """Teach the packed encoder through the code of `understudy filter init`; write its file."""
    if out.suffix != ".safetensors":
        raise UserError(f"-o must be NAME.safetensors, not {out.name!r}.")
    clock = Clock(minutes * 60)
    told = read_job(job)
    where = choose_device(device)
    config = build_config(DenseNetVAE.Config, told["config"])
    images = decoded(job, tuple(told["shape"]))
    clock.say(f"{len(images):,} pictures decoded; teaching on {_device_name(where)}")
    clock.records_a_step = config.batch
    keep = _checkpoint(job, told)
    out.parent.mkdir(parents=True, exist_ok=True)
    method, records = DenseNetVAE(), Records(images, {}, Schema(()))
    provenance = Provenance.from_json(told["provenance"])
    try:
        encoder = method.learn_openly(config, records, provenance, told["seed"], where, clock, keep)
    except OutOfTimeError:
        kept = keep.path.exists()
        pieces = write_pieces(out.parent, CHECKPOINT, keep.path.read_bytes()) if kept else 0
        clock.say(f"out of time; the checkpoint is in {job} and beside {out.name}, {pieces} pieces")
        return UNFINISHED
    digest = _write_encoder(out, replace(encoder, schema=_choosable(told)))
    clock.say(f"wrote {out}: digest {digest}")
    return DONE


def settle(job: Path, out: Path) -> None:
    """Write the encoder as its stopped training left it; the settings in its file say so."""
    if out.exists():
        raise UserError(f"-o {out} exists already; choose another or delete it.")
    told = read_job(job)
    config = build_config(DenseNetVAE.Config, told["config"])
    planned = config.epochs * math.ceil(len(np.load(job / ENDS, allow_pickle=False)) / config.batch)
    whole = Provenance.from_json(told["provenance"])

    def provenance(steps: int) -> Provenance:
        stopped = f"{whole.settings}; stopped after {steps:,} of {planned:,} steps"
        return replace(whole, settings=stopped)

    encoder = DenseNetVAE().as_kept(
        config, tuple(told["shape"]), provenance, told["seed"], _checkpoint(job, told)
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_encoder(out, replace(encoder, schema=_choosable(told)))
    print(f"settled  {out}: {encoder.provenance.settings}")


def _choosable(told: Mapping[str, Any]) -> Schema:
    """The attributes that users choose among; learning looked at none of them."""
    return replace(Schema.from_json(told["schema"]), label=None)


def _checkpoint(job: Path, told: Mapping[str, Any]) -> Checkpoint:
    mark = settings_mark(told["config"], told["seed"], told["provenance"]["trained_on"])
    _take_pieces(job)
    return Checkpoint(job / CHECKPOINT, mark, _SAVE_EVERY)


class OutOfTimeError(Exception):
    """The minutes are over; what was kept last is kept."""


class Clock:
    """Progress as lines with pictures a second and time left; raises when the time is over."""

    def __init__(self, seconds: float) -> None:
        self.start = time.monotonic()
        self.end = self.start + seconds
        self.records_a_step = 1

    def say(self, line: str) -> None:
        print(f"{time.monotonic() - self.start:6.1f} s  {line}", flush=True)

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        yield _Ticks(self, description, total or 0)


class _Ticks:
    def __init__(self, clock: Clock, description: str, total: int) -> None:
        self._clock, self._what, self._total = clock, description, total
        self._done = self._since = 0
        self._said = time.monotonic()

    def advance(self, steps: int = 1) -> None:
        self._done += steps
        now = time.monotonic()
        if steps > 1:  # what an earlier start had done
            self._since = self._done
        if now - self._said >= _SAY_EVERY:
            rate = (self._done - self._since) / (now - self._said)
            left = (self._total - self._done) / max(rate, 1e-9)
            pictures = rate * self._clock.records_a_step
            self._clock.say(
                f"{self._what} {self._done:,}/{self._total:,}, {pictures:,.0f} pictures/s, "
                f"{left / 60:.1f} min left"
            )
            self._said, self._since = now, self._done
        if now > self._clock.end and self._done < self._total:
            raise OutOfTimeError

    def note(self, text: str) -> None:
        del text


def _take_pieces(job: Path) -> None:
    """A checkpoint that came in pieces from another machine."""
    content = joined_pieces(job, CHECKPOINT)
    if content is not None and not (job / CHECKPOINT).exists():
        replace_durably(job / CHECKPOINT, content)


def _write_encoder(out: Path, encoder: Encoder) -> str:
    """The file, or its pieces where it is large."""
    digest = write_encoder(out, encoder)
    if out.stat().st_size > PIECE_BYTES:
        write_pieces(out.parent, out.name, out.read_bytes())
        out.unlink()
    return digest


def join_encoder(folder: Path, out: Path) -> Encoder:
    """The encoder whose file, or whose pieces, lie in a folder; refused if it is damaged."""
    if out.exists():
        raise UserError(f"-o {out} exists already; choose another or delete it.")
    whole = folder / out.name
    content = whole.read_bytes() if whole.is_file() else joined_pieces(folder, out.name)
    if content is None:
        raise UserError(f"{folder} holds neither {out.name} nor pieces of it.")
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_durably(out, content)
    try:
        return read_encoder(out)
    except UserError:
        out.unlink()
        raise


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack", help="here: write a job")
    packing.add_argument("data", type=Path, help="the folder utkface, with UTKFace.tar.gz in it")
    packing.add_argument("-o", "--out", type=Path, required=True, help="the job folder to write")
    packing.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    packing.add_argument("--seed", type=int, default=0)
    packing.add_argument("--limit", type=int, help="so many pictures only, to try it")
    teaching = verbs.add_parser("teach", help="there: teach the encoder, or go on with it")
    teaching.add_argument("job", type=Path)
    teaching.add_argument("-o", "--out", type=Path, required=True, help="NAME.safetensors")
    teaching.add_argument("--device", default="auto")
    teaching.add_argument("--minutes", type=float, default=8.0, help="of this call, decoding too")
    settling = verbs.add_parser("settle", help="the encoder as a stopped training left it")
    settling.add_argument("job", type=Path)
    settling.add_argument("-o", "--out", type=Path, required=True, help="NAME.safetensors")
    joining = verbs.add_parser("join", help="here: the encoder's file from what came back")
    joining.add_argument("folder", type=Path)
    joining.add_argument("-o", "--out", type=Path, required=True, help="NAME.safetensors")
    return parser


if __name__ == "__main__":
    sys.exit(main())
