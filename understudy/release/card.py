"""The data card: `README.md`, whose front matter tells `datasets` where the tables are."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from understudy.errors import UserError
from understudy.release.claim import Claim
from understudy.release.words import epsilon_in_words

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LARGEST = "n>1M"


def data_card(claim: Claim, title: str, licence: str | None) -> bytes:
    """The card of a release; its words about privacy are the claim's."""
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters.update(cell=table_cell, epsilon=epsilon_in_words)
    template = environment.from_string(
        files("understudy.release").joinpath("card.md.j2").read_text(encoding="utf-8")
    )
    channels, height, width = claim.records.shape
    card = template.render(
        front_matter=_front_matter(claim, title, licence),
        title=one_line(title),
        claim=claim,
        statement=[one_line(sentence) for sentence in claim.statement],
        spending=claim.spending,
        records=claim.records,
        shape=f"{height} by {width} pixels, {'grey' if channels == 1 else 'colour'}",
        licence=licence,
    )
    return card.encode("utf-8")


def check_title(title: str) -> None:
    if not title.strip() or not title.isprintable():
        raise UserError(f"title must be one line of words, not {title!r}.")


def card_problems(card: bytes, claim: Claim) -> list[str]:
    """How the card differs from the one that this claim gives under its title and licence."""
    text = card.decode("utf-8", errors="replace")
    lines = set(text.splitlines())
    missing = [
        f"README.md does not say what the claim says: {sentence!r}."
        for sentence in claim.statement
        if f"- {one_line(sentence)}" not in lines
    ]
    if missing or data_card(claim, *title_and_licence(text)) == card:
        return missing
    return ["README.md says something else than the card that the claim gives."]


def title_and_licence(card: str) -> tuple[str, str | None]:
    """What the owner chose, from the front matter; nothing where it cannot be read."""
    try:
        found = yaml.safe_load(card.split("---\n")[1])
        return str(found["pretty_name"]), found.get("license")
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError, yaml.YAMLError):
        return "", None


def _front_matter(claim: Claim, title: str, licence: str | None) -> str:
    tags = ["synthetic", "understudy"]
    if claim.kind != "empirical":
        tags.append("differential-privacy")
    data: dict[str, Any] = {"pretty_name": title}
    if licence:
        data["license"] = licence
    data["tags"] = tags
    data["size_categories"] = [
        next((words for most, words in _SIZES if claim.records.count < most), _LARGEST)
    ]
    if claim.records.schema.label:
        data["task_categories"] = ["image-classification"]
    split = {"split": "train", "path": "data/train-*.parquet"}
    data["configs"] = [{"config_name": "default", "data_files": [split]}]
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text


def one_line(text: str) -> str:
    """One line of Markdown that shows these words and nothing else."""
    return " ".join(text.split()).replace("<", "&lt;")


def table_cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")
