"""What a picture of each class is called in words, from `prompts.yaml`."""

from __future__ import annotations

from importlib.resources import files

import yaml


def class_prompts(classes: tuple[str, ...]) -> tuple[str, ...]:
    """A prompt for each class, in the order given.

    >>> class_prompts(("7", "0"))
    ('a handwritten digit seven', 'a handwritten digit zero')
    >>> class_prompts(("sea_lake",))
    ('a picture of sea lake',)
    """
    text = files("understudy.evaluation").joinpath("prompts.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    for entry in data["prompts"]:
        if set(classes) <= set(entry["classes"]):
            words = entry["words"]
            return tuple(entry["prompt"].replace("{class}", words[name]) for name in classes)
    return tuple(data["other"].replace("{class}", name.replace("_", " ")) for name in classes)
