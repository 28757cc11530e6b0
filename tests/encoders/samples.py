"""Small encoders and records for the tests of this room."""

from __future__ import annotations

import numpy as np
import torch

from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.encoders.encoder import Encoder
from understudy.encoders.provenance import Provenance
from understudy.encoders.specs import Spec
from understudy.nets.densenet import DenseNetSpec
from understudy.nets.seeding import built
from understudy.nets.vae import DenseSpec

SCHEMA = Schema((Attribute("tone", ("dark", "light")), Attribute("row", ("top", "bottom"))))
DENSE = DenseSpec((1, 8, 8), 3, (16,), "elu")
TABLE = DenseSpec((12,), 2, (8,), "softplus")
DENSENET = DenseNetSpec((3, 16, 16), 4, 2, 10, (8, 8, 8, 4, 4), "group")
SPECS: dict[str, Spec] = {"dense": DENSE, "table": TABLE, "densenet": DENSENET}
PUBLIC = Provenance("drawn by a test", "public", 0.0)


def encoder_of(spec: Spec = DENSE, radius: float = 2.0, seed: int = 0) -> Encoder:
    """An untrained encoder whose latents are long enough that some are clipped."""
    network, decoder = built(spec.encoder, seed, "a"), built(spec.decoder, seed, "b")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3.0)
    return Encoder(spec, radius, network, decoder, SCHEMA, PUBLIC)


def blobs(count: int, shape: tuple[int, ...] = (1, 8, 8), seed: int = 0) -> Records:
    """Images with a bright patch; where it is and how bright are the attributes."""
    rng = np.random.default_rng(seed)
    tone, row = rng.integers(0, 2, count), rng.integers(0, 2, count)
    images = rng.integers(0, 40, (count, *shape), dtype=np.uint8)
    half = shape[1] // 2
    for image, light, bottom in zip(images, tone, row, strict=True):
        image[:, bottom * half : (bottom + 1) * half] += np.uint8(80 + 120 * light)
    schema = Schema(SCHEMA.attributes, label="tone")
    return Records(images, {"tone": tone, "row": row}, schema)
