"""From a config to everything that is settled before private records are used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from understudy.data.catalog import catalog
from understudy.data.records import Records
from understudy.data.splits import part_split
from understudy.methods.config import (
    ResolvedConfig,
    config_to_json,
    fitted_config,
    resolve_config,
)
from understudy.methods.contract import Facts, FixedSize, Method
from understudy.methods.info import MethodInfo
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.exact_or_float import choose_noise, spend_with
from understudy.privacy.plan.plan import Plan
from understudy.progress import Progress
from understudy.release.facts import MethodFacts, Randomness, RunFacts
from understudy.run.assumed import assumed_public
from understudy.run.books import open_book
from understudy.run.choosing.candidates import Form
from understudy.run.choosing.settle import settled
from understudy.run.config import RECOMMENDED, RunConfig
from understudy.run.material import Material, declared_counts, gather, limited, warn_of_empty_parts
from understudy.run.option_checks import checked_method, refuse_hidden_label, refuse_open_claim
from understudy.run.public import PublicData, load_public, public_facts


@dataclass(frozen=True)
class Prepared:
    """A run that has everything but its noise.

    parts: the private records, as the method's parts divide them.
    noise: the arithmetic that it will be drawn and added in, "exact" or "float".
    public: what the owner declares public, as far as the method uses any.
    tried: the seconds that it takes here, where settling it took a trial.
    said: what was decided for the owner, to be told once nothing can refuse the run.
    """

    config: RunConfig
    method: Method
    settings: ResolvedConfig
    material: Material
    parts: Mapping[str, Records]
    facts: Facts
    noise: str
    public: PublicData = field(default_factory=PublicData)
    tried: float | None = None
    said: tuple[str, ...] = ()


def prepare(
    config: RunConfig, home: Path | None, progress: Progress, split_key: bytes | None = None
) -> Prepared:
    """Load, settle what is open, resolve and split; nothing is written but the dataset's split key.

    split_key: use this one instead, for a look ahead that leaves no trace.
    """
    refuse_open_claim(config)
    if config.method != RECOMMENDED:
        checked_method(config)
    material = gather(config, home, progress, split_key)
    refuse_hidden_label(config, material.private.schema)
    key = open_book(config, home).split_key() if split_key is None else split_key
    decided = settled(config, form_of(config, material), progress)
    config = decided.config
    method = checked_method(config)
    settings = resolved(config, method)
    count, learnt = declared_counts(config, material)
    if config.limit is not None:
        material = limited(material, learnt, config.limit, key)
        count = learnt = min(learnt, config.limit)
    facts = declare(method.info, material, count, learnt)
    parts = part_split(material.private, method.info.parts, key)
    warn_of_empty_parts(material.dataset.name, parts, material.test, progress)
    noise = choose_noise(method.spend(settings.config, facts), config.noise, config.method)
    public = load_public(config, method, progress)
    return Prepared(
        *(config, method, settings, material, parts, facts, noise, public),
        tried=decided.tried,
        said=decided.said,
    )


def resolved(config: RunConfig, method: Method) -> ResolvedConfig:
    """The settings of a settled run, and all that the choice of them was made on."""
    name = _public_name(config)
    if config.fitted:
        made_on = config.fitted_on or ""
        found = fitted_config(method, name, config.fitted, made_on, config.changes)
    else:
        found = resolve_config(method, name, config.epsilon, config.changes, config.preset)
    return found if config.ranked_on is None else found.ranked(config.ranked_on, name)


def form_of(config: RunConfig, material: Material) -> Form:
    """What is declared of the data, as far as the run goes on them."""
    count, learnt = declared_counts(config, material)
    if config.limit is not None:
        count = learnt = min(learnt, config.limit)
    records = material.private
    return Form(_public_name(config), count, learnt, records.shape, records.schema)


def declare(info: MethodInfo, material: Material, count: int, learnt: int) -> Facts:
    """The declared facts that plan and method may depend on; each part has its share (rule 6)."""
    records = material.private
    return Facts(count, info.declared_counts(learnt), records.shape, records.schema)


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
