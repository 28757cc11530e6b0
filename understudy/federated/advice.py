"""What a user should know of a choice before a filter is trained for it."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.federated.agreement import check_sendable
from understudy.filters.choice import Choice, codes_of, conflicts, refuse_impossible

FEW_RECORDS = 100


def cautions(declared: Schema, records: Records, choice: Choice) -> tuple[str, ...]:
    """Warnings, one sentence each; what can never work is refused.

    declared: the attributes of the encoder's file, with the only classes that can be sent.
    Each is for the user's own eyes: it speaks of the user's records.
    """
    for name in choice.names:
        records.schema.attribute(name)
    for attribute in choice.attributes(records, choice.useful):
        _refuse_unsendable(attribute)
    refuse_impossible(records, choice)
    found = [
        *_few(records),
        *_unsent(declared, choice.attributes(records, choice.useful)),
        *_needless(records, choice),
        *_partial_conflicts(records, choice),
    ]
    return tuple(f"warning: {sentence}." for sentence in found)


def _refuse_unsendable(kept: Attribute) -> None:
    try:
        check_sendable(kept)
    except UserError as error:
        raise UserError(f"--keep: {error}") from error


def _few(records: Records) -> Iterator[str]:
    if len(records) < FEW_RECORDS:
        yield (
            f"{len(records)} records are few to learn a filter from: it may hide little of others; "
            f"use {FEW_RECORDS} or more"
        )


def _unsent(declared: Schema, kept: tuple[Attribute, ...]) -> Iterator[str]:
    for attribute in kept:
        why = _why_unsent(declared, attribute)
        if why:
            yield (
                f"kept label {attribute.name!r} cannot be sent: {why}; the filter keeps it "
                "readable in what is sent all the same"
            )


def _why_unsent(declared: Schema, kept: Attribute) -> str | None:
    if kept.name not in declared.names:
        return f"the encoder's file declares only {', '.join(declared.names) or 'no label'}"
    known = declared.attribute(kept.name).classes
    unknown = [name for name in kept.classes if name not in known]
    return f"the encoder's file does not declare its class {unknown[0]!r}" if unknown else None


def _needless(records: Records, choice: Choice) -> Iterator[str]:
    for name in choice.private:
        codes = codes_of(records, name)
        if len(set(codes.tolist())) == 1:
            only = records.schema.attribute(name).classes[int(codes[0])]
            yield f"nothing to hide: every record has {name}={only}"


def _partial_conflicts(records: Records, choice: Choice) -> Iterator[str]:
    for conflict in conflicts(records, choice):
        if conflict.clear:
            yield f"{conflict.sentence}; no filter that keeps them perfectly can hide more"
