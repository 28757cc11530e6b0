"""A job: one fit for a machine that has torch, numpy and safetensors and nothing else.

`JOB/cells/NAME/job.json` holds everything but the records, which several jobs may share:
`JOB/records/*.npz`. The plan in it is calibrated and stands in the owner's account book. A
job holds private records and the owner's shard key: only machines that the owner trusts
may see it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data.record_arrays import arrays_of
from understudy.data.records import Records
from understudy.durable import OWNER_ONLY, replacing
from understudy.errors import UserError
from understudy.privacy.plan.plan import Plan

FORMAT = "understudy-job/1"
FILE = "job.json"


@dataclass(frozen=True)
class FitJob:
    """What is to be fitted, and how.

    method: `package.module:Class`; code: the digest of its code, as the fit key has it.
    run: what the ledger's first line says of the run. counts: declared units of each part.
    records: the file of each part, relative to the job folder. samples: how many to make.
    public: file and schema of each public input.
    token: drawn when the job was packed; the account book knows the run by it.
    commit, dirty, package: the packing machine's code, and the digest of its files.
    """

    title: str
    token: str
    method: str
    code: str
    config: Mapping[str, Any]
    plan: Plan
    run: Mapping[str, Any]
    schema: Mapping[str, Any]
    shape: tuple[int, ...]
    counts: Mapping[str, int]
    records: Mapping[str, str]
    public: Mapping[str, Mapping[str, Any]]
    seed: int
    samples: int
    shard_key: bytes
    keys: Mapping[str, str]
    commit: str
    dirty: bool | None
    package: str

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in _PLAIN}
        return {
            "format": FORMAT,
            **{k: dict(v) if isinstance(v, Mapping) else v for k, v in plain.items()},
            "plan": self.plan.to_json(),
            "shape": list(self.shape),
            "shard_key": self.shard_key.hex(),
        }

    @staticmethod
    def read(folder: Path) -> FitJob:
        path = folder / FILE
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["format"] != FORMAT:
                raise UserError(f"{path} has format {data['format']!r}, not {FORMAT!r}.")
            return FitJob(
                **{name: data[name] for name in _PLAIN},
                plan=Plan.from_json(data["plan"]),
                shape=tuple(data["shape"]),
                shard_key=bytes.fromhex(data["shard_key"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} cannot be read as a job: {error!r}.") from error


_PLAIN = (
    *("title", "token", "method", "code", "config", "run", "schema", "counts", "records"),
    *("public", "seed", "samples", "keys", "commit", "dirty", "package"),
)


def write_records(folder: Path, records: Records) -> str:
    """Keep records in a folder, once; gives the file's name. Nothing in it is pickled."""
    arrays = arrays_of(records)
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode() + str(arrays[name].shape).encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    path = folder / f"{digest.hexdigest()[:16]}.npz"
    if not path.exists():
        with replacing(path, OWNER_ONLY) as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return path.name


def package_digest() -> str:
    """A digest of this package's source files: whether two machines run the same code."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()
