from __future__ import annotations

import json

import pytest

from understudy.cli.main import run
from understudy.encoders.file import read_encoder

TINY = [w for pair in ("latent=2", "hidden=8", "epochs=1", "batch=300") for w in ("--set", pair)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "home"))
    return tmp_path


def test_it_writes_the_file_and_says_what_it_is(place, capsys):
    assert run(["filter", "init", "digits", "-o", "e.safetensors", *TINY, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert read_encoder(place / "e.safetensors").digest == said["digest"]
    assert said["provenance"]["claim"] == "public"
    assert run(["filter", "init", "digits", "-o", "f.safetensors", *TINY]) == 0
    assert "costs nothing" in capsys.readouterr().out


def test_an_existing_file_is_not_overwritten(place, capsys):
    (place / "e.safetensors").write_bytes(b"mine")
    assert run(["filter", "init", "digits", "-o", "e.safetensors", *TINY]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (place / "e.safetensors").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["digits", "-o", "e.pt"], "safetensors"),
        (["digits", "-o", "e.safetensors", "--kind", "dens"], "dense"),
        (["digits", "-o", "e.safetensors", "--epsilon", "0"], "epsilon"),
        (["digits", "-o", "e.safetensors", "--set", "latnet=3"], "latent"),
        (["nowhere", "-o", "e.safetensors"], "nowhere"),
    ],
)
def test_bad_arguments_are_one_sentence(place, capsys, words, said):
    assert run(["filter", "init", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not list(place.glob("*.safetensors"))


def test_the_group_alone_prints_its_help(capsys):
    assert run(["filter"]) == 2
    assert "init" in capsys.readouterr().out
