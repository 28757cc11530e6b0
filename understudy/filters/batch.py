"""What a filter's training draws its batches from: latents with all that readers ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from understudy.data.records import Records
from understudy.filters.choice import Choice, Codes, codes_of, joint_codes
from understudy.filters.clusters import cluster_codes
from understudy.filters.model import one_hot


@dataclass(frozen=True)
class Batch:
    """codes: the hidden labels' first, then the kept ones', `[labels, N]`.

    groups: one code for each combination of hidden labels.
    clusters: where a record lies among those of its group.
    """

    z: torch.Tensor
    onehot: torch.Tensor
    codes: torch.Tensor
    residuals: torch.Tensor
    groups: torch.Tensor
    clusters: torch.Tensor

    def part(self, rows: torch.Tensor) -> Batch:
        return Batch(
            self.z[rows],
            self.onehot[rows],
            self.codes[:, rows],
            self.residuals[rows],
            self.groups[rows],
            self.clusters[rows],
        )


def batch_of(
    records: Records, choice: Choice, classes: Sequence[int], clusters: int, seed: int
) -> Batch:
    """All records of a choice; `clusters` 0: none are looked for."""
    z = torch.from_numpy(np.array(records.features, np.float32))
    hidden = [codes_of(records, name) for name in choice.private]
    kept = [codes_of(records, name) for name in choice.useful]
    codes = torch.from_numpy(np.stack(hidden + kept))
    groups = joint_codes(hidden, len(records))
    latents = np.asarray(records.features, np.float64)
    within = cluster_codes(latents, groups, clusters, seed) if clusters else np.zeros_like(groups)
    return Batch(
        z,
        one_hot(codes[: len(hidden)].T, classes),
        codes,
        _residuals(records, groups),
        torch.from_numpy(groups),
        torch.from_numpy(within),
    )


def _residuals(records: Records, groups: Codes) -> torch.Tensor:
    """Latents less the mean of their private labels, in units of their spread.

    What a latent holds besides the hidden labels. Asking that it can be read from what is sent
    keeps attributes that nobody named, without asking for the hidden ones.
    """
    latents = np.asarray(records.features, np.float64)
    counts = np.maximum(np.bincount(groups), 1)
    sums = np.zeros((len(counts), latents.shape[1]))
    np.add.at(sums, groups, latents)
    rest = latents - (sums / counts[:, None])[groups]
    return torch.from_numpy((rest / np.maximum(rest.std(axis=0), 1e-6)).astype(np.float32))
