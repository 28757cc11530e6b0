from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from understudy.errors import UserError
from understudy.nets.densenet import DenseNetSpec
from understudy.privacy.dpsgd.models import refuse_mixing_layers

PAPER = DenseNetSpec((3, 64, 64), 50, 12, 82, (256, 256, 128, 64, 32), "batch")
SMALL = DenseNetSpec((3, 32, 32), 5, 2, 10, (8, 8, 8, 4, 4), "group")


def test_the_depth_and_the_channels_are_those_of_table_5():
    with torch.device("meta"):
        encoder = PAPER.encoder()
    convolutions = [m for m in encoder.modules() if isinstance(m, nn.Conv2d)]
    # The first, two in each of 3 x 13 layers, three halvings; the linear layer makes it 83.
    assert len(convolutions) == 1 + 2 * 3 * 13 + 3
    assert convolutions[0].out_channels == 24
    halvings = [m for m in convolutions if m.kernel_size == (1, 1) and m.out_channels != 48]
    k, m = 82, 12
    first = (k - 4) // 6 * m + 2 * m
    second = (k - 4) // 6 * m + first // 2
    third = (k - 4) // 6 * m + second // 2
    assert [c.in_channels for c in halvings] == [first, second, third]
    assert [c.out_channels for c in halvings] == [first // 2, second // 2, third // 2]
    linear = [m for m in encoder.modules() if isinstance(m, nn.Linear)]
    assert [layer.out_features for layer in linear] == [100]


def test_the_decoder_is_that_of_table_6():
    with torch.device("meta"):
        decoder = PAPER.decoder()
        made = decoder(torch.zeros(2, 50))
    assert made.shape == (2, 3, 64, 64)
    assert next(m for m in decoder.modules() if isinstance(m, nn.Linear)).out_features == 4096
    transposed = [m for m in decoder.modules() if isinstance(m, nn.ConvTranspose2d)]
    assert [(m.kernel_size[0], m.stride[0]) for m in transposed] == [(3, 2)] * 4 + [(5, 1)]


def test_images_go_to_codes_and_back():
    codes = SMALL.encoder()(torch.rand(2, 3, 32, 32))
    assert codes.shape == (2, 10)
    assert SMALL.decoder()(codes[:, :5]).shape == (2, 3, 32, 32)
    assert DenseNetSpec.from_json(SMALL.to_json()) == SMALL


def test_groups_mix_no_records_and_batches_do():
    refuse_mixing_layers([SMALL.encoder(), SMALL.decoder()])
    with pytest.raises(UserError, match="mixes"):
        refuse_mixing_layers([replace(SMALL, norm="batch").encoder()])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": (1, 28, 28)}, "multiples of 16"),
        ({"shape": (102,)}, "dense encoder"),
        ({"depth": 81}, "depth"),
        ({"widths": (8, 8)}, "widths"),
        ({"norm": "layer"}, "norm"),
    ],
)
def test_what_cannot_be_built_is_refused(change, words):
    with pytest.raises(UserError, match=words):
        replace(SMALL, **change)
