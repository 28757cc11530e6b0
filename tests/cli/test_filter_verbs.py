from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from tests.federated.scene import encoder as scene_encoder
from understudy.cli.main import run
from understudy.encoders.encoder import Encoder
from understudy.encoders.file import read_encoder, write_encoder
from understudy.filters.filter_file import load_filter
from understudy.filters.model import FilterGraph

WORDS = ["--hide", "tone", "--keep", "row", "--set", "steps=3"]


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """An encoder file, a user's folder of pictures, two filters and two folders to send."""
    place = tmp_path_factory.mktemp("filter")
    write_encoder(place / "e.safetensors", scene_encoder())
    pictures(place / "mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("UNDERSTUDY_HOME", str(place / "home"))
        train = ["filter", "train", "e.safetensors", "mine"]
        assert run([*train, *WORDS, "-o", "a.filter"]) == 0
        words = ["--hide", "row,side", "--set", "steps=3", "--set", "kind=network"]
        assert run([*train, *words, "--constraint", "l2", "--budget", "1", "-o", "b.filter"]) == 0
        apply = ["filter", "apply", "e.safetensors"]
        assert run([*apply, "a.filter", "mine", "-o", "A"]) == 0
        assert run([*apply, "b.filter", "mine", "-o", "B"]) == 0
    return place


@pytest.fixture
def place(ready, tmp_path, monkeypatch):
    for name in ("e.safetensors", "a.filter", "b.filter"):
        shutil.copy(ready / name, tmp_path / name)
    for name in ("mine", "A", "B"):
        shutil.copytree(ready / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pictures(folder, count=60):
    """Of so many, three near copies pass a device's gate: with thirty, filters of three steps make
    one more than passes in about one folder of three thousand."""
    from PIL import Image

    from tests.federated.scene import records

    some = records(count)
    folder.mkdir()
    lines = ["file_name,tone,row,side"]
    for i, image in enumerate(some.features):
        Image.fromarray(image[0]).save(folder / f"{i}.png")
        codes = [("no", "yes")[some.attributes[n][i]] for n in ("tone", "row", "side")]
        lines.append(",".join([f"{i}.png", *codes]))
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n")


def refused(capsys, words, *said):
    capsys.readouterr()
    assert run(["filter", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    for word in said:
        assert word in error, error


def test_a_filter_is_trained_and_says_what_it_does(place, capsys):
    words = ["filter", "train", "e.safetensors", "mine", *WORDS, "-o", "c.filter", "--json"]
    assert run(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["hides"], said["keeps"]) == (["tone"], ["row"])
    assert 0 < said["distortion"] <= said["budget"] == 3.0
    assert load_filter(place / "c.filter").encoder_digest == said["encoder"]
    assert load_filter(place / "b.filter").distortion.kind == "l2"


def test_what_is_sent_is_listed_and_nothing_else_is_in_the_folder(place, capsys):
    assert run(["filter", "apply", "e.safetensors", "a.filter", "mine", "-o", "C", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    arrays = load_file(place / "C" / "sent.safetensors")
    assert sorted(arrays) == ["features", "label:row"]
    assert [line.split()[0] for line in said["sends"]] == ["features", "label:row"]
    assert said["local_claim"] is None
    raw = read_encoder(place / "e.safetensors")
    from understudy.federated.user import encoded, own_records

    latents = encoded(raw, own_records(raw, "mine")).features
    assert not np.isclose(arrays["features"], latents).all(axis=1).any()
    assert "tone" not in (place / "C" / "statement.json").read_text()


def test_users_with_different_choices_are_collected(place, capsys):
    shutil.copytree(place / "A", place / "bad")
    (place / "bad" / "sent.safetensors").write_bytes(b"garbage")
    words = ["collect", "A", "B", "bad", "nowhere", "--encoder", "e.safetensors", "-o", "out"]
    assert run(["filter", *words]) == 0
    text = capsys.readouterr().out
    assert "120 records of 2 users" in text
    assert "left out  bad:" in text
    assert "left out  nowhere:" in text
    assert "costs nothing" in text
    assert run(["verify", "out"]) == 0
    (place / "out" / "README.md").write_text("All is private.")
    assert run(["verify", "out"]) == 1


@pytest.mark.usefixtures("place")
def test_the_gaussian_mechanism_gives_a_local_claim(capsys):
    apply = ["filter", "apply", "e.safetensors", "mine", "--mechanism", "gaussian"]
    words = ["--epsilon", "2", "--delta", "1e-6", "--label-epsilon", "row=1"]
    assert run([*apply, *words, "--public-labels", "side", "-o", "L", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["local_claim"]
    assert (said["epsilon"], said["delta"], said["records"]) == (3.0, 1e-6, 60)
    assert said["user_epsilon"] > 60
    assert said["assumed_public"] == ["side"]
    assert run([*apply, "--epsilon", "9", "-o", "W"]) == 0
    capsys.readouterr()
    collect = ["filter", "collect", "L", "W", "A", "--encoder", "e.safetensors", "--json"]
    words = ["--mechanism", "gaussian", "--epsilon", "5", "--delta", "1e-5", "-o", "out"]
    assert run([*collect, *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["claim"]["kind"], found["claim"]["epsilon"]) == ("local", 3.0)
    assert [one["name"] for one in found["left_out"]] == ["W", "A"]
    assert run([*collect, "-o", "mixed"]) == 0
    assert json.loads(capsys.readouterr().out)["claim"]["kind"] == "empirical"


def test_images_can_be_sent(place):
    words = ["e.safetensors", "a.filter", "mine", "--send", "images", "--labels", "", "-o", "P"]
    assert run(["filter", "apply", *words]) == 0
    assert list(load_file(place / "P" / "sent.safetensors")) == ["features"]
    collect = ["filter", "collect", "P", "A", "--send", "images", "--encoder", "e.safetensors"]
    assert run([*collect, "-o", "out"]) == 0
    assert run(["verify", "out"]) == 0


def test_bad_words_are_one_sentence(place, capsys):
    train = ["train", "e.safetensors", "mine", "-o", "x.filter"]
    refused(capsys, [*train, "--hide", "tnoe"], "tone")
    refused(capsys, [*train, "--hide", "tone", "--keep", "tone"], "twice")
    refused(capsys, [*train, "--hide", "tone", "--budget", "0"], "budget")
    refused(capsys, [*train, "--hide", "tone", "--constraint", "kll"], "kl")
    refused(capsys, [*train, "--hide", "tone", "--set", "stpes=3"], "steps")
    refused(capsys, [*train, "--hide", "tone", "--digest", "0" * 64], "digest")
    refused(capsys, [*train[:-1], "a.filter", "--hide", "tone"], "exists")
    apply = ["apply", "e.safetensors", "-o", "X"]
    refused(capsys, [*apply, "mine"], "FILTER DATA")
    refused(capsys, [*apply, "a.filter", "mine", "--mechanism", "gauss"], "gaussian")
    refused(capsys, [*apply, "mine", "--mechanism", "gaussian"], "--epsilon")
    refused(capsys, [*apply, "mine", "--mechanism", "gaussian", "--epsilon", "0"], "epsilon")
    refused(capsys, [*apply, "a.filter", "mine", "--epsilon", "1"], "promises no epsilon")
    refused(capsys, [*apply, "a.filter", "mine", "--labels", "tone"], "tone", "keeps")
    refused(capsys, [*apply, "a.filter", "mine", "--send", "pixels"], "images")
    refused(
        capsys,
        [*apply, "mine", "--mechanism", "gaussian", "--epsilon", "1", "--label-epsilon", "row"],
        "NAME=E",
    )
    collect = ["collect", "--encoder", "e.safetensors", "-o", "X"]
    refused(capsys, [*collect, "mine"], "nobody", "mine")
    refused(capsys, [*collect, "A", "--mechanism", "gauss"], "gaussian")
    refused(capsys, [*collect, "A", "--title", " "], "title")
    assert not (place / "X").exists()
    assert not (place / "x.filter").exists()


def test_labels_that_determine_each_other_are_refused(place, capsys):
    table = (place / "mine" / "metadata.csv").read_text().splitlines()
    same = [
        table[0],
        *(",".join([c[0], c[1], c[1], c[3]]) for c in (t.split(",") for t in table[1:])),
    ]
    (place / "mine" / "metadata.csv").write_text("\n".join(same) + "\n")
    refused(
        capsys,
        ["train", "e.safetensors", "mine", *WORDS, "-o", "x.filter"],
        "no filter can hide 'tone'",
        "accuracy 1.000",
    )


def test_an_encoder_that_is_another_or_was_changed_is_refused(place, capsys):
    plain = scene_encoder()
    other = Encoder(plain.spec, 1.0, plain.encoder, plain.decoder, plain.schema, plain.provenance)
    write_encoder(place / "other.safetensors", other)
    refused(
        capsys,
        ["apply", "other.safetensors", "a.filter", "mine", "-o", "X"],
        "another encoder",
    )
    refused(
        capsys, ["collect", "A", "--encoder", "other.safetensors", "-o", "X"], "another encoder"
    )
    data = bytearray((place / "e.safetensors").read_bytes())
    data[-1] ^= 1
    (place / "e.safetensors").write_bytes(data)
    for words in (
        ["train", "e.safetensors", "mine", *WORDS, "-o", "x.filter"],
        ["apply", "e.safetensors", "a.filter", "mine", "-o", "X"],
        ["collect", "A", "--encoder", "e.safetensors", "-o", "X"],
        ["export", "e.safetensors", "a.filter", "-o", "x.onnx"],
    ):
        refused(capsys, words, "changed")


@pytest.mark.parametrize("name", ["a.filter", "b.filter"])
@pytest.mark.parametrize("decode", [False, True])
def test_the_exported_graph_is_the_filter(place, name, decode):
    """Linear and network filters, to 1e-4 in onnxruntime; the noise is an input."""
    runtime = pytest.importorskip("onnxruntime", reason="to run what was exported")
    pytest.importorskip("onnx", reason="the export needs onnx")
    words = ["filter", "export", "e.safetensors", name, "-o", "g.onnx"]
    assert run([*words, *(["--decode"] if decode else [])]) == 0
    encoder = read_encoder(place / "e.safetensors")
    graph = FilterGraph(load_filter(place / name).model)
    session = runtime.InferenceSession(str(place / "g.onnx"))
    assert {i.name for i in session.get_inputs()} == {"records", "noise", "labels"}
    records, noise = torch.rand(5, *encoder.shape), torch.randn(5, graph.noise_size)
    labels = torch.zeros(5, graph.label_size)
    labels[:, ::2] = 1.0
    with torch.no_grad():
        wanted = graph(encoder.encode(records), noise, labels)
    wanted = encoder.decode(wanted) if decode else wanted
    inputs = {"records": records, "noise": noise, "labels": labels}
    (made,) = session.run(None, {k: v.numpy() for k, v in inputs.items()})
    assert np.abs(made - wanted.numpy()).max() < 1e-4
    (still,) = session.run(
        None, {k: (v if k != "noise" else 0 * v).numpy() for k, v in inputs.items()}
    )
    assert np.abs(made - still).max() > 1e-3
    assert run(words) == 2
