from __future__ import annotations

import pytest
import torch
from torch import nn

from understudy.errors import UserError
from understudy.nets.vae import DenseSpec, split_code

MNIST = DenseSpec((1, 28, 28), 10, (300, 300), "elu")


def test_the_sizes_are_those_of_the_paper():
    linear = [m for m in MNIST.encoder().modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == [(784, 300), (300, 300), (300, 20)]
    linear = [m for m in MNIST.decoder().modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == [(10, 300), (300, 300), (300, 784)]
    assert sum(isinstance(m, nn.ELU) for m in MNIST.decoder().modules()) == 2


@pytest.mark.parametrize("shape", [(1, 28, 28), (102,)])
def test_records_go_to_codes_and_back_to_their_shape(shape):
    spec = DenseSpec(shape, 4, (8,), "softplus")
    mean, log_variance = split_code(spec.encoder()(torch.rand(3, *shape)))
    assert mean.shape == log_variance.shape == (3, 4)
    assert spec.decoder()(mean).shape == (3, *shape)


def test_specs_survive_json():
    assert DenseSpec.from_json(MNIST.to_json()) == MNIST


def test_an_unknown_activation_is_refused():
    with pytest.raises(UserError, match="elu or softplus"):
        DenseSpec((4,), 2, (3,), "relu").encoder()


def test_variances_stay_where_exp_can_bear_them():
    _, log_variance = split_code(torch.tensor([[0.0, 1e9], [0.0, -1e9]]))
    assert torch.isfinite(log_variance.exp()).all()
    assert (log_variance.exp() > 0).all()
