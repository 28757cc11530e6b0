"""A method whose only mechanism is a clipped aggregate, as docs/door.md shows one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

import understudy.authoring as us
from understudy.bench.templates.class_means import ClassMeans, ClassMeansSynthesizer

AGGREGATE = "tests.run.aggregate_method:MeansOfSamples"


@dataclass(frozen=True)
class MeanOfSample:
    def __call__(self, models: us.Models, batch: us.Batch, values: us.Values) -> torch.Tensor:
        del models
        return batch.features.mean(dim=0) - values["guess"]


class MeansOfSamples(ClassMeans):
    """Guarantee: (epsilon, delta) of six Poisson-sampled Gaussians, add-or-remove one unit."""

    info: ClassVar[us.MethodInfo] = replace(ClassMeans.info, name="means-of-samples")

    def spend(self, config: Any, facts: us.Facts) -> us.Spend:
        del config, facts
        return lambda sigma: [us.ClippedAggregate("mean", 6, 0.2, 1.0, sigma)]

    def fit(
        self,
        config: Any,
        parts: us.Parts,
        plan: us.Plan,
        public: us.PublicInputs,
        context: us.Context,
    ) -> ClassMeansSynthesizer:
        del plan, public
        private = parts["train"]
        session = private.clipped_aggregate(MeanOfSample(), private.shape)
        state = context.restore()
        guess = torch.full(private.shape, 0.5) if state is None else state.tensors["guess"]
        for _ in session.steps():
            guess = guess + 0.1 * session.step({"guess": guess})
            context.checkpoint(lambda guess=guess: us.State({"guess": guess}))
        means = guess.clamp(0, 1).expand(len(private.schema.classes), *guess.shape).clone()
        return ClassMeansSynthesizer(means, private.shape, config.spread, private.schema)
