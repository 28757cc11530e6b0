"""Evaluate synthetic records against real ones: the owner's side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.evaluation.case import Case
from understudy.evaluation.classifier_figures import ClassifierFigures
from understudy.evaluation.metric import Evaluation, Metric, Row
from understudy.evaluation.metric_registry import EXTRACTORS, check_name, metric_class
from understudy.evaluation.protocol import Protocol
from understudy.evaluation.references import References
from understudy.nets.classifiers import CLASSIFIERS
from understudy.progress import Progress, Silent


def evaluate(
    synthetic: Records,
    train: Records | None,
    test: Records,
    protocol: Protocol,
    *,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
    seed: int = 0,
    dataset: str = "",
    figures: ClassifierFigures | None = None,
    references: References | None = None,
) -> Evaluation:
    """Every metric of the protocol on these records, one row for each.

    train: the real records that the method was fitted on. Without them, references are
        absent and metrics that need them fail with that reason; nothing takes their place.
    test: real records that the method has not seen.
    device: by default a GPU where there is one.
    seed: of the classifiers and of random parts; not of anything private.
    figures: of classifiers that were trained before on these very records; the caller answers
        for that (`figures.Binding`). references: where those of real records are shared.
    """
    _check_same_kind("synthetic", synthetic, test)
    if train is not None:
        _check_same_kind("train", train, test)
    metrics = _metrics(protocol)
    shown = progress if progress is not None else cast(Progress, Silent())
    case = Case(
        synthetic,
        train,
        test,
        protocol,
        device=_device(device),
        seed=seed,
        progress=shown,
        figures=figures,
        references=references,
    )
    rows: list[Row] = []
    try:
        with shown.task("evaluate", total=len(metrics)) as bar:
            for metric in metrics:
                bar.note(" ".join(filter(None, (metric.title, metric.variant))))
                rows.append(metric.row(case))
                bar.advance()
    except KeyboardInterrupt:
        _say_known(rows, len(metrics), shown)
        raise
    return Evaluation(tuple(rows), protocol, dataset, len(synthetic))


def _say_known(rows: Sequence[Row], of: int, progress: Progress) -> None:
    """What an evaluation that is stopped had found; the run keeps nothing of it."""
    for row in rows:
        value = "failed" if row.value is None else f"{row.value:.4g}"
        progress.say(f"{' '.join(filter(None, (row.metric, row.variant)))}: {value}")
    progress.say(f"stopped after {len(rows)} of {of} figures; none of them is kept.")


def default_protocol_name(device: torch.device | str | None = None) -> str:
    """`full` where a GPU does the work, else `standard`."""
    return "full" if _device(device).type == "cuda" else "standard"


def _device(device: torch.device | str | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


def _metrics(protocol: Protocol) -> list[Metric]:
    """The protocol's metrics; wrong names are refused before any work is done."""
    for name in protocol.classifiers:
        check_name("classifier", name, CLASSIFIERS)
    for name in protocol.extractors:
        check_name("extractor", name, EXTRACTORS)
    metrics: list[Metric] = []
    for name in protocol.metrics:
        found = metric_class(name).instances(protocol)
        if not found:
            raise UserError(
                f"protocol {protocol.name!r} lists {name} but no classifier or extractor for it."
            )
        metrics += found
    return metrics


def _check_same_kind(name: str, records: Records, test: Records) -> None:
    """Refuse records that cannot be held against the test records."""
    if not len(records) or not len(test):
        raise UserError(f"{name if len(test) else 'test'} holds no records; give at least one.")
    if records.shape != test.shape or records.features.dtype != test.features.dtype:
        raise UserError(
            f"{name} records are {records.features.dtype} {list(records.shape)} and test records "
            f"{test.features.dtype} {list(test.shape)}; they must be of one kind and size."
        )
    if records.schema.label != test.schema.label:
        raise UserError(
            f"the label of the {name} records is {records.schema.label!r} and that of the test "
            f"records {test.schema.label!r}; choose the same attribute for both."
        )
    if test.schema.label is not None and records.schema.classes != test.schema.classes:
        raise UserError(
            f"the classes of {test.schema.label!r} differ: {list(records.schema.classes)} in the "
            f"{name} records, {list(test.schema.classes)} in the test records; name the same "
            "classes in the same order."
        )
