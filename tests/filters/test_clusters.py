"""Clusters tell what a latent holds besides the hidden labels, and say nothing of these."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.filters.latent_cases import mixture
from understudy.filters.choice import Choice
from understudy.filters.clusters import cluster_codes
from understudy.filters.distortion import Distortion
from understudy.filters.game import GameConfig, _Game
from understudy.filters.heads import ClusterReader


def test_clusters_are_found_in_each_group_by_itself() -> None:
    random = np.random.default_rng(0)
    place, groups = random.integers(0, 2, 400), random.integers(0, 2, 400)
    latents = np.stack([10.0 * place + 100.0 * groups, random.normal(size=400)], axis=1)
    codes = cluster_codes(latents, groups, 2)
    for group in (0, 1):
        own, true = codes[groups == group], place[groups == group]
        assert len(set(zip(own.tolist(), true.tolist(), strict=True))) == 2, "one code, one place"
    assert np.array_equal(codes, cluster_codes(latents, groups, 2))


def test_a_group_smaller_than_its_clusters() -> None:
    codes = cluster_codes(np.array([[0.0], [1.0], [2.0]]), np.array([0, 0, 1]), 8)
    assert sorted(codes[:2].tolist()) == [0, 1]
    assert codes[2] == 0


def test_the_reader_is_told_the_group_and_asked_for_the_cluster_in_it() -> None:
    reader = ClusterReader(latent=3, groups=2, count=4, width=5)
    sent = torch.randn(6, 3)
    groups, clusters = torch.tensor([0, 1, 0, 1, 1, 0]), torch.tensor([0, 3, 2, 1, 0, 3])
    logits = reader.network(sent)
    each = [
        F.cross_entropy(logits[i : i + 1, 4 * g : 4 * g + 4], clusters[i : i + 1])
        for i, g in enumerate(groups.tolist())
    ]
    torch.testing.assert_close(reader.missed(sent, groups, clusters), torch.stack(each).mean())


@pytest.mark.parametrize("weight", [0.0, 0.8])
def test_its_slope_is_part_of_the_filters(weight: float) -> None:
    config = GameConfig(batch=64, head_width=8, cluster_weight=weight, clusters=3)
    config = replace(config, utility_weight=0.0)
    choice = Choice(("hide",), ("keep",))
    one, two = (_Game(mixture(300), choice, Distortion(), config, None, 0) for _ in range(2))
    sent, pull = one._learn_and_pull()
    batch = two._drawn()
    again = two._sent(batch).detach().requires_grad_()
    losses = two.heads.losses(again.expand(2, *again.shape), batch.codes)
    reads = float(losses[0] < two.entropies[0])
    kept = two.cluster_reader.missed(again, batch.groups, batch.clusters)
    torch.autograd.backward(-reads * losses[0] + weight * kept)
    torch.testing.assert_close(pull, again.grad)
    assert torch.equal(sent.detach(), again.detach())
