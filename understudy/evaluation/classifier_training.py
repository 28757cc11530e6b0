"""Training a classifier, and choosing its epoch.

`fit_classifier` takes the training records and no others, so that its choice cannot look at
the records that the classifier will be tested on. `fit_under_rules` is what a benchmark's
protocol needs: it trains once and keeps one classifier for each rule; the records that a rule
may look at are handed to it by name, and a rule gets no others.

On a CPU the same seed and thread count give the same bits. On a GPU the records lie there
while they are trained on; weights and activations are fp32, and convolutions may round their
factors to TF32 (ten bits of fraction, sums in fp32), as torch does by default. The order of
records and the first weights are those of a CPU; dropout draws its own. So a figure depends on
the device as on one more seed, and never by lower precision of what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import nn

from understudy.data.records import Array, Records
from understudy.errors import UserError
from understudy.evaluation.feed import Codes, Feed, network_input
from understudy.evaluation.optimisers import make_optimiser, running_average
from understudy.evaluation.protocol import ClassifierTraining
from understudy.evaluation.selection import HELD_OUT, RULES, Rule
from understudy.nets.classifiers import build_classifier
from understudy.progress import Progress

Score = tuple[float, float]
"""Accuracy, then what breaks ties: larger is better, in this order."""

_SCORING_BATCH = 1024


@dataclass(frozen=True)
class FittedClassifier:
    """A trained network, and how its epoch was chosen (counted from 1).

    score: the accuracy that chose the epoch, on the records that the rule looks at; None
        where nothing was looked at.
    """

    network: nn.Module
    epoch: int
    score: float | None
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

    def right_by_class(self, records: Records) -> tuple[tuple[int, int], ...]:
        """Of each class, in the schema's order: how many records were recognised, of how many."""
        labels, classes = records.labels, len(records.schema.classes)
        right = labels[self.predict(records.features) == labels]
        counts = (np.bincount(codes, minlength=classes).tolist() for codes in (right, labels))
        return tuple(zip(*counts, strict=True))

    def _scores(self, features: Array) -> Iterator[torch.Tensor]:
        self.network.eval()
        with torch.inference_mode():
            for start in range(0, len(features), _SCORING_BATCH):
                piece = features[start : start + _SCORING_BATCH]
                yield self.network(network_input(piece, self.device))


