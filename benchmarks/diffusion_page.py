"""Write the measured part of docs/diffusion.md from the evidence files.

    python benchmarks/diffusion_page.py

Everything below the heading is replaced; a measurement that is not there is named as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from page_tables import below, blocks_of, measured, table

from understudy.bench.evidence.store import read_store
from understudy.bench.tables.preset_differences import departures

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE, PAGE = ROOT / "benchmarks" / "evidence", ROOT / "docs" / "diffusion.md"
HEADING = "## What was measured"
PROTOCOL, SAMPLES = "diffusion-quality", 60_000


def main() -> None:
    below(PAGE, HEADING, section(EVIDENCE))


def section(folder: Path) -> str:
    """The heading and all that follows it."""
    makers = {
        "engine": engine,
        "engine_cpu": engine_cpu,
        "gpu-checks": gpu_checks,
        "drawing": drawing,
        "dpdm-digits": digits,
        "samplers": samplers,
        "diffusion-whole-fits": whole_fits,
        "tuning-central": central,
    }
    found = [*cells(folder), *blocks_of(folder, makers), *tuning(folder)]
    return "\n\n".join([HEADING, *found]) + "\n"


def cells(folder: Path) -> list[str]:
    """Runs by the protocol of the suite `diffusion`: what it promises, and what it took."""
    stored = (file.parsed() for file in read_store(folder).of_kind("run", trusted_only=True))
    runs = [run for run in stored if _is_whole(run)]
    whole, changed = (
        [r for r in runs if bool(departures(r["config"])) is c] for c in (False, True)
    )
    said: list[str] = []
    if whole:
        said += [
            "**Cells of the suite** `diffusion`: accuracy on real test images of WRN-40-4, named "
            "beforehand, that learned from 60,000 drawn ones (in brackets 95% intervals over test "
            "images), and the mean over three classifiers; one seed, on one H200. The time is that "
            "of the fit, compiling included where the network was not known yet, and of drawing.",
            _cells("cell", whole),
        ]
    if changed:
        said += [
            "**The same with other settings**, those of `benchmarks/minutes.yaml` and of earlier "
            "presets, and so in other times:",
            _cells("cell, and what differs from its preset", changed),
        ]
    return said


def _is_whole(run: Mapping[str, Any]) -> bool:
    named = run["metrics"]["protocol"]["name"] == PROTOCOL
    config = run["config"]
    return named and config["limit"] is None and config["samples"] == SAMPLES


def _cells(name: str, runs: Sequence[Mapping[str, Any]]) -> str:
    return table(
        [name, "WRN-40-4", "mean of three", "fit and images"],
        [_cell(run) for run in sorted(runs, key=_place)],
    )


def _place(run: Mapping[str, Any]) -> tuple[str, str, float, int]:
    config = run["config"]
    return config["dataset"], config["method"], config["epsilon"], config["settings"]["steps"]


def _cell(run: Mapping[str, Any]) -> list[str]:
    config, seconds = run["config"], run["seconds"]
    read = {row["variant"].partition(" of ")[0]: row for row in run["metrics"]["rows"]}
    named, mean = read["wrn-40-4"], read["mean"]
    title = f"{config['dataset']} {config['method']} epsilon {config['epsilon']:g}"
    return [
        ", ".join([title, *departures(config)]),
        f"{100 * named['value']:.1f}% ({100 * named['low']:.1f} to {100 * named['high']:.1f})",
        f"{100 * mean['value']:.1f}%",
        f"{seconds['fit']:.0f} + {seconds['sample']:.0f} s",
    ]


def engine(result: Mapping[str, Any]) -> list[str]:
    """Steps on a GPU: private ones beside plain ones of the same network."""
    rows = [
        [
            f"{row['network']}x{row['network']}, {row['parameters'] / 1e6:.1f}M",
            row["draws"],
            f"{row['multiply_adds'] / 1e6:,.0f}M",
            f"{row['passes_per_second']:,.0f}",
            f"{row['peak_gigabytes']:.1f} GB",
            f"{row['ratio']:.2f}",
            "replayed" if row.get("replays") else "launched one by one",
        ]
        for row in sorted(result["rows"], key=lambda r: (r["network"], r["draws"]))
    ]
    peer, promised = result["peer"], result["promised"]
    return [
        "**A private step on one H200** (`benchmarks/engine.py`), bfloat16, compiled. The "
        f"strongest peer's network has {peer['parameters'] / 1e6:.1f}M parameters and "
        f"{peer['multiply_adds'] / 1e6:,.0f}M multiplications a pass. Promised with 32 draws at "
        f"28x28: {promised['passes_per_second']:,} passes a second, "
        f"{promised['peak_gigabytes']} GB, {promised['ratio']} times the plain step, which is "
        "measured with 32 draws and its kernels launched one by one.",
        table(
            [
                *("network", "draws", "multiplications", "passes a second", "memory"),
                *("times plain", "kernels"),
            ],
            rows,
        ),
    ]


def engine_cpu(result: Mapping[str, Any]) -> list[str]:
    found = {name: row for name, row in result.items() if isinstance(row, Mapping)}
    ratios = ", ".join(f"{name} {row['ratio']:.2f}" for name, row in found.items())
    return [
        "**A private step on one core** (`benchmarks/engine_cpu.py`), batch 64, times the plain "
        f"step of the same network: {ratios} (promised: {result['promised']})."
    ]


def gpu_checks(result: Mapping[str, Any]) -> list[str]:
    """What a GPU computes beside what the tests promise of a CPU."""
    promised, engine = result["promised"], result["engine"].values()
    found = {
        **{kind: row["worst_relative_error"] for kind, row in result["engine"].items()},
        "float32 unrounded": result["engine"]["float32"]["worst_error_unrounded"],
        "recording": result["recording"]["worst_relative_error"],
        "clip_excess": max(row["clip_excess"] for row in engine),
        "others_moved": max(max(row["others_moved"].values()) for row in engine),
    }
    words = {
        "bfloat16": "compiled gradients in bfloat16, from a loop over records",
        "float32": "the same in float32",
        "float32 unrounded": "the same where no product is rounded",
        "recording": "replayed gradients of public steps, from computed ones",
        "clip_excess": "what one record adds beyond its clip, in clips",
        "others_moved": "what it moves the sum of the others by, in clips",
    }
    replayed = [row.get("worst_error_replayed") for row in engine]
    if any(error is not None for error in replayed):
        found["replayed"] = max(error or 0.0 for error in replayed)
        words["replayed"] = "replayed sums of private steps, from computed ones"
    equal = "equal" if result["stream"]["equal"] else "do not equal"
    how = "replayed" if all(row.get("recorded") for row in engine) else "computed, not replayed"
    return [
        f"**What a GPU computes** (`benchmarks/gpu_checks.py`; {result['device']}): random words "
        f"and values {equal} those of a CPU, bit for bit; the rest beside what is promised "
        f"({'kept' if result['kept'] else 'not kept'}). What one record adds and moves is that of "
        f"private steps that were {how}.",
        table(
            ["off by, at most", "found", "promised"],
            [[said, f"{found[k]:.1e}", f"{promised[k]:.0e}"] for k, said in words.items()],
        ),
    ]


def drawing(result: Mapping[str, Any]) -> list[str]:
    """The same denoiser draws the same images, compiled and not."""
    ways = ", ".join(
        f"{name} {way['passes_per_second']:,.0f}" for name, way in result["ways"].items()
    )
    return [
        f"**Drawing on one H200** (`benchmarks/drawing.py`): {result['images']:,} images of the "
        f"presets' network for 28x28, {result['passes an image']} passes an image; passes a "
        f"second: {ways}. The two lie {result['grey levels apart']['most']} of 256 grey levels "
        "apart at most."
    ]


def digits(result: Mapping[str, Any]) -> list[str]:
    read = result["gen2real accuracy"]
    shown = ", ".join(f"{name.upper()} {100 * row['value']:.1f}%" for name, row in read.items())
    return [
        "**On a laptop** (`benchmarks/dpdm_digits.py`): `understudy synthesize digits --method "
        f"dpdm --epsilon 10` on {result['cores']} cores; accuracy of classifiers that learned from "
        f"it: {shown} (promised: CNN 80% in under five minutes; "
        f"{'kept' if result['kept'] else 'not kept'})."
    ]


def samplers(result: Mapping[str, Any]) -> list[str]:
    """Few steps beside a thousand of the same sampler."""
    rows = [
        [way, found["passes an image"], *(v for k, v in found.items() if k != "passes an image")]
        for way, found in sorted(result.items(), key=_by_sampler_and_steps)
    ]
    names = [k for k in next(iter(result.values())) if k != "passes an image"]
    return [
        "**Few sampling steps against a thousand** (`benchmarks/samplers.py`): a denoiser of the "
        "digits' preset, trained without noise, drawn from in every way with one seed.",
        table(["sampler, steps", "passes an image", *names], rows),
    ]


def whole_fits(result: Mapping[str, Any]) -> list[str]:
    """Private fits of the presets, by the classifiers that were trained on them."""
    rows = [
        [
            run["title"].removesuffix(" seed 0"),
            f"{run['config']['steps']:,}",
            ", ".join(f"{name} {100 * value:.2f}%" for name, value in run["accuracy"].items()),
            f"{run['seconds']['fit']:.0f} + {run['seconds']['sample']:.0f} s",
        ]
        for run in result["runs"]
    ]
    return [
        "**Presets fitted whole** (`benchmarks/tuning_table.py`): private fits of the suite "
        "`diffusion`, with the steps that their presets then had, and 60,000 images, one seed, on "
        "one H200. The third classifier of its protocol was not trained, so they are no cells of "
        "the suite yet. That of mnist came first and compiled its network; the other found it "
        "compiled.",
        table(["run", "steps", "accuracy", "fit and images"], rows),
    ]


def central(result: Mapping[str, Any]) -> list[str]:
    """What was learned before any private step."""
    return [
        "**Central images alone** (`benchmarks/tuning/central.yaml`): accuracy of a CNN that "
        "learned from 3,000 images of a small denoiser, which had seen the central releases with "
        "the noise of the whole plan and taken one private step of 1,200. Not private; one run "
        "each.",
        table(["run", "settings", "accuracy"], [_tuned(run) for run in result["runs"]]),
    ]


def tuning(folder: Path) -> list[str]:
    """Every run of every sweep of settings that was kept."""
    sweeps = sorted(folder.glob("tuning-diffusion*.json"))
    rows = [[sweep.stem, *_tuned(run)] for sweep in sweeps for run in measured(sweep)["runs"]]
    if not rows:
        return []
    return [
        "**Settings that were compared** (`benchmarks/tuning_table.py`): accuracy of WRN-40-4 that "
        "learned from 20,000 images, one run each, with the settings in which runs of a sweep "
        "differ (all of them are in the evidence). Simulations are not private "
        "(`benchmarks/thin_job.py`). What the presets took from it, and whether their claims cover "
        "it, stands in the [table of presets](methods.md#presets).",
        table(["evidence", "run", "settings", "accuracy"], rows),
    ]


def _tuned(run: Mapping[str, Any]) -> list[str]:
    shown = ", ".join(f"{name} {value}" for name, value in sorted(run["settings"].items()))
    accuracy = ", ".join(f"{100 * value:.1f}%" for value in run["accuracy"].values())
    return [run["title"].removesuffix(" seed 0"), shown, accuracy]


def _by_sampler_and_steps(item: tuple[str, Mapping[str, Any]]) -> tuple[str, int]:
    name, steps = item[0].split()
    return name, int(steps)


if __name__ == "__main__":
    main()
