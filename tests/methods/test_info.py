"""What a method says of itself: parts whose shares add up, names, and declared counts."""

from __future__ import annotations

import pytest

from understudy.errors import UserError
from understudy.methods.info import MethodInfo, PublicRecords, PublicWeights
from understudy.methods.needs import require_packages


def info(**more: object) -> MethodInfo:
    return MethodInfo("toy", "s", "p", "f", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "add up to 1"),
        ({"a": 0.5, "b": 0.6}, "add up to 1"),
        ({"a": 0.5, "b": 0.4}, "add up to 1"),
        ({"a": 1.5, "b": -0.5}, "must be positive"),
        ({"a": 1.0, "b": 0.0}, "must be positive"),
        ({"a=b": 1.0}, "names are lower-case words"),
        ({"A": 1.0}, "names are lower-case words"),
    ],
)
def test_shares_that_are_none_are_refused(parts: dict[str, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        info(parts=parts)


def test_counts_follow_from_declared_numbers_alone_and_add_up() -> None:
    thirds = info(parts={"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    assert thirds.declared_counts(100) == {"a": 33, "b": 33, "c": 34}
    for count in range(3, 200):
        counts = thirds.declared_counts(count)
        assert sum(counts.values()) == count
        assert all(abs(own - count / 3) <= 1 for own in counts.values())
    assert info().declared_counts(7) == {"train": 7}


def test_a_count_that_leaves_a_part_empty_is_refused() -> None:
    with pytest.raises(UserError, match=r"a count of 9 leaves part 'few' of toy without a unit"):
        info(parts={"few": 0.1, "many": 0.9}).declared_counts(9)


def test_what_is_declared_cannot_be_changed_afterwards() -> None:
    shares = {"a": 0.5, "b": 0.5}
    told = info(parts=shares)
    shares["a"] = 0.9
    assert told.parts["a"] == 0.5
    with pytest.raises(TypeError):
        told.parts["a"] = 0.9  # type: ignore[index]


def test_public_inputs_have_names_of_their_own() -> None:
    with pytest.raises(UserError, match="share a name"):
        info(public=(PublicRecords("faces", ""), PublicWeights("faces", "")))
    with pytest.raises(UserError, match="'My Faces' cannot name"):
        info(public=(PublicRecords("My Faces", ""),))


def test_a_mapped_part_is_one_of_the_parts() -> None:
    with pytest.raises(UserError, match="maps names no part 'trian'; did you mean train"):
        info(maps="trian")


def test_a_claim_kind_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match="claim must be one of central, local, empirical"):
        info(claim="formal")


def test_packages_that_are_missing_are_named() -> None:
    require_packages(info(needs=("torch", "numpy")))
    with pytest.raises(UserError, match="toy needs no-such-package, nor-this; install with: pip"):
        require_packages(info(needs=("no-such-package", "torch", "nor-this")))
