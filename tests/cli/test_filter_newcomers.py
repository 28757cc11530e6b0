"""What somebody meets who uses filters for the first time: mistakes are named, none costs."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_filter_verbs import WORDS, pictures, refused
from tests.federated.scene import encoder as scene_encoder
from understudy.cli.main import run
from understudy.encoders.file import write_encoder

TRAIN = ["filter", "train", "e.safetensors", "mine"]
LOCAL = ["filter", "apply", "e.safetensors", "mine", "--mechanism", "gaussian", "--epsilon", "2"]
COLLECT = ["collect", "--encoder", "e.safetensors", "-o", "out"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An encoder's file and a user's folder of pictures."""
    write_encoder(tmp_path / "e.safetensors", scene_encoder())
    pictures(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sent(place):
    """The same, with a filtered folder A and a local one L at delta 1e-5."""
    assert run([*TRAIN, *WORDS, "-o", "a.filter"]) == 0
    assert run(["filter", "apply", "e.safetensors", "a.filter", "mine", "-o", "A"]) == 0
    assert run([*LOCAL, "-o", "L"]) == 0
    return place


@pytest.mark.usefixtures("sent")
@pytest.mark.parametrize("asked", [["--epsilon", "3"], ["--delta", "1e-4"]], ids=" ".join)
def test_whoever_asks_for_a_promise_takes_nothing_without_one(capsys, asked):
    capsys.readouterr()
    assert run(["filter", *COLLECT, "A", "L", *asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["claim"]["kind"] == "local"
    assert [one["name"] for one in found["left_out"]] == ["A"]


@pytest.mark.usefixtures("sent")
def test_a_promise_that_is_none_is_refused(capsys):
    for word in ("0", "-1", "inf", "nan"):
        refused(capsys, [*COLLECT, "L", "--epsilon", word], "epsilon must be a positive number")
    for word in ("0", "1", "-1e-5", "7", "nan"):
        refused(capsys, [*COLLECT, "L", "--delta", word], "delta must lie between 0 and 1")
    refused(capsys, [*COLLECT, "A", "--mechanism", "filter", "--epsilon", "1"], "promise no")
    refused(capsys, [*COLLECT, "L", "--epsilon", "1"], "at most epsilon 1 and delta 1e-05")
