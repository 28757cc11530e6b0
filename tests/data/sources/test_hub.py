from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from tests.data.samples import picture, pixels_of, refused
from understudy.data.images import Reading
from understudy.data.load import load
from understudy.data.sources import hub
from understudy.data.sources.assemble import Roles, assemble
from understudy.progress import Silent


@pytest.fixture
def splits():
    datasets = pytest.importorskip("datasets", reason="needs the extra understudy[hub]")

    def one(count: int):
        features = datasets.Features(
            {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
        )
        cells = {
            "image": [picture(i) for i in range(count)],
            "label": [i % 2 for i in range(count)],
        }
        return datasets.Dataset.from_dict(cells, features=features)

    return datasets.DatasetDict({"train": one(4), "test": one(2), "extra": one(2)})


def test_splits_become_parts_with_pixels_and_class_names(splits):
    raw = hub.read_splits(splits, Reading(), "hf:some/pets")
    parts = assemble(raw, Roles(), "hf:some/pets", Silent())
    assert {name: len(part) for name, part in parts.items()} == {"train": 4, "test": 2, "extra": 2}
    assert parts["train"].schema.classes == ("cat", "dog")
    assert parts["train"].labels.tolist() == [0, 1, 0, 1]
    assert (parts["train"].features[3] == pixels_of(picture(3))).all()


def test_load_takes_hub_names(splits, monkeypatch):
    asked = []
    monkeypatch.setattr(hub, "_fetch", lambda *name: asked.append(name) or splits)
    dataset = load("hf:some/pets:small", size=3)
    assert asked == [("some/pets", "small")]
    assert dataset.shape == (3, 3, 3)
    assert not dataset.public
    assert dataset.provenance == "hf:some/pets:small"


@pytest.mark.parametrize("name", ["hf:", "hf:a/b/c", "hf:../x y"])
def test_names_that_are_no_repositories(name):
    with refused(name, "hf:owner/name"):
        load(name)


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with refused("hf:owner/name", "understudy[hub]"):
        load("hf:owner/name")


def test_offline_says_so_at_once(tmp_path):
    pytest.importorskip("datasets", reason="needs the extra understudy[hub]")
    script = """
        import time
        from understudy.data.load import load
        from understudy.data.sources import hub
        from understudy.errors import UserError
        hub._reachable = lambda endpoint: False
        import datasets
        start = time.monotonic()
        try:
            load("hf:owner/name")
        except UserError as error:
            print(error)
        assert time.monotonic() - start < 5
        assert not datasets.config.HF_HUB_OFFLINE
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**environment, "HF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "hf:owner/name is not in the Hub cache" in ran.stdout
    assert ran.stdout.count("\n") == 1
    assert "Retrying" not in ran.stderr


def test_nothing_listens_means_not_reachable(monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert not hub._reachable("http://127.0.0.1:9")
