"""Hide attributes, keep others: two private parts, and samples by conditions on what is kept."""

from dataclasses import dataclass
from pathlib import Path

import torch

import understudy.authoring as us


@dataclass(frozen=True)
class HiddenConfig:
    strength: float = us.setting(1.0, "how much of what tells is taken out", low=0.0, high=1.0)


@dataclass(frozen=True)
class MeanPictures:
    schema: us.Schema
    means: dict[str, torch.Tensor]

    def sample(self, n: int, conditions: us.Conditions | None = None, seed: int = 0) -> us.Images:
        codes = us.condition_codes(n, conditions, self.schema.attributes, seed)
        chosen = [self.means[name][torch.from_numpy(code)] for name, code in codes.items()]
        pictures = torch.stack(chosen).mean(dim=0).clamp(0, 1)
        return us.Images(pictures.mul(255).byte().numpy(), codes, self.schema)

    def save(self, folder: Path) -> None:
        us.save_state(folder, "means", us.State(self.means, self.schema.to_json()))

    @classmethod
    def load(cls, folder: Path) -> "MeanPictures":
        kept = us.load_state(folder, "means")
        return cls(us.Schema.from_json(kept.values), kept.tensors)


class HiddenAttribute:
    """Guarantee: (epsilon, delta) of one Gaussian release per attribute, add-or-remove one unit."""

    info = us.MethodInfo(
        name="toy-hidden-attribute",
        summary="mean pictures of kept attributes, without what tells the hidden one",
        paper="none: an example",
        family="attribute decoupling",
        parts={"hidden": 0.4, "kept": 0.6},
        hides=True,
        mechanism="Gaussian releases of clipped sums",
    )
    Config = HiddenConfig
    Output = MeanPictures

    def spend(self, config: HiddenConfig, facts: us.Facts) -> us.Spend:
        schema, clip = facts.schema, torch.Size(facts.shape).numel() ** 0.5
        part = {a: "hidden" if a in schema.sensitive else "kept" for a in schema.names}
        return lambda sigma: [us.NoisySum(a, clip, sigma, part=part[a]) for a in schema.names]

    def fit(
        self,
        config: HiddenConfig,
        parts: us.Parts,
        plan: us.Plan,
        public: us.PublicInputs,
        context: us.Context,
    ) -> MeanPictures:
        schema = parts["kept"].schema
        means = {a.name: means_of(a, plan.mechanism(a.name), parts) for a in schema.attributes}
        tells = torch.cat([means[a] - means[a].mean(dim=0) for a in schema.sensitive]).flatten(1)
        tell = torch.linalg.svd(tells)[2][0].reshape(parts["kept"].shape)
        kept = tuple(a for a in schema.attributes if a.name not in schema.sensitive)
        for mean in (means[a.name] for a in kept):
            mean -= config.strength * (mean * tell).sum(dim=(1, 2, 3), keepdim=True) * tell
        return MeanPictures(us.Schema(kept, schema.label), {a.name: means[a.name] for a in kept})


def means_of(attribute: us.Attribute, planned: us.NoisySum, parts: us.Parts) -> torch.Tensor:
    """The noisy mean picture of each class; pixels lie in [0, 1], so the clip changes nothing."""
    name, classes, private = attribute.name, len(attribute.classes), parts[planned.part]
    vector = lambda b: us.Blocks(b.features.flatten(1), b.attributes[name], classes)  # noqa: E731
    noisy = private.noisy_sum(vector, planned.clip, planned.sigma)
    return noisy.reshape(classes, *private.shape) * classes / private.count
