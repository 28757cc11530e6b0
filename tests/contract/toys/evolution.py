"""Private evolution: candidates that many noisy histograms select, round by round."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

import understudy.authoring as us


@dataclass(frozen=True)
class EvolutionConfig:
    rounds: int = us.setting(10, "histograms, each of which selects once", low=1)
    candidates: int = us.setting(12, "pictures in each generation, all classes together", low=1)


class Evolution:
    """Guarantee: (epsilon, delta) of `rounds` noisy histograms under add-or-remove one unit."""

    info = us.MethodInfo(
        name="toy-evolution",
        summary="random pictures, selected by noisy votes",
        paper="none: an example",
        family="private evolution",
        mechanism="noisy histograms",
    )
    Config = EvolutionConfig
    Output = us.RecordSet

    def spend(self, config: EvolutionConfig, facts: us.Facts) -> us.Spend:
        bins = self.size(config, facts)
        return lambda sigma: [us.NoisyHistogram("votes", bins, sigma, releases=config.rounds)]

    def size(self, config: EvolutionConfig, facts: us.Facts) -> int:
        return max(1, config.candidates // facts.classes) * facts.classes

    def fit(
        self,
        config: EvolutionConfig,
        parts: us.Parts,
        plan: us.Plan,
        public: us.PublicInputs,
        context: us.Context,
    ) -> us.RecordSet:
        private, votes = parts["train"], plan.mechanism("votes", us.NoisyHistogram)
        label, seed = private.schema.label_attribute, context.seed
        labels = torch.arange(votes.bins) % len(label.classes)
        pictures, done = torch.rand(votes.bins, *private.shape, generator=us.stream(seed)), 0
        kept = context.restore()
        if kept is not None:
            pictures, done = kept.tensors["pictures"], kept.values["rounds"]
        for number in range(done, config.rounds):
            counts = private.noisy_histogram(nearest(pictures, labels), votes.bins, votes.sigma)
            pictures = next_generation(pictures, labels, counts, seed, number)
            state = us.State({"pictures": pictures}, {"rounds": number + 1})
            context.checkpoint(lambda state=state: state)
        pixels, schema = pictures.mul(255).round().byte().numpy(), us.Schema((label,), label.name)
        return us.RecordSet(us.Images(pixels, {label.name: labels.numpy()}, schema))


def nearest(pictures: torch.Tensor, labels: torch.Tensor) -> Callable[[us.Batch], torch.Tensor]:
    """A record votes for the candidate of its class that is nearest to it."""

    def bin_of(batch: us.Batch) -> torch.Tensor:
        far = torch.cdist(batch.features.flatten(1), pictures.flatten(1))
        return (far + 1e6 * (batch.labels[:, None] != labels[None])).argmin(dim=1)

    return bin_of


def next_generation(
    pictures: torch.Tensor, labels: torch.Tensor, counts: torch.Tensor, seed: int, number: int
) -> torch.Tensor:
    """Parents of each class by their votes, with smaller changes in each round."""
    random = us.stream(seed, number)
    weights = (labels[:, None] == labels[None]) * counts.clamp(min=0.01)[None]
    parents = torch.multinomial(weights, 1, generator=random).squeeze(1)
    changes = torch.randn(pictures.shape, generator=random) / (3 + number)
    return (pictures[parents] + changes).clamp(0, 1)
