"""The faces' benchmark on drawn latents: its parts, its labels, its table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.bench.scripts.test_encoder_away import SCHEMA, drawn
from tests.data.samples import refused
from tests.encoders.samples import encoder_of
from tests.scripts import load_script
from understudy.data.dedup import shared_between
from understudy.data.load import Dataset
from understudy.data.records import Images, Records, concatenate
from understudy.evaluation.filtering import View
from understudy.filters.choice import Choice
from understudy.filters.game import GameConfig

script = load_script("filters_faces")
faces = load_script("faces")
HIDE_GENDER = Choice(("gender",), ("young",))


def latents(count: int, seed: int) -> Records:
    """Gender and young lie in a coordinate each; race lies nowhere."""
    rng = np.random.default_rng(seed)
    codes = {
        "gender": rng.integers(0, 2, count),
        "race": rng.integers(0, 5, count),
        "young": rng.integers(0, 2, count),
    }
    z = rng.normal(0, 0.3, (count, 3))
    z[:, 0] += 0.8 * (2 * codes["gender"] - 1)
    z[:, 1] += 0.8 * (2 * codes["young"] - 1)
    return Records(z.astype(np.float32), codes, faces.face_schema())


def test_parts_share_no_picture_and_keep_their_proportions(tmp_path: Path) -> None:
    _, dataset = drawn(tmp_path, 120)
    twice = concatenate([dataset.parts["train"], dataset.parts["test"].select([0, 1])])
    doubled = Dataset("utkface", {**dataset.parts, "train": twice}, True, "drawn")
    parts = faces.face_parts(doubled)
    assert set(parts) == {"encoder", "filter", "test"}
    assert shared_between(parts) == {}
    assert sum(len(part) for part in parts.values()) == 120
    assert abs(len(parts["encoder"]) - 36) <= 2
    again = faces.face_parts(doubled)
    assert faces.content_mark(again["filter"]) == faces.content_mark(parts["filter"])


def test_young_is_under_thirty_and_other_classes_are_refused(tmp_path: Path) -> None:
    _, dataset = drawn(tmp_path, 18)
    records = dataset.parts["train"]
    ages = {**records.attributes, "age": np.arange(9)}
    labels = faces.face_labels(replace(records, attributes=ages))
    assert labels["young"].tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0]
    swapped = replace(SCHEMA.attributes[0], classes=("female", "male"))
    schema = replace(SCHEMA, attributes=(swapped, *SCHEMA.attributes[1:]))
    with pytest.raises(ValueError, match="gender"):
        faces.face_labels(Images(records.features, records.attributes, schema))


def test_the_table_has_raw_and_sent_beside_the_majority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"linear": GameConfig(steps=120, batch=64)}
    monkeypatch.setattr(script, "FORMS", small)
    monkeypatch.setattr(script, "SENT", ("linear", "gaussian"))
    monkeypatch.setattr(script, "READERS", ("mlp-60",))
    monkeypatch.setattr(script, "CHOICES", (HIDE_GENDER,))
    monkeypatch.setattr(script, "decoded", lambda *_: [])
    monkeypatch.setattr(script, "EVIDENCE", tmp_path)
    monkeypatch.setattr(script, "read_encoder", lambda _: encoder_of(radius=20.0))
    view = View(latents(600, 0), latents(400, 1))
    monkeypatch.setattr(
        script, "encoded_faces", lambda encoder, _: script.Faces(encoder, view, True)
    )
    monkeypatch.setattr("sys.argv", ["filters_faces.py", "e.safetensors", "--seeds", "0"])
    script.main()
    written = json.loads((tmp_path / "filters_faces.json").read_text())
    assert written["config"]["from the encoder's share alone"] is True
    result = written["result"]
    (row,) = result["table"]
    assert (row["hidden"], row["with"]) == ("gender", "hide gender, keep young")
    assert row["hidden raw"] > 0.95
    assert row["hidden linear"] < 0.75
    assert row["kept linear"] > 0.9
    assert abs(row["majority"] - 0.5) < 0.1
    assert row["information linear"] < row["information raw"]
    assert {p["metric"] for p in result["published"]} >= {"hidden male accuracy"}
    assert result["seeds"] == [0]
    rows = json.loads((tmp_path / "filters_faces-1.json").read_text())["result"]["choices"]
    run = rows["hide gender, keep young"]["seeds"]["0"]
    assert set(run["linear"]["rows"]) == {"gender", "race", "young"}
    assert run["gaussian"]["local epsilon"] > 0


def test_two_choices_lie_in_a_file_and_none_is_lost() -> None:
    result = {"table": [], "seeds": [0], "choices": {name: {} for name in "abcde"}}
    files = script.files_of(result)
    assert files.pop("filters_faces") == {"table": [], "seeds": [0]}
    assert [list(part["choices"]) for part in files.values()] == [["a", "b"], ["c", "d"], ["e"]]


def test_choosing_never_sees_the_test_part() -> None:
    view = View(latents(200, 0), latents(100, 1))
    chosen = script.for_choosing(script.Faces(encoder_of(), view, True)).raw
    assert (len(chosen.learned), len(chosen.asked)) == (160, 40)
    own = {row.tobytes() for row in view.learned.features}
    assert all(row.tobytes() in own for row in chosen.asked.features)


def test_latents_are_kept_for_their_encoder_only(tmp_path: Path) -> None:
    path = tmp_path / "latents.npz"
    assert script._kept(path, "a b c") is None
    np.savez(path, mark=np.array("a b c"), filter=np.ones((2, 3)), test=np.zeros((1, 3)))
    assert script._kept(path, "a b c")["filter"].shape == (2, 3)
    with refused("another encoder"):
        script._kept(path, "another b c")


def test_pictures_are_halved_by_means() -> None:
    image = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    assert script.halved(image).tolist() == [[[[2, 4], [10, 12]]]]


def test_an_encoder_of_the_share_is_known_by_its_words(tmp_path: Path) -> None:
    _, dataset = drawn(tmp_path, 60)
    part = faces.face_parts(dataset)["encoder"]
    words = faces.taught_on("drawn", part)
    assert faces.content_mark(part) in words
    assert faces.content_mark(faces.face_parts(dataset)["filter"]) not in words
