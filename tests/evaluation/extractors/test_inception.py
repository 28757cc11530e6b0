"""Inception-v3 on random weights: layout, shapes, pooling rules, loading.

What cannot be checked where the published weights are absent: that they load, and that the
features of a known image equal those of the reference implementation. The last test does
the first of these where the file is given.
"""

from __future__ import annotations

import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from understudy.data.weights import find_weights, place_of, weights_catalog, weights_entry
from understudy.data.weights_file import digest_of
from understudy.errors import UserError
from understudy.evaluation.extractors import inception
from understudy.evaluation.extractors.extractor import load_extractor
from understudy.evaluation.extractors.inception import BlockE, InceptionV3, load_network, prepare
from understudy.progress import Silent


@pytest.fixture(scope="module")
def network() -> InceptionV3:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return InceptionV3().eval()


@pytest.fixture(scope="module")
def saved(network: InceptionV3, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / weights_entry(inception.WHOLE).file
    torch.save(network.state_dict(), path)
    return path


def test_the_number_of_parameters_is_the_published_one(network: InceptionV3) -> None:
    """23,834,568 without the auxiliary head and with 1000 classes; here there are 1008."""
    count = sum(p.numel() for p in network.parameters())
    assert count == 23_834_568 + 8 * (2048 + 1)


def test_the_key_layout_is_that_of_the_published_file(network: InceptionV3) -> None:
    shapes = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    expected = {
        "Conv2d_1a_3x3.conv.weight": (32, 3, 3, 3),
        "Conv2d_4a_3x3.bn.running_var": (192,),
        "Mixed_5b.branch5x5_2.conv.weight": (64, 48, 5, 5),
        "Mixed_5b.branch_pool.conv.weight": (32, 192, 1, 1),
        "Mixed_6a.branch3x3.conv.weight": (384, 288, 3, 3),
        "Mixed_6b.branch7x7_2.conv.weight": (128, 128, 1, 7),
        "Mixed_6b.branch7x7dbl_2.conv.weight": (128, 128, 7, 1),
        "Mixed_6e.branch7x7dbl_5.conv.weight": (192, 192, 1, 7),
        "Mixed_7a.branch7x7x3_4.conv.weight": (192, 192, 3, 3),
        "Mixed_7b.branch3x3_2a.conv.weight": (384, 384, 1, 3),
        "Mixed_7c.branch3x3dbl_3b.conv.weight": (384, 384, 3, 1),
        "Mixed_7c.branch_pool.bn.weight": (192,),
        "fc.weight": (1008, 2048),
        "fc.bias": (1008,),
    }
    assert {key: shapes.get(key) for key in expected} == expected
    convolutions = [key for key in shapes if key.endswith("conv.weight")]
    assert len(convolutions) == 94
    assert len(shapes) == 94 * 6 + 2


def test_features_and_logits_have_the_right_shape(network: InceptionV3) -> None:
    with torch.inference_mode():
        ready = prepare(torch.zeros(1, 1, 28, 28, dtype=torch.uint8))
        assert ready.shape == (1, 3, 299, 299)
        assert network(ready).shape == (1, 2048)
        assert network.logits(ready).shape == (1, 1008)


def test_pixels_are_scaled_to_plus_and_minus_one() -> None:
    black, white = torch.zeros(1, 3, 4, 4), torch.full((1, 3, 4, 4), 255.0)
    torch.testing.assert_close(prepare(black.byte()), torch.full((1, 3, 299, 299), -1.0))
    torch.testing.assert_close(prepare(white.byte()), torch.full((1, 3, 299, 299), 1.0))


def test_padding_does_not_count_in_average_poolings() -> None:
    ones = torch.ones(1, 1, 5, 5)
    assert torch.equal(inception._average(ones), ones)
    assert F.avg_pool2d(ones, 3, 1, 1)[0, 0, 0, 0] < 0.5


def test_only_the_last_block_pools_by_maximum(network: InceptionV3) -> None:
    """The planted fault would be the usual Inception, which averages in both."""
    assert (network.Mixed_7b.pool_by_maximum, network.Mixed_7c.pool_by_maximum) == (False, True)
    by_maximum, by_average = BlockE(4, pool_by_maximum=True), BlockE(4, pool_by_maximum=False)
    by_average.load_state_dict(by_maximum.state_dict())
    x = torch.rand(1, 4, 5, 5)
    with torch.inference_mode():
        first, second = by_maximum.eval()(x), by_average.eval()(x)
    assert torch.equal(first[:, :-192], second[:, :-192])
    assert not torch.equal(first[:, -192:], second[:, -192:])


def test_saved_weights_load_and_give_the_same_features(network: InceptionV3, saved: Path) -> None:
    loaded = load_network(saved).eval()
    x = torch.rand(1, 3, 299, 299)
    with torch.inference_mode():
        assert torch.equal(loaded(x), network(x))


def test_weights_without_batch_counters_load_too(network: InceptionV3, tmp_path: Path) -> None:
    """Files older than the counters of batch normalisation lack them."""
    state = {k: v for k, v in network.state_dict().items() if "num_batches" not in k}
    torch.save(state, tmp_path / "old.pth")
    loaded = load_network(tmp_path / "old.pth")
    assert loaded.fc is not None
    assert loaded.fc.bias.shape == (1008,)


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder where weights are looked for, and nowhere else."""
    monkeypatch.setenv("UNDERSTUDY_WEIGHTS", str(tmp_path / "shelf"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "shelf").mkdir()
    return tmp_path / "shelf"


def known_as(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the catalog have this file's digest under this name."""
    entry = replace(weights_entry(name), sha256=digest_of(path))
    known = {**weights_catalog(), name: entry}
    monkeypatch.setattr(inception, "weights_entry", known.__getitem__)


def test_the_extractor_uses_a_local_file_whose_hash_is_right(
    saved: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(saved, shelf)
    with pytest.raises(UserError, match="but inception-2015-12-05 has 6726825d"):
        load_extractor("inception-v3")
    known_as(saved, inception.WHOLE, monkeypatch)
    images = np.zeros((1, 1, 8, 8), dtype=np.uint8)
    extractor = load_extractor("inception-v3")
    assert extractor.features(images, torch.device("cpu"), Silent()).shape == (1, 2048)
    assert extractor.head is not None


def test_weights_without_classes_give_the_same_features_and_no_scores(
    network: InceptionV3, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {k: v.clone() for k, v in network.state_dict().items() if not k.startswith("fc.")}
    path = shelf / weights_entry(inception.FEATURES_ALONE).file
    save_file(state, path)
    known_as(path, inception.FEATURES_ALONE, monkeypatch)
    extractor = load_extractor("inception-v3")
    x = torch.rand(1, 3, 299, 299)
    with torch.inference_mode():
        assert torch.equal(extractor.network.eval()(x), network(x))
        with pytest.raises(UserError, match="give no classes; take inception-2015-12-05"):
            load_network(path).logits(x)
    with pytest.raises(UserError, match="gives no class probabilities"):
        extractor.class_probabilities(np.zeros((1, 2048), np.float32), torch.device("cpu"))


class _Trap:
    """Pickles to a call that would make a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> object:
        return (os.mkdir, (str(self.folder),))


def test_a_file_that_carries_code_is_refused_unrun(tmp_path: Path) -> None:
    path, trap = tmp_path / "evil.pth", tmp_path / "made-by-code"
    torch.save({"fc.bias": _Trap(trap)}, path)
    with pytest.raises(UserError, match="do not fit Inception-v3"):
        load_network(path)
    assert not trap.exists()


@pytest.mark.parametrize("content", [b"", b"not weights", pickle.dumps([1, 2], protocol=2)])
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(content)
    with pytest.raises(UserError, match="do not fit Inception-v3"):
        load_network(path)


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    torch.save({"fc.bias": torch.zeros(10)}, tmp_path / "other.pth")
    with pytest.raises(UserError, match="do not fit Inception-v3"):
        load_network(tmp_path / "other.pth")


@pytest.mark.data
@pytest.mark.parametrize("name", [inception.WHOLE, inception.FEATURES_ALONE])
def test_the_published_weights_load(name: str) -> None:
    entry = weights_entry(name)
    if place_of(entry) is None:
        pytest.skip(f"{entry.file} is not under $UNDERSTUDY_WEIGHTS")
    network = load_network(find_weights(entry).path).eval()
    with torch.inference_mode():
        features = network(prepare(torch.zeros(1, 3, 32, 32, dtype=torch.uint8)))
    assert features.min() >= 0
    assert 0.1 < features.mean() < 1.0
