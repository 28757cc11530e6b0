from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.data.samples import Said, refused
from understudy.encoders.autoencoder_training import Checkpoint
from understudy.encoders.file import read_encoder
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.released import released_ledger
from understudy.privacy.ledger.story import ledger_plan
from understudy.run.config import RunConfig
from understudy.run.encoder import EncoderRequest, init_encoder

TINY = ("latent=2", "hidden=8", "epochs=1", "batch=200")


def request(source="digits", epsilon=None, changes=TINY, kind="dense", **options):
    config = {k: options.pop(k) for k in ("count", "unit", "size") if k in options}
    return EncoderRequest(
        RunConfig(source, kind, epsilon, changes=changes, device="cpu", **config), **options
    )


def made(tmp_path, asked, name="e", **options):
    out = tmp_path / "out" / f"{name}.safetensors"
    return init_encoder(
        asked, out, run_folder=tmp_path / "runs" / name, home=tmp_path / "home", **options
    )


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(30):
            pixels = rng.integers(0, 256, (16, 16), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    return str(tmp_path / "photos")


def test_public_data_costs_nothing_and_is_in_no_book(tmp_path):
    found = made(tmp_path, request())
    encoder = read_encoder(found.path, found.digest)
    assert (encoder.provenance.claim, encoder.provenance.epsilon) == ("public", 0.0)
    assert encoder.provenance.licence == "CC BY 4.0"
    assert not (tmp_path / "home").exists()
    assert encoder.schema.names == ("label",)


def test_private_training_states_what_its_ledger_comes_to(tmp_path, photos):
    asked = request(photos, 3.0, (*TINY[:3], "batch=20"))
    found = made(tmp_path, asked)
    provenance = read_encoder(found.path).provenance
    assert provenance.claim == "central"
    assert 0.99 * 3 <= provenance.epsilon <= 3
    own = read_ledger(tmp_path / "runs" / "e" / "ledger.jsonl")
    told = released_ledger(ledger_plan(own), own[0].body["run"])
    assert (provenance.ledger, provenance.entries) == (told[-1].hash, len(told))
    assert provenance.ledger not in [entry.hash for entry in own]
    assert provenance.trained_on == "private data"
    written = found.path.read_bytes().decode("latin1")
    assert str(tmp_path) not in written
    assert "photos" not in written
    (entered,) = Book.open(photos, tmp_path / "home").runs()
    assert entered.released


def test_a_revealed_encoder_says_infinite_and_the_book_knows(tmp_path, photos):
    found = made(tmp_path, request(photos, reveal="to see what it is worth"))
    assert math.isinf(read_encoder(found.path).provenance.epsilon)
    assert "infinite" in read_encoder(found.path).provenance.statement
    (entered,) = Book.open(photos, tmp_path / "home").runs()
    assert entered.is_empirical


def test_an_owners_data_is_private_until_declared_public(tmp_path, photos):
    with refused("photos", "--epsilon", "--public-data", "--reveal"):
        made(tmp_path, request(photos))
    assert not (tmp_path / "runs").exists()
    found = made(tmp_path, request(photos, public=True))
    assert "declared public" in read_encoder(found.path).provenance.trained_on


def test_a_stopped_public_training_goes_on(tmp_path, monkeypatch):
    whole = made(tmp_path, request(changes=(*TINY, "epochs=2")), "whole")
    real, saved = Checkpoint.save, []

    def stop_after_the_first(self, pair, steps):
        real(self, pair, steps)
        saved.append(steps)
        if len(saved) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", stop_after_the_first)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, request(changes=(*TINY, "epochs=2")), "cut")
    with refused("runs/cut", "--resume", "-o"):
        made(tmp_path, request(changes=(*TINY, "epochs=2")), "cut")
    with refused("other settings"):
        made(tmp_path, request(changes=(*TINY, "epochs=3")), "cut", resume=True)
    again = made(tmp_path, request(changes=(*TINY, "epochs=2")), "cut", resume=True)
    assert saved == [saved[0], 2 * saved[0]]
    assert again.digest == whole.digest


def test_a_finished_private_run_gives_the_same_file_again(tmp_path, photos):
    asked = request(photos, 3.0, (*TINY[:3], "batch=20"))
    first = made(tmp_path, asked)
    first.path.unlink()
    again = made(tmp_path, asked, resume=True)
    assert again.digest == first.digest
    with refused("--resume", "not the same: --set"):
        made(tmp_path, request(photos, 3.0, TINY), resume=True)


def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path):
    with refused("safetensors"):
        init_encoder(request(), tmp_path / "encoder.pt", run_folder=tmp_path / "runs")
    with refused("densnet", "densenet"):
        request(kind="densnet")
    with refused("--epsilon", "--reveal"):
        request(epsilon=1.0, reveal="why not")
    with refused("reason"):
        request(reveal=" ")
    with refused("--count"):
        made(tmp_path, request(count=5))
    with refused("multiples of 16"):
        made(tmp_path, request(kind="densenet", changes=()))
    assert not (tmp_path / "out").exists()


@pytest.fixture
def ward(tmp_path):
    """Scans of forty patients with columns beside them; one site has a single scan."""
    rng = np.random.default_rng(0)
    (tmp_path / "ward").mkdir()
    lines = ["file_name,patient,site,outcome"]
    for i in range(40):
        Image.fromarray(rng.integers(0, 256, (16, 16), np.uint8)).save(tmp_path / f"ward/{i}.png")
        lines.append(
            f"{i}.png,person-{i // 2},{'alone' if i == 7 else 'main'},{'bad' if i % 3 else 'ok'}"
        )
    (tmp_path / "ward" / "metadata.csv").write_text("\n".join(lines) + "\n")
    return str(tmp_path / "ward")


def test_a_private_encoder_names_no_column_that_was_not_declared(tmp_path, ward):
    few = (*TINY[:3], "batch=10")
    asked = request(ward, 3.0, few, unit="patient")
    found = made(tmp_path, asked)
    assert read_encoder(found.path).schema.names == (), "values of private columns are published"
    # Words long enough that noised weights, read as text, do not hold them by chance.
    text = found.path.read_bytes().decode("latin1")
    assert not any(word in text for word in ("alone", "outcome", "person-7"))
    named = request(ward, 3.0, few, unit="patient", declared=("outcome",))
    encoder = read_encoder(made(tmp_path, named, "named").path)
    assert [(a.name, a.classes) for a in encoder.schema.attributes] == [("outcome", ("bad", "ok"))]


def test_what_tells_people_apart_is_never_declared(tmp_path, ward):
    few = (*TINY[:3], "batch=10")
    with refused("patient", "apart"):
        made(tmp_path, request(ward, 3.0, few, declared=("patient",)))
    with refused("outcom", "outcome"):
        made(tmp_path, request(ward, 3.0, few, unit="patient", declared=("outcom",)))
    encoder = made(tmp_path, request(ward, public=True)).encoder
    assert set(encoder.schema.names) == {"site", "outcome"}


def test_a_model_of_data_that_may_not_ship_says_so(tmp_path, photos, monkeypatch):
    """The files of a catalog dataset, read as an owner's own folder."""
    (tmp_path / "shelf").mkdir()
    Path(photos).rename(tmp_path / "shelf" / "utkface")
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path / "shelf"))
    said = Said()
    source = str(tmp_path / "shelf" / "utkface")
    found = made(tmp_path, request(source, changes=TINY, public=True), progress=said)
    licence = str(read_encoder(found.path).provenance.licence)
    assert licence.startswith("a model of it is not to be handed on, because it shows real people")
    assert any("is not to be handed on, because it shows real people" in w for w in said.lines)
