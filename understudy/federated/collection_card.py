"""The card of a collection, whose words about privacy are the claim's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import yaml

from understudy.errors import UserError
from understudy.federated.terms import users_in_words
from understudy.release.card import check_title, one_line, table_cell, title_and_licence


def collection_card(title: str, claim: Mapping[str, Any]) -> bytes:
    """`README.md`; the licence it names is that of the encoder's training data."""
    check_title(title)
    records = claim["records"]
    licence = claim["encoder"]["provenance"]["licence"]
    licensed = f"\nThe encoder's training data has the licence {one_line(str(licence))}."
    labels = [
        f"| {table_cell(a['name'])} | {table_cell(', '.join(a['classes']))} | {a['sent']:,} |"
        for a in records["labels"]
    ]
    lines = [
        f"---\n{_front_matter(title)}---\n",
        f"# {one_line(title)}\n",
        f"{records['count']:,} records ({records['content']}) that "
        f"{users_in_words(claim['users'])} sent from their own devices.\n",
        "## What is claimed\n",
        *(f"- {one_line(sentence)}" for sentence in claim["statement"]),
        *([licensed] if licence is not None else []),
        "\n## Labels\n",
        "A label is empty where the record's user did not send it.\n",
        "| label | classes | records that have it |",
        "|---|---|---|",
        *labels,
    ]
    return ("\n".join(lines) + "\n").encode("utf-8")


def card_problems(card: bytes, claim: Mapping[str, Any]) -> list[str]:
    """How the card differs from the one that this claim gives under its title."""
    title, _ = title_and_licence(card.decode("utf-8", errors="replace"))
    with suppress(UserError):  # a title that is none
        if collection_card(title, claim) == card:
            return []
    return ["README.md says something else than the card that the claim gives."]


def _front_matter(title: str) -> str:
    split = {"split": "train", "path": "data/train-*.parquet"}
    front = {
        "pretty_name": title,
        "tags": ["understudy", "collected"],
        "configs": [{"config_name": "default", "data_files": [split]}],
    }
    text: str = yaml.safe_dump(front, sort_keys=False, allow_unicode=True)
    return text
