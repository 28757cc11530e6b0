"""Datasets of the Hugging Face Hub: `hf:owner/name`, or `hf:owner/name:config`."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from understudy.data.images import Reading
from understudy.data.sources.raw import PART_NAMES, RawPart
from understudy.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "hf:"

_ROWS_AT_ONCE = 1024
_PROBE_SECONDS = 3.0
_REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?")


def load_hub(source: str, reading: Reading) -> dict[str, RawPart]:
    """The splits of a Hub dataset: from the local cache, else downloaded."""
    repository, _, config = source.removeprefix(PREFIX).partition(":")
    if not _REPOSITORY.fullmatch(repository):
        raise UserError(f"{source!r} is not a Hub dataset; write hf:owner/name.")
    return read_splits(_fetch(repository, config or None), reading, source)


def read_splits(splits: Mapping[str, Any], reading: Reading, source: str) -> dict[str, RawPart]:
    """The parts of a `datasets.DatasetDict`, decoded from its own Arrow tables."""
    from understudy.data.sources.arrow import ArrowPart, read_arrow

    parts: dict[str, RawPart] = {}
    for split, dataset in splits.items():
        schema = dataset.features.arrow_schema
        part = ArrowPart(schema, len(dataset), _batches(dataset, f"{source} {split}"))
        parts[PART_NAMES.get(split, split)] = read_arrow(part, reading, source)
    return parts


def _batches(dataset: Any, place: str) -> Iterator[tuple[str, pa.Table]]:
    for batch in dataset.with_format("arrow").iter(batch_size=_ROWS_AT_ONCE):
        yield place, batch


def _fetch(repository: str, config: str | None) -> Mapping[str, Any]:
    try:
        import datasets
        import huggingface_hub.constants
    except ImportError as error:
        raise UserError(
            f"hf:{repository} needs the package 'datasets'; install understudy[hub]."
        ) from error
    reachable = _reachable(huggingface_hub.constants.ENDPOINT)
    try:
        with nullcontext() if reachable else _cache_only():
            found: Mapping[str, Any] = datasets.load_dataset(repository, config)
    except (OSError, ValueError, RuntimeError) as error:
        where = (
            "was refused by the Hub"
            if reachable
            else "is not in the Hub cache, and the Hub cannot be reached"
        )
        first_line = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"hf:{repository} {where} ({first_line.rstrip('.')}); check the name, go online, or "
            "give a folder or Parquet file instead."
        ) from error
    return found


def _reachable(endpoint: str) -> bool:
    """Whether the Hub answers at all: its own client retries for half a minute if not."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return True
    address = urlsplit(endpoint)
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        socket.create_connection((address.hostname or "", port), timeout=_PROBE_SECONDS).close()
    except OSError:
        return False
    return True


@contextmanager
def _cache_only() -> Iterator[None]:
    """Offline mode of the Hub libraries, which they otherwise read at import only."""
    import datasets.config
    import huggingface_hub.constants

    switches = [datasets.config, huggingface_hub.constants]
    before = [switch.HF_HUB_OFFLINE for switch in switches]
    try:
        for switch in switches:
            switch.HF_HUB_OFFLINE = True
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.HF_HUB_OFFLINE = value
