"""Audits of methods at epsilon 1 and 10 on the built-in digits, real size.

    python benchmarks/audits.py [METHOD ...]

Without names, every method with a central claim. Each is audited white-box, then as a twin
without noise (which must be rejected), then black-box; all settings are the defaults of
`understudy audit`, fixed before anything is drawn, but for `SHORTER`: diffusion models are
audited over fewer steps than their presets take. One evidence file a method. Promised:
no claim is contradicted, every twin is, and white-box audits of DP-SGD methods show at
least 20% of a claim of epsilon 1.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import EVIDENCE, REPOSITORY

from understudy.bench.evidence.evidence import Provenance, write_measurement
from understudy.methods.registry import get_method, method_names
from understudy.run.audit import CANARIES, GUESSED_SHARE, audit_method
from understudy.run.config import RunConfig

DATA, EPSILONS, SEED = "digits", (1.0, 10.0), 0
PUBLIC = "portraits"
"""For methods that need public data: drawn by code, nobody's."""
_STEPS = ("steps=100", "multiplicity=2")
SHORTER = {
    "dpdm": _STEPS,
    "dp-feta": (*_STEPS, "central_steps=50", "central_axes_share=0.05"),
    "pdp-diffusion": (*_STEPS, "public_steps=50"),
}
"""By method: settings for audits alone. The plan is calibrated for them, so the claim is the
same, and everything that a claim rests on runs: sampling, several noises in one clip, the clip,
the noise, the ledger; of dp-feta its second release too, which no preset asks for. Only what a
white-box canary does not hear, the denoiser, learns less."""
KINDS = {
    "white-box": ("white-box", 1.0),
    "twin": ("white-box", 0.0),
    "black-box": ("black-box", 1.0),
}
"""By name: what the guesser sees, and what noise is multiplied with."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", metavar="METHOD")
    asked = parser.parse_args().methods
    provenance = Provenance.read(REPOSITORY)  # before the first file changes the checkout
    for method in asked or [m for m in method_names() if get_method(m).info.claim == "central"]:
        measure(method, provenance)


def measure(method: str, provenance: Provenance) -> None:
    result: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for epsilon in EPSILONS:
        for kind in KINDS:
            start = time.perf_counter()
            result[f"{kind}, epsilon {epsilon:g}"] = audited(method, epsilon, kind)
            seconds[f"{kind}, epsilon {epsilon:g}"] = time.perf_counter() - start
    write_measurement(
        EVIDENCE,
        f"audit-{method}",
        provenance=provenance,
        command=f"python benchmarks/audits.py {method}",
        config={
            "data": DATA,
            "canaries": CANARIES,
            "guessed share": GUESSED_SHARE,
            "settings": list(SHORTER.get(method, ())),
        },
        seeds=[SEED],
        seconds=seconds,
        peak_gigabytes=None,
        result=result,
    )
    for name, found in result.items():
        print(row(name.partition(",")[0], found))


def row(kind: str, found: dict[str, Any]) -> str:
    """One audit as a row of the table in docs/audits.md."""
    numbers = " | ".join(f"{found[f]:.2f}" for f in ("claim", "lower_bound", "ceiling"))
    right = f"{found['correct']:,} of {found['guesses']:,}"
    return f"| {found['method']} | {kind} | {numbers} | {right} |"


def audited(method: str, epsilon: float, kind: str) -> dict[str, Any]:
    """One audit, with an account book of its own."""
    view, noise_factor = KINDS[kind]
    public = PUBLIC if get_method(method).info.public else None
    config = RunConfig(
        DATA,
        method,
        epsilon,
        public=public,
        changes=SHORTER.get(method, ()),
        seed=SEED,
        device="cpu",
        time=None,
    )
    with tempfile.TemporaryDirectory() as home:
        found = audit_method(config, view=view, noise_factor=noise_factor, home=Path(home))
    return found.to_json()


if __name__ == "__main__":
    main()
