"""The user's side: encode one's own records, train a filter on them, make a contribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from understudy.data.load import load
from understudy.data.records import Array, Records
from understudy.data.schema import Schema
from understudy.encoders.citation import Citation
from understudy.encoders.encoder import Encoder
from understudy.errors import UserError, did_you_mean
from understudy.federated.account import note_filtered, note_sent, reserve
from understudy.federated.agreement import Agreement
from understudy.federated.contribution import IMAGES, Contribution, statement_of
from understudy.federated.copies import refuse_copies
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.filters.filter import Filter, fit_filter
from understudy.filters.game import GameConfig
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.local.channel import LocalChannel
from understudy.privacy.noise.source import NoiseSource
from understudy.progress import Progress

_LARGEST_SHARE_AT_ONCE = 4096


def own_records(
    encoder: Encoder, source: str, part: str | None = None, progress: Progress | None = None
) -> Records:
    """A user's records, read in the size that the encoder takes, with the classes it declares.

    So neither which classes occur nor how often decides what can be sent. A file that is no
    image, an empty cell and a class that the encoder does not know are no records: they stop it.

    part: of a source that is divided; `train`, or all there is, unless given.
    """
    square = len(encoder.shape) == 3 and encoder.shape[1] == encoder.shape[2]
    channels = encoder.shape[0] if square else None
    size = encoder.shape[1] if square else None
    found = load(source, size=size, channels=channels, declared=encoder.schema, progress=progress)
    return found.part(part or ("train" if "train" in found.parts else "all"))


def encoded(encoder: Encoder, records: Records) -> Records:
    """The same records as latents, with all their attributes. They stay with the user.

    Latents that were made before are taken as they are, if this encoder can have made them: for
    filters. What a local channel sends must not depend on that, see `encoded_for_noise`.
    """
    if _are_latents(encoder, records):
        latents = encoder.check_latents(np.array(records.features, np.float32)).numpy()
        return Records(latents, records.attributes, records.schema)
    return _encoded_afresh(encoder, records)


def encoded_for_noise(encoder: Encoder, records: Records) -> Records:
    """The same as latents for a local channel, which no value of a record can stop.

    Guarantee: whether this refuses depends on type and shape alone, which are the same for all
    records. Latents that were made before are clipped one by one, as `Encoder.encode` clips.
    """
    if _are_latents(encoder, records):
        latents = encoder.clip_latents(np.array(records.features, np.float32)).numpy()
        return Records(latents, records.attributes, records.schema)
    return _encoded_afresh(encoder, records)


def _are_latents(encoder: Encoder, records: Records) -> bool:
    return records.features.ndim == 2 and records.shape != encoder.shape


def _encoded_afresh(encoder: Encoder, records: Records) -> Records:
    some = range(0, len(records), _LARGEST_SHARE_AT_ONCE)
    parts = [
        encoder.encode(np.array(records.features[i : i + _LARGEST_SHARE_AT_ONCE])) for i in some
    ]
    latents = np.concatenate([p.numpy() for p in parts]) if parts else np.empty((0, 0))
    return Records(latents, records.attributes, records.schema)


@dataclass(frozen=True)
class User:
    """A user's records and wishes: what a device needs to take part.

    records: the user's own, as the encoder takes them.
    choice: what to hide and what to keep. labels: which of the kept labels may be sent; all of
        them unless given, and never one that the agreement does not name.
    channel: send through this local mechanism instead, with no filter at all.
    book: where the device writes down what it sends; a local channel is not used without one.
    """

    records: Records
    choice: Choice | None
    distortion: Distortion = field(default_factory=Distortion)
    config: GameConfig | None = None
    channel: LocalChannel | None = None
    seed: int = 0
    labels: tuple[str, ...] | None = None
    book: Book | None = None

    def contribute(
        self, encoder: Encoder, agreement: Agreement, progress: Progress | None = None
    ) -> Contribution:
        """Train on one's own records, and give what may leave: see `filtered` and `noised`."""
        noise = NoiseSource()
        if self.channel is not None:
            if self.book is None:
                raise UserError(
                    "a user with a local channel needs an account book: what is sent adds up."
                )
            latents = encoded_for_noise(encoder, self.records)
            return noised(encoder, latents, self.channel, agreement, noise, self.book)
        if self.choice is None:
            raise UserError("a user without a local channel needs a choice of what to hide.")
        latents = encoded(encoder, self.records)
        mine = fit_filter(
            latents,
            self.choice,
            self.distortion,
            encoder,
            self.config,
            seed=self.seed,
            progress=progress,
        )
        agreed = {a.name for a in agreement.labels}
        willing = self.choice.useful if self.labels is None else self.labels
        sent = [name for name in willing if name in agreed]
        return filtered(encoder, latents, mine, agreement, noise, sent, self.book, progress)


