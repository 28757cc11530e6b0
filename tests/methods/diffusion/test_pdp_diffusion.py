"""PDP-Diffusion: public images are fitted to the private ones, learnt once, and named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.methods.bench import SCHEMA, Bench, BenchContext, facts_of, plan_for, stripes
from tests.methods.diffusion.small import PDP, learning, share_like_their_class
from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.errors import UserError
from understudy.methods.contract import PublicInputs
from understudy.methods.diffusion import pretraining
from understudy.methods.diffusion.pdp_diffusion import RECORDS, PDPDiffusion
from understudy.methods.diffusion.planning import TRAINING
from understudy.methods.diffusion.pretraining import cache_key, pretrained_weights
from understudy.methods.diffusion.public_records import PublicImages, fitted_to
from understudy.progress import Silent


class Listening(Silent):
    """Progress that remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)


def fitted(records: Records, conditional: bool = True) -> tuple[PublicImages, list[str]]:
    shown = Listening()
    return fitted_to(records, (1, 8, 8), conditional, shown, "pdp-diffusion"), shown.said


class TestPublicImages:
    def test_those_that_fit_are_taken_as_they_are(self) -> None:
        records = stripes(9)
        found, said = fitted(records)
        assert (found.images.numpy() == records.features).all()
        assert found.codes.tolist() == records.labels.tolist()
        assert (found.classes, said) == (3, [])

    def test_others_are_made_to_fit_and_it_is_said(self) -> None:
        found, said = fitted(stripes(9, channels=3, size=16))
        assert found.images.shape == (9, 1, 8, 8)
        assert said == [
            "public images of shape 16x16 colour are made 8x8 grey to fit the private ones."
        ]

    def test_grey_becomes_colour_by_repeating(self) -> None:
        grey = fitted_to(stripes(2), (3, 8, 8), False, Silent(), "x").images
        assert torch.equal(grey[:, 0], grey[:, 2])

    def test_labels_are_left_out_if_asked_or_missing(self) -> None:
        assert fitted(stripes(4), conditional=False)[0].classes == 0
        bare = Records(stripes(4).features, {}, Schema(()))
        found, said = fitted(bare)
        assert found.classes == 0
        assert said == ["the public records have no label of one class each; learning without it."]

    def test_what_are_no_images_is_refused(self) -> None:
        vectors = Records(np.zeros((4, 7), np.float32), {}, Schema(()))
        with pytest.raises(UserError, match=r"public images of 1 or 3 channels.*\[7\]"):
            fitted(vectors)
        with pytest.raises(UserError, match="gives no records"):
            fitted(stripes(0))


class Rig:
    """A context for public training, with nothing private in reach."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.bench = Bench(folder / "run", plan_for(PDPDiffusion(), PDP, facts_of(stripes(20))))
        self.context: BenchContext = self.bench.context
        self.context.seed = seed


class TestCache:
    def weights(self, rig: Rig, cache: Path | None) -> dict[str, torch.Tensor]:
        images = fitted(stripes(9))[0]
        return dict(pretrained_weights(PDP, PDP.course, images, cache, rig.context))

    def test_a_second_run_finds_what_the_first_learnt(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rig, cache = Rig(tmp_path), tmp_path / "cache"
        first = self.weights(rig, cache)
        (kept,) = cache.iterdir()
        kept.with_suffix(".part").write_bytes(b"left by a kill after the last step")

        def never(*_: object) -> None:
            raise AssertionError("learnt twice")

        monkeypatch.setattr(pretraining, "train_on_public", never)
        second = self.weights(rig, cache)
        assert all(torch.equal(first[name], second[name]) for name in first)
        assert list(cache.iterdir()) == [kept]
        with pytest.raises(AssertionError, match="learnt twice"):
            self.weights(rig, None)
        rig.bench.close()

    def test_the_same_seed_learns_the_same(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path)
        first, second = self.weights(rig, None), self.weights(rig, None)
        assert all(torch.equal(first[name], second[name]) for name in first)
        rig.bench.close()

    def test_a_damaged_file_is_made_again(self, tmp_path: Path) -> None:
        rig, cache = Rig(tmp_path), tmp_path / "cache"
        first = self.weights(rig, cache)
        (kept,) = cache.iterdir()
        kept.write_bytes(b"not weights")
        second = self.weights(rig, cache)
        assert all(torch.equal(first[name], second[name]) for name in first)
        rig.bench.close()

    def test_the_key_holds_all_that_the_weights_depend_on(self, tmp_path: Path) -> None:
        rig, images = Rig(tmp_path), fitted(stripes(9))[0]
        key = cache_key(PDP, PDP.course, images, rig.context)
        assert key == cache_key(replace(PDP, steps=9, clip=9.0), PDP.course, images, rig.context)
        others = [
            cache_key(replace(PDP, width=16), PDP.course, images, rig.context),
            cache_key(replace(PDP, precision="bfloat16"), PDP.course, images, rig.context),
            cache_key(replace(PDP, output_gain=0.5), PDP.course, images, rig.context),
            cache_key(replace(PDP, level_balance=0.5), PDP.course, images, rig.context),
            cache_key(PDP, replace(PDP.course, steps=9), images, rig.context),
            cache_key(PDP, PDP.course, fitted(stripes(9, seed=1))[0], rig.context),
            cache_key(PDP, PDP.course, fitted(stripes(9), conditional=False)[0], rig.context),
        ]
        rig.context.seed = 1
        others.append(cache_key(PDP, PDP.course, images, rig.context))
        rig.bench.close()
        assert len({key, *others}) == 1 + len(others), "the key forgets something"


class TestFit:
    @pytest.mark.parametrize("conditional", [True, False])
    def test_it_learns_public_images_then_the_planned_steps(
        self, tmp_path: Path, conditional: bool
    ) -> None:
        records, config = stripes(30), replace(PDP, conditional=conditional)
        bench = Bench(tmp_path, plan_for(PDPDiffusion(), config, facts_of(records)))
        many = Records(
            stripes(12, channels=3, size=10).features,
            {"label": np.arange(12) % 3},
            SCHEMA,
        )
        public = PublicInputs({RECORDS: many}, cache=tmp_path / "cache")
        made = bench.fit(PDPDiffusion(), config, records, public=public).sample(4)
        assert bench.journal.spent(TRAINING) == config.steps
        assert made.shape == (1, 8, 8)
        assert len(list((tmp_path / "cache").iterdir())) == 1
        bench.close()

    def test_it_learns_what_tells_the_private_classes_apart(self, tmp_path: Path) -> None:
        """Though public images look like them, under labels in another order."""
        records, config = stripes(120), replace(learning(PDP), public_steps=60, public_batch=60)
        bench = Bench(tmp_path, plan_for(PDPDiffusion(), config, facts_of(records), sigma=0.02))
        turned = Records(records.features, {"label": (records.labels + 1) % 3}, SCHEMA)
        public = PublicInputs({RECORDS: turned}, cache=tmp_path / "cache")
        made = bench.fit(PDPDiffusion(), config, records, public=public).sample(60)
        bench.close()
        assert share_like_their_class(made, records) > 0.8

    def test_without_public_images_it_says_so(self, tmp_path: Path) -> None:
        records = stripes(30)
        bench = Bench(tmp_path, plan_for(PDPDiffusion(), PDP, facts_of(records)))
        with pytest.raises(UserError, match="name them with --public"):
            bench.fit(PDPDiffusion(), PDP, records)
        assert bench.journal.spent(TRAINING) == 0
        bench.close()
