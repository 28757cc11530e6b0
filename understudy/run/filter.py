"""The jobs behind `understudy filter train | apply | collect | export`, from paths to files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from understudy.encoders.citation import Citation
from understudy.encoders.file import read_encoder
from understudy.encoders.onnx_export import export_onnx
from understudy.errors import UserError, did_you_mean
from understudy.federated.advice import cautions
from understudy.federated.agreement import Agreement
from understudy.federated.collection import check_means, write_collection
from understudy.federated.contribution import FILTER, GAUSSIAN, LATENTS, MECHANISMS, Contribution
from understudy.federated.merging import Gathering, Merged
from understudy.federated.sent_folder import read_contribution, write_contribution
from understudy.federated.terms import WeakestPromise, users_in_words
from understudy.federated.user import (
    encoded,
    encoded_for_noise,
    filtered,
    noised,
    own_records,
)
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.filters.filter import Filter, fit_filter
from understudy.filters.filter_file import load_filter, save_filter
from understudy.filters.game import GameConfig
from understudy.filters.model import FilterGraph
from understudy.privacy.ledger.account_book import Book, book_name
from understudy.privacy.local.channel import LocalChannel, LocalClaim
from understudy.privacy.noise.source import NoiseSource
from understudy.progress import Progress, Silent
from understudy.release.files import refuse_existing


@dataclass(frozen=True)
class Source:
    """A user's data and the encoder that it goes through.

    digest: what the owner of the encoder published; a file with another one is refused.
    dataset: the user's own name for the data, under which all that is sent of them adds up.
    """

    encoder: Path
    data: str
    part: str | None = None
    digest: str | None = None
    dataset: str | None = None

    def book(self, home: Path | None) -> Book:
        """The account book of these records; it stays with the user."""
        return Book.open(self.dataset or book_name(self.data), home)


def train_own_filter(
    source: Source,
    choice: Choice,
    distortion: Distortion,
    out: Path,
    config: GameConfig | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Filter:
    """Train a filter on the user's own records and write its file. Nothing leaves.

    What it cannot do for this choice and these records is said before the work.
    """
    _refuse_existing_file(out)
    shown = progress or Silent()
    encoder = read_encoder(source.encoder, source.digest)
    records = own_records(encoder, source.data, source.part, shown)
    latents = encoded(encoder, records)
    for line in cautions(encoder.schema, latents, choice):
        shown.say(line)
    mine = fit_filter(latents, choice, distortion, encoder, config, seed=seed, progress=shown)
    save_filter(out, mine)
    return mine


@dataclass(frozen=True)
class Sending:
    """What a user agrees to send.

    filter: the file of the user's filter; None with the Gaussian mechanism.
    labels: kept labels that come along with a filter; None for all that it keeps.
    epsilon, delta, label_epsilons, public_labels: of the Gaussian mechanism.
    """

    filter: Path | None = None
    content: str = LATENTS
    labels: tuple[str, ...] | None = None
    epsilon: float | None = None
    delta: float = 1e-5
    label_epsilons: Mapping[str, float] = field(default_factory=dict)
    public_labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sent:
    """What was written for the collector; `claim` is that of the Gaussian mechanism."""

    folder: Path
    digest: str
    contribution: Contribution
    claim: LocalClaim | None

    @property
    def listed(self) -> list[str]:
        """Every array in the folder, in words."""
        return [
            f"{name} ({value.dtype}, {' x '.join(map(str, value.shape))})"
            for name, value in self.contribution.arrays().items()
        ]

    def lines(self) -> list[str]:
        sent = [f"sends   {line}" for line in self.listed]
        promise = "no epsilon: a filter promises nothing against stronger attackers"
        cited = self.contribution.encoder.statement
        if self.claim is not None:
            promise = (
                f"local: epsilon {self.claim.epsilon:.4g} at delta {self.claim.delta:g} per record "
                f"(replace-one); all {self.claim.records_per_user} records together "
                f"{self.claim.user_epsilon:.4g}"
            )
        return [
            f"folder  {self.folder}",
            *sent,
            "        and nothing else",
            f"claim   {promise}",
            f"        {cited}",
        ]

    def to_json(self) -> dict[str, Any]:
        promised = None
        if self.claim is not None:
            promised = {
                "epsilon": self.claim.epsilon,
                "delta": self.claim.delta,
                "records": self.claim.records_per_user,
                "user_epsilon": self.claim.user_epsilon,
                "assumed_public": list(self.claim.assumed_public),
            }
        return {
            "folder": str(self.folder),
            "digest": self.digest,
            "sends": self.listed,
            "mechanism": self.contribution.mechanism,
            "local_claim": promised,
            "encoder": self.contribution.encoder.to_json(),
        }


def sending_of(
    inputs: Sequence[str],
    mechanism: str,
    *,
    content: str,
    labels: tuple[str, ...] | None,
    epsilon: float | None,
    delta: float,
    label_epsilons: Sequence[str],
    public_labels: tuple[str, ...],
) -> tuple[Sending, str]:
    """What to send, and the data, from the words of a command line."""
    if mechanism not in MECHANISMS:
        raise UserError(f"--mechanism: no {mechanism!r}; {did_you_mean(mechanism, MECHANISMS)}")
    wanted = "FILTER DATA" if mechanism == FILTER else "DATA, and no filter"
    if len(inputs) != (2 if mechanism == FILTER else 1):
        raise UserError(f"with --mechanism {mechanism}, after ENCODER comes {wanted}.")
    sending = Sending(
        Path(inputs[0]) if mechanism == FILTER else None,
        content,
        labels,
        epsilon,
        delta,
        dict(_label_epsilon(word) for word in label_epsilons),
        public_labels,
    )
    return sending, inputs[-1]


def _label_epsilon(word: str) -> tuple[str, float]:
    name, _, value = word.partition("=")
    try:
        return name, float(value)
    except ValueError as error:
        raise UserError(f"--label-epsilon takes NAME=E, a number, not {word!r}.") from error


def apply_for_collector(
    source: Source,
    sending: Sending,
    out: Path,
    *,
    home: Path | None = None,
    progress: Progress | None = None,
) -> Sent:
    """Make the folder that a user sends: filtered or noised features, agreed labels, a list.

    home: where the account book lies, in which each folder is entered before it is written.
    """
    refuse_existing(out)
    encoder = read_encoder(source.encoder, source.digest)
    agreement = Agreement.of(encoder, sending.content)
    noise, book = NoiseSource(), source.book(home)
    if sending.filter is not None:
        _refuse_promises(sending)
        mine = load_filter(sending.filter, encoder.digest)
        latents = encoded(encoder, own_records(encoder, source.data, source.part, progress))
        made = filtered(encoder, latents, mine, agreement, noise, sending.labels, book, progress)
    else:
        channel = _channel(sending, encoder.radius)
        records = own_records(encoder, source.data, source.part, progress)
        latents = encoded_for_noise(encoder, records)
        made = noised(encoder, latents, channel, agreement, noise, book)
    claim = None if made.channel is None else made.channel.claim(len(made.records))
    return Sent(out, write_contribution(out, made), made, claim)


def _channel(sending: Sending, radius: float) -> LocalChannel:
    if sending.epsilon is None:
        raise UserError(
            "--mechanism gaussian needs --epsilon, the promise of one record's latents."
        )
    if sending.labels is not None:
        raise UserError(
            "--labels goes with a filter; with the Gaussian mechanism a label leaves by "
            "--label-epsilon NAME=E, or as it is by --public-labels."
        )
    return LocalChannel(
        radius, sending.epsilon, sending.delta, dict(sending.label_epsilons), sending.public_labels
    )


def _refuse_promises(sending: Sending) -> None:
    if sending.epsilon is not None or sending.label_epsilons or sending.public_labels:
        raise UserError(
            "a filter promises no epsilon: leave out --epsilon, --label-epsilon and "
            "--public-labels, or use --mechanism gaussian without a filter."
        )


@dataclass(frozen=True)
class Collected:
    """A collection that was written, and who is not in it."""

    folder: Path
    digest: str
    claim: WeakestPromise
    merged: Merged
    statement: tuple[str, ...]

    def lines(self) -> list[str]:
        return [
            *self.statement,
            f"release   {self.folder}  ({len(self.merged)} records of "
            f"{users_in_words(self.merged.users)})",
            f"digest    {self.digest}",
            *(f"left out  {one.name}: {one.reason}" for one in self.merged.left_out),
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "digest": self.digest,
            "records": len(self.merged),
            "users": self.merged.users,
            "claim": self.claim.to_json(),
            "statement": list(self.statement),
            "left_out": [{"name": one.name, "reason": one.reason} for one in self.merged.left_out],
        }


def collect_folders(
    folders: Sequence[Path],
    encoder_file: Path,
    out: Path,
    *,
    content: str = LATENTS,
    mechanism: str = "any",
    epsilon: float | None = None,
    delta: float | None = None,
    title: str = "Collected from many users",
    signing_key: Path | None = None,
) -> Collected:
    """Merge what users sent; folders that cannot be taken are named and left out.

    epsilon, delta: the weakest local promise that is taken, and nothing without one; without
        them the claim states the weakest that came.
    """
    check_means(out, title, signing_key)
    encoder = read_encoder(encoder_file)
    agreement = Agreement.of(encoder, content, mechanisms=_mechanisms(mechanism))
    if epsilon is not None or delta is not None:
        if mechanism == FILTER:
            raise UserError("filters promise no epsilon: leave out --epsilon and --delta.")
        agreement = Agreement.local(encoder, content, epsilon, delta)
    gathering = Gathering.under(agreement)
    for folder in folders:
        gathering.take(str(folder), partial(read_contribution, folder, agreement))
    merged = gathering.merged()
    digest = write_collection(out, merged, encoder, title, signing_key)
    claim = WeakestPromise.of(merged.terms, Citation.of(encoder))
    return Collected(out, digest, claim, merged, tuple(claim.words(merged.users)))


def _mechanisms(word: str) -> tuple[str, ...]:
    known = {"any": MECHANISMS, FILTER: (FILTER,), GAUSSIAN: (GAUSSIAN,)}
    if word not in known:
        raise UserError(f"--mechanism: no {word!r}; {did_you_mean(word, known)}")
    return known[word]


def export_graph(
    encoder_file: Path, filter_file: Path | None, out: Path, *, decode: bool = False
) -> Path:
    """Write encoder, filter and decoder as one ONNX graph. Its noise is an input: no claim."""
    _refuse_existing_file(out)
    encoder = read_encoder(encoder_file)
    graph = None
    if filter_file is not None:
        graph = FilterGraph(load_filter(filter_file, encoder.digest).model)
    return export_onnx(encoder, out, graph, decode=decode)


def _refuse_existing_file(out: Path) -> None:
    if out.exists():
        raise UserError(f"{out} exists already; name another file with -o.")
    if not out.parent.is_dir():
        raise UserError(f"there is no folder {out.parent} to write {out.name} into.")
