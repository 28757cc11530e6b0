"""Teaching an encoder: the pair of networks, and epochs over records that may be looked at.

Private records are never given to `train_openly`; `methods/vae.py` teaches the same pair by
DP-SGD, with the same loss.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from understudy.data.records import Array, Records
from understudy.durable import replace_durably
from understudy.encoders.objective import Objective
from understudy.encoders.specs import Spec
from understudy.errors import UserError, reading
from understudy.nets.packing import pack_module, pack_optimizer, unpack_module, unpack_optimizer
from understudy.nets.per_example.twins import trainable
from understudy.nets.seeding import built, derived_seed, stream
from understudy.privacy.door.batch import Batch, Draws, make_batch
from understudy.privacy.ledger.state import State
from understudy.progress import Progress

_STEPS, _SETTINGS = "steps done", "settings"


class Pair:
    """Encoder and decoder with their optimiser; initial weights come from the seed."""

    def __init__(self, spec: Spec, learning_rate: float, seed: int, device: torch.device) -> None:
        self.encoder = built(spec.encoder, seed, "encoder").to(device)
        self.decoder = built(spec.decoder, seed, "decoder").to(device)
        self.optimizer = torch.optim.Adam(trainable(self.modules), lr=learning_rate)
        self.device = device

    @property
    def modules(self) -> list[torch.nn.Module]:
        return [self.encoder, self.decoder]

    def snapshot(self) -> State:
        return State(
            pack_module("encoder", self.encoder)
            | pack_module("decoder", self.decoder)
            | pack_optimizer("optimizer", self.optimizer)
        )

    def load(self, state: State) -> None:
        unpack_module("encoder", self.encoder, state.tensors)
        unpack_module("decoder", self.decoder, state.tensors)
        unpack_optimizer("optimizer", self.optimizer, state.tensors)


@dataclass(frozen=True)
class Schedule:
    """epochs: passes over the records. batch: records of a step. learning_rate: Adam's, at
    first; it falls to zero along a half cosine."""

    epochs: int
    batch: int
    learning_rate: float

    def rate_at(self, done: float) -> float:
        """The learning rate after this many epochs.

        >>> Schedule(10, 100, 1e-3).rate_at(5)
        0.0005
        """
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done / self.epochs)))


@dataclass(frozen=True)
class Checkpoint:
    """One file that training can go on from; `settings` must be those it was written under.

    every: seconds after which it is written again; it is written after each epoch too.
    """

    path: Path
    settings: str
    every: float = 60.0

    def save(self, pair: Pair, steps: int) -> None:
        from safetensors.torch import save

        state = {k: v.detach().cpu().contiguous() for k, v in pair.snapshot().tensors.items()}
        state[_STEPS] = torch.tensor(steps)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_durably(self.path, save(state, {_SETTINGS: self.settings}))

    def load(self, pair: Pair) -> int:
        """How many steps were done; 0 where there is no checkpoint."""
        from safetensors import safe_open

        if not self.path.exists():
            return 0
        with reading(self.path), safe_open(self.path, "pt") as file:
            found = (file.metadata() or {}).get(_SETTINGS)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if found != self.settings:
            raise UserError(
                f"{self.path} was written under other settings or for other data; remove it, or "
                "repeat the options of the first start."
            )
        with reading(self.path):
            steps = int(tensors.pop(_STEPS))
            pair.load(State(tensors))
        return steps


def train_openly(
    pair: Pair,
    objective: Objective,
    records: Records,
    schedule: Schedule,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Teach the pair by plain minibatches. Guarantee: none; for public or revealed records.

    Order and draws follow from the seed and the epoch, so a resumed training ends with the
    weights of an uninterrupted one, wherever it was cut.
    """
    if len(records) < 2:
        raise UserError(f"{len(records)} records are too few to teach an encoder.")
    done = 0 if checkpoint is None else checkpoint.load(pair)
    steps, saved = math.ceil(len(records) / schedule.batch), time.monotonic()
    with progress.task("training the encoder", schedule.epochs * steps) as bar:
        bar.advance(done)
        for epoch in range(done // steps, schedule.epochs):
            random = stream(seed, "epoch", epoch)
            order = torch.randperm(len(records), generator=random).numpy()
            for step in range(steps):
                rows = order[step * schedule.batch : (step + 1) * schedule.batch]
                draws = _drawn(len(rows), objective.draws, random)
                number = epoch * steps + step + 1
                if number <= done:
                    continue  # drawn all the same, so that what follows is drawn as it would be
                _set_rate(pair, schedule.rate_at(epoch + step / steps))
                _step(pair, objective, _dressed(records, rows, draws, pair.device))
                bar.advance()
                last = step + 1 == steps
                if last:
                    _refuse_divergence(pair)
                if checkpoint is not None and (last or time.monotonic() - saved > checkpoint.every):
                    checkpoint.save(pair, number)
                    saved = time.monotonic()


def settings_mark(*words: object) -> str:
    """A short text that differs where any of the words do."""
    return f"{derived_seed(0, *(str(word) for word in words)):016x}"


def _step(pair: Pair, objective: Objective, batch: Batch) -> None:
    for module in pair.modules:
        # A last batch of one record has no statistics of its own.
        module.train(len(batch) > 1)
    pair.optimizer.zero_grad()
    torch.autograd.backward(objective(pair.modules, batch, {}).mean())
    pair.optimizer.step()


def _refuse_divergence(pair: Pair) -> None:
    """A weight that is no number would make every latent zero without a word."""
    if not all(bool(torch.isfinite(p).all()) for m in pair.modules for p in m.parameters()):
        raise UserError(
            "the encoder's weights are no longer finite numbers; remove the run folder and start "
            "again with a lower --set learning_rate."
        )


def _drawn(rows: int, draws: Draws, random: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        name: (torch.rand if name.startswith("uniform") else torch.randn)(
            rows, *shape, generator=random
        )
        for name, shape in draws.items()
    }


def _dressed(
    records: Records, rows: Array, draws: dict[str, torch.Tensor], device: torch.device
) -> Batch:
    plain = make_batch(records, rows, device)
    # By way of pinned memory, so that a step does not wait for the copy of its draws.
    pinned = draws if device.type != "cuda" else {k: v.pin_memory() for k, v in draws.items()}
    there = {name: values.to(device, non_blocking=True) for name, values in pinned.items()}
    return Batch(plain.features, plain.attributes, there, plain.label)


def _set_rate(pair: Pair, rate: float) -> None:
    for group in pair.optimizer.param_groups:
        group["lr"] = rate
