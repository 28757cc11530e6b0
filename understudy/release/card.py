"""Cards: `README.md`, whose front matter tells `datasets` where the tables are.

A card says what its claim says. It is made from the claim, and checked by making it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
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
    channels, height, width = claim.records.shape
    shape = f"{height} by {width} pixels, {'grey' if channels == 1 else 'colour'}"
    template = files("understudy.release").joinpath("card.md.j2").read_text(encoding="utf-8")
    front = _front_matter(claim, licence)
    soft = claim.records.soft or ()
    values = {"claim": claim, "shape": shape, "licence": licence, "soft": soft}
    return render_card(template, title, front, values)


def render_card(
    template: str, title: str, front: Mapping[str, Any], values: Mapping[str, Any]
) -> bytes:
    """A card of any kind: its template, filled in below a front matter that names the tables."""
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters.update(cell=table_cell, epsilon=epsilon_in_words, line=one_line)
    split = {"split": "train", "path": "data/train-*.parquet"}
    configs = [{"config_name": "default", "data_files": [split]}]
    data = {"pretty_name": title, **front, "configs": configs}
    card = environment.from_string(template).render(
        front_matter=yaml.safe_dump(data, sort_keys=False, allow_unicode=True),
        title=one_line(title),
        **values,
    )
    return card.encode("utf-8")


def check_title(title: str) -> None:
    if not title.strip() or not title.isprintable():
        raise UserError(f"title must be one line of words, not {title!r}.")


def card_problems(card: bytes, claim: Claim) -> list[str]:
    """How the card of a release differs from the one that this claim gives."""
    return differences(card, claim.statement, partial(data_card, claim))


def differences(
    card: bytes, statement: Sequence[str], rendered: Callable[[str, str | None], bytes]
) -> list[str]:
    """How a card differs from the one that is rendered under its own title and licence."""
    text = card.decode("utf-8", errors="replace")
    lines = set(text.splitlines())
    missing = [
        f"README.md does not say what the claim says: {sentence!r}."
        for sentence in statement
        if f"- {one_line(sentence)}" not in lines
    ]
    if missing:
        return missing
    title, licence = _title_and_licence(text)
    with suppress(UserError):
        check_title(title)
        if rendered(title, licence) == card:
            return []
    return ["README.md says something else than the card that the claim gives."]


def _title_and_licence(card: str) -> tuple[str, str | None]:
    """What the owner chose, from the front matter; nothing where it cannot be read."""
    try:
        found = yaml.safe_load(card.split("---\n")[1])
        return str(found["pretty_name"]), found.get("license")
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError, yaml.YAMLError):
        return "", None


def _front_matter(claim: Claim, licence: str | None) -> dict[str, Any]:
    tags = ["synthetic", "understudy"]
    if claim.kind != "empirical":
        tags.append("differential-privacy")
    data: dict[str, Any] = {}
    if licence:
        data["license"] = licence
    data["tags"] = tags
    data["size_categories"] = [
        next((words for most, words in _SIZES if claim.records.count < most), _LARGEST)
    ]
    if claim.records.schema.label:
        data["task_categories"] = ["image-classification"]
    return data


def one_line(text: str) -> str:
    """One line of Markdown that shows these words and nothing else."""
    return " ".join(text.split()).replace("<", "&lt;")


def table_cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")
