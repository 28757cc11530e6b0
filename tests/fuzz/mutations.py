"""Ways to spoil a file, each a function of the bytes and a seeded generator.

The same generator gives the same bytes, so that a failing input can be made again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Random = np.random.Generator
Mutation = Callable[[bytes, Random], bytes]

NASTY_WORDS = (
    *("", "null", "~", "true", "-1", "0", "1e999", "-1e999", "NaN", ".inf", "1e-320", "9" * 400),
    *("99999999999999999999", "-9223372036854775809", "0x10", "1_000", "{}", "[]", "[[", '"', "'"),
    *("\x00", "\ud7ff", "\U0001f600", "\u202e", "é" * 3, "../../etc/passwd", "/srv/x/y"),
    *("!!python/object/apply:os.getcwd []", "&a [*a]", "*a", "<<: *a", "%TAG", "---", "...", "- -"),
    *("infinity", "central", "empirical", "understudy-claim/1", "[" * 3000, "{" * 500, ": : :"),
)
NASTY_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 10**6, 10**19, -(10**30), 10**400, 0.5, -0.0, 1e-300, 1e308),
    *("", "x", "infinity", "central", "empirical", "-1", "1.0", "\u0000", "a" * 3000, [], {}, [[]]),
    *([0], {"a": 1}, [None], ["x", "x"]),
)


def flip_bit(data: bytes, random: Random) -> bytes:
    spoilt = bytearray(data)
    spoilt[random.integers(len(data))] ^= 1 << int(random.integers(8))
    return bytes(spoilt)


def set_byte(data: bytes, random: Random) -> bytes:
    spoilt = bytearray(data)
    spoilt[random.integers(len(data))] = int(random.choice([0, 1, 9, 10, 34, 127, 128, 255]))
    return bytes(spoilt)


def truncate(data: bytes, random: Random) -> bytes:
    return data[: random.integers(len(data))]


def cut_out(data: bytes, random: Random) -> bytes:
    start, stop = _span(data, random)
    return data[:start] + data[stop:]


def repeat(data: bytes, random: Random) -> bytes:
    start, stop = _span(data, random)
    return data[:stop] + data[start:stop] * int(random.integers(1, 4)) + data[stop:]


def swap(data: bytes, random: Random) -> bytes:
    first, second = sorted(int(random.integers(len(data))) for _ in range(2))
    return data[second:] + data[first:second] + data[:first]


def insert(data: bytes, random: Random) -> bytes:
    at = int(random.integers(len(data) + 1))
    return data[:at] + random.bytes(int(random.integers(1, 40))) + data[at:]


def big_number(data: bytes, random: Random) -> bytes:
    """A length or count in a header becomes the largest there is."""
    at = int(random.integers(len(data)))
    width = int(random.choice([2, 4, 8]))
    value = random.choice([b"\xff", b"\x7f", b"\x00"]) * width
    return data[:at] + bytes(value) + data[at + width :]


def append(data: bytes, random: Random) -> bytes:
    return data + random.choice([b"\n", b" ", b"\x00", b"}", b"PK\x03\x04", b"\n\n{}\n"])


def replace_all(_: bytes, random: Random) -> bytes:
    return bytes(random.choice([b"", b"\n", b"{}", b"[]", b"null", b"\xff\xfe", b"\x00" * 64]))


BYTES: tuple[Mutation, ...] = (
    *(flip_bit, set_byte, truncate, cut_out, repeat, swap, insert, big_number, append, replace_all),
)


def nasty_token(data: bytes, random: Random) -> bytes:
    """One word or number of a text becomes something awkward."""
    places = [m for m in _tokens(data) if m[0] < m[1]]
    if not places:
        return data + b"x"
    start, stop = places[random.integers(len(places))]
    word = NASTY_WORDS[random.integers(len(NASTY_WORDS))]
    return data[:start] + word.encode("utf-8", "surrogatepass") + data[stop:]


def drop_line(data: bytes, random: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[random.integers(len(lines))]
    return b"".join(lines)


def copy_line(data: bytes, random: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(int(random.integers(len(lines))), lines[random.integers(len(lines))])
    return b"".join(lines)


def move_line(data: bytes, random: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(int(random.integers(len(lines))), lines.pop(int(random.integers(len(lines)))))
    return b"".join(lines)


def indent_line(data: bytes, random: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines[random.integers(len(lines))] = b"  \t"[: int(random.integers(1, 4))] + lines[0]
    return b"".join(lines)


TEXT: tuple[Mutation, ...] = (
    *(nasty_token, nasty_token, nasty_token, drop_line, copy_line, move_line, indent_line),
    *(flip_bit, truncate, insert),
)


def json_value(data: bytes, random: Random) -> bytes:
    """One value of a JSON object, at any depth, becomes another, goes, or gets a sibling."""
    lines = data.splitlines() if data.count(b"\n{") else [data]
    which = int(random.integers(len(lines)))
    root = [json.loads(lines[which])]
    holder, key = _place(root, random)
    choice = random.integers(8)
    if choice == 0 and holder is not root:
        del holder[key]
    elif choice == 1 and isinstance(holder, dict):
        holder[f"{key}x"] = holder[key]
    elif choice == 2 and isinstance(holder[key], int | float):
        holder[key] = holder[key] * float(random.choice([0.5, 0.99, 1.01, 2, -1]))
    else:
        holder[key] = NASTY_VALUES[random.integers(len(NASTY_VALUES))]
    if len(lines) > 1:
        lines[which] = json.dumps(root[0], sort_keys=True, separators=(",", ":")).encode()
        return b"\n".join(lines) + b"\n"
    return (json.dumps(root[0], indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")


JSON: tuple[Mutation, ...] = (json_value, json_value, json_value, nasty_token, flip_bit, truncate)


def mutated(data: bytes, ways: Sequence[Mutation], random: Random) -> bytes:
    """The file spoilt in one to three ways; never as it was."""
    spoilt = data
    while spoilt == data:
        for _ in range(int(random.choice([1, 1, 1, 2, 3]))):
            way = ways[random.integers(len(ways))]
            spoilt = _tried(way, spoilt or b"\n", random)
    return spoilt


def _tried(way: Mutation, data: bytes, random: Random) -> bytes:
    """A structured change of what is no longer structured becomes a change of bytes."""
    try:
        return way(data, random)
    except (ValueError, RecursionError, IndexError):
        return flip_bit(data, random)


def _span(data: bytes, random: Random) -> tuple[int, int]:
    start = int(random.integers(len(data)))
    return start, min(len(data), start + int(random.integers(1, 64)))


def _tokens(data: bytes) -> list[tuple[int, int]]:
    """Runs of letters, digits and dots: the words of YAML, JSON, CSV and Markdown."""
    inside = np.isin(
        np.frombuffer(data, np.uint8),
        np.frombuffer(
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_", np.uint8
        ),
    )
    edges = np.flatnonzero(np.diff(np.concatenate([[0], inside.view(np.int8), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _place(root: list[Any], random: Random) -> tuple[Any, Any]:
    """A random holder and key below a JSON value."""
    places: list[tuple[Any, Any]] = []
    waiting: list[tuple[Any, Any]] = [(root, 0)]
    while waiting:
        holder, key = waiting.pop()
        places.append((holder, key))
        value = holder[key]
        keys = (
            value.keys()
            if isinstance(value, dict)
            else range(len(value) if isinstance(value, list) else 0)
        )
        waiting += [(value, k) for k in keys]
    return places[random.integers(len(places))]
