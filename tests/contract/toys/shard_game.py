"""A game with several critics: one generator against the sealed critics of disjoint shards."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

import understudy.authoring as us


@dataclass(frozen=True)
class GameConfig:
    shards: int = us.setting(8, "critics, each on a shard of its own", low=2)
    steps: int = us.setting(20, "noisy gradients, each from one critic drawn in secret", low=1)
    batch: int = us.setting(24, "pictures that are judged in one step", low=2)
    clip: float = us.setting(1.0, "bound of each gradient's L2 norm", low=1e-6)


class ShardGame:
    """Guarantee: (epsilon, delta) of `steps` Gaussians, each on one of `shards` (replace-one)."""

    info = us.MethodInfo(
        name="toy-shard-game",
        summary="a generator that learns from one critic of many in each step",
        paper="none: an example",
        family="adversarial",
        mechanism="noisy gradients of one of many shards",
    )
    Config = GameConfig
    Output = us.GeneratorSynthesizer

    def spend(self, config: GameConfig, facts: us.Facts) -> us.Spend:
        size = (config.shards, config.steps, config.clip)
        return lambda sigma: [us.OneOfShardsGradients("critics", *size, sigma)]

    def fit(
        self,
        config: GameConfig,
        parts: us.Parts,
        plan: us.Plan,
        public: us.PublicInputs,
        context: us.Context,
    ) -> us.GeneratorSynthesizer:
        private, seed = parts["train"], context.seed
        classes = len(private.schema.classes)
        spec = us.GeneratorSpec("spline", private.shape, classes, latent=4, width=16, grid=8)
        generator = us.built(spec.build, seed).to(context.device)
        optimiser = torch.optim.SGD(generator.parameters(), lr=0.05)
        pixels = torch.Size(private.shape).numel() + classes

        def critic(records: us.Batch) -> nn.Module:
            return us.built(lambda: nn.Linear(pixels, 1), seed, "critic")

        critics = private.ensemble(config.shards, critic)
        state = context.restore()
        if state is not None:
            generator.load_state_dict(dict(state.tensors))
        game = critics.gradients_of_one(lambda judge, pictures: -judge(pictures).mean())
        for step in game.steps("playing"):
            codes = F.one_hot(torch.arange(config.batch) % classes, classes).float()
            latents = torch.randn(config.batch, 4, generator=us.stream(seed, step))
            made = torch.cat([generator(latents, codes).flatten(1), codes], dim=1)
            critics.advance(judge_better, {"made": made.detach()})
            optimiser.zero_grad()
            made.backward(game.step(made.detach()))
            optimiser.step()
            context.checkpoint(lambda: us.State(generator.state_dict()))
        return us.GeneratorSynthesizer(spec, generator, private.schema)


def judge_better(critic: nn.Module, records: us.Batch, values: us.Values) -> None:
    """A step towards more for the shard's own records, and less for what was made."""
    codes = F.one_hot(records.labels, values["made"].shape[1] - records.features[0].numel())
    real = torch.cat([records.features.flatten(1), codes], dim=1).mean(dim=0)
    with torch.no_grad():
        critic.weight.mul_(0.9).add_(0.1 * (real - values["made"].mean(dim=0)))
