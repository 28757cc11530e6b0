"""Synthetic stand-ins for sensitive image datasets, with privacy claims that are true.

Names are loaded when first used, so `import understudy` is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.audit.check_method import check_method
    from understudy.data.load import Dataset, load
    from understudy.data.records import Images, Records
    from understudy.data.schema import Attribute, Schema
    from understudy.errors import PrivacyError, UserError
    from understudy.evaluation.evaluate import evaluate
    from understudy.evaluation.protocol import load_protocol
    from understudy.methods.registry import get_method, method_names
    from understudy.privacy.plan.plan import Budget, Plan
    from understudy.release.load import load_release
    from understudy.release.verify import verify
    from understudy.run.audit import audit_method
    from understudy.run.config import RunConfig
    from understudy.run.demo import demo
    from understudy.run.evaluate import evaluate_release, evaluate_run
    from understudy.run.show import Shown, show
    from understudy.run.spent import spent
    from understudy.run.synthesize import preview, synthesize

__version__ = "0.2.0.dev0"

_HOMES = {
    "Attribute": "data.schema",
    "Budget": "privacy.plan.plan",
    "Dataset": "data.load",
    "Images": "data.records",
    "Plan": "privacy.plan.plan",
    "PrivacyError": "errors",
    "Records": "data.records",
    "RunConfig": "run.config",
    "Schema": "data.schema",
    "UserError": "errors",
    "audit_method": "run.audit",
    "check_method": "audit.check_method",
    "demo": "run.demo",
    "evaluate": "evaluation.evaluate",
    "evaluate_release": "run.evaluate",
    "evaluate_run": "run.evaluate",
    "get_method": "methods.registry",
    "load": "data.load",
    "load_protocol": "evaluation.protocol",
    "load_release": "release.load",
    "method_names": "methods.registry",
    "preview": "run.synthesize",
    "Shown": "run.show",
    "show": "run.show",
    "spent": "run.spent",
    "synthesize": "run.synthesize",
    "verify": "release.verify",
}

__all__ = [
    "Attribute",
    "Budget",
    "Dataset",
    "Images",
    "Plan",
    "PrivacyError",
    "Records",
    "RunConfig",
    "Schema",
    "Shown",
    "UserError",
    "audit_method",
    "check_method",
    "demo",
    "evaluate",
    "evaluate_release",
    "evaluate_run",
    "get_method",
    "load",
    "load_protocol",
    "load_release",
    "method_names",
    "preview",
    "show",
    "spent",
    "synthesize",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    return getattr(importlib.import_module(f"understudy.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
