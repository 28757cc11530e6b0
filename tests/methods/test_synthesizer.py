"""The synthesizer: samples as asked, the same after saving, labels uniform or given."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.methods.bench import SCHEMA
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.methods.contract import Sampler
from understudy.methods.synthesizer import GeneratorSynthesizer
from understudy.nets.generators import GeneratorSpec
from understudy.nets.seeding import built

KINDS = pytest.mark.parametrize("kind", ["spline", "merf", "residual"])


def synthesizer(kind: str = "spline", schema: Schema = SCHEMA) -> GeneratorSynthesizer:
    spec = GeneratorSpec(kind, (1, 9, 8), 3, latent=4, width=8, grid=4)
    return GeneratorSynthesizer(spec, built(spec.build, 5, "test"), schema)


class TestSample:
    def test_it_fits_the_contract(self) -> None:
        assert isinstance(synthesizer(), Sampler)

    @KINDS
    def test_records_are_images_with_uniform_labels(self, kind: str) -> None:
        made = synthesizer(kind).sample(3100)
        assert made.is_images
        assert made.shape == (1, 9, 8)
        counts = np.bincount(made.labels)
        assert counts.max() - counts.min() <= 1
        assert (made.labels[:30] != np.arange(30) % 3).any()

    def test_given_labels_are_kept(self) -> None:
        wanted = np.array([2, 0, 0, 1], dtype=np.int32)
        assert (synthesizer().sample(4, {"label": wanted}).labels == wanted).all()

    def test_the_seed_decides(self) -> None:
        fitted = synthesizer()
        same, other = fitted.sample(20, seed=1), fitted.sample(20, seed=2)
        assert (fitted.sample(20, seed=1).features == same.features).all()
        assert (other.features != same.features).any()

    def test_no_samples_is_a_number_of_samples(self) -> None:
        assert len(synthesizer().sample(0)) == 0

    @pytest.mark.parametrize(
        ("labels", "words"),
        [
            ([0, 1], "must be 3 whole numbers"),
            ([0.5, 1.0, 2.0], "must be 3 whole numbers"),
            ([0, 1, 3], "codes from 0 to 2"),
            ([0, 1, -1], "codes from 0 to 2"),
        ],
    )
    def test_wrong_labels_are_refused(self, labels: list[float], words: str) -> None:
        with pytest.raises(UserError, match=words):
            synthesizer().sample(3, {"label": labels})

    def test_a_negative_number_is_refused(self) -> None:
        with pytest.raises(UserError, match="at least 0"):
            synthesizer().sample(-1)

    def test_only_the_label_is_synthesised(self) -> None:
        label, other = Attribute("label", ("a", "b", "c")), Attribute("age", ("old", "young"))
        schema = Schema((other, label), label="label", sensitive=("age",))
        made = synthesizer(schema=schema).sample(5)
        assert made.schema == Schema((label,), label="label")


class TestFiles:
    @KINDS
    def test_a_loaded_one_samples_the_same(self, kind: str, tmp_path: Path) -> None:
        fitted = synthesizer(kind)
        fitted.save(tmp_path / "new" / "folder")
        loaded = GeneratorSynthesizer.load(tmp_path / "new" / "folder")
        for seed in (0, 4):
            before, after = fitted.sample(50, seed=seed), loaded.sample(50, seed=seed)
            assert (before.features == after.features).all()
            assert (before.labels == after.labels).all()
            assert before.schema == after.schema

    def test_files_are_plain_and_nothing_is_left_over(self, tmp_path: Path) -> None:
        synthesizer().save(tmp_path)
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == ["generator.safetensors", "synthesizer.json"]
        assert json.loads((tmp_path / "synthesizer.json").read_text())["generator"]["latent"] == 4

    def test_an_empty_folder_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="holds no synthesizer"):
            GeneratorSynthesizer.load(tmp_path)

    def test_another_format_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "synthesizer.json").write_text('{"format": "something/9"}')
        with pytest.raises(UserError, match="something/9"):
            GeneratorSynthesizer.load(tmp_path)
