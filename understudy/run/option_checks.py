"""Options of a run that do not go with its method, or with each other."""

from __future__ import annotations

from understudy.data.schema import Schema
from understudy.errors import UserError
from understudy.methods.contract import FixedSize, Method, require_size
from understudy.methods.needs import require_packages
from understudy.methods.registry import get_method, method_names
from understudy.run.config import RECOMMENDED, RunConfig
from understudy.run.public_options import public_sources, weights_sources


def checked_method(config: RunConfig) -> Method:
    """The method of a run, once its options are such as it takes."""
    method = get_method(config.method)
    require_packages(method.info)
    require_size(method)
    _refuse_unused(config, method)
    return method


def _what_hides() -> str:
    """Where an attribute can be hidden instead."""
    hiding = [name for name in method_names() if _hides(name)]
    methods = f"{' or '.join(hiding)} would, and so would" if hiding else "no method here does, but"
    return f"{methods} a filter (understudy filter --help); leave --hide out."


def _hides(name: str) -> bool:
    try:
        return get_method(name).info.hides
    except UserError:  # one that cannot be loaded hides nothing
        return False


def _refuse_unused(config: RunConfig, method: Method) -> None:
    """An option that the method would ignore is an error, not a silence."""
    info = method.info
    if config.hide and not info.hides:
        raise UserError(f"{info.name} hides no attribute; {_what_hides()}")
    if info.hides and not config.hide:
        raise UserError(f"{info.name} hides an attribute; name it with --hide.")
    if config.keep and not info.hides:
        raise UserError(f"{info.name} keeps nothing but the label; leave --keep out.")
    both = [name for name in config.hide if name in config.keep]
    if both:
        raise UserError(f"--hide and --keep both name {both[0]!r}; name it in one of them.")
    if config.samples and (info.maps is not None or isinstance(method, FixedSize)):
        raise UserError(f"how many records {info.name} makes is not free; leave --samples out.")
    public_sources(config.public, info)
    weights_sources(config.weights, info)
    if config.epsilon is None and info.claim != "empirical":
        raise UserError(f"{info.name} needs --epsilon (1 or 10, say).")


def refuse_decided(config: RunConfig) -> None:
    """What a rule or an order chose is known by this run having asked it: nobody can say so."""
    for name in ("fitted", "fitted_on", "ranked_on"):
        if getattr(config, name):
            raise UserError(
                f"{name} is what a run writes; leave it out, and give settings of your own by "
                "`changes` (--set)."
            )


def refuse_open_claim(config: RunConfig) -> None:
    """Only by its name is a method taken that claims nothing; to leave out --epsilon asks for
    none."""
    if config.method == RECOMMENDED and config.epsilon is None:
        raise UserError(
            "a method is recommended for a budget; give --epsilon (1 or 10, say), or name the "
            "method by --method."
        )


def refuse_hidden_label(config: RunConfig, schema: Schema) -> None:
    """What is learnt and released under its name cannot be what is hidden."""
    label = schema.label_attribute.name
    if label in config.hide:
        raise UserError(
            f"--hide names {label!r}, which is the label to learn; hide another attribute, or "
            "choose another --label."
        )
