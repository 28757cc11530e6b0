"""What another machine needs to train the classifiers of an evaluation, and what it gives back.

`JOB/cells/NAME/classify-KEY.json` is one evaluation: a protocol, and where its records lie. A
cell whose samples are made away has them in its run; one that was sampled at home brings them
along. `run/classified/KEY.json` holds the figures, from the first one on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from understudy.data.schema import Schema
from understudy.durable import OWNER_ONLY, replace_durably
from understudy.errors import UserError, reading
from understudy.evaluation.classifier_figures import Binding, ClassifierFigure
from understudy.evaluation.protocol import Protocol

FORMAT = "understudy-classify/1"
RESULT_FORMAT = "understudy-classified/1"
CLASSIFIED = "classified"
"""In a run folder that was worked on away: the figures, one file for each evaluation."""

REFERENCES = "references"
"""In a job or a workspace: figures of classifiers of real records, which cells share."""

SHORT = 16


@dataclass(frozen=True)
class ClassifyJob:
    """One evaluation whose classifiers are to be trained.

    records: files of the part `test`, of `train` unless the figures of these are known at home,
        and of `synthetic` where it was sampled at home; relative to the job folder.
    train: the digest of the real training records. schema: of the label alone.
    seed, version: of the evaluation and of the code that measures.
    keys: of the cell's phases. commit, dirty, package: as in a `FitJob`.
    """

    title: str
    keys: Mapping[str, str]
    protocol: Protocol
    schema: Schema
    train: str
    records: Mapping[str, str]
    seed: int
    version: int
    commit: str
    dirty: bool | None
    package: str

    @property
    def short(self) -> str:
        return self.keys["evaluate"][:SHORT]

    def write(self, folder: Path) -> Path:
        """Into a cell of a job, whole or not at all; gives the file."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        content = {
            "format": FORMAT,
            **{k: dict(v) if isinstance(v, Mapping) else v for k, v in plain.items()},
            "protocol": self.protocol.to_json(),
            "schema": self.schema.to_json(),
        }
        path = folder / f"classify-{self.short}.json"
        replace_json(path, content)
        return path

    @staticmethod
    def read(path: Path) -> ClassifyJob:
        data = _read(path, FORMAT)
        with reading(path):
            return ClassifyJob(
                **{name: data[name] for name in _PLAIN},
                protocol=Protocol.from_json(data["protocol"]),
                schema=Schema.from_json(data["schema"]),
            )

    @staticmethod
    def all_of(folder: Path) -> list[ClassifyJob]:
        return [ClassifyJob.read(path) for path in sorted(folder.glob("classify-*.json"))]


_PLAIN = ("title", "keys", "train", "records", "seed", "version", "commit", "dirty", "package")


@dataclass(frozen=True)
class Classified:
    """The figures of one evaluation so far.

    binding: which records and protocol they are about.
    phase: what training them took, and where; as the record of any phase.
    done: whether every figure that the protocol needs is there.
    """

    key: str
    binding: Binding
    figures: tuple[ClassifierFigure, ...] = ()
    phase: Mapping[str, Any] = field(default_factory=dict)
    done: bool = False

    @property
    def seconds(self) -> float:
        return float(self.phase.get("seconds", 0.0))

    def write(self, path: Path) -> None:
        content = {
            "format": RESULT_FORMAT,
            "key": self.key,
            "binding": asdict(self.binding),
            "figures": [figure.to_json() for figure in self.figures],
            "phase": dict(self.phase),
            "done": self.done,
        }
        replace_json(path, content)

    @staticmethod
    def read(path: Path) -> Classified:
        data = _read(path, RESULT_FORMAT)
        with reading(path):
            return Classified(
                key=str(data["key"]),
                binding=Binding(**data["binding"]),
                figures=tuple(ClassifierFigure.from_json(row) for row in data["figures"]),
                phase=dict(data["phase"]),
                done=bool(data["done"]),
            )

    def with_more(self, others: Iterable[ClassifierFigure], done: bool) -> Classified:
        """These figures, and of the others those that are not among them."""
        known = {figure.key for figure in self.figures}
        more = tuple(figure for figure in others if figure.key not in known)
        return replace(self, figures=(*self.figures, *more), done=self.done or done)


def replace_json(path: Path, content: Mapping[str, Any]) -> None:
    """Only its owner may read it: it holds digests of real records."""
    text = json.dumps(content, indent=1, sort_keys=True)
    replace_durably(path, text.encode(), OWNER_ONLY)


def _read(path: Path, form: str) -> dict[str, Any]:
    with reading(path):
        data = json.loads(path.read_text(encoding="utf-8"))
        found = data["format"]
    if found != form:
        raise UserError(f"{path} has format {found!r}, not {form!r}.")
    return dict(data)
