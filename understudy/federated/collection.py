"""A collection on disk: a folder that `datasets.load_dataset` opens, with a claim to check.

It is no release of `understudy synthesize`: there was no door and no ledger, since no owner held
the records. What stands for the ledger is the list of terms under which users sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from understudy.data.records import Array
from understudy.data.schema import Attribute
from understudy.encoders.encoder import Encoder
from understudy.encoders.provenance import Provenance
from understudy.errors import UserError
from understudy.federated.contribution import IMAGES
from understudy.federated.merging import NOT_SENT, Merged
from understudy.federated.terms import CollectedClaim, Term
from understudy.release.files import new_file, new_folder, write_file
from understudy.release.manifest import (
    MANIFEST,
    digest_of,
    file_hashes,
    is_plain,
    listed_files,
    manifest_bytes,
)
from understudy.release.png import encode_png
from understudy.release.strict_json import parse_object, readable_bytes
from understudy.release.verify import Verification, verify

FORMAT = "understudy-collection/1"
CLAIM, CARD, TABLE = "collection.json", "README.md", "data/train-00000-of-00001.parquet"
_COLUMNS = {IMAGES: "image"}
_ROWS = 1000
_IMAGE_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write_collection(folder: Path, merged: Merged, encoder: Encoder, title: str) -> str:
    """Write the folder, whole or not at all; gives its digest.

    Who was left out is not in it: that is for the collector alone.
    """
    claim = _claim_json(merged, encoder)
    with new_folder(folder) as partial:
        (partial / TABLE).parent.mkdir()
        _write_table(partial / TABLE, merged)
        write_file(partial / CLAIM, readable_bytes(claim))
        write_file(partial / CARD, _card(title, claim, encoder.provenance.licence))
        manifest = manifest_bytes(file_hashes(partial))
        write_file(partial / MANIFEST, manifest)
    return digest_of(manifest)


def verify_any(folder: Path, *, digest: str | None = None, key: Path | None = None) -> Verification:
    """Check a release or a collection, whichever the folder is."""
    if not (folder / CLAIM).is_file():
        return verify(folder, digest=digest, key=key)
    if key is not None:
        raise UserError(f"{folder} is a collection, which nobody signs; compare its --digest.")
    return verify_collection(folder, digest)


def verify_collection(folder: Path, digest: str | None = None) -> Verification:
    """Recompute every hash, the claim from its terms, and the counts from the table."""
    manifest = (folder / MANIFEST).read_bytes() if is_plain(folder / MANIFEST) else b""
    found = digest_of(manifest)
    problems = []
    if manifest_bytes(file_hashes(folder)) != manifest:
        problems.append(f"a file is not as {MANIFEST} lists it.")
    strange = sorted(set(listed_files(folder)) - {CLAIM, CARD, TABLE, MANIFEST})
    problems += [f"{name} does not belong in a collection." for name in strange]
    notes: tuple[str, ...] = ()
    try:
        claim = parse_object((folder / CLAIM).read_bytes(), CLAIM)
        problems += _claim_problems(claim)
        problems += _table_problems(folder / TABLE, claim)
        notes = tuple(str(line) for line in claim["statement"])
    except (
        *(UserError, KeyError, TypeError, AttributeError, ValueError, OSError),
        pa.ArrowException,
    ) as error:
        problems.append(f"{CLAIM} or its table cannot be read: {error}")
    if digest is not None and digest != found:
        problems.append(f"its digest is {found}, not {digest}.")
    vouched = digest is not None and not problems
    return Verification(tuple(problems), notes, found, None, None, vouched)


def _claim_json(merged: Merged, encoder: Encoder) -> dict[str, Any]:
    found = CollectedClaim.of(merged.terms)
    return {
        "format": FORMAT,
        "statement": found.words(encoder.provenance.statement, merged.users),
        **found.to_json(),
        "scope": "this release only",
        "encoder": {"digest": encoder.digest, "provenance": encoder.provenance.to_json()},
        "terms": [term.to_json() for term in merged.terms],
        "users": merged.users,
        "records": {
            "count": len(merged),
            "content": merged.agreement.content,
            "shape": list(merged.agreement.shape),
            "labels": [
                {
                    "name": a.name,
                    "classes": list(a.classes),
                    "sent": int((merged.labels[a.name] != NOT_SENT).sum()),
                }
                for a in _sent_attributes(merged)
            ],
        },
    }


def _claim_problems(claim: Mapping[str, Any]) -> list[str]:
    terms = [Term.from_json(term) for term in claim["terms"]]
    found, users = CollectedClaim.of(terms), sum(term.users for term in terms)
    provenance = Provenance.from_json(claim["encoder"]["provenance"])
    words = found.words(provenance.statement, users)
    problems = []
    for name, value in {**found.to_json(), "statement": words, "users": users}.items():
        if claim[name] != value:
            problems.append(f"its {name} does not follow from the terms that users sent under.")
    if sum(term.records for term in terms) != claim["records"]["count"]:
        problems.append("its records are not as many as its terms say.")
    return problems


def _table_problems(path: Path, claim: Mapping[str, Any]) -> list[str]:
    records = claim["records"]
    with pq.ParquetFile(path) as table:
        columns, rows = table.schema_arrow.names, table.metadata.num_rows
        names = [a["name"] for a in records["labels"]]
        values = table.read(columns=[n for n in names if n in columns])
    problems = []
    if columns != [_feature_column(records["content"]), *names]:
        problems.append("the table has other columns than the claim lists.")
    if rows != records["count"]:
        problems.append(f"the table has {rows} rows; the claim counts {records['count']}.")
    for label in records["labels"]:
        if label["name"] in columns:
            sent = rows - values.column(label["name"]).null_count
            if sent != label["sent"]:
                problems.append(f"label {label['name']!r} is there for {sent} records.")
    return problems


def _feature_column(content: str) -> str:
    return _COLUMNS.get(content, "latent")


def _sent_attributes(merged: Merged) -> list[Attribute]:
    return [a for a in merged.agreement.labels if a.name in merged.labels]


def _write_table(path: Path, merged: Merged) -> None:
    images = merged.agreement.content == IMAGES
    name = _feature_column(merged.agreement.content)
    attributes = _sent_attributes(merged)
    if name in (a.name for a in attributes):
        raise UserError(f"a label is named {name!r}, like what users sent; rename it.")
    kind = _IMAGE_TYPE if images else pa.list_(pa.float32())
    value = {"dtype": "float32", "_type": "Value"}
    shown: dict[str, Any] = {
        name: {"_type": "Image"} if images else {"feature": value, "_type": "Sequence"}
    }
    shown |= {a.name: {"names": list(a.classes), "_type": "ClassLabel"} for a in attributes}
    schema = pa.schema(
        [(name, kind), *((a.name, pa.int64()) for a in attributes)],
        metadata={b"huggingface": json.dumps({"info": {"features": shown}}).encode()},
    )
    with new_file(path) as file, pq.ParquetWriter(file, schema) as writer:
        for batch in _batches(merged, schema, kind, images):
            writer.write_batch(batch)


def _batches(
    merged: Merged, schema: pa.Schema, kind: pa.DataType, images: bool
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(merged), _ROWS):
        some = slice(start, start + _ROWS)
        rows = merged.features[some]
        values = [{"bytes": encode_png(r), "path": None} for r in rows] if images else list(rows)
        columns = [_nullable(merged.labels[name][some]) for name in schema.names[1:]]
        yield pa.RecordBatch.from_arrays([pa.array(values, kind), *columns], schema=schema)


def _nullable(codes: Array) -> pa.Array:
    return pa.array(codes, pa.int64(), mask=np.asarray(codes == NOT_SENT))


def _card(title: str, claim: Mapping[str, Any], licence: str | None) -> bytes:
    if not title.strip() or not title.isprintable():
        raise UserError(f"title must be one line of words, not {title!r}.")
    front = {
        "pretty_name": title,
        "tags": ["understudy", "collected"],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": "train", "path": "data/train-*.parquet"}],
            }
        ],
    }
    labels = [
        f"| {a['name']} | {', '.join(a['classes'])} | {a['sent']:,} |"
        for a in claim["records"]["labels"]
    ]
    lines = [
        f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n",
        f"# {title}\n",
        f"{claim['records']['count']:,} records ({claim['records']['content']}) that "
        f"{claim['users']:,} users sent from their own devices.\n",
        "## What is claimed\n",
        *(f"- {sentence}" for sentence in claim["statement"]),
        *(
            ["", f"The encoder's training data has the licence {licence}."]
            if licence is not None
            else []
        ),
        "\n## Labels\n",
        "A label is empty where the record's user did not send it.\n",
        "| label | classes | records that have it |",
        "|---|---|---|",
        *labels,
    ]
    return ("\n".join(lines) + "\n").encode("utf-8")
