from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests.data.samples import refused
from tests.federated.scene import QUICK, encoder, records, user
from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.federated.agreement import Agreement
from understudy.federated.user import (
    User,
    encoded,
    encoded_for_noise,
    filtered,
    noised,
    own_records,
)
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.filters.filter import fit_filter
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.local.channel import LocalChannel
from understudy.privacy.noise.source import NoiseSource


@pytest.fixture(scope="module")
def world():
    made = encoder()
    latents = encoded(made, records())
    mine = fit_filter(latents, Choice(("tone",), ("row",)), Distortion(), made, QUICK)
    return made, latents, mine


def test_what_leaves_is_filtered_features_and_kept_labels(world):
    made, latents, mine = world
    sent = filtered(made, latents, mine, Agreement.of(made), NoiseSource())
    assert set(sent.arrays()) == {"features", "label:row"}
    assert not np.isclose(sent.records.features, latents.features).all(axis=1).any()
    assert sent.records.units is None
    assert "tone" not in str(sent.statement())
    assert str(mine.measured) not in str(sent.statement())


def test_fewer_labels_can_be_sent_and_none_that_is_hidden(world):
    made, latents, mine = world
    agreement, noise = Agreement.of(made), NoiseSource()
    assert set(filtered(made, latents, mine, agreement, noise, []).arrays()) == {"features"}
    for name in ("tone", "side", "rwo"):
        with refused("keeps"):
            filtered(made, latents, mine, agreement, noise, [name])


def test_images_are_decoded_after_the_filter(world):
    made, latents, mine = world
    sent = filtered(made, latents, mine, Agreement.of(made, "images"), NoiseSource())
    assert sent.arrays()["features"].dtype == np.uint8
    raw = made.decode_images(latents.features)
    assert not (sent.arrays()["features"] == raw).all(axis=(1, 2, 3)).any()


def test_the_noise_is_fresh_each_time(world):
    made, latents, mine = world
    sent = [
        filtered(made, latents, mine, Agreement.of(made), NoiseSource()).records.features
        for _ in range(2)
    ]
    assert not np.allclose(*sent)


def test_the_gaussian_mechanism_sends_the_noise_of_its_promise():
    made = encoder()
    many = Records(np.zeros((20_000, 3), np.float32), {}, Schema(()))
    channel = LocalChannel(made.radius, 1.0, 1e-5)
    book = Book.open("mine")
    sent = noised(made, many, channel, Agreement.of(made), NoiseSource(), book)
    spread = sent.records.features.std()
    assert abs(spread / (3.7306 * 2 * made.radius) - 1) < 0.02
    with refused("radius"):
        noised(made, many, replace(channel, radius=1.0), Agreement.of(made), NoiseSource(), book)


def test_latents_that_the_encoder_cannot_have_made_are_refused(world):
    made, latents, _ = world
    again = encoded(made, latents)
    assert np.array_equal(again.features, latents.features)
    with refused("radius"):
        encoded(made, replace(latents, features=10 * latents.features))


def test_a_user_trains_and_keeps_to_the_agreement():
    made = encoder()
    agreement = Agreement.of(made)
    without = replace(agreement, labels=tuple(a for a in agreement.labels if a.name != "row"))
    assert set(user().contribute(made, without).arrays()) == {"features"}
    silent = replace(user(), labels=())
    assert set(silent.contribute(made, agreement).arrays()) == {"features"}
    with refused("keeps"):
        replace(user(), labels=("tone",)).contribute(made, agreement)
    with refused("choice"):
        User(records(), None).contribute(made, agreement)
    with refused("no filter can hide"):
        same = records()
        same = replace(same, attributes={**same.attributes, "row": same.attributes["tone"]})
        User(same, Choice(("tone",), ("row",))).contribute(made, agreement)


@pytest.mark.parametrize("odd", [5.0, np.nan, np.inf, 1e38], ids=str)
def test_no_value_of_a_record_stops_a_local_channel(odd):
    """Whether a device answers would tell two sets of records apart that differ in one."""
    made = encoder()
    rows = np.full((5, made.latent), 0.1, np.float32)
    usual = Records(rows, {}, Schema(()))
    other = replace(usual, features=np.vstack([rows[:4], np.full((1, made.latent), odd)]))
    channel, agreement = LocalChannel(made.radius, 1.0, 1e-5), Agreement.of(made)
    for mine in (usual, other):
        local = User(mine, None, channel=channel, book=Book.open("mine"))
        assert len(local.contribute(made, agreement).records) == 5, "it declined"
    with refused("latents"):
        User(other, Choice(("tone",), ())).contribute(made, agreement)
    clipped = encoded_for_noise(made, other).features
    assert np.linalg.norm(clipped, axis=1).max() <= made.radius * (1 + 1e-6)
    assert np.array_equal(clipped[:4], encoded(made, usual).features[:4])
    with refused("latents must be floats"):
        encoded_for_noise(made, replace(usual, features=rows[:, :2]))


def test_neither_classes_nor_their_counts_stop_a_local_channel(tmp_path):
    """Of four records, one, none or all have a label's second class: each set is sent."""
    made = encoder()
    channel = LocalChannel(made.radius, 1.0, 1e-5, {"row": 1.0})
    for name, codes in {"one": "nnny", "none": "nnnn", "all": "yyyy"}.items():
        lines = ["file_name,row"]
        (tmp_path / name).mkdir()
        for i, code in enumerate(codes):
            Image.new("L", (8, 8), i).save(tmp_path / name / f"{i}.png")
            lines.append(f"{i}.png,{'yes' if code == 'y' else 'no'}")
        (tmp_path / name / "metadata.csv").write_text("\n".join(lines) + "\n")
        mine = own_records(made, str(tmp_path / name))
        local = User(mine, None, channel=channel, book=Book.open("mine"))
        sent = local.contribute(made, Agreement.of(made)).records
        assert (len(sent), sent.schema.attribute("row").classes) == (4, ("no", "yes"))
