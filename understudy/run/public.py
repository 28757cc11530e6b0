"""The public inputs of a run: what the owner declares with `--public` and `--weights`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from understudy.data.content import content_digest
from understudy.data.load import Dataset, load
from understudy.data.records import Records
from understudy.data.same_source import lead_to_the_same
from understudy.data.weights import given_weights
from understudy.data.weights_file import WeightsFile
from understudy.encoders.file import stated_provenance
from understudy.encoders.provenance import PUBLIC
from understudy.errors import UserError
from understudy.methods.contract import ChecksPublic, Method, PublicInputs
from understudy.privacy.ledger.account_book import Book
from understudy.progress import Progress
from understudy.release.facts import RECORDS, WEIGHTS, InputFacts, PublicInput
from understudy.release.layout import LEDGER
from understudy.run.config import RunConfig
from understudy.run.public_options import public_sources, weights_sources

CACHE = "made-from-public-data"


@dataclass(frozen=True)
class PublicData:
    """What a run was given as public: datasets and weights, by the method's names for them."""

    records: Mapping[str, Dataset] = field(default_factory=dict)
    weights: Mapping[str, WeightsFile] = field(default_factory=dict)


def load_public(config: RunConfig, method: Method, progress: Progress) -> PublicData:
    """The declared public inputs; what is wrong with them is said before there is a plan.

    Guarantee: neither leads to the run's private data, by where they lie; weights have the digest
    that the catalog states, and do not come from a run's folder (rule 8). A copy elsewhere of
    private data, or of what was learnt from them, is not seen.
    """
    sources = public_sources(config.public, method.info)
    datasets = {name: _dataset(source, config, progress) for name, source in sources.items()}
    weights = {
        name: _weights(source, config)
        for name, source in weights_sources(config.weights, method.info).items()
    }
    found = PublicData(datasets, weights)
    if isinstance(method, ChecksPublic):
        method.check_public(public_inputs(found, None))
    return found


def _dataset(source: str, config: RunConfig, progress: Progress) -> Dataset:
    if lead_to_the_same(source, config.source):
        raise UserError(f"--public {source} is the private data; give other data.")
    if config.size is not None or config.channels is not None:
        progress.say("public images are made to fit --size and --channels too.")
    try:
        return load(source, size=config.size, channels=config.channels, progress=progress)
    except UserError as error:
        raise UserError(f"--public {source}: {error}") from error


def _weights(source: str, config: RunConfig) -> WeightsFile:
    try:
        found = given_weights(source)
    except UserError as error:
        raise UserError(f"--weights {source}: {error}") from error
    place = found.path.resolve()
    if lead_to_the_same(str(place), config.source):
        raise UserError(f"--weights {source} lies in the private data; give other weights.")
    if any((folder / LEDGER).exists() for folder in place.parents):
        raise UserError(
            f"--weights {source} lies in the folder of a run or release, so it was learnt from "
            "private records and is not public; give other weights."
        )
    return _as_the_encoder_says(found, source)


def _as_the_encoder_says(weights: WeightsFile, source: str) -> WeightsFile:
    """An encoder file of ours says itself what it learnt from, and under which licence."""
    stated = stated_provenance(weights.path)
    if stated is None:
        return weights
    if stated.claim != PUBLIC:
        raise UserError(
            f"--weights {source} is an encoder that learnt from private records, so it is not "
            "public; give other weights."
        )
    words = f"declared public by the owner: an encoder trained on {stated.trained_on}"
    return replace(weights, provenance=words, licence=stated.licence)


def public_part(dataset: Dataset) -> Records:
    """What a method may learn from: all of it, or its training part."""
    found = dataset.parts.get("all", dataset.parts.get("train"))
    if found is None:
        raise UserError(f"--public {dataset.name} has no part to learn from.")
    return found


def public_facts(public: PublicData) -> tuple[PublicInput, ...]:
    """What ledger and claim say of each. An owner's own data are public because the owner says so.

    Hashes are of what was declared public, and as the method is given it; none is of private
    records.
    """
    return (
        *(_facts_of_records(use, dataset) for use, dataset in public.records.items()),
        *(_facts_of_weights(use, weights) for use, weights in public.weights.items()),
    )


def _facts_of_records(use: str, dataset: Dataset) -> PublicInput:
    words = "" if dataset.public else "declared public by the owner: "
    facts = InputFacts(use, RECORDS, dataset.licence, content_digest(public_part(dataset)))
    return PublicInput(dataset.name, f"{words}{dataset.provenance}", facts)


def _facts_of_weights(use: str, weights: WeightsFile) -> PublicInput:
    facts = InputFacts(use, WEIGHTS, weights.licence, weights.sha256)
    return PublicInput(weights.name, weights.provenance, facts)


def public_inputs(public: PublicData, cache: Path | None) -> PublicInputs:
    """What the method is handed, each under its own name for it.

    Guarantee: a method without public records has no place that outlasts its run, where what it
    made of a charged release would serve another run for nothing (rule 8).
    """
    records = {name: public_part(dataset) for name, dataset in public.records.items()}
    return PublicInputs(records, public.weights, cache if records else None)


def cache_beside(book: Book) -> Path:
    """Where what was made from public data alone is kept, beside the account books."""
    return book.path.parent.parent / CACHE