def filtered(
    encoder: Encoder,
    latents: Records,
    filter_: Filter,
    agreement: Agreement,
    noise: NoiseSource,
    labels: Sequence[str] | None = None,
    book: Book | None = None,
    progress: Progress | None = None,
) -> Contribution:
    """Latents through a filter, with kept labels: what leaves of them under an agreement.

    labels: which of the kept labels come along; all of them unless given.
    book: where it is entered, as records that left without a guarantee.

    Guarantee: none of differential privacy. What leaves is filtered features and the named kept
    labels; raw latents, hidden labels, units and everything measured stay. Records that the
    filter hardly changed do not leave: see `refuse_copies`.
    """
    kept = filter_.choice.useful if labels is None else tuple(labels)
    for name in kept:
        if name not in filter_.choice.useful:
            raise UserError(
                f"label {name!r} is not among those that the filter keeps; "
                f"{did_you_mean(name, filter_.choice.useful)}"
            )
    _check_codes(latents, kept)
    made = filter_.apply(latents, noise)
    refuse_copies(latents, made.features, filter_, progress)
    found = _contribution(encoder, made, kept, agreement, None)
    if book is not None:
        note_filtered(book, found)
    return found


def noised(
    encoder: Encoder,
    latents: Records,
    channel: LocalChannel,
    agreement: Agreement,
    noise: NoiseSource,
    book: Book,
) -> Contribution:
    """Latents and labels through the Gaussian mechanism and randomised response.

    book: of these records' owner, who can see there what all contributions cost together.

    Guarantee, per record under replace-one: `channel.claim()`; a user's records compose as
    `channel.claim(records)` says. Decoding comes after the noise and costs nothing. It holds for
    one contribution: another one of the same records adds its own price. The price is in the
    book before noise is drawn, but not before all that is public was agreed on; the contribution
    is noted there before it can leave. Nothing but the noised records and what counts as public
    decides whether it does: there is no gate. Public are how many records there are, the type
    and shape of their features, and the names of labels and classes; replacing a record, by any
    that `Records` can hold, changes none of them.
    """
    if channel.radius != encoder.radius:
        raise UserError(
            f"the channel's radius {channel.radius:g} is not the encoder's {encoder.radius:g}."
        )
    if latents.shape != (encoder.latent,):
        raise UserError(
            f"latents have shape {list(latents.shape)}; the encoder's have {[encoder.latent]}."
        )
    _check_public(encoder, latents, channel, agreement)
    entry = reserve(book, channel, Citation.of(encoder))
    made = channel.release(latents, noise)
    found = _contribution(encoder, made, made.schema.names, agreement, channel)
    note_sent(book, entry, found)
    return found


def _check_public(
    encoder: Encoder, latents: Records, channel: LocalChannel, agreement: Agreement
) -> None:
    """Refuse what the agreement, however hostile, would refuse later: a price paid for nothing."""
    schema = channel.schema_of(latents)
    shape = encoder.shape if agreement.content == IMAGES else latents.shape
    cited, count = Citation.of(encoder), len(latents)
    agreement.check_terms(
        statement_of(cited, agreement.content, count, schema, channel), tuple(shape)
    )


def _contribution(
    encoder: Encoder,
    made: Records,
    labels: Sequence[str],
    agreement: Agreement,
    channel: LocalChannel | None,
) -> Contribution:
    """What was made, as the agreement has it; held to the same check as a stranger's."""
    features: Array = made.features
    if agreement.content == IMAGES:
        features = encoder.decode_images(features)
    schema = Schema(tuple(a for a in made.schema.attributes if a.name in labels))
    columns = {a.name: made.attributes[a.name] for a in schema.attributes}
    found = Contribution(
        Citation.of(encoder), agreement.content, Records(features, columns, schema), channel
    )
    agreement.check(found.statement(), found.arrays())
    return found


def _check_codes(records: Records, names: Sequence[str]) -> None:
    for name in names:
        records.schema.attribute(name)
        if records.attributes[name].ndim != 1:
            raise UserError(f"label {name!r} holds probabilities; only classes can be sent.")
