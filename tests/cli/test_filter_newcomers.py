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


def rewrite(folder, change):
    """The table of a folder, with each line (a list of cells) changed."""
    table = [line.split(",") for line in (folder / "metadata.csv").read_text().splitlines()]
    lines = [",".join(change(number, cells)) for number, cells in enumerate(table)]
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n")


def test_a_folder_with_one_of_two_classes_can_be_sent(place, capsys):
    """Of a label that the encoder declares (row), and of a hidden one that it does not (hat)."""
    rewrite(place / "mine", lambda n, cells: [*cells, "hat" if n == 0 else "ny"[n % 2]])
    pictures(place / "few")
    rewrite(
        place / "few",
        lambda n, cells: [*cells, "hat"] if n == 0 else [*cells[:2], "no", cells[3], "y"],
    )
    assert (
        run([*TRAIN, "--hide", "hat", "--keep", "row", "--set", "steps=3", "-o", "h.filter"]) == 0
    )
    apply = ["filter", "apply", "e.safetensors"]
    assert run([*apply, "h.filter", "few", "-o", "F"]) == 0
    local = ["few", "--mechanism", "gaussian", "--epsilon", "2", "--label-epsilon", "row=1"]
    assert run([*apply, *local, "-o", "G"]) == 0
    assert run(["filter", *COLLECT, "F", "G"]) == 0
    rewrite(place / "few", lambda n, cells: cells if n else [*cells[:4], "hut"])
    refused(capsys, ["apply", "e.safetensors", "h.filter", "few", "-o", "H"], "hat")
    rewrite(place / "few", lambda n, cells: [*cells[:4], "maybe" if n == 2 else cells[4]])
    rewrite(place / "few", lambda n, cells: cells if n else [*cells[:4], "hat"])
    refused(capsys, ["apply", "e.safetensors", "h.filter", "few", "-o", "H"], "for: maybe;")


SENDS_NOTHING = {
    "misspelt": (["--label-epsilon", "rwo=1"], "'rwo'"),
    "misspelt as public": (["--public-labels", "rwo"], "'rwo'"),
    "undeclared": (["--label-epsilon", "hat=1"], "'hat' is not among those agreed on"),
    "an unknown class": (["--label-epsilon", "row=1"], "'perhaps'; these are 'no', 'yes'"),
    "no number": (["--epsilon", "inf"], "epsilon"),
    "no delta": (["--delta", "1"], "delta"),
}


@pytest.mark.parametrize("kind", SENDS_NOTHING)
def test_a_refused_send_costs_nothing(place, capsys, kind):
    rewrite(place / "mine", lambda n, cells: [*cells, "hat" if n == 0 else "ny"[n % 2]])
    if kind == "an unknown class":
        rewrite(
            place / "mine", lambda n, cells: [*cells[:2], "perhaps" if n == 1 else cells[2], "n"]
        )
    words, said = SENDS_NOTHING[kind]
    refused(capsys, [*LOCAL[1:], *words, "-o", "X"], said)
    assert not (place / "X").exists()
    assert spent(capsys)["runs"] == 0
    assert run([*LOCAL, "-o", "L"]) == 0
    assert spent(capsys)["runs"] == 1


def spent(capsys):
    capsys.readouterr()
    assert run(["spent", "mine", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def trained(capsys, *words):
    """What is said on standard error while a filter is trained."""
    capsys.readouterr()
    assert run([*TRAIN, *words, "--set", "steps=3", "-o", "x.filter"]) == 0
    return capsys.readouterr().err


def test_a_kept_label_that_cannot_be_sent_is_named_at_once(place, capsys):
    rewrite(place / "mine", lambda n, cells: [*cells, "hat" if n == 0 else "ny"[n % 2]])
    said = trained(capsys, "--hide", "tone", "--keep", "row,hat")
    assert (
        "kept label 'hat' cannot be sent: the encoder's file declares only tone, row, side" in said
    )
    assert "'row' cannot" not in said
    assert "60 records are few" in said


def test_a_column_that_names_people_is_refused_before_training(place, capsys):
    rewrite(place / "mine", lambda n, cells: [*cells, "patient" if n == 0 else f"p{n % 3}"])
    words = ["train", *TRAIN[2:], "--hide", "tone", "--keep", "patient", "-o", "x.filter"]
    refused(capsys, words, "--keep", "'patient' tells records or people apart")
    assert "'patient'" not in trained(capsys, "--hide", "patient", "--keep", "row")


def test_a_label_that_all_records_share_is_nothing_to_hide(place, capsys):
    rewrite(place / "mine", lambda n, cells: cells if n == 0 else [cells[0], "no", *cells[2:]])
    assert "nothing to hide: every record has tone=no" in trained(capsys, "--hide", "tone")


def test_images_that_were_changed_to_fit_are_a_word(place, capsys):
    assert "images are read as" not in trained(capsys, "--hide", "tone")
    from PIL import Image

    for path in (place / "mine").glob("*.png"):
        Image.open(path).convert("RGB").resize((16, 12)).save(path)
    (place / "x.filter").unlink()
    said = trained(capsys, "--hide", "tone")
    assert said.count("images are read as 8x8 grey, cut to its middle square and resized") == 1
    assert "is 16x12 colour" in said


@pytest.mark.usefixtures("sent")
def test_what_was_spent_locally_comes_first(capsys):
    capsys.readouterr()
    assert run(["spent", "mine"]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("Local runs together")
    assert any(line.startswith("Central releases: epsilon infinite") for line in others)
    assert not any("nothing is spent" in line for line in others)


@pytest.mark.usefixtures("sent")
def test_what_does_not_exist_is_said_not_to(capsys):
    words = ["nowhere", "mine", "--mechanism", "gaussian"]
    refused(capsys, [*COLLECT, *words], "nowhere: it does not exist; mine: it is no folder")
    refused(capsys, [*COLLECT, "L", "--sign", "key"], "the key file key does not exist", "keygen")
    assert run(["keygen", "mine.key", "mine.public"]) == 0
    assert run(["filter", *COLLECT, "L", "--sign", "mine.key"]) == 0
    assert "(60 records of 1 user)" in capsys.readouterr().out
    assert run(["verify", "out", "--key", "key"]) == 1
    assert "the key file key does not exist" in capsys.readouterr().out
    for words in ([], ["--encoder", "e.safetensors"]):
        assert run(["verify", "nowhere", *words]) == 2
        assert "nowhere does not exist" in capsys.readouterr().err


def test_numbers_that_are_none_are_refused(place, capsys):
    for word in ("nan", "inf"):
        train = ["train", *TRAIN[2:], "--hide", "tone", "--budget", word, "-o", "x.filter"]
        refused(capsys, train, f"budget must be a finite, positive number, not {word}")
        refused(capsys, [*LOCAL[1:-1], word, "-o", "X"], f"positive, finite number, not {word}")
    assert not (place / "X").exists()
