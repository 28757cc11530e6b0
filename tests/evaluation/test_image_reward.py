"""`image-reward`: absent, without weights, and with a stand-in of the same interface."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.evaluation.evaluation_cases import make_case
from understudy.data.records import Records
from understudy.evaluation.evaluate import evaluate
from understudy.evaluation.image_reward import ImageReward, load_judge, rewards
from understudy.evaluation.prompts import class_prompts
from understudy.evaluation.protocol import Protocol
from understudy.progress import Silent

STAND_IN = """
import numpy as np

WORDS = "zero one two three four five six seven eight nine".split()

class Model:
    def score(self, prompt, image):
        assert all(picture.mode == "RGB" for picture in image)
        found = [np.asarray(picture).mean() + 1000 * WORDS.index(prompt.split()[-1])
                 for picture in image]
        return found if len(found) > 1 else found[0]

def load(name, device):
    print("load checkpoint from", name)
    return Model()
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "ImageReward", raising=False)
    return tmp_path


@pytest.fixture
def stand_in(site: Path) -> None:
    """What the package gives: a model with `score`; one image comes back as a bare number."""
    (site / "ImageReward.py").write_text(STAND_IN)


def test_without_the_package_the_row_says_how_to_get_it(
    train: Records, test_part: Records, quick: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ImageReward", None)
    protocol = replace(quick, metrics=("image-reward",))
    (row,) = evaluate(train, None, test_part, protocol, device="cpu").rows
    assert row.status == "failed"
    assert row.reason is not None
    assert row.reason.startswith("needs the package ImageReward, which cannot be imported")
    assert "pip install image-reward" in row.reason


def test_without_the_weights_the_row_says_where_they_go(
    train: Records, test_part: Records, quick: Protocol, site: Path
) -> None:
    (site / "ImageReward.py").write_text("def load(name, device):\n    raise OSError('offline')\n")
    row = ImageReward().row(make_case(train, None, test_part, quick))
    assert row.reason is not None
    assert "weights ImageReward-v1.0" in row.reason
    assert "OSError: offline" in row.reason
    assert "med_config.json" in row.reason


@pytest.mark.usefixtures("stand_in")
def test_each_image_is_judged_by_the_prompt_of_its_own_label(
    train: Records, test_part: Records, quick: Protocol, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stand-in answers 1000 x digit + brightness, so that a wrong prompt shows."""
    case = make_case(train, None, test_part, quick)
    row = ImageReward().row(case)
    assert row.status == "ok", row.reason
    expected = {
        part: 1000 * drawn.labels + drawn.features.mean(axis=(1, 2, 3))
        for part, drawn in (("value", case.drawn("synthetic")), ("reference", case.drawn("test")))
    }
    assert row.value == pytest.approx(expected["value"].mean())
    assert row.reference == pytest.approx(expected["reference"].mean())
    half = 1.95996 * expected["value"].std(ddof=1) / np.sqrt(200)
    assert row.high == pytest.approx(expected["value"].mean() + half, rel=1e-4)
    assert (row.metric, row.variant) == ("ImageReward", "ImageReward-v1.0")
    assert capsys.readouterr().out == "", "standard output belongs to --json"


@pytest.mark.usefixtures("stand_in")
def test_a_class_with_a_single_image_is_judged_too(train: Records) -> None:
    first = [int(np.flatnonzero(train.labels == digit)[0]) for digit in (4, 2)]
    found = rewards(load_judge(torch.device("cpu")), train.select(first), Silent())
    assert (found // 1000).tolist() == [4.0, 2.0]


def test_records_without_label_or_pixels_fail_with_that_reason(
    train: Records, quick: Protocol
) -> None:
    unlabelled = train.with_schema(replace(train.schema, label=None))
    row = ImageReward().row(make_case(unlabelled, None, unlabelled, quick))
    assert row.reason == "needs a label, and none was chosen"
    flat = replace(train, features=train.features.reshape(len(train), -1).astype(np.float32))
    assert ImageReward().row(make_case(flat, None, flat, quick)).reason == "needs images"


class TestPrompts:
    def test_they_follow_names_and_not_the_order(self) -> None:
        straight = class_prompts(tuple("0123456789"))
        assert class_prompts(tuple("9876543210")) == straight[::-1]
        assert straight[3] == "a handwritten digit three"

    def test_every_class_of_the_catalog_has_one_of_its_own(self) -> None:
        from understudy.data.catalog import catalog

        for entry in catalog().values():
            assert len(set(class_prompts(entry.classes))) == len(entry.classes)

    def test_unknown_classes_are_called_by_their_names(self) -> None:
        assert class_prompts(("sea_lake", "7")) == ("a picture of sea lake", "a picture of 7")
