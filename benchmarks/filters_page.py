"""Write the measured part of docs/filters.md from the evidence files.

    python benchmarks/filters_page.py

Everything below the heading is replaced; a measurement that is not there is named as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from page_tables import Maker, below, blocks_of, measured, table

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE, PAGE = ROOT / "benchmarks" / "evidence", ROOT / "docs" / "filters.md"
HEADING = "## What was measured"
PARTS = {
    "case-1": "MNIST case 1: the digit is hidden, the circle is kept",
    "case-2": "MNIST case 2: at least 5 is hidden, odd is kept, the circle is in no loss",
    "two-users": "Two users: one hides what the other keeps (the paper's Table 4)",
    "sweep-1": "Case 1 over budgets b (KL), beside Gaussian noise of equal distortion",
    "sweep-2": "Case 2 over budgets b (KL), beside Gaussian noise of equal distortion",
}
PICTURES = {
    "case-1": ("filters-confusion-case-1.svg", "Answers of the reader of 15 units to each digit"),
    "case-2": ("filters-confusion-case-2.svg", "Answers of the reader of 15 units to at least 5"),
    "sweep-1": ("filters-accuracy-case-1.svg", "Accuracy against the budget, case 1"),
    "sweep-2": ("filters-accuracy-case-2.svg", "Accuracy against the budget, case 2"),
}
INFORMATION = ("filters-information.svg", "Information on the hidden label against the budget")
_WORDS = {"vae": "the paper, raw", "generative-filter": "the paper, filtered"}
_FIGURES = ("hidden gender accuracy", "kept income accuracy")
_SENT = ("raw", "linear", "network", "gaussian")
_AREAS = ("hidden gender AUROC", "kept income AUROC")
_PARITY = "demographic parity gap of income between groups of gender"


def main() -> None:
    below(PAGE, HEADING, section(EVIDENCE))


def section(folder: Path) -> str:
    """The heading and all that follows it."""
    makers: dict[str, Maker] = {
        "filters_mnist": lambda _: mnist(mnist_result(folder)),
        "filters_adult": adult,
        "filters_faces": faces,
        "filter_speed": speed,
    }
    words = "Accuracies on test records; readers are trained afresh on what was sent."
    return "\n\n".join([HEADING, words, *blocks_of(folder, makers)]) + "\n"


def mnist_result(folder: Path) -> dict[str, Any]:
    """What was measured on MNIST: two files of one run."""
    paths = [folder / f"{name}.json" for name in ("filters_mnist", "filters_sweeps")]
    return {part: v for path in paths if path.exists() for part, v in measured(path).items()}


def mnist(result: Mapping[str, Any]) -> list[str]:
    """Every part with its table and picture (`filters_figures.py` draws them)."""
    blocks = []
    for part, words in PARTS.items():
        if part not in result:
            continue
        blocks.append(f"**{words}.** {_seeds(result[part])}")
        if "curves" in result[part]:
            blocks += [sweep_table(result[part]), verdict(result[part]["verdicts"])]
        else:
            blocks.append(means_table(result, part))
        if part in PICTURES:
            blocks.append(_picture(*PICTURES[part]))
    if all(part in result for part in ("sweep-1", "sweep-2")):
        blocks.append(_picture(*INFORMATION))
    return blocks


def means_table(result: Mapping[str, Any], part: str) -> str:
    means = result[part]["mean"]
    names = sorted({name for values in means.values() for name in values})
    rows = [[sent, *(values.get(name, "") for name in names)] for sent, values in means.items()]
    rows += [[sent, *(paper.get(n, "") for n in names)] for sent, paper in papers(result, part)]
    return table(["sent, reader", *names], rows)


def sweep_table(part: Mapping[str, Any]) -> str:
    """What is read and told at each budget, by the reader of 15 units; first the raw latents."""
    names = list(part["roles"])
    first = part["curves"][0]
    raw = [first["accuracy"][name]["reference"] for name in names]
    rows: list[list[object]] = [["raw", "", *raw, first["information"]["reference"]]]
    for point in part["curves"]:
        read = [point["accuracy"][name]["value"] for name in names]
        told = point["information"]["value"]
        rows.append([point["method"], f"{point['budget']:g}", *read, told])
    header = [f"{part['roles'][name]} {name}" for name in names]
    return table(["sent", "b", *header, "information, nats"], rows)


def verdict(found: Sequence[Mapping[str, Any]]) -> str:
    """Where a filter keeps more beyond what it leaves readable than noise does."""
    compared = [one for one in found if one["compared"]]
    behind = [f"{o['method']} at {o['budget']:g}" for o in compared if not o["filter is ahead"]]
    sentence = (
        f"Kept less hidden accuracy is higher for the filter than for noise of equal distortion at "
        f"{len(compared) - len(behind)} of {len(compared)} places compared (either method over 2 "
        "points from both raw and chance)"
    )
    return f"{sentence}; not for: {', '.join(behind)}." if behind else f"{sentence}."


def _picture(name: str, words: str) -> str:
    return f"![{words}](images/{name})"


def papers(result: Mapping[str, Any], part: str) -> list[tuple[str, dict[str, float]]]:
    """The paper's rows for one part, by our names of the attributes."""
    number = {"case-2": "1", "two-users": "4"}.get(part)
    found: dict[str, dict[str, float]] = {}
    for figure in result["published"].get(number, ()) if number else ():
        user = f", {figure['note']}" if part == "two-users" else ""
        attribute = figure["metric"].split()[1].removeprefix("digit-")
        row = found.setdefault(f"{_WORDS[figure['method']]}{user}, mlp-15", {})
        row[attribute] = figure["value"]
    return list(found.items())


