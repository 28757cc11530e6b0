from dataclasses import replace

from understudy.data.schema import Attribute, Schema
from understudy.release.card import card_problems, data_card
from understudy.release.claim import Claim, Tuning
from understudy.release.facts import InputFacts, PublicInput


def test_card_says_the_claim_word_for_word(claim: Claim) -> None:
    card = data_card(claim, "Digits", None).decode()
    lines = card.splitlines()
    for sentence in claim.statement:
        assert f"- {sentence}" in lines
    assert card_problems(card.encode(), claim) == []
    assert card_problems(b"# empty", claim) != []
    assert "| embedding | noisy-sum | 1 | 1 | 4 | 0.93 |" in lines
    assert "24 images, 8 by 6 pixels, grey." in lines
    assert "| digit (label) | zero, one, two |" in lines


def test_names_cannot_break_out_of_the_card(claim: Claim) -> None:
    schema = Schema((Attribute("a|b", ("<script>", "line\nbreak")),))
    odd = replace(
        claim,
        records=replace(claim.records, schema=schema),
        tuning=Tuning(False, ("x\n# Heading",), "<b>"),
    )
    card = data_card(odd, "Title <i>", "cc0-1.0").decode()
    assert "| a\\|b | &lt;script>, line break |" in card.splitlines()
    body = card.split("---\n", 2)[2]
    assert "<" not in body
    assert "\n# Heading" not in body
    assert card_problems(card.encode(), odd) == []
    assert "Licence: cc0-1.0." in card


def test_size_and_tags_follow_the_claim(claim: Claim) -> None:
    many = replace(claim, records=replace(claim.records, count=60_000))
    assert "10K<n<100K" in data_card(many, "x", None).decode()
    huge = replace(claim, records=replace(claim.records, count=5_000_000))
    assert "n>1M" in data_card(huge, "x", None).decode()


def test_a_card_that_says_more_than_the_claim_is_caught(claim: Claim) -> None:
    card = data_card(claim, "Digits", "cc0-1.0")
    assert card_problems(card, claim) == []
    for added in (b"\nReally: epsilon 0.01.\n", b" "):
        assert card_problems(card + added, claim) != []
    other_tags = card.replace(b"- synthetic\n", b"- real\n")
    assert other_tags != card
    assert card_problems(other_tags, claim) != []


def test_a_card_under_a_title_that_nobody_can_see_is_caught(claim: Claim) -> None:
    for title in ("", " ", "Dig\u200bits", "Digits\u202e"):
        assert card_problems(data_card(claim, title, None), claim) != [], "a title that is none"
    assert card_problems(data_card(claim, "Digits", None), claim) == []


def test_public_inputs_have_a_table_where_more_than_a_name_is_known(claim: Claim) -> None:
    stated = PublicInput("fa|ces", "drawn", InputFacts("shapes", "records", None, "0" * 64))
    known = data_card(replace(claim, public_inputs=(stated,)), "x", None).decode()
    row = f"| shapes | records | fa\\|ces | drawn | unknown | {'0' * 64} |"
    assert row in known.splitlines()
    assert "\n\n## How to check it" in known
    old = replace(claim, public_inputs=(PublicInput("faces", "drawn"),))
    for other in (claim, old):
        assert "used as" not in data_card(other, "x", None).decode()
