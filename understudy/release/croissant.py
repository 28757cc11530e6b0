"""Croissant 1.0 metadata, so that dataset tools can find and read a release's columns."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from importlib.resources import files
from typing import Any

from understudy.data.schema import Attribute
from understudy.errors import UserError
from understudy.release.claim import Claim
from understudy.release.columns import IMAGE, class_name_of
from understudy.release.strict_json import parse_object, readable_bytes

_PARQUET = "application/x-parquet"
_TABLES = "tables"
_RECORDS = "records"


def croissant_bytes(
    claim: Claim,
    title: str,
    licence: str | None,
    shards: Mapping[str, str],
    unstated_soft: Collection[str] = (),
) -> bytes:
    """The content of `croissant.json`; `shards` maps each table's path to its sha256.

    unstated_soft: the columns of probabilities of a claim of version 0.1, which does not say.
    """
    context = files("understudy.release").joinpath("croissant_context.json")
    schema = claim.records.schema
    document = {
        "@context": json.loads(context.read_text(encoding="utf-8")),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": title,
        "description": " ".join(claim.statement),
        **({"license": licence} if licence else {}),
        "version": "1.0.0",
        **_based_on(claim),
        "distribution": [
            *(_file(name, digest) for name, digest in shards.items()),
            {
                "@type": "cr:FileSet",
                "@id": _TABLES,
                "name": _TABLES,
                "encodingFormat": _PARQUET,
                "includes": "data/train-*.parquet",
            },
        ],
        "recordSet": [
            *(_classes(attribute) for attribute in schema.attributes),
            {
                "@type": "cr:RecordSet",
                "@id": _RECORDS,
                "name": _RECORDS,
                "field": [
                    _image_field(),
                    *(f for a in schema.attributes for f in _fields(a, claim, unstated_soft)),
                ],
            },
        ],
    }
    return readable_bytes(document)


def croissant_problems(data: bytes, claim: Claim, shards: Mapping[str, str]) -> list[str]:
    """Where `croissant.json` says something else than the claim or the manifest.

    Title and licence are taken from it; with them the claim and the hashes give every byte.
    Where a claim of version 0.1 does not say which columns are soft, that is taken too.
    """
    try:
        document = parse_object(data, "croissant.json")
        distribution = document["distribution"]
        hashes = {d["contentUrl"]: d["sha256"] for d in distribution if "contentUrl" in d}
        description = document["description"]
        fields = document["recordSet"][-1]["field"]
        soft = {f["name"] for f in fields if f.get("dataType") == "sc:Float"}
        title, licence = str(document["name"]), document.get("license")
    except (UserError, LookupError, TypeError, AttributeError) as error:
        return [f"croissant.json cannot be understood: {error}"]
    problems = []
    if description != " ".join(claim.statement):
        problems.append("croissant.json does not describe the release in the claim's words.")
    if hashes != dict(shards):
        problems.append("croissant.json does not list the tables with their hashes.")
    if not problems and croissant_bytes(claim, title, licence, shards, soft) != data:
        problems.append("croissant.json says something else than the claim gives.")
    return problems


def _based_on(claim: Claim) -> dict[str, Any]:
    """Public inputs; nothing of those that version 0.1 said no more of than the description has."""
    works = [
        {
            "@type": "sc:CreativeWork",
            "name": one.name,
            "description": f"{one.facts.kind} used as {one.facts.use}: {one.provenance}",
            **({"license": one.facts.licence} if one.facts.licence else {}),
            "sha256": one.facts.sha256,
        }
        for one in claim.public_inputs
        if one.facts is not None
    ]
    return {"isBasedOn": works} if works else {}


def _file(name: str, digest: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "encodingFormat": _PARQUET,
        "sha256": digest,
    }


def _image_field() -> dict[str, Any]:
    field = _column_field(IMAGE, "sc:ImageObject", "The synthetic image, a PNG.")
    field["source"]["transform"] = {"jsonPath": "bytes"}
    return field


def _fields(
    attribute: Attribute, claim: Claim, unstated_soft: Collection[str]
) -> list[dict[str, Any]]:
    """One field for codes; for a soft attribute its probabilities and its most probable class."""
    name, soft = attribute.name, claim.records.soft
    listed = f"as listed in {name}-classes."
    if name not in (unstated_soft if soft is None else soft):
        return [_column_field(name, "sc:Integer", f"Code of the class, {listed}")]
    words = f"Soft label: the probability of each class, in the order of {name}-classes."
    if soft is None:
        words = f"Probability of each class, in the order of {name}-classes."
    found = [{**_column_field(name, "sc:Float", words), "repeated": True}]
    if soft is not None:
        words = f"Code of the most probable class of {name}, {listed}"
        found.append(_column_field(class_name_of(name), "sc:Integer", words))
    return found


def _column_field(column: str, kind: str, words: str) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{_RECORDS}/{column}",
        "name": column,
        "description": words,
        "dataType": kind,
        "source": {"fileSet": {"@id": _TABLES}, "extract": {"column": column}},
    }


def _classes(attribute: Attribute) -> dict[str, Any]:
    """The names behind an attribute's codes, as a small table of its own."""
    name = f"{attribute.name}-classes"
    fields = [
        {"@type": "cr:Field", "@id": f"{name}/{part}", "name": part, "dataType": kind}
        for part, kind in (("code", "sc:Integer"), ("class", "sc:Text"))
    ]
    rows = [
        {f"{name}/code": code, f"{name}/class": words}
        for code, words in enumerate(attribute.classes)
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "dataType": "sc:Enumeration",
        "key": {"@id": f"{name}/code"},
        "field": fields,
        "data": rows,
    }
