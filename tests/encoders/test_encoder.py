from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.data.samples import refused
from tests.encoders.samples import DENSE, DENSENET, SPECS, TABLE, blobs, encoder_of
from understudy.encoders.encoder import clip_to_ball


def inputs(name: str, count: int) -> torch.Tensor:
    return torch.rand(count, *SPECS[name].shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", SPECS)
def test_latents_are_float32_rows_in_the_ball_and_decode_to_records(name):
    encoder = encoder_of(SPECS[name], radius=0.5)
    z = encoder.encode(inputs(name, 9))
    assert z.dtype == torch.float32
    assert z.shape == (9, encoder.latent)
    assert z.norm(dim=1).max() <= 0.5 * (1 + 1e-6)
    made = encoder.decode(z)
    assert made.shape == (9, *encoder.shape)
    assert made.min() >= 0
    assert made.max() <= 1


@pytest.mark.parametrize("name", SPECS)
def test_a_record_has_the_same_latent_in_any_company(name):
    encoder, records = encoder_of(SPECS[name]), inputs(name, 40)
    together = encoder.encode(records)
    alone = torch.cat([encoder.encode(row[None]) for row in records])
    assert torch.allclose(together, alone, atol=1e-5)
    assert torch.equal(together, encoder.encode(records))


def test_batch_statistics_are_those_of_training_and_not_of_the_company():
    """A densenet normalises by the batch while it learns; a published one must not."""
    spec = replace(DENSENET, norm="batch")
    encoder = encoder_of(spec, radius=100.0)
    with torch.no_grad():
        encoder.encoder.train()(inputs("densenet", 8))
    encoder = replace(encoder)
    records = inputs("densenet", 12)
    records[0] = 1.0  # a neighbour that would move the statistics of any batch it is in
    alone = torch.cat([encoder.encode(row[None]) for row in records])
    before = {k: v.clone() for k, v in encoder.encoder.state_dict().items()}
    assert torch.allclose(encoder.encode(records), alone, atol=1e-5)
    assert torch.allclose(encoder.encode(records[1:]), alone[1:], atol=1e-5)
    decoded = encoder.decode(alone)
    one = torch.cat([encoder.decode(row[None]) for row in alone])
    assert torch.allclose(decoded, one, atol=1e-5)
    assert all(torch.equal(before[k], v) for k, v in encoder.encoder.state_dict().items())
    mixing = encoder.encoder.train()(records)[1:]
    assert not torch.allclose(mixing, encoder.encoder.train()(records[1:]), atol=1e-3)


def test_clipping_leaves_short_latents_and_shortens_long_ones():
    z = torch.tensor([[0.3, 0.4], [30.0, 40.0], [float("nan"), 1.0], [float("inf"), 0.0]])
    clipped = clip_to_ball(z, 1.0)
    assert torch.equal(clipped[0], z[0])
    assert torch.allclose(clipped[1], torch.tensor([0.6, 0.8]))
    assert torch.equal(clipped[2:], torch.zeros(2, 2))


def test_the_radius_bounds_every_latent():
    """Two latents are at most 2 x radius apart: what the noise of a local mechanism is for."""
    encoder = encoder_of(radius=0.25)
    wild = torch.rand(200, *DENSE.shape) * 1e6
    wild[:50] = float("nan")
    norms = torch.linalg.vector_norm(encoder.encode(wild), dim=1, dtype=torch.float64)
    assert norms.max() <= 0.25 * (1 + 1e-6), "a latent lies outside the ball"
    free = encoder_of(radius=1e9).encode(torch.rand(200, *DENSE.shape))
    assert free.norm(dim=1).max() > 0.25


def test_uint8_images_and_their_floats_have_the_same_latents():
    encoder, records = encoder_of(), blobs(5)
    as_floats = records.features.astype(np.float32) / 255
    assert torch.allclose(encoder.encode(records.features), encoder.encode(as_floats))
    assert encoder.decode_images(encoder.encode(as_floats)).dtype == np.uint8


def test_the_posterior_has_the_means_of_encode_and_positive_variances():
    encoder, records = encoder_of(), blobs(5)
    mean, variance = encoder.posterior(records.features)
    assert torch.equal(mean, encoder.encode(records.features))
    assert variance.shape == mean.shape
    assert (variance > 0).all()


def test_latents_can_be_trained_on():
    z = encoder_of().encode(blobs(4).features)
    weights = torch.zeros(3, 1, requires_grad=True)
    (z @ weights).sum().backward()
    assert weights.grad is not None


def test_no_records_give_no_latents():
    assert encoder_of().encode(np.zeros((0, 1, 8, 8), np.uint8)).shape == (0, 3)
    assert encoder_of().decode(torch.zeros(0, 3)).shape == (0, 1, 8, 8)


def test_records_of_another_shape_or_kind_are_refused():
    with refused("[1, 8, 8]", "[3, 8, 8]"):
        encoder_of().encode(np.zeros((2, 3, 8, 8), np.uint8))
    with refused("[12]", "[1, 8, 8]"):
        encoder_of(TABLE).encode(np.zeros((2, 1, 8, 8), np.uint8))
    with refused("int64"):
        encoder_of().encode(np.zeros((2, 1, 8, 8), np.int64))
    with refused("radius"):
        encoder_of(radius=0.0)


def test_latents_are_checked_against_the_radius():
    encoder = encoder_of(radius=1.0)
    good = encoder.encode(blobs(20).features)
    assert torch.equal(encoder.check_latents(good), good)
    with refused("row 1", "radius 1", "encode"):
        encoder.check_latents(np.array([[0, 0, 0], [0, 2, 0]], np.float32))
    with refused("[N, 3]"):
        encoder.check_latents(np.zeros((2, 4), np.float32))
    with refused("finite"):
        encoder.check_latents(np.full((1, 3), np.nan, np.float32))
    assert encoder.decode(np.array([[0, 2.0, 0]], np.float32)).shape == (1, 1, 8, 8)
