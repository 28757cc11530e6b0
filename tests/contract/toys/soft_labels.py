"""A fixed set with soft labels: public pictures, labelled by what two private parts taught."""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

import understudy.authoring as us

SIDE = 4


@dataclass(frozen=True)
class SoftLabelsConfig:
    size: int = us.setting(20, "pictures that are released", low=1)
    sharpness: float = us.setting(30.0, "of the soft labels", low=0.0)


class SoftLabels:
    """Guarantee: (epsilon, delta) of two Gaussian releases under add-or-remove one unit."""

    info = us.MethodInfo(
        name="toy-soft-labels",
        summary="labels public pictures by noisy class means and a noisy mean of all",
        paper="none: an example",
        family="discriminative release",
        parts={"teacher": 0.75, "statistics": 0.25},
        public=(us.PublicRecords("canvas", "the pictures that are released"),),
        mechanism="two Gaussian releases of clipped sums",
    )
    Config = SoftLabelsConfig
    Output = us.RecordSet

    def spend(self, config: SoftLabelsConfig, facts: us.Facts) -> us.Spend:
        return lambda sigma: (
            us.NoisySum("means", clip=1.0, sigma=sigma, part="teacher"),
            us.NoisySum("mean", clip=1.0, sigma=sigma, part="statistics"),
        )

    def size(self, config: SoftLabelsConfig, facts: us.Facts) -> int:
        return config.size

    def fit(
        self,
        config: SoftLabelsConfig,
        parts: us.Parts,
        plan: us.Plan,
        public: us.PublicInputs,
        context: us.Context,
    ) -> us.RecordSet:
        teacher, statistics = parts["teacher"], parts["statistics"]
        classes = len(teacher.schema.classes)

        def by_class(batch: us.Batch) -> us.Blocks:
            return us.Blocks(_thumbnails(batch.features), batch.labels, classes)

        means = teacher.noisy_sum(by_class, 1.0, plan.mechanism("means", us.NoisySum).sigma)
        mean = statistics.noisy_sum(
            lambda batch: _thumbnails(batch.features),
            1.0,
            plan.mechanism("mean", us.NoisySum).sigma,
        )
        centres = means.reshape(classes, -1) * classes / teacher.count - mean / statistics.count
        canvas = public.records["canvas"]
        rows = torch.arange(config.size) % len(canvas)
        pictures = torch.from_numpy(canvas.features[rows.numpy()]).float() / 255
        near = _thumbnails(pictures) @ F.normalize(centres, dim=1).T
        labels = (config.sharpness * near).softmax(dim=1).numpy()
        name, schema = teacher.schema.label_attribute.name, teacher.schema
        return us.RecordSet(us.Records(canvas.features[rows.numpy()], {name: labels}, schema))


def _thumbnails(pictures: torch.Tensor) -> torch.Tensor:
    """Small grey pictures of L2 norm at most 1."""
    small = F.adaptive_avg_pool2d(pictures.mean(dim=1, keepdim=True), SIDE).flatten(1)
    return small / SIDE
