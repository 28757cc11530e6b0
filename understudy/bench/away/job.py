"""A job: one fit for a machine that has torch, numpy and safetensors and nothing else.

`JOB/cells/NAME/job.json` holds everything but records and weights, which several jobs may share:
they travel in pieces (`JOB/pieces`, named by `JOB/manifest.json`) and are joined where the job is
worked off. The plan in it is calibrated and stands in the owner's account book. A job holds
private records and the owner's shard key: only machines that the owner trusts may see it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from understudy.errors import UserError
from understudy.methods.contract import Method
from understudy.privacy.plan.plan import Plan

FORMAT = "understudy-job/2"
_SOURCES = (".py", ".json", ".yaml")
FILE = "job.json"


@dataclass(frozen=True)
class FitJob:
    """What is to be fitted, and how.

    method: `package.module:Class`; code: the digest of its code, as the fit key has it.
    run: what the ledger's first line says of the run. counts: declared units of each part.
    records: the file of each part, relative to the job folder. samples: how many to make.
    public: file and schema of each public input. weights: of each public one, its file and what
        is told of where it came from.
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
    weights: Mapping[str, Mapping[str, Any]]
    seed: int
    samples: int
    shard_key: bytes
    keys: Mapping[str, str]
    commit: str
    dirty: bool | None
    package: str

    @property
    def files(self) -> frozenset[str]:
        """All that it reads, by name in the job folder."""
        carried = (*self.public.values(), *self.weights.values())
        return frozenset((*self.records.values(), *(one["file"] for one in carried)))

    def load_method(self) -> Method:
        """Of this machine: whether its code is that which was packed is the caller's to check."""
        module, _, name = self.method.partition(":")
        return cast(Method, getattr(importlib.import_module(module), name)())

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
                raise UserError(
                    f"{path} has format {data['format']!r}, not {FORMAT!r}; pack it again, "
                    "with this version."
                )
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
    *("public", "weights", "seed", "samples", "keys", "commit", "dirty", "package"),
)


def package_digest() -> str:
    """A digest of this package's sources and data files: whether two machines run the same code."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*.*") if p.suffix in _SOURCES):
        digest.update(str(path.relative_to(root)).encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()
