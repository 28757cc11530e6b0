"""Pickles are told by their content, wherever they lie, and are never opened."""

from __future__ import annotations

import base64
import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from understudy.release.pickles import file_may_hold_pickle, text_holds_pickle


class Boom:
    """Unpickling it would end the tests."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (3,)


def looks(tmp_path: Path, data: bytes) -> bool:
    path = tmp_path / "file"
    path.write_bytes(data)
    return file_may_hold_pickle(path)


PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("value", [Boom(), {"loss": [0.5]}, [1, 2]], ids=["code", "dict", "list"])
def test_a_file_that_is_a_pickle(tmp_path: Path, protocol: int, value: object) -> None:
    assert looks(tmp_path, pickle.dumps(value, protocol))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_code_inside_another_file(tmp_path: Path, protocol: int) -> None:
    noise = np.random.default_rng(0).bytes(100_000)
    hidden = pickle.dumps(Boom(), protocol)
    assert looks(tmp_path, noise[:50_000] + hidden + noise[50_000:])
    assert not looks(tmp_path, noise)


def test_archives(tmp_path: Path) -> None:
    sink = io.BytesIO()
    np.savez(sink, a=np.arange(3))
    assert looks(tmp_path, sink.getvalue())
    assert looks(tmp_path, b"#!/bin/sh\n" + sink.getvalue()), "with something before it"


@pytest.mark.parametrize(
    "data", [b"", b".", b"# A card\n\nspecific\nwords\n.", b"{}\n", b"PAR1" + bytes(50) + b"PAR1"]
)
def test_what_is_none(tmp_path: Path, data: bytes) -> None:
    assert not looks(tmp_path, data)


def test_megabytes_of_noise_raise_no_alarm(tmp_path: Path) -> None:
    assert not looks(tmp_path, np.random.default_rng(1).bytes(8 << 20))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_base_64(protocol: int) -> None:
    text = base64.b64encode(pickle.dumps(Boom(), protocol)).decode()
    assert text_holds_pickle(text)
    assert text_holds_pickle(f"state: {text}")
    assert not text_holds_pickle("gAAAAABmZmZm")
    assert not text_holds_pickle(base64.b64encode(b"nothing of the kind").decode())
