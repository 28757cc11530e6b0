"""Publishing an encoder: from a source to the file that every user needs.

Public data is read openly. Private records are met through the door: by DP-SGD, or by a
reveal whose reason the ledger holds. Either is a run like any other, entered in the
account book before the first record is used, and the published file counts as a release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from understudy.data.catalog import catalog
from understudy.data.dedup import deduplicate
from understudy.data.load import Dataset, load
from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.data.terms import licence_of_models, terms_of
from understudy.encoders.autoencoder_training import Checkpoint, settings_mark
from understudy.encoders.encoder import FILE, Encoder
from understudy.encoders.file import encoder_digest, read_encoder, write_encoder
from understudy.encoders.provenance import CENTRAL, PUBLIC, REVEALED, Provenance
from understudy.errors import UserError, did_you_mean
from understudy.methods.config import ResolvedConfig, config_to_json, resolve_config
from understudy.methods.info import TRAIN
from understudy.methods.vae import DenseNetVAE, DenseVAE
from understudy.privacy.ledger.released import released_ledger
from understudy.progress import Progress, Silent
from understudy.release.build import reckon
from understudy.release.leaks import private_columns
from understudy.run.books import open_book
from understudy.run.config import RunConfig
from understudy.run.context import choose_device
from understudy.run.folder import RunFolder
from understudy.run.material import declared_counts, gather, warn_of_empty_parts
from understudy.run.preflight import check_places
from understudy.run.prepare import Prepared, declare, delta_warning
from understudy.run.start import begin, check_same_facts, enter_and_execute, noise_of, resumed
from understudy.run.titles import name_for_others

EncoderMethod = DenseVAE | DenseNetVAE
METHODS: Mapping[str, type[DenseVAE] | type[DenseNetVAE]] = {
    "dense": DenseVAE,
    "densenet": DenseNetVAE,
}

_LOOKED_AT = 500
"""Records on which the radius is tried; a large encoder takes a minute for a thousand."""


@dataclass(frozen=True)
class EncoderRequest:
    """What `understudy filter init` was asked for.

    run: the data, the budget, and settings; its `method` is the kind of encoder. epsilon
        None means public data, or revealed records where `reveal` gives a reason.
    public: the owner declares these records public. Catalog datasets that are public need
        no such word.
    declared: attributes whose names and classes the file tells everybody, so that users can
        send them. Of private records none unless named here: a column's values are the
        records' own, and one person alone may have one of them.
    """

    run: RunConfig
    reveal: str | None = None
    public: bool = False
    declared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.run.method not in METHODS:
            raise UserError(
                f"no encoder of kind {self.run.method!r}; {did_you_mean(self.run.method, METHODS)}"
            )
        if self.reveal is not None and not self.reveal.strip():
            raise UserError("--reveal needs a reason that every later claim can cite.")
        asked = [self.run.epsilon is not None, self.reveal is not None, self.public]
        if sum(asked) > 1:
            raise UserError("choose one of --epsilon, --reveal and --public-data.")


@dataclass(frozen=True)
class PublishedEncoder:
    """The encoder's file and what it says."""

    path: Path
    digest: str
    encoder: Encoder


def init_encoder(
    request: EncoderRequest,
    out: Path,
    *,
    run_folder: Path | None = None,
    resume: bool = False,
    home: Path | None = None,
    progress: Progress | None = None,
) -> PublishedEncoder:
    """Teach an encoder and write its file, which may be handed on; the run folder may not.

    Guarantee: for private records that of the plan, by DP-SGD, under adding or removing one
    unit; the file holds weights that follow from released gradients, and declared facts.
    A file from revealed records says that epsilon is infinite. One from public data used
    no private record.
    """
    shown, path = progress or Silent(), run_folder or Path("runs") / out.name
    if out.suffix != ".safetensors":
        raise UserError(f"the encoder file must be called NAME.safetensors, not {out.name!r}.")
    if path.exists() and not resume:
        raise UserError(
            f"the run folder {path} exists already; add --resume to go on with it, or choose "
            "another name with -o or another folder with --runs."
        )
    check_places(request.run, out, path, resume=resume)
    choose_device(request.run.device)
    _say_terms(request.run.source, shown)
    if _is_public(request):
        encoder = _learn_publicly(request, path, shown)
        return PublishedEncoder(out, _write(out, encoder), encoder)
    if request.run.epsilon is None and request.reveal is None:
        raise UserError(
            f"{request.run.source} counts as private; give --epsilon to learn from it by DP-SGD, "
            "--public-data if it is public, or --reveal REASON for no guarantee."
        )
    return _learn_through_the_door(request, out, path, resume, home, shown)


def _say_terms(source: str, progress: Progress) -> None:
    terms = terms_of(source)
    if not terms.models_shipped:
        progress.say(f"an encoder of {source} is not to be handed on, because {terms.because}.")


def _is_public(request: EncoderRequest) -> bool:
    if request.run.epsilon is not None or request.reveal is not None:
        return False
    entry = catalog().get(request.run.source)
    return request.public or (entry is not None and entry.public)


