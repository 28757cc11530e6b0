"""Which kinds of encoder there are; a spec says all that is needed to build one again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.errors import UserError, did_you_mean
from understudy.nets.densenet import DenseNetSpec
from understudy.nets.vae import DenseSpec

Spec = DenseSpec | DenseNetSpec

KINDS: Mapping[str, type[DenseSpec] | type[DenseNetSpec]] = {
    DenseSpec.kind: DenseSpec,
    DenseNetSpec.kind: DenseNetSpec,
}


def spec_to_json(spec: Spec) -> dict[str, Any]:
    return {"kind": spec.kind, **spec.to_json()}


def spec_from_json(data: Mapping[str, Any]) -> Spec:
    kind = str(data.get("kind"))
    if kind not in KINDS:
        raise UserError(f"no encoder of kind {kind!r}; {did_you_mean(kind, KINDS)}")
    return KINDS[kind].from_json(data)
