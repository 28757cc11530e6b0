"""`filter apply` and `filter collect` as releases: gate, signature, account book, provenance."""

from __future__ import annotations

import json
import math

import pytest

from tests.cli.test_filter_verbs import WORDS, pictures, refused
from tests.federated.scene import encoder as scene_encoder
from understudy.cli.main import run
from understudy.encoders.file import write_encoder
from understudy.encoders.provenance import Provenance

REVEALED = Provenance("scans of a clinic", "revealed", math.inf)
GAUSSIAN = ["filter", "apply", "e.safetensors", "mine", "--mechanism", "gaussian"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    write_encoder(tmp_path / "e.safetensors", scene_encoder().with_provenance(REVEALED))
    pictures(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys, words):
    capsys.readouterr()
    assert run([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_collection_is_signed_and_checked(place, capsys):
    assert run(["keygen", "key", "key.public"]) == 0
    assert run([*GAUSSIAN, "--epsilon", "2", "-o", "A"]) == 0
    collect = ["filter", "collect", "A", "--encoder", "e.safetensors", "-o"]
    assert run([*collect, "out", "--sign", "key"]) == 0
    verify = ["verify", "out", "--key", "key.public", "--encoder", "e.safetensors"]
    assert told(capsys, verify)["verdict"] == "consistent and authenticated"
    refused(capsys, [*collect[1:], "other", "--sign", "key.public"], "key.public", "chmod")
    refused(capsys, [*collect[1:], "other", "--sign", "nowhere"], "nowhere")
    refused(capsys, [*collect[1:], "other", "--title", "of /" + "home/ann/scans"], "title")
    assert not (place / "other").exists()
    card = place / "out" / "README.md"
    card.write_text(card.read_text() + "All is private.\n")
    assert run(["verify", "out", "--key", "key.public"]) == 1


@pytest.mark.usefixtures("place")
def test_what_is_sent_adds_up(capsys):
    for number in range(3):
        assert run([*GAUSSIAN, "--epsilon", "2", "-o", f"L{number}"]) == 0
    one = told(capsys, ["spent", "mine"])["local"]
    assert one["runs"] == 3
    assert one["released"] == one["all_runs"] > 3.5
    assert run(["spent", "mine"]) == 0
    assert "Local runs together" in capsys.readouterr().out
    assert run([*GAUSSIAN, "--epsilon", "2", "--dataset", "my own", "-o", "M"]) == 0
    assert told(capsys, ["spent", "my own"])["local"]["runs"] == 1
    assert told(capsys, ["spent", "mine"])["local"] == one


@pytest.mark.usefixtures("place")
def test_a_revealed_encoder_is_in_all_that_is_said(capsys):
    sent = told(capsys, [*GAUSSIAN, "--epsilon", "2", "-o", "A"])
    assert sent["encoder"]["provenance"]["epsilon"] == "infinity"
    assert run([*GAUSSIAN, "--epsilon", "2", "-o", "B"]) == 0
    assert "epsilon is infinite for them" in capsys.readouterr().out
    made = told(capsys, ["filter", "collect", "A", "--encoder", "e.safetensors", "-o", "out"])
    assert REVEALED.statement in made["statement"]
    assert made["claim"]["encoder"]["provenance"]["claim"] == "revealed"


def test_a_filter_that_hardly_filters_writes_no_folder(place, capsys):
    train = ["filter", "train", "e.safetensors", "mine", *WORDS]
    assert run([*train, "--budget", "1e-7", "-o", "still.filter"]) == 0
    apply = ["apply", "e.safetensors", "still.filter", "mine", "-o", "S"]
    refused(capsys, apply, "60 of 60 filtered records are near copies", "--budget")
    assert not (place / "S").exists()
    assert told(capsys, ["spent", "mine"])["runs"] == 0
    assert run([*train, "-o", "good.filter"]) == 0
    assert run(["filter", "apply", "e.safetensors", "good.filter", "mine", "-o", "G"]) == 0
    assert told(capsys, ["spent", "mine"])["released"] == "infinity"


@pytest.mark.usefixtures("place")
def test_an_encoder_is_no_word_for_a_release(capsys):
    capsys.readouterr()
    assert run(["verify", "mine", "--encoder", "e.safetensors"]) == 2
    assert "is no collection" in capsys.readouterr().err
