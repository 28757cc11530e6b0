"""What a device writes down of what it sends: every use, before its noise is drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.data.samples import refused
from tests.federated.scene import encoder, records, user
from understudy.data.schema import Attribute
from understudy.encoders.citation import Citation
from understudy.federated.agreement import Agreement
from understudy.federated.sent_folder import digest_of
from understudy.federated.user import User, encoded, noised
from understudy.privacy.accounting.accountants import local_price
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.local.channel import LocalChannel
from understudy.privacy.local.gaussian import gaussian_multiplier
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.events import LocalGaussian, RandomisedResponse
from understudy.run.spent import totals_in_words

DELTA = 1e-5
CHANNEL = LocalChannel(2.0, 1.0, DELTA, {"row": 0.5}, ("side",))


@pytest.fixture
def book(tmp_path) -> Book:
    return Book.open("mine", tmp_path)


def send(book: Book, noise: NoiseSource | None = None, asked: Agreement | None = None):
    made = encoder()
    latents = encoded(made, records(10))
    asked = asked or Agreement.of(made)
    return noised(made, latents, CHANNEL, asked, noise or NoiseSource(), book)


def test_sending_again_spends_again(book):
    sigma = gaussian_multiplier(1.0, DELTA)
    for times in range(1, 6):
        send(book)
        totals = book.total(DELTA)
        expected = local_price(
            [LocalGaussian(sigma, times), RandomisedResponse(0.5, times)], DELTA
        ).epsilon
        assert len(totals.local) == times, "a use that nobody wrote down"
        assert totals.local_released.epsilon == pytest.approx(expected)
        assert totals.local_all_runs.epsilon == pytest.approx(expected)
    assert totals.local[0][1].epsilon == pytest.approx(1.5, rel=1e-6)
    assert totals.released.epsilon == 0.0
    words = totals_in_words(totals)[0]
    assert "Local runs together" in words
    assert f"{totals.local_released.epsilon:.4g}" in words
    assert "Central runs: none" in totals_in_words(totals)[-1]
    assert "epsilon 0" not in " ".join(totals_in_words(totals))


def test_the_price_is_written_before_noise_is_drawn(book):
    seen = []

    class Watching(NoiseSource):
        def normal(self, *words, **named):
            seen.append([run.released for run in book.runs()])
            return super().normal(*words, **named)

    send(book, Watching())
    assert seen == [[()]], "noise that was drawn before the book knew"
    (run,) = book.runs()
    assert len(run.released) == 1


def test_what_was_sent_is_noted_by_its_digest(book):
    made = send(book)
    (run,) = book.runs()
    assert run.released == (digest_of(made.statement(), made.arrays()),)
    assert run.is_local
    assert run.plan.relation == "replace-one, per record"
    assert run.facts == {
        "mechanism": "gaussian",
        "encoder": encoder().digest,
        "public_labels": ["side"],
    }


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"mechanisms": ("filter",)}, "mechanism"),
        ({"epsilon": 0.5}, "epsilon"),
        ({"delta": 1e-9}, "delta"),
        ({"labels": ()}, "label"),
        ({"labels": (Attribute("row", ("a", "b")), Attribute("side", ("no", "yes")))}, "classes"),
        ({"most_records": 9}, "10 records"),
        ({"shape": (4,)}, "shape"),
        ({"radius": 1.0}, "radius"),
        ({"content": "images", "shape": (1, 9, 9)}, "shape"),
        ({"encoder": Citation("f" * 64, encoder().provenance)}, "another encoder"),
    ],
)
def test_terms_that_are_refused_cost_nothing(book, asked, word):
    """A server that asks for what nobody agrees to must not empty anybody's book."""
    with refused(word):
        send(book, asked=replace(Agreement.of(encoder()), **asked))
    assert book.runs() == (), "a price was paid for nothing"
    send(book, asked=Agreement.of(encoder(), "images"))
    assert len(book.runs()) == 1


def test_records_of_another_kind_cost_nothing(book):
    made, soft = encoder(), np.full((10, 2), 0.5, np.float32)
    latents = encoded(made, records(10))
    wrong = [
        replace(latents, attributes={**latents.attributes, "row": soft}),
        replace(latents, features=latents.features[:, :2]),
        latents.select([]),
        records(10),
    ]
    for mine in wrong:
        with refused():
            noised(made, mine, CHANNEL, Agreement.of(made), NoiseSource(), book)
    assert book.runs() == ()


def test_a_use_that_failed_stays_in_the_book(book):
    class Broken(NoiseSource):
        def normal(self, *words, **named):
            del words, named
            raise MemoryError

    with pytest.raises(MemoryError):
        send(book, Broken())
    totals = book.total(DELTA)
    assert totals.local_all_runs.epsilon == pytest.approx(1.5, rel=1e-6)
    assert totals.local_released.epsilon == 0.0


def test_a_local_channel_is_not_used_without_a_book(book):
    mine = User(records(10), None, channel=CHANNEL)
    agreement = Agreement.of(encoder())
    with refused("account book"):
        mine.contribute(encoder(), agreement)
    replace(mine, book=book).contribute(encoder(), agreement)
    assert len(book.runs()) == 1


def test_filtered_records_have_no_finite_price(book):
    mine = replace(user(), book=book)
    made = mine.contribute(encoder(), Agreement.of(encoder()))
    totals = book.total(DELTA)
    assert math.isinf(totals.released.epsilon)
    assert totals.local == ()
    (run,) = totals.runs
    assert run.released == (digest_of(made.statement(), made.arrays()),)
    assert run.is_empirical
    assert "filter" in str(run.facts)


def test_a_filtered_send_leaves_no_finite_local_total(book):
    """The same records left with noise and without any: no bound holds for both together."""
    send(book)
    assert book.total(DELTA).local_released.epsilon == pytest.approx(1.5, rel=1e-6)
    replace(user(), book=book).contribute(encoder(), Agreement.of(encoder()))
    totals = book.total(DELTA)
    assert math.isinf(totals.local_released.epsilon), "a finite total of records sent unbounded"
    assert math.isinf(totals.local_all_runs.epsilon)
    assert totals.local[0][1].epsilon == pytest.approx(1.5, rel=1e-6)
    assert "each: epsilon infinite at" in totals_in_words(totals)[0]
    assert "Central releases: epsilon infinite" in " ".join(totals_in_words(totals))


def test_local_and_central_runs_stay_apart(book):
    """A local price in the central total would be refused by the accountant."""
    send(book)
    assert book.total(DELTA).all_runs.epsilon == 0.0
    assert np.isfinite(book.total(1e-7).local_all_runs.epsilon)
