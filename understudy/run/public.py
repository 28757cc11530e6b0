"""The public data of a run: what the owner declares with `--public`."""

from __future__ import annotations

from pathlib import Path

from understudy.data.load import Dataset, load
from understudy.data.records import Records
from understudy.data.same_source import lead_to_the_same
from understudy.errors import UserError
from understudy.methods.contract import ChecksPublic, Method, PublicInputs
from understudy.privacy.ledger.account_book import Book
from understudy.progress import Progress
from understudy.release.facts import PublicInput
from understudy.run.config import RunConfig

CACHE = "made-from-public-data"


def load_public(config: RunConfig, method: Method, progress: Progress) -> Dataset | None:
    """The declared public data, or None where the method uses none."""
    if config.public is None or not method.info.public_records:
        return None
    if lead_to_the_same(config.public, config.source):
        raise UserError(f"--public {config.public} is the private data; give other data.")
    if config.size is not None or config.channels is not None:
        progress.say("public images are made to fit --size and --channels too.")
    try:
        dataset = load(config.public, size=config.size, channels=config.channels, progress=progress)
    except UserError as error:
        raise UserError(f"--public {config.public}: {error}") from error
    given = {entry.name: public_part(dataset) for entry in method.info.public_records}
    if isinstance(method, ChecksPublic):
        method.check_public(given)
    return dataset


def public_part(dataset: Dataset) -> Records:
    """What a method may learn from: all of it, or its training part."""
    found = dataset.parts.get("all", dataset.parts.get("train"))
    if found is None:
        raise UserError(f"--public {dataset.name} has no part to learn from.")
    return found


def public_facts(dataset: Dataset | None) -> tuple[PublicInput, ...]:
    """What the claim says of it. An owner's own data are public because the owner says so."""
    if dataset is None:
        return ()
    words = "" if dataset.public else "declared public by the owner: "
    return (PublicInput(dataset.name, f"{words}{dataset.provenance}"),)


def public_inputs(method: Method, dataset: Dataset | None, cache: Path | None) -> PublicInputs:
    """What the method is handed: the same records under each name that it asks for.

    Guarantee: a method without public data has no place that outlasts its run, where what it made
    of a charged release would serve another run for nothing (rule 8).
    """
    if dataset is None:
        return PublicInputs()
    records = public_part(dataset)
    given = {entry.name: records for entry in method.info.public_records}
    return PublicInputs(given, cache=cache)


def cache_beside(book: Book) -> Path:
    """Where what was made from public data alone is kept, beside the account books."""
    return book.path.parent.parent / CACHE
