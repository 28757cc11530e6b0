"""Stacked readers are what as many readers apart would be."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from understudy.filters.heads import Heads

CLASSES = (2, 5)


def test_each_head_is_a_network_of_its_own() -> None:
    heads = Heads(latent=4, classes=CLASSES, width=8, layers=2)
    z = torch.randn(6, 4)
    logits = heads(z.expand(2, 6, 4))
    for head, count in enumerate(CLASSES):
        values = z
        for layer, (weight, bias) in enumerate(zip(heads.weights, heads.biases, strict=True)):
            values = values @ weight[head] + bias[head]
            values = F.elu(values) if layer < 2 else values
        torch.testing.assert_close(logits[head, :, :count], values[:, :count])


def test_a_class_that_a_head_does_not_have_is_never_answered() -> None:
    heads = Heads(latent=4, classes=CLASSES, width=8, layers=1)
    shares = heads(torch.randn(2, 50, 4)).detach().softmax(dim=2)
    assert float(shares[0, :, 2:].max()) == 0.0
    assert float(shares[1].min()) > 0.0


def test_losses_are_cross_entropies_and_their_slopes_are_apart() -> None:
    heads = Heads(latent=4, classes=CLASSES, width=8, layers=2)
    copies = torch.randn(2, 9, 4, requires_grad=True)
    codes = torch.stack([torch.randint(count, (9,)) for count in CLASSES])
    losses = heads.losses(copies, codes)
    for head in range(2):
        expected = F.cross_entropy(heads(copies)[head], codes[head])
        torch.testing.assert_close(losses[head], expected)
    (slope,) = torch.autograd.grad(losses[0], copies)
    assert slope[0].abs().sum() > 0
    assert slope[1].abs().sum() == 0
