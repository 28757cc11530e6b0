"""A filter in use: what leaves, what is refused, and its file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tests.filters.latent_cases import FakeEncoder, mixture
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.filters.filter import Filter, fit_filter
from understudy.filters.filter_file import load_filter, save_filter
from understudy.filters.game import GameConfig
from understudy.filters.model import FilterGraph
from understudy.privacy.noise.source import NoiseSource

TINY = GameConfig(steps=3, batch=64, head_steps=1, head_width=8, head_layers=1)
RECORDS = mixture(300)


@pytest.fixture(scope="module")
def fitted() -> Filter:
    return fit_filter(
        RECORDS, Choice(("hide",), ("keep",)), Distortion("kl", 1.0), FakeEncoder(), TINY
    )


def test_hidden_and_unlisted_labels_stay_behind(fitted: Filter) -> None:
    out = fitted.apply(RECORDS, NoiseSource())
    assert out.features.shape == RECORDS.features.shape
    assert out.features.dtype == np.float32
    assert (tuple(out.attributes), out.schema.names, out.units) == (("keep",), ("keep",), None)
    assert np.array_equal(out.attributes["keep"], RECORDS.attributes["keep"])


def test_it_is_the_papers_map(fitted: Filter) -> None:
    """z' = z + [A B][e; onehot(y)], with noise from the source that was handed in."""
    out = fitted.filtered(RECORDS, NoiseSource.insecure(5))
    noise = NoiseSource.insecure(5).normal(RECORDS.features.shape).numpy()
    matrix = torch.cat((fitted.model.noise, fitted.model.labels), dim=1).detach().numpy()
    onehot = np.eye(2, dtype=np.float32)[RECORDS.attributes["hide"]]
    expected = RECORDS.features + np.c_[noise, onehot] @ matrix.T
    assert np.allclose(out, expected, atol=1e-5)


def test_the_graph_is_the_same_map_with_noise_as_an_input(fitted: Filter) -> None:
    graph = FilterGraph(fitted.model)
    assert (graph.noise_size, graph.label_size) == (6, 2)
    noise = NoiseSource.insecure(5).normal(RECORDS.features.shape)
    onehot = torch.eye(2)[torch.from_numpy(RECORDS.attributes["hide"])]
    made = graph(torch.from_numpy(RECORDS.features), noise, onehot).detach().numpy()
    assert np.allclose(made, fitted.filtered(RECORDS, NoiseSource.insecure(5)), atol=1e-6)


def test_noise_is_fresh_each_time(fitted: Filter) -> None:
    torch.manual_seed(0)
    one = fitted.filtered(RECORDS, NoiseSource())
    torch.manual_seed(0)
    two = fitted.filtered(RECORDS, NoiseSource())
    assert not np.array_equal(one, two), "noise from a seed that others know"


def test_latents_that_are_not_this_encoders(fitted: Filter) -> None:
    features = RECORDS.features.copy()
    features[3] *= 100
    features[7, 0] = np.nan
    with pytest.raises(UserError, match="2 of 300 latents lie outside"):
        fitted.filtered(replace(RECORDS, features=features), NoiseSource())
    with pytest.raises(UserError, match="5 coordinates"):
        fitted.filtered(replace(RECORDS, features=RECORDS.features[:, :5]), NoiseSource())
    images = replace(RECORDS, features=np.zeros((300, 1, 2, 2), np.uint8))
    with pytest.raises(UserError, match="encode"):
        fitted.filtered(images, NoiseSource())


def test_classes_are_matched_by_their_names(fitted: Filter) -> None:
    """Turned round, or without the one that does not occur: the same latents leave."""

    def sent(classes: tuple[str, ...], codes: np.ndarray) -> np.ndarray:
        named = Schema((Attribute("hide", classes), *RECORDS.schema.attributes[1:]))
        theirs = {**RECORDS.attributes, "hide": codes}
        records = replace(RECORDS, attributes=theirs, schema=named)
        return fitted.filtered(records, NoiseSource.insecure(5))

    plain = RECORDS.attributes["hide"]
    assert np.array_equal(sent(("yes", "no"), 1 - plain), sent(("no", "yes"), plain))
    alone, ones = np.zeros_like(plain), np.ones_like(plain)
    assert np.array_equal(sent(("yes",), alone), sent(("no", "yes"), ones))
    assert not np.array_equal(sent(("yes",), alone), sent(("no",), alone))


def test_labels_with_other_classes_are_refused(fitted: Filter) -> None:
    named = Schema((Attribute("hide", ("no", "perhaps")), *RECORDS.schema.attributes[1:]))
    with pytest.raises(UserError, match="not trained for: perhaps; it knows no, yes"):
        fitted.apply(replace(RECORDS, schema=named), NoiseSource())


def test_distortion_on_other_records_is_measured(fitted: Filter) -> None:
    assert fitted.distortion_on(RECORDS) == pytest.approx(fitted.measured)
    assert fitted.distortion_on(mixture(300, seed=9)) != fitted.measured


def test_a_file_gives_back_the_same_filter(fitted: Filter, tmp_path: Path) -> None:
    path = tmp_path / "users" / "me.filter"
    save_filter(path, fitted)
    again = load_filter(path, FakeEncoder().digest)
    outs = [f.filtered(RECORDS, NoiseSource.insecure(1)) for f in (fitted, again)]
    assert np.array_equal(*outs)
    assert (again.choice, again.private, again.distortion) == (
        fitted.choice,
        fitted.private,
        fitted.distortion,
    )
    assert again.measured == fitted.measured
    assert np.allclose(again.variances, fitted.variances, rtol=1e-6)
    assert [p.name for p in path.parent.iterdir()] == ["me.filter"]


@pytest.mark.parametrize(("kind", "width"), [("linear", 50), ("network", 50), ("linear", 10)])
def test_files_are_small(kind: str, width: int, tmp_path: Path) -> None:
    config = replace(TINY, kind=kind)
    records = mixture(200, width=width)
    fitted = fit_filter(
        records, Choice(("hide",), ("keep",)), Distortion(), FakeEncoder(width), config
    )
    save_filter(tmp_path / "f", fitted)
    assert (tmp_path / "f").stat().st_size < 10_000


def test_another_encoders_filter_is_refused(fitted: Filter, tmp_path: Path) -> None:
    save_filter(tmp_path / "f", fitted)
    with pytest.raises(UserError, match="another encoder"):
        load_filter(tmp_path / "f", "f" * 64)


def _rewritten(path: Path, **changes: object) -> None:
    """The file with another header, everything else as it was."""
    with safe_open(path, framework="pt") as file:
        marks, tensors = file.metadata(), {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
    header = {**json.loads(marks["understudy"]), **changes}
    save_file(tensors, path, metadata={**marks, "understudy": json.dumps(header)})


def test_a_changed_file_is_refused(fitted: Filter, tmp_path: Path) -> None:
    path = tmp_path / "f"
    save_filter(path, fitted)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(UserError, match="was changed"):
        load_filter(path)
    path.write_bytes(whole)
    _rewritten(path, measured=0.0)
    with pytest.raises(UserError, match="was changed"):
        load_filter(path)
    _rewritten(path, format="understudy-filter/2")
    with pytest.raises(UserError, match="understudy-filter/2"):
        load_filter(path)


@pytest.mark.parametrize("content", [b"", b"no tensors here", b"\x08" + bytes(7) + b"{}      "])
def test_what_is_no_filter_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(UserError, match="f"):
        load_filter(tmp_path / "f")
    with pytest.raises(UserError, match="no filter file"):
        load_filter(tmp_path / "missing")
