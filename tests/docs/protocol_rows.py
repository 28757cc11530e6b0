"""The table of docs/protocols.md, from the protocols' own data.

`python -m tests.docs.protocol_rows` prints it.
"""

from __future__ import annotations

from understudy.evaluation.protocol import (
    ClassifierTraining,
    Protocol,
    load_protocol,
    protocol_names,
)
from understudy.evaluation.selection import RULES, SUMMARIES

HEADINGS = (
    "| protocol | classifiers | training | epoch | over all classifiers |",
    "|---" * 5 + "|",
)


def protocol_rows() -> list[str]:
    return [*HEADINGS, *(_row(load_protocol(name)) for name in protocol_names())]


def source_lines() -> list[str]:
    """Where each protocol that is not ours comes from."""
    found = [load_protocol(name) for name in protocol_names()]
    return [f"- `{p.name}`: {p.source}" for p in found if p.source]


def rule_rows() -> list[str]:
    rows = ["| rule | what it keeps | whose figures |", "|---|---|---|"]
    for rule in RULES.values():
        whose = f"a benchmark's only, variant `…{rule.suffix}`" if rule.benchmark_only else "sound"
        rows.append(f"| `{rule.name}` | {rule.words} | {whose} |")
    return rows


def summary_rows() -> list[str]:
    return ["| summary | what it is |", "|---|---|"] + [
        f"| `{name}` | {words} |" for name, words in SUMMARIES.items()
    ]


def _row(protocol: Protocol) -> str:
    seeds = "once" if protocol.seeds == 1 else f"{protocol.seeds} times"
    cells = (
        f"`{protocol.name}`",
        f"{', '.join(f'`{name}`' for name in protocol.classifiers)}; {seeds}",
        _training(protocol.training),
        f"`{protocol.selection}`",
        ", ".join(f"`{name}`" for name in protocol.summaries) or "-",
    )
    return f"| {' | '.join(cells)} |"


def _training(training: ClassifierTraining) -> str:
    words = [f"{training.epochs} epochs"]
    if training.least_steps:
        words[0] += f", at least {training.least_steps} steps"
    words.append(f"batch {training.batch_size}")
    rate = f"{training.optimiser} {training.learning_rate:g}"
    if training.schedule == "step":
        rate += f", x{training.step_factor:g} every {training.step_epochs}"
    elif training.schedule == "cosine":
        rate += ", cosine"
    words.append(rate)
    if training.averaging:
        words.append(f"weights averaged at {training.averaging:g}")
    if training.patience:
        words.append(f"patience {training.patience}")
    return "; ".join(words)


if __name__ == "__main__":
    print("\n".join(protocol_rows()))
    print("\n".join(source_lines()))
    print("\n".join(rule_rows()))
    print("\n".join(summary_rows()))
