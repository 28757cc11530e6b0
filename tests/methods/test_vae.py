from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.data.samples import refused
from tests.encoders.samples import blobs
from tests.methods.bench import Bench, facts_of, plan_for
from understudy.data.records import Records
from understudy.encoders.encoder import Encoder
from understudy.encoders.provenance import Provenance
from understudy.encoders.record_map import EncoderMap
from understudy.methods.config import describe_config, resolve_config
from understudy.methods.contract import PublicInputs
from understudy.methods.vae import (
    TRAINING,
    DenseNetVAE,
    DenseNetVAEConfig,
    DenseVAE,
    DenseVAEConfig,
    ball_radius,
)
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD, Reveal
from understudy.progress import Silent

SMALL = DenseVAEConfig(latent=2, hidden=(8,), epochs=1, batch=16, learning_rate=1e-2)
FACES = DenseNetVAEConfig(
    latent=2, growth=2, depth=10, widths=(4, 4, 4, 4, 4), norm="group", epochs=1, batch=20
)
CPU = torch.device("cpu")


def fitted(folder, method, config, records: Records, sigma=1.0, noise=None) -> Encoder:
    bench = Bench(folder, plan_for(method, config, facts_of(records), sigma), noise)
    try:
        parts = bench.door.handles({"train": records}, {"train": len(records)})
        found = method.fit(config, parts, bench.journal.plan, PublicInputs(), bench.context)
        bench.door.settle()
    finally:
        bench.close()
    return found


def test_the_plan_is_epochs_of_poisson_steps_at_the_declared_rate():
    facts = facts_of(blobs(50), count=100)
    (planned,) = DenseVAE().spend(replace(SMALL, epochs=3), facts)(2.0)
    assert planned == DPSGD(TRAINING, math.ceil(300 / 16), 0.16, SMALL.clip, 2.0)
    (revealed,) = DenseVAE(reveal="a test").spend(SMALL, facts)(2.0)
    assert isinstance(revealed, Reveal)
    assert revealed.reason == "a test"


def test_a_batch_above_the_declared_count_is_refused():
    with refused("batch", "at most 10"):
        DenseVAE().spend(SMALL, facts_of(blobs(50), count=10))


def test_batch_normalisation_is_refused_for_private_records_only():
    facts = facts_of(blobs(50, (3, 16, 16)))
    mixing = replace(FACES, norm="batch")
    with refused("norm=group"):
        DenseNetVAE().spend(mixing, facts)
    DenseNetVAE(reveal="a test").spend(mixing, facts)


@pytest.mark.parametrize("kind", ["dense", "densenet"])
def test_private_training_goes_through_the_door(tmp_path, kind):
    method = DenseVAE() if kind == "dense" else DenseNetVAE()
    records = blobs(40, (1, 8, 8) if kind == "dense" else (3, 16, 16))
    encoder = fitted(tmp_path, method, SMALL if kind == "dense" else FACES, records)
    assert encoder.provenance.claim == "central"
    assert encoder.encode(records.features).shape == (40, 2)
    commits = [e for e in read_ledger(tmp_path / "ledger.jsonl") if e.kind == "commit"]
    assert sum(e.body["uses"] for e in commits) == math.ceil(40 / (16 if kind == "dense" else 20))


def test_private_training_learns_where_there_is_no_noise(tmp_path):
    config = replace(SMALL, epochs=30, batch=64, hidden=(32,), clip=10.0)
    records = blobs(128)
    encoder = fitted(tmp_path, DenseVAE(), config, records, sigma=1e-6)
    shown = torch.as_tensor(records.features).float() / 255
    gap = (encoder.decode(encoder.encode(records.features)) - shown).square().mean()
    assert gap < 0.5 * (shown - shown.mean(dim=0)).square().mean()


def test_what_is_released_does_not_depend_on_records_but_through_the_sum(tmp_path):
    """With overwhelming noise from a fixed seed, other records give the same encoder."""

    def weights(folder, records):
        noise = NoiseSource.insecure(7)
        found = fitted(tmp_path / folder, DenseVAE(), SMALL, records, sigma=1e9, noise=noise)
        return torch.cat([p.flatten() for p in found.encoder.parameters()])

    black = blobs(40)
    white = replace(black, features=255 - black.features)
    assert torch.allclose(weights("a", black), weights("b", white), atol=1e-5)


def test_revealed_records_make_epsilon_infinite(tmp_path):
    encoder = fitted(tmp_path, DenseVAE("a test", "scans"), SMALL, blobs(40))
    assert encoder.provenance.claim == "revealed"
    assert math.isinf(encoder.provenance.epsilon)
    assert "scans" in encoder.provenance.statement
    assert (tmp_path / "scratch" / "encoder.safetensors").exists()


def test_an_encoder_hands_latents_out_only_where_a_reveal_is_planned(tmp_path):
    records = blobs(30)
    encoder = DenseVAE().learn_openly(SMALL, records, PUBLIC, 0, CPU, Silent())
    bench = Bench(tmp_path / "a", plan_for(DenseVAE("a test"), SMALL, facts_of(records)))
    latents = EncoderMap(encoder).apply(
        bench.door.handles({"train": records}, {"train": 30})["train"]
    )
    assert np.array_equal(latents.features, encoder.encode(records.features).numpy())
    bench.close()
    bench = Bench(tmp_path / "b", plan_for(DenseVAE(), SMALL, facts_of(records)))
    with refused("reveals nothing"):
        EncoderMap(encoder).apply(bench.door.handles({"train": records}, {"train": 30})["train"])
    bench.close()


PUBLIC = Provenance("drawn by a test", "public", 0.0)


def test_the_encoder_carries_attributes_without_roles(tmp_path):
    encoder = DenseVAE().learn_openly(SMALL, blobs(30), PUBLIC, 0, CPU, Silent())
    assert encoder.schema.names == ("tone", "row")
    assert encoder.schema.label is None
    encoder.save(tmp_path / "kept")
    assert Encoder.load(tmp_path / "kept").digest == encoder.digest


def test_the_radius_is_a_constant_of_the_settings():
    assert ball_radius(SMALL) == math.sqrt(2) + 3
    assert ball_radius(replace(SMALL, radius=1.5)) == 1.5


@pytest.mark.parametrize("method", [DenseVAE(), DenseNetVAE()], ids=lambda m: m.info.name)
def test_presets_are_there_and_private_ones_mix_no_records(method):
    assert all(s.help for s in describe_config(method.Config))
    public = resolve_config(method, "mnist").config
    private = resolve_config(method, "mnist", 1.0).config
    assert private.batch > public.batch
    assert getattr(private, "norm", "group") == "group"


def test_the_default_is_the_network_of_the_paper():
    config = resolve_config(DenseVAE()).config
    assert (config.latent, config.hidden, config.activation) == (10, (300, 300), "elu")
    assert config.batch == 100
    faces = resolve_config(DenseNetVAE()).config
    assert (faces.latent, faces.growth, faces.depth, faces.batch) == (50, 12, 82, 24)
