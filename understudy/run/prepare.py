"""From a config to everything that is settled before private records are used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from understudy.data.catalog import catalog
from understudy.data.dedup import deduplicate
from understudy.data.load import Dataset, load
from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.data.splits import keyed_split, part_split
from understudy.errors import UserError
from understudy.methods.config import ResolvedConfig, config_to_json, resolve_config
from understudy.methods.contract import Facts, FixedSize, Method, require_size
from understudy.methods.info import MethodInfo
from understudy.methods.needs import require_packages
from understudy.methods.registry import get_method
from understudy.privacy.ledger.account_book import Book, book_name
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.exact_or_float import choose_noise, spend_with
from understudy.privacy.plan.plan import Plan
from understudy.progress import Progress
from understudy.release.facts import MethodFacts, Randomness, RunFacts
from understudy.run.assumed import assumed_public
from understudy.run.config import RunConfig
from understudy.run.folder import RunFolder
from understudy.run.limit import limited_test, limited_train
from understudy.run.public import PublicData, load_public, public_facts
from understudy.run.public_options import public_sources, weights_sources


@dataclass(frozen=True)
class Material:
    """The owner's records of a run: what a method may learn from, and the test part."""

    dataset: Dataset
    private: Records
    test: Records | None
    split: str
    dropped: int


@dataclass(frozen=True)
class Prepared:
    """A run that has everything but its noise.

    parts: the private records, as the method's parts divide them.
    noise: the arithmetic that it will be drawn and added in, "exact" or "float".
    public: what the owner declares public, as far as the method uses any.
    """

    config: RunConfig
    method: Method
    settings: ResolvedConfig
    material: Material
    parts: Mapping[str, Records]
    facts: Facts
    noise: str
    public: PublicData = field(default_factory=PublicData)


def prepare(
    config: RunConfig, home: Path | None, progress: Progress, split_key: bytes | None = None
) -> Prepared:
    """Resolve, load and split; nothing is written but the dataset's split key.

    split_key: use this one instead, for a look ahead that leaves no trace.
    """
    method = get_method(config.method)
    require_packages(method.info)
    require_size(method)
    _refuse_unused(config, method)
    settings = resolve_config(method, _public_name(config), config.epsilon, config.changes)
    material = gather(config, home, progress, split_key)
    _refuse_hidden_label(config, material.private.schema)
    key = open_book(config, home).split_key() if split_key is None else split_key
    count, learnt = declared_counts(config, material)
    if config.limit is not None:
        material = _limited(material, learnt, config.limit, key)
        count = learnt = min(learnt, config.limit)
    facts = declare(method.info, material, count, learnt)
    parts = part_split(material.private, method.info.parts, key)
    warn_of_empty_parts(material.dataset.name, parts, material.test, progress)
    noise = choose_noise(method.spend(settings.config, facts), config.noise, config.method)
    public = load_public(config, method, progress)
    return Prepared(config, method, settings, material, parts, facts, noise, public)


def gather(
    config: RunConfig,
    home: Path | None,
    progress: Progress,
    split_key: bytes | None = None,
    *,
    needs_label: bool = True,
) -> Material:
    """Read the source and divide it; a record's part depends on the record alone."""
    dataset = load(
        config.source,
        label=config.label,
        unit=config.unit,
        size=config.size,
        channels=config.channels,
        classes=config.classes or None,
        progress=progress,
    )
    if "all" not in dataset.parts:
        train, dropped = _prepared_part(dataset.part("train"), config, needs_label)
        split = "stratified" if "stratified" in (dataset.split or "") else "given"
        return Material(dataset, train, dataset.parts.get("test"), split, dropped)
    everything, dropped = _prepared_part(dataset.part("all"), config, needs_label)
    fractions = {"train": 1 - config.holdout, "test": config.holdout}
    key = open_book(config, home).split_key() if split_key is None else split_key
    halves = keyed_split(everything, fractions, key)
    return Material(dataset, halves["train"], halves["test"], "keyed-hash", dropped)


def warn_of_empty_parts(
    dataset: str, parts: Mapping[str, Records], test: Records | None, progress: Progress
) -> None:
    """Say to the owner which parts no record fell into, and no more: a mechanism releases noise
    then, and nobody else may know."""
    looked_at = {**parts, **({} if test is None else {"test": test})}
    for part in (name for name, records in looked_at.items() if not len(records)):
        progress.say(f"warning: no record fell into the {part} part of {dataset}.")


def open_book(config: RunConfig, home: Path | None) -> Book:
    return Book.open(config.dataset or book_name(config.source), home)


def require_own_book(config: RunConfig, folder: RunFolder, home: Path | None) -> None:
    """Refuse to go on with a run that has begun under another account book.

    Another book has another split key, so test records would become training records;
    and a plan entered twice would be counted in neither total as it should.
    """
    if not folder.ledger.exists():
        return
    book, ident = open_book(config, home), folder.read_plan()[0].ident
    if all(run.run_id != ident for run in book.runs()):
        raise UserError(
            f"the account book {book.path} does not know the run in {folder.path}; give the "
            "book that it began with, by --home or UNDERSTUDY_HOME."
        )


def declared_counts(config: RunConfig, material: Material) -> tuple[int, int]:
    """How many units the owner declares in all, and how many of them are to learn from (rule 3)."""
    dataset = material.dataset
    whole = dataset.parts.get("all", dataset.parts.get("train"))
    if whole is None:
        raise UserError(f"{dataset.name} has no part to learn from.")
    count = config.count if config.count is not None else _units(whole)
    train = training_count(count, dataset, config.holdout)
    if train < 2:
        raise UserError(
            f"a count of {count} leaves {train} to learn from; give more data, "
            "a larger --count or a smaller --holdout."
        )
    return count, train