def fit_classifier(
    name: str,
    records: Records,
    training: ClassifierTraining,
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
    fitted = fit_under_rules(
        name, records, training, (HELD_OUT,), {}, seed=seed, device=device, progress=progress
    )
    return fitted[HELD_OUT]


def fit_under_rules(
    name: str,
    records: Records,
    training: ClassifierTraining,
    rules: Sequence[str],
    outside: Mapping[str, Records],
    *,
    seed: int,
    device: torch.device,
    progress: Progress,
    epsilon: float | None = None,
) -> dict[str, FittedClassifier]:
    """Train once, and keep the classifier that each rule of `selection.py` chooses.

    outside: `test` and `validation`, where a rule looks at them.
    epsilon: of the noise of a noised rule. The noise comes from the seed: it makes the figure
        that a benchmark asks for and protects nobody.
    """
    order = np.random.default_rng(seed)
    kept, held = _split(len(records), training.holdout, order)
    per_epoch = max(1, len(kept) // training.batch_size)
    epochs = max(training.epochs, ceil(training.least_steps / per_epoch))
    feed = Feed.of(records, device)
    judges = _Judges(feed, held, outside, epsilon, seed)
    choices = {rule: _Choice(RULES[rule]) for rule in rules}
    with (
        _seeded(seed, device),
        _fast_convolutions(device),
        progress.task(f"train {name}, seed {seed}", total=epochs * per_epoch) as bar,
    ):
        course = _Course(name, feed, training, per_epoch, epochs * per_epoch)
        for epoch in range(1, epochs + 1):
            course.epoch(np.array_split(order.permutation(kept), per_epoch), bar.advance)
            for choice in choices.values():
                choice.consider(course.scored, epoch, judges)
            if _out_of_patience(choices, epoch, training.patience):
                break
    diverged = f"training of {name} with seed {seed} diverged"
    return {rule: choice.made(course.scored, device, diverged) for rule, choice in choices.items()}


def load_fitted(
    name: str,
    records: Records,
    training: ClassifierTraining,
    state: Mapping[str, torch.Tensor],
    epoch: int,
    score: float | None,
    device: torch.device,
) -> FittedClassifier:
    """A classifier that was trained before on records of this kind, from its kept state."""
    with _seeded(0, torch.device("cpu")):
        network = _fresh_network(name, records, training)
    network.load_state_dict(dict(state))
    return FittedClassifier(network.to(device), epoch, score, device)


class _Course:
    """One training under way: the network, what is scored of it, and the next step."""

    def __init__(
        self, name: str, feed: Feed, training: ClassifierTraining, per_epoch: int, steps: int
    ) -> None:
        self.feed = feed
        self.network = _fresh_network(name, feed.records, training).to(feed.device)
        self.optimiser, self.schedule = make_optimiser(self.network, training, per_epoch, steps)
        self.average = running_average(self.network, training.averaging)

    @property
    def scored(self) -> nn.Module:
        """The network whose answers count: the averaged one, where weights are averaged."""
        return self.network if self.average is None else self.average.module

    def epoch(self, batches: Sequence[Codes], advance: Callable[[], None]) -> None:
        for batch in batches:
            _train_step(self.network, self.feed, batch, self.optimiser)
            self.schedule.step()
            if self.average is not None:
                self.average.update_parameters(self.network)
            advance()


class _Judges:
    """What a rule thinks of a network; each rule sees only the records that it is allowed."""

    def __init__(
        self,
        feed: Feed,
        held: Codes,
        outside: Mapping[str, Records],
        epsilon: float | None,
        seed: int,
    ) -> None:
        self._feed = feed
        self._held = held
        self._outside = outside
        self._epsilon = epsilon
        self._noise = np.random.default_rng([seed, 1])

    def score(self, network: nn.Module, rule: Rule, epoch: int) -> Score:
        if rule.looks_at == "nothing":
            return float(epoch), 0.0
        if rule.looks_at == "held-out":
            return _holdout_score(network, self._feed, self._held)
        seen = self._outside[rule.looks_at]
        right = FittedClassifier(network, epoch, None, self._feed.device).accuracy(seen)
        if rule.noised:
            if self._epsilon is None:
                raise ValueError("a noised rule needs an epsilon")
            right += self._noise.laplace(scale=1 / self._epsilon) / len(seen)
        return right, float(epoch)


class _Choice:
    """The best epoch so far in the eyes of one rule."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.epoch = 0
        self._best: Score = (-1.0, 0.0)
        self._state: dict[str, torch.Tensor] = {}

    def consider(self, network: nn.Module, epoch: int, judges: _Judges) -> None:
        score = judges.score(network, self.rule, epoch)
        if not self.epoch or score > self._best:
            self._best, self.epoch = score, epoch
            self._state = {key: value.clone() for key, value in network.state_dict().items()}

    def made(self, network: nn.Module, device: torch.device, diverged: str) -> FittedClassifier:
        """The chosen classifier; a training that lost its numbers is an error, not a figure."""
        floats = [value for value in self._state.values() if value.is_floating_point()]
        if not isfinite(self._best[1]) or not all(bool(v.isfinite().all()) for v in floats):
            raise FloatingPointError(diverged)
        chosen = deepcopy(network)
        chosen.load_state_dict(self._state)
        score = self._best[0] if self.rule.has_score else None
        return FittedClassifier(chosen, self.epoch, score, device)


class _Standardise(nn.Module):
    """Pixels in [-1, 1], brought back to [0, 1] and standardised."""

    def __init__(self, mean: float, deviation: float) -> None:
        super().__init__()
        self.mean = mean
        self.deviation = deviation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ((x + 1) / 2 - self.mean) / self.deviation


def _fresh_network(name: str, records: Records, training: ClassifierTraining) -> nn.Module:
    """The network behind the protocol's scaling of pixels; other features stay as they are."""
    network = build_classifier(name, records.shape, len(records.schema.classes))
    scaling = (training.pixel_mean, training.pixel_deviation)
    if scaling == (0.5, 0.5) or records.features.dtype != np.uint8:
        return network
    return nn.Sequential(_Standardise(*scaling), network)


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Initial weights and dropout come from the seed; generators end as they began."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def _fast_convolutions(device: torch.device) -> Iterator[None]:
    """On a GPU the fastest algorithm for each shape is looked for; as before afterwards."""
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark
    cudnn.benchmark = before or device.type == "cuda"
    try:
        yield
    finally:
        cudnn.benchmark = before


def _split(count: int, share: float, order: np.random.Generator) -> tuple[Codes, Codes]:
    """Positions to train on, and positions that choose the epoch."""
    if count < 2:
        raise UserError(f"a classifier needs at least 2 records to learn from, not {count}.")
    held = min(max(1, round(share * count)), count - 1) if share else 0
    shuffled = order.permutation(count)
    return shuffled[held:], shuffled[:held]


def _out_of_patience(choices: Mapping[str, _Choice], epoch: int, patience: int | None) -> bool:
    return patience is not None and epoch - choices[HELD_OUT].epoch >= patience


def _train_step(
    network: nn.Module, feed: Feed, batch: Codes, optimiser: torch.optim.Optimizer
) -> None:
    network.train()
    optimiser.zero_grad(set_to_none=True)
    inputs, targets = feed.batch(batch)
    torch.autograd.backward(F.cross_entropy(network(inputs), targets))
    optimiser.step()


def _holdout_score(network: nn.Module, feed: Feed, held: Codes) -> Score:
    """Accuracy, then minus the loss: larger is better, in this order."""
    network.eval()
    hits, loss = 0, 0.0
    with torch.inference_mode():
        for start in range(0, len(held), _SCORING_BATCH):
            batch = held[start : start + _SCORING_BATCH]
            scores = network(feed.batch(batch)[0]).cpu()
            loss += float(F.cross_entropy(scores, feed.targets(batch), reduction="sum"))
            hits += int((scores.argmax(dim=1).numpy() == feed.records.labels[batch]).sum())
    return hits / len(held), -loss / len(held)
