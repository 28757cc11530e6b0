"""Which public input each option is for, and what is said where that is not clear."""

from __future__ import annotations

import re

import pytest

from tests.run.public_method import Tinted, TintedByDefault
from understudy.errors import UserError
from understudy.methods.contract import Method
from understudy.methods.info import MethodInfo
from understudy.methods.registry import get_method
from understudy.run.public_options import public_sources, weights_sources

TINTED, USUAL = Tinted.info, TintedByDefault.info


def info(name: str) -> MethodInfo:
    method: Method = get_method(name)
    return method.info


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (("digits",), {"records": "digits"}),
        (("records=digits",), {"records": "digits"}),
        (("./a=b/photos",), {"records": "./a=b/photos"}),
        (("/A=B",), {"records": "/A=B"}),
        (("records=a=b",), {"records": "a=b"}),
    ],
)
def test_a_method_of_one_input_takes_it_with_and_without_its_name(
    given: tuple[str, ...], found: dict[str, str]
) -> None:
    assert public_sources(given, info("pdp-diffusion")) == found


def test_several_are_told_apart_by_name_in_any_order() -> None:
    given = ("scenes=portraits", "faces=digits")
    assert public_sources(given, TINTED) == {"faces": "digits", "scenes": "portraits"}
    assert public_sources(("faces=digits",), TINTED) == {"faces": "digits"}
    weights = ("cold=c.npz", "warm=w.npz")
    assert weights_sources(weights, TINTED) == {"warm": "w.npz", "cold": "c.npz"}


def test_the_catalogs_are_taken_where_none_are_named() -> None:
    assert weights_sources((), USUAL) == {"warm": "lenet-mnist"}
    assert weights_sources(("mine.npz",), USUAL) == {"warm": "mine.npz"}


@pytest.mark.parametrize(
    ("given", "method", "words"),
    [
        (("faecs=digits",), TINTED, "takes no public data called 'faecs'; did you mean faces?"),
        (("warm=x",), TINTED, "no public data called 'warm'; known: faces, scenes."),
        (("digits",), TINTED, "does not say which public data of tinted that is; write faces=DATA"),
        (("faces=",), TINTED, "--public 'faces=' gives nothing; write faces=DATA."),
        (("",), TINTED, "--public '' gives nothing; write faces=DATA."),
        (("faces=a", "faces=b"), TINTED, "--public gives 'faces' of tinted twice; give it once."),
        ((), TINTED, "name them with --public faces=DATA (images whose mean brightness"),
        (("a", "b"), info("pdp-diffusion"), "gives 'records' of pdp-diffusion twice"),
        ((), info("pdp-diffusion"), "pdp-diffusion needs public data; name them with --public"),
        (("digits",), info("dp-merf"), "dp-merf uses no public data; leave --public out."),
        (("digits",), USUAL, "tinted-by-default uses no public data; leave --public out."),
    ],
)  # fmt: skip
def test_public_data_that_do_not_suit_are_answered_with_the_right_names(
    given: tuple[str, ...], method: MethodInfo, words: str
) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        public_sources(given, method)


@pytest.mark.parametrize(
    ("given", "method", "words"),
    [
        (("hot=w.npz",), TINTED, "tinted takes no public weights called 'hot'; known: cold, warm."),
        (("w.npz",), TINTED, "which public weights of tinted that is; write warm=FILE"),
        (("cold=c.npz",), TINTED, "tinted needs public weights called 'warm'; name them with"),
        (("w.npz",), info("dp-merf"), "dp-merf uses no public weights; leave --weights out."),
    ],
)  # fmt: skip
def test_weights_that_do_not_suit_are_answered_with_the_right_names(
    given: tuple[str, ...], method: MethodInfo, words: str
) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        weights_sources(given, method)
