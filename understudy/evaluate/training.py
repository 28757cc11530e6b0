"""Training a classifier on one set of records, and nothing else.

The function takes the training records and no others, so that the choice of the epoch
cannot look at the records that the classifier will be tested on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, cos, isfinite, pi

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import nn

from understudy.data.records import Array, Records
from understudy.errors import UserError
from understudy.evaluate.protocol import Training
from understudy.nets.classifiers import build_classifier
from understudy.progress import Progress

Codes = npt.NDArray[np.int64]

_SCORING_BATCH = 1024


@dataclass(frozen=True)
class FittedClassifier:
    """A trained network, and how its epoch was chosen (counted from 1)."""

    network: nn.Module
    epoch: int
    holdout_accuracy: float
    device: torch.device

    def predict(self, features: Array) -> Codes:
        """The most probable class of each record."""
        scores = [batch.argmax(dim=1).cpu().numpy() for batch in self._scores(features)]
        return np.concatenate(scores) if scores else np.empty(0, dtype=np.int64)

    def probabilities(self, features: Array) -> npt.NDArray[np.float64]:
        """What the network gives each class, `[N, classes]`, summing to 1 in each row."""
        scores = [batch.double().softmax(dim=1).cpu().numpy() for batch in self._scores(features)]
        return np.concatenate(scores)

    def accuracy(self, records: Records) -> float:
        """The share of records whose label is predicted; soft labels count by their maximum."""
        return float((self.predict(records.features) == records.labels).mean())

    def _scores(self, features: Array) -> Iterator[torch.Tensor]:
        self.network.eval()
        with torch.inference_mode():
            for start in range(0, len(features), _SCORING_BATCH):
                piece = features[start : start + _SCORING_BATCH]
                yield self.network(_network_input(piece, self.device))


def fit_classifier(
    name: str,
    records: Records,
    training: Training,
    *,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> FittedClassifier:
    """Train the named classifier on these records.

    A part of them (`training.holdout`) is set aside and only chooses the epoch: the highest
    accuracy on it, then the lowest loss. Labels may be codes or probabilities, which the
    cross-entropy takes as they are. The same seed gives the same classifier on one CPU and
    thread count, and the process's own generators are left as they were.
    """
    order = np.random.default_rng(seed)
    kept, held = _split(len(records), training.holdout, order)
    per_epoch = max(1, len(kept) // training.batch_size)
    epochs = max(training.epochs, ceil(training.least_steps / per_epoch))
    network = _initial_network(name, records, seed).to(device)
    optimiser, schedule = _optimiser(network, training, per_epoch, epochs * per_epoch)
    best = (-1.0, 0.0)
    chosen, state = 0, network.state_dict()
    with progress.task(f"train {name}, seed {seed}", total=epochs * per_epoch) as bar:
        for epoch in range(1, epochs + 1):
            for batch in np.array_split(order.permutation(kept), per_epoch):
                _train_step(network, records, batch, optimiser, device)
                schedule.step()
                bar.advance()
            score = _holdout_score(network, records, held, device)
            if score > best:
                best, chosen = score, epoch
                state = {key: value.clone() for key, value in network.state_dict().items()}
    if not chosen or not isfinite(best[1]):
        raise FloatingPointError(f"training of {name} with seed {seed} diverged")
    network.load_state_dict(state)
    return FittedClassifier(network, chosen, best[0], device)


def _split(count: int, share: float, order: np.random.Generator) -> tuple[Codes, Codes]:
    """Positions to train on, and positions that choose the epoch."""
    if count < 2:
        raise UserError(f"a classifier needs at least 2 records to learn from, not {count}.")
    held = min(max(1, round(share * count)), count - 1)
    shuffled = order.permutation(count)
    return shuffled[held:], shuffled[:held]


def _initial_network(name: str, records: Records, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build_classifier(name, records.shape, len(records.schema.classes))


def _optimiser(
    network: nn.Module, training: Training, per_epoch: int, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
    parameters, rate, decay = network.parameters(), training.learning_rate, training.weight_decay
    optimiser: torch.optim.Optimizer
    if training.optimiser == "sgd":
        optimiser = torch.optim.SGD(parameters, lr=rate, momentum=0.9, weight_decay=decay)
    else:
        optimiser = torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)

    def factor(step: int) -> float:
        if training.step_epochs is not None and training.step_factor is not None:
            return float(training.step_factor ** (step // per_epoch // training.step_epochs))
        return 0.5 * (1 + cos(pi * step / steps))

    return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


def _train_step(
    network: nn.Module,
    records: Records,
    batch: Codes,
    optimiser: torch.optim.Optimizer,
    device: torch.device,
) -> None:
    network.train()
    optimiser.zero_grad(set_to_none=True)
    scores = network(_network_input(records.features[batch], device))
    torch.autograd.backward(F.cross_entropy(scores, _targets(records, batch).to(device)))
    optimiser.step()


def _holdout_score(
    network: nn.Module, records: Records, held: Codes, device: torch.device
) -> tuple[float, float]:
    """Accuracy, then minus the loss: larger is better, in this order."""
    network.eval()
    hits, loss = 0, 0.0
    with torch.inference_mode():
        for start in range(0, len(held), _SCORING_BATCH):
            batch = held[start : start + _SCORING_BATCH]
            scores = network(_network_input(records.features[batch], device)).cpu()
            loss += float(F.cross_entropy(scores, _targets(records, batch), reduction="sum"))
            hits += int((scores.argmax(dim=1).numpy() == records.labels[batch]).sum())
    return hits / len(held), -loss / len(held)


def _targets(records: Records, batch: Codes) -> torch.Tensor:
    """Codes, or probabilities where the labels are soft."""
    column = records.attributes[records.schema.label_attribute.name][batch]
    return torch.from_numpy(column.astype(np.int64 if column.ndim == 1 else np.float32))


def _network_input(features: Array, device: torch.device) -> torch.Tensor:
    """Pixels scaled to [-1, 1]; other features as they are."""
    batch = torch.from_numpy(np.array(features)).to(device)
    return batch.float() / 127.5 - 1.0 if features.dtype == np.uint8 else batch.float()