def adult(result: Mapping[str, Any]) -> list[str]:
    """Accuracy, the area from hard labels (what the paper's table has) and demographic parity."""
    names = [*_FIGURES, *(f"{words} of hard labels" for words in _AREAS), _PARITY]
    rows: list[list[object]] = []
    for method, metrics in result["mean"].items():
        said = result["methods"][method]
        for reader in sorted({name.rpartition(", ")[2] for name in metrics}):
            rows.append([f"{said}, {reader}", *_means(metrics, names, reader)])
    for method in dict.fromkeys(f["method"] for f in result["published"]):
        known = {f["metric"]: f["value"] for f in result["published"] if f["method"] == method}
        rows.append([f"the paper, {method}", *(known[name] for name in (*_FIGURES, *_AREAS)), ""])
    header = ["sent, reader", "gender", "income", "gender AUROC", "income AUROC", "parity gap"]
    return [
        f"**Adult: gender is hidden, income is kept.** {_seeds(result)} The parity gap is the "
        "difference between men and women in how often a reader says the higher income; the true "
        f"labels' is {result['parity gap of the true labels']:.3f}.",
        table(header, rows),
        *_farthest(result),
    ]


def _farthest(result: Mapping[str, Any]) -> list[str]:
    """For each method that stands for one of the paper's: its farthest figure from there."""
    lines = [
        f"- {result['methods'][method]}, {far['reader']}: {far['metric']} {far['ours']:.3f}, "
        f"the paper's {far['paper']:.3f}"
        for method, far in result["farthest from the paper"].items()
    ]
    return [
        "Farthest from the paper, of the four figures, by the paper's reader:",
        "\n".join(lines),
    ]


def _means(
    metrics: Mapping[str, Sequence[float]], names: Sequence[str], reader: str
) -> list[float]:
    return [metrics[f"{name}, {reader}"][0] for name in names]


def faces(result: Mapping[str, Any]) -> list[str]:
    """Table 3: each hidden attribute with the kept one beside it, then the paper's on CelebA."""
    ours = result["table"]
    header = ["choice, reader", "hidden", "majority"]
    header += [f"{role} {sent}" for role in ("hidden", "kept") for sent in _SENT]
    rows = [[f"{r['with']}, {r['reader']}", *(r[name] for name in header[1:])] for r in ours]
    words = (
        f"**Faces: UTKFace beside the paper's CelebA (its Table 3).** {_seeds(result)} "
        "The paper's filter is linear; `gaussian` is noise of equal distortion."
    )
    more = ["choice", "hidden"]
    more += [f"{figure} {sent}" for figure in ("information", "parity") for sent in _SENT]
    first = ours[0]["reader"] if ours else ""
    beside = [[r["with"], *(r[n] for n in more[1:])] for r in ours if r["reader"] == first]
    return [
        words,
        table(header, [*rows, *celeba(result["published"])]),
        "What is still told of the hidden label (nats, estimated), and the demographic parity gap "
        f"of the kept one between its groups ({first}).",
        table(more, beside),
    ]


def celeba(published: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    """The paper's rows in the columns of ours; it has no other form and no noise."""
    found: dict[tuple[str, str], object] = {
        (f["method"], f["metric"].removesuffix(" accuracy")): f["value"] for f in published
    }
    kept = [found["vae", "kept smiling"], found["generative-filter", "kept smiling"], "", ""]
    return [
        [
            "the paper, keep smiling, mlp-60",
            name.removeprefix("hidden "),
            *(found[method, name] for method in ("majority-guess", "vae", "generative-filter")),
            *("", "", *kept),
        ]
        for method, name in found
        if method == "vae" and name.startswith("hidden ")
    ]


def speed(result: Mapping[str, Any]) -> list[str]:
    columns = list(next(iter(result.values())))
    rows = [[name, *(found[column] for column in columns)] for name, found in result.items()]
    header = ["filter", *(column.replace("_", " ") for column in columns)]
    return ["**Time and size**, 10,000 latents, one core.", table(header, rows)]


def _seeds(found: Mapping[str, Any]) -> str:
    return f"Means over {len(found['seeds'])} seeds."


if __name__ == "__main__":
    main()
