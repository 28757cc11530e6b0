"""A method of the same package: one mean image for all classes, by its own mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tests.contract.third_party.grey_mean.method import Config, GreyMean, MeanImages
from tree_sum.mechanism import TreeSum
from understudy.methods.contract import Context, Facts, PublicInputs
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.plan.plan import Plan, Spend


class TreeMean(GreyMean):
    """Guarantee: (epsilon, delta) of one `TreeSum` under add-or-remove one unit."""

    info = replace(GreyMean.info, name="tree-mean", mechanism="one tree-sum")

    def spend(self, config: Config, facts: Facts) -> Spend:
        del config
        pixels = int(np.prod(facts.shape))
        return lambda sigma: (TreeSum("means", pixels, clip=1.0, sigma=sigma),)

    def fit(
        self,
        config: Config,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> MeanImages:
        del public, context, plan
        private = parts["train"]
        classes, root = len(private.schema.classes), float(np.prod(private.shape)) ** 0.5
        noisy = private.release("means", lambda batch: batch.features.flatten(1) / root)
        mean = (noisy.reshape(private.shape) * root / private.count).clamp(0, 1)
        return MeanImages(
            mean.expand(classes, *private.shape).clone(), config.spread, private.schema
        )