def declare(info: MethodInfo, material: Material, count: int, learnt: int) -> Facts:
    """The declared facts that plan and method may depend on; each part has its share (rule 6)."""
    records = material.private
    return Facts(count, info.declared_counts(learnt), records.shape, records.schema)


def training_count(count: int, dataset: Dataset, holdout: float) -> int:
    """How many of so many declared units are to learn from: data that come whole are split."""
    return math.floor(count * (1 - holdout)) if "all" in dataset.parts else count


def sample_count(prepared: Prepared) -> int:
    """How many records the run makes, or for a `RecordMap` the declared number that it maps."""
    config, facts, method = prepared.config, prepared.facts, prepared.method
    if isinstance(method, FixedSize):
        return method.size(prepared.settings.config, facts)
    if method.info.maps is not None:
        return facts.counts[method.info.maps]
    count = config.samples or sum(facts.counts.values())
    return count if config.limit is None else min(count, config.limit)


def calibrate(prepared: Prepared) -> Plan:
    """The plan of this run: the method's spending at the least noise the budget allows."""
    spend = prepared.method.spend(prepared.settings.config, prepared.facts)
    plan = prepared.config.budget().calibrate(spend_with(spend, prepared.noise))
    prepared.method.info.check_planned(plan.mechanisms)
    return plan


def run_facts(prepared: Prepared, noise: NoiseSource) -> RunFacts:
    """What the ledger's first line says of the run: declared facts only."""
    info, config = prepared.method.info, prepared.config
    return RunFacts(
        method=MethodFacts(
            info.name,
            info.paper,
            config_to_json(prepared.settings.config),
            info.changed_for_soundness,
        ),
        count=prepared.facts.count,
        unit=config.unit,
        parts=dict(prepared.facts.counts),
        split=prepared.material.split,
        assumed_public=assumed_public(config, prepared.material.dataset, info.claim),
        public_inputs=public_facts(prepared.public),
        randomness=Randomness(
            source=noise.description,
            noise=prepared.noise,
            insecure_seed=noise.insecure_seed is not None,
        ),
        limit=config.limit,
    )


def delta_warning(prepared: Prepared) -> str | None:
    """A delta above 1/n0 allows one person's record to be published outright."""
    limit = 1 / prepared.facts.count
    if prepared.config.epsilon is None or prepared.config.delta <= limit:
        return None
    return (
        f"warning: delta {prepared.config.delta:g} is above 1/{prepared.facts.count}; "
        f"such a guarantee may leave one record unprotected; choose at most {_rounded_down(limit)}."
    )


def _rounded_down(value: float) -> str:
    """One figure, never above the value, so that following the advice ends the warning."""
    size = 10.0 ** math.floor(math.log10(value))
    return f"{math.floor(value / size + 1e-9) * size:.1g}"


def _public_name(config: RunConfig) -> str | None:
    """The catalog name by which presets know this data, if it is public."""
    entry = catalog().get(config.source)
    return entry.name if entry is not None and entry.public else None


def _prepared_part(records: Records, config: RunConfig, needs_label: bool) -> tuple[Records, int]:
    """The records with the columns that the run names, without duplicates.

    Other columns go first: whether a column is an attribute at all can hang on a single
    record (an empty cell), and then so would what counts as a duplicate of every other.
    """
    schema = records.schema.with_roles(sensitive=config.hide, utility=config.keep)
    label = schema.label_attribute.name if needs_label else schema.label
    named = {label, *schema.sensitive, *schema.utility}
    kept = tuple(a for a in schema.attributes if a.name in named)
    narrowed = replace(
        records,
        attributes={a.name: records.attributes[a.name] for a in kept},
        schema=replace(schema, attributes=kept),
    )
    unique = deduplicate(narrowed)
    return unique.records, unique.dropped


def _limited(material: Material, declared: int, most: int, key: bytes) -> Material:
    """About `most` of the declared private records, and at most so many to test on."""
    private = limited_train(material.private, declared, most, key)
    return replace(material, private=private, test=limited_test(material.test, most))


def _units(records: Records) -> int:
    return len(records) if records.units is None else len(np.unique(records.units))


def _refuse_unused(config: RunConfig, method: Method) -> None:
    """An option that the method would ignore is an error, not a silence."""
    info = method.info
    if config.hide and not info.hides:
        raise UserError(f"{info.name} hides no attribute; leave --hide out.")
    if info.hides and not config.hide:
        raise UserError(f"{info.name} hides an attribute; name it with --hide.")
    if config.keep and not info.hides:
        raise UserError(f"{info.name} keeps nothing but the label; leave --keep out.")
    both = [name for name in config.hide if name in config.keep]
    if both:
        raise UserError(f"--hide and --keep both name {both[0]!r}; name it in one of them.")
    if config.samples and (info.maps is not None or isinstance(method, FixedSize)):
        raise UserError(f"how many records {info.name} makes is not free; leave --samples out.")
    public_sources(config.public, info)
    weights_sources(config.weights, info)
    if config.epsilon is None and info.claim != "empirical":
        raise UserError(f"{info.name} needs --epsilon (1 or 10, say).")


def _refuse_hidden_label(config: RunConfig, schema: Schema) -> None:
    """What is learnt and released under its name cannot be what is hidden."""
    label = schema.label_attribute.name
    if label in config.hide:
        raise UserError(
            f"--hide names {label!r}, which is the label to learn; hide another attribute, or "
            "choose another --label."
        )