def _learn_publicly(request: EncoderRequest, folder: Path, progress: Progress) -> Encoder:
    config = request.run
    if config.unit is not None or config.count is not None:
        raise UserError("public records need no --unit or --count; leave them out.")
    dataset = _load(config, progress)
    schema = _published_schema(request, dataset)
    method = METHODS[config.method]()
    settings = _settings(method, request, dataset)
    declared = "; declared public by whoever trained it" if request.public else ""
    provenance = Provenance(
        f"{dataset.provenance}{declared}",
        PUBLIC,
        0.0,
        settings=_words(settings),
        licence=licence_of_models(config.source, dataset.licence),
    )
    records = deduplicate(_training_part(dataset)).records
    # The whole config stands in the mark: going on with other options would mix two runs.
    described = (dataset.provenance, records.shape, len(records))
    mark = settings_mark(config_to_json(settings.config), config.seed, *described)
    keep = Checkpoint(folder / "training.safetensors", mark)
    device = choose_device(config.device)
    encoder = method.learn_openly(
        settings.config, records, provenance, config.seed, device, progress, keep
    )
    _say_clipped(encoder, records, progress)
    return replace(encoder, schema=schema)


def _learn_through_the_door(
    request: EncoderRequest,
    out: Path,
    path: Path,
    resume: bool,
    home: Path | None,
    progress: Progress,
) -> PublishedEncoder:
    config = request.run
    folder = resumed(path, config, home)[0] if resume else None
    prepared = _prepare(request, home, progress)
    schema = _published_schema(request, prepared.material.dataset)
    warning = delta_warning(prepared)
    if warning:
        progress.say(warning)
    noise, book = noise_of(config), open_book(config, home)
    if folder is None:
        folder = begin(path, prepared, noise)
    else:
        check_same_facts(folder, prepared, noise)
    with folder.timed("fit"):
        enter_and_execute(prepared, folder, book, noise, progress)
    learnt = replace(read_encoder(folder.synthesizer / FILE), schema=schema)
    encoder = _cited(learnt, folder, prepared)
    # The book knows of the release before anybody else can.
    book.mark_released(folder.read_plan()[0].ident, encoder_digest(encoder))
    return PublishedEncoder(out, _write(out, encoder), encoder)


def _prepare(request: EncoderRequest, home: Path | None, progress: Progress) -> Prepared:
    config = request.run
    material = gather(config, home, progress, needs_label=False)
    method = METHODS[config.method](request.reveal, _learnt_from(config, material.dataset))
    facts = declare(method.info, material, *declared_counts(config, material))
    parts = {TRAIN: material.private}
    warn_of_empty_parts(material.dataset.name, parts, material.test, progress)
    settings = _settings(method, request, material.dataset)
    method.spend(settings.config, facts)
    return Prepared(config, method, settings, material, parts, facts, "float")


def _learnt_from(config: RunConfig, dataset: Dataset) -> str:
    """The data in the words of the published file; a private folder's name is not among them."""
    return dataset.provenance if dataset.public else name_for_others(config, dataset)


def _cited(encoder: Encoder, folder: RunFolder, prepared: Prepared) -> Encoder:
    """The encoder with the figures that its released ledger comes to, never less than the plan's.

    The owner's ledger may tell where work on private records stopped, so its head stays here.
    """
    plan, run = folder.read_plan()
    entries = released_ledger(plan, run)
    found = reckon(entries)
    epsilon = max(found.price.epsilon, found.plan.epsilon)
    provenance = replace(
        encoder.provenance,
        claim=REVEALED if math.isinf(epsilon) else CENTRAL,
        epsilon=epsilon,
        accountant=found.price.accountant,
        unit=prepared.config.unit,
        ledger=entries[-1].hash,
        entries=len(entries),
        settings=_words(prepared.settings),
        licence=licence_of_models(prepared.config.source, prepared.material.dataset.licence),
    )
    return replace(encoder, provenance=provenance)


def _published_schema(request: EncoderRequest, dataset: Dataset) -> Schema:
    """The attributes that the file names: learning looked at none of them.

    Of public data all but those that tell people apart; of private records those that the
    owner declared, whose class names leave without noise and count as public.
    """
    schema = dataset.schema
    identifying = private_columns(schema, request.run.unit)
    for name in request.declared:
        schema.attribute(name)
        if name in identifying:
            raise UserError(f"--declare {name}: this column tells people or rows apart.")
    public = dataset.public or request.public
    every = [name for name in schema.names if public and name not in identifying]
    names = request.declared or every
    return Schema(tuple(a for a in schema.attributes if a.name in names))


def _load(config: RunConfig, progress: Progress) -> Dataset:
    return load(
        config.source,
        label=config.label,
        size=config.size,
        channels=config.channels,
        classes=config.classes or None,
        progress=progress,
    )


def _training_part(dataset: Dataset) -> Records:
    return dataset.part("train" if "train" in dataset.parts else "all")


def _settings(method: EncoderMethod, request: EncoderRequest, dataset: Dataset) -> ResolvedConfig:
    name = dataset.name if dataset.public else None
    return resolve_config(method, name, request.run.epsilon, request.run.changes)


def _words(settings: ResolvedConfig) -> str:
    changed = f"; changed by hand: {', '.join(settings.changed)}" if settings.changed else ""
    return f"preset {settings.preset} ({settings.tuned_on}){changed}"


def _say_clipped(encoder: Encoder, records: Records, progress: Progress) -> None:
    """On public data only: how often the declared radius is felt."""
    some = encoder.encode(records.features[:_LOOKED_AT])
    norms = torch.linalg.vector_norm(some, dim=1)
    share = float((norms > 0.9999 * encoder.radius).float().mean())
    if share > 0.01:
        progress.say(
            f"{share:.0%} of the latents lie on the ball of radius {encoder.radius:.3g}; a larger "
            "--set radius would change fewer of them (and cost a local mechanism more noise)."
        )


def _write(out: Path, encoder: Encoder) -> str:
    out.parent.mkdir(parents=True, exist_ok=True)
    return write_encoder(out, encoder)
