import math
from dataclasses import replace

import pytest

from tests.release.forge import make_claim, planned
from understudy.data.records import Images
from understudy.privacy.plan.mechanisms import NoisySum, Reveal
from understudy.release.claim import Claim, Tuning
from understudy.release.facts import InputFacts, MethodFacts, PublicInput, Randomness
from understudy.release.words import claim_in_words, delta_in_words, epsilon_in_words


def test_first_sentence_says_kind_epsilon_delta_and_unit(claim: Claim) -> None:
    claim = replace(claim, epsilon=1.0)
    first = claim_in_words(claim)[0]
    assert first == "Differentially private: epsilon 1.00, delta 1e-05, per image, not per person."
    by_patient = claim_in_words(replace(claim, unit="patient"))[0]
    assert by_patient == "Differentially private: epsilon 1.00, delta 1e-05, per patient."
    assert "not per person" not in by_patient


def test_every_required_subject_has_its_sentence(claim: Claim) -> None:
    text = " ".join(claim_in_words(claim))
    for subject in (
        "add-or-remove one unit",
        "this release only",
        "Assumed to be public",
        "declared number of private images (1797)",
        "ChaCha20 keyed by the operating system",
        "floating-point",
        "no setting was selected",
        "No public data",
        "keyed hash",
        "changed for soundness: means are divided by the declared count",
        "consistency, not honesty",
    ):
        assert subject in text


def test_exact_and_float_noise_have_sentences_of_their_own(claim: Claim) -> None:
    exact = replace(claim, randomness=replace(claim.randomness, noise="exact"))
    told, told_exact = (" ".join(claim_in_words(c)) for c in (claim, exact))
    assert "attacks on the last bits of what was computed are not covered" in told
    assert "whole numbers" not in told
    assert "not covered" not in told_exact
    assert "whole numbers (a discrete Gaussian)" in told_exact


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [
        (1.0, "1.00"),
        (1 + 1e-12, "1.00"),
        (1.0000001, "1.01"),
        (0.991, "1.00"),
        (0.0999, "0.100"),
        (0.0123, "0.013"),
        (12.3, "12.30"),
        (0.0, "0.00"),
        (2.0**90, "1237940039285380274899124224.00"),
        (math.inf, "infinite"),
    ],
)
def test_epsilon_is_rounded_up_never_down(epsilon: float, shown: str) -> None:
    assert epsilon_in_words(epsilon) == shown


def test_delta_is_rounded_up() -> None:
    assert delta_in_words(1e-5) == "1e-05"
    assert delta_in_words(1.51487e-6) == "1.52e-06"


def test_stratified_split_says_given_the_split(claim: Claim) -> None:
    assert "given the split" in " ".join(claim_in_words(replace(claim, split="stratified")))
    assert "given the split" not in " ".join(claim_in_words(claim))


def test_tuning_has_four_stories(claim: Claim) -> None:
    def text(tuning: Tuning) -> str:
        return " ".join(claim_in_words(replace(claim, tuning=tuning)))

    assert "Tuning is not covered" not in text(Tuning(True))
    assert "Tuning is not covered: how the settings" in text(Tuning(False))
    chosen = text(Tuning(True, ("sigma 1", "sigma 2"), "held-out synthetic data"))
    assert "among sigma 1; sigma 2 by held-out synthetic data; by the owner's account" in chosen
    loose = text(Tuning(False, ("sigma 1", "sigma 2"), "accuracy on private data"))
    assert "Tuning is not covered: settings were selected among sigma 1" in loose
    assert "not in epsilon" in loose


def test_empirical_claim_promises_nothing(records: Images) -> None:
    story = planned(NoisySum("sum", 1.0, 4.0), Reveal("peek", "to copy"))
    claim = make_claim(story.block(0, "peek", 1).add("close"), records)
    text = claim_in_words(claim)
    assert text[0].startswith("Empirical, no formal privacy guarantee: epsilon is infinite")
    assert "peek" in text[1]
    assert not any("Differentially private" in sentence for sentence in text)


def test_local_claim_says_so(claim: Claim) -> None:
    local = replace(claim, kind="local", relation="replace-one, per record")
    assert claim_in_words(local)[0].startswith("Locally differentially private: epsilon")
    assert "replace-one, per record" in claim_in_words(local)[1]


def test_insecure_seed_public_inputs_and_unchanged_method_are_said(claim: Claim) -> None:
    insecure = replace(claim, randomness=Randomness("a seed", insecure_seed=True))
    assert any("for testing only" in s for s in claim_in_words(insecure))
    public = replace(claim, public_inputs=(PublicInput("faces", "drawn by code"),))
    assert any("faces (drawn by code)" in s for s in claim_in_words(public))
    stated = PublicInput("faces", "drawn by code", InputFacts("shapes", "records", None, "0" * 64))
    known = replace(claim, public_inputs=(stated,))
    words = "faces, records used as 'shapes' (drawn by code; licence: unknown)"
    assert any(words in s for s in claim_in_words(known))
    plain = replace(claim, method=MethodFacts("x", "a paper"))
    assert any("no change to the published form" in s for s in claim_in_words(plain))
