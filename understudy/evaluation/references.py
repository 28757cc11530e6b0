"""Classifiers of real training records, trained once and shared by every evaluation.

They do not depend on what is evaluated. `KEY.json` holds what was measured of one on the test
records, and may travel between machines; `KEY.RULE.safetensors` the network, which is needed
where it judges synthetic records, and stays where it was trained. The key is a hash of all
that goes into the training. The folder is the owner's.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from understudy.data.records import Records
from understudy.durable import replace_durably
from understudy.errors import UserError, reading
from understudy.evaluation.classifier_figures import ClassifierFigure
from understudy.evaluation.classifier_training import FittedClassifier, load_fitted
from understudy.evaluation.protocol import Protocol
from understudy.evaluation.selection import HELD_OUT, RULES

FORMAT = "understudy-reference/1"


class References:
    """A folder of reference classifiers.

    version: of the code that measures, raised by hand where earlier figures became wrong.
    """

    def __init__(self, folder: Path, version: int) -> None:
        self.folder = folder
        self.version = version

    def key(self, digests: Mapping[str, str], protocol: Protocol, name: str, seed: int) -> str:
        """Of one training.

        digests: `records_digest` of the train and test parts; a rule may look at the latter.
        """
        content = {
            "train": digests["train"],
            "test": digests["test"],
            "training": asdict(protocol.training),
            "most": protocol.most_training_images,
            "classifier": name,
            "seed": seed,
            "rules": sorted(real_rules(protocol)),
            "version": self.version,
        }
        text = json.dumps(content, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def keys(self, digests: Mapping[str, str], protocol: Protocol, seed: int) -> list[str]:
        """Of every training that an evaluation with this seed may ask for."""
        seeds = protocol.classifier_seeds(seed)
        return [
            self.key(digests, protocol, name, one) for name in protocol.classifiers for one in seeds
        ]

    def figure(self, key: str, rule: str) -> ClassifierFigure | None:
        """What was measured on the test records of the classifier that a rule chose."""
        found = (figure for figure in self._read(key) if figure.rule == rule)
        return next(found, None)

    def keep_figure(self, key: str, figure: ClassifierFigure) -> None:
        with self._locked(key):
            known = self._read(key)
            if all(held.rule != figure.rule for held in known):
                self._write(key, [*known, figure])

    def fitted(
        self,
        key: str,
        fit: Callable[[], dict[str, FittedClassifier]],
        like: tuple[str, Records, Protocol],
        device: torch.device,
    ) -> dict[str, FittedClassifier]:
        """The kept networks, or those that `fit` makes; others who ask meanwhile wait.

        like: the classifier's name, records that it takes, and the protocol that trained it.
        """
        rules = real_rules(like[2])
        with self._locked(key):
            paths = {rule: self.folder / f"{key}.{rule}.safetensors" for rule in rules}
            if not all(path.exists() for path in paths.values()):
                made = fit()
                for rule, path in paths.items():
                    _write_network(path, made[rule])
                return made
            return {rule: _read_network(path, like, device) for rule, path in paths.items()}

    def take(self, path: Path) -> bool:
        """Take figures that were measured elsewhere, unless they are known; False if so."""
        key, figures = path.stem, read_reference(path)
        with self._locked(key):
            known = self._read(key)
            new = [f for f in figures if all(held.rule != f.rule for held in known)]
            if new:
                self._write(key, [*known, *new])
        return bool(new)

    def _read(self, key: str) -> list[ClassifierFigure]:
        path = self.folder / f"{key}.json"
        return read_reference(path) if path.exists() else []

    def _write(self, key: str, figures: Sequence[ClassifierFigure]) -> None:
        content = {"format": FORMAT, "figures": [figure.to_json() for figure in figures]}
        replace_durably(self.folder / f"{key}.json", json.dumps(content, indent=1).encode())

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """One process at a time; the kernel gives the lock back when it dies."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.folder / f".{key}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def real_rules(protocol: Protocol) -> frozenset[str]:
    """The protocol's rules as they choose among classifiers of real training records."""
    return frozenset(rule_for_real(rule) for rule in protocol.selections)


def rule_for_real(rule: str) -> str:
    """Where a rule asks real training records, a held-out share of these is what it asks."""
    return HELD_OUT if RULES[rule].looks_at == "validation" else rule


def read_reference(path: Path) -> list[ClassifierFigure]:
    """The figures in a file, checked: they are of real records, measured on test records."""
    with reading(path):
        data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise UserError(f"{path} has format {data['format']!r}, not {FORMAT!r}.")
        figures = [ClassifierFigure.from_json(row) for row in data["figures"]]
    if any((f.learned, f.tested) != ("train", "test") for f in figures):
        raise UserError(f"{path} holds figures that are no reference; remove it.")
    return figures


def _write_network(path: Path, fitted: FittedClassifier) -> None:
    from safetensors.torch import save

    state = fitted.network.state_dict()
    tensors = {k: v.detach().cpu().contiguous().clone() for k, v in state.items()}
    chosen = {"epoch": json.dumps(fitted.epoch), "score": json.dumps(fitted.score)}
    replace_durably(path, save(tensors, metadata=chosen))


def _read_network(
    path: Path, like: tuple[str, Records, Protocol], device: torch.device
) -> FittedClassifier:
    from safetensors import safe_open

    name, records, protocol = like
    with reading(path), safe_open(path, "pt") as file:
        chosen = {word: json.loads(text) for word, text in file.metadata().items()}
        state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    return load_fitted(
        name, records, protocol.training, state, chosen["epoch"], chosen["score"], device
    )
