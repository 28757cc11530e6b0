"""A method that takes every kind of public input: `Tinted` tints mean images by public weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from understudy.bench.templates.class_means import ClassMeans, ClassMeansSynthesizer
from understudy.errors import UserError
from understudy.methods.contract import Context, PublicInputs
from understudy.methods.info import MethodInfo, PublicRecords, PublicWeights
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.plan.plan import Plan

TINTED = "tests.run.public_method:Tinted"


def write_tint(path: Path, tint: float) -> Path:
    np.savez(path, tint=np.array([tint], dtype=np.float32))
    return path


def read_tint(path: Path) -> float:
    with np.load(path, allow_pickle=False) as arrays:
        return float(arrays["tint"][0])


class Tinted(ClassMeans):
    """Guarantee: as `ClassMeans`; public inputs cost nothing."""

    info: ClassVar[MethodInfo] = replace(
        ClassMeans.info,
        name="tinted",
        public=(
            PublicRecords("faces", "images whose mean brightness is taken over"),
            PublicRecords("scenes", "images that are looked at", needed=False),
            PublicWeights("warm", "the tint of the first class"),
            PublicWeights("cold", "the tint of the other classes", needed=False),
        ),
    )

    def check_public(self, public: PublicInputs) -> None:
        if not 0 <= read_tint(public.weights["warm"].path) <= 1:
            raise UserError("--weights warm holds a tint outside 0 to 1; give other weights.")

    def fit(
        self,
        config: Any,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> ClassMeansSynthesizer:
        made = super().fit(config, parts, plan, public, context)
        cold = public.weights.get("cold", public.weights["warm"])
        made.means[0] = read_tint(public.weights["warm"].path)
        made.means[1:] = read_tint(cold.path)
        assert len(public.records["faces"])
        return made


class TintedByDefault(Tinted):
    """Its weights are those of the catalog where none are named."""

    info: ClassVar[MethodInfo] = replace(
        Tinted.info,
        name="tinted-by-default",
        public=(PublicWeights("warm", "the tint of every class", default="lenet-mnist"),),
    )
