"""Epsilons by other people's code, kept in a data file so that they are compared in no time.

`python -m tests.privacy.accounting.golden` computes the file again. Two packages compose
privacy loss distributions (Google's dp_accounting and Microsoft's prv_accountant), two add Renyi
curves (dp_accounting and Opacus).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from understudy.privacy.plan.events import Event, Gaussian, PoissonGaussian

FILE = Path(__file__).with_name("golden_epsilons.csv")
COLUMNS = ("events", "delta", "package", "version", "method", "low", "epsilon")

CASES: tuple[tuple[tuple[Event, ...], float], ...] = (
    ((Gaussian(5.0),), 1e-5),
    ((Gaussian(1.3, 10),), 1e-6),
    ((PoissonGaussian(0.8, 0.0021, 1876),), 1e-5),
    ((PoissonGaussian(1.0, 0.01, 1000),), 1e-5),
    ((PoissonGaussian(2.0, 0.05, 300),), 1e-6),
    ((PoissonGaussian(1.5, 0.04, 2250),), 1e-5),
    ((PoissonGaussian(1.0, 0.01, 500), Gaussian(4.0)), 1e-5),
)
"""The last but one is the setting of Opacus's own tests: 7.329 by RDP, 6.777 by PRV there."""


@dataclass(frozen=True)
class Golden:
    """What one package says that some events cost; `low` is its own lower bound, if any."""

    events: tuple[Event, ...]
    delta: float
    package: str
    method: str
    low: float
    epsilon: float

    @property
    def name(self) -> str:
        return f"{self.package} {self.method}: {self.events} at {self.delta:g}"


def golden() -> list[Golden]:
    with FILE.open(encoding="utf-8", newline="") as file:
        return [
            Golden(
                tuple(_event(e) for e in json.loads(row["events"])),
                float(row["delta"]),
                row["package"],
                row["method"],
                float(row["low"]),
                float(row["epsilon"]),
            )
            for row in csv.DictReader(file)
        ]


def _event(written: dict[str, Any]) -> Event:
    kinds: dict[str, type[Any]] = {e.kind: e for e in (Gaussian, PoissonGaussian)}
    event: Event = kinds[written.pop("kind")](**written)
    return event


def by_google_pld(events: tuple[Event, ...], delta: float) -> tuple[float, float]:
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    accountant: Any = PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    epsilon = float(_composed(accountant, events).get_epsilon(delta))
    return 0.0, epsilon


def by_google_rdp(events: tuple[Event, ...], delta: float) -> tuple[float, float]:
    from dp_accounting.rdp import RdpAccountant

    return 0.0, float(_composed(RdpAccountant(), events).get_epsilon(delta))


def _composed(accountant: Any, events: tuple[Event, ...]) -> Any:
    import dp_accounting as dp

    for event in events:
        assert isinstance(event, Gaussian | PoissonGaussian)
        one: Any = dp.GaussianDpEvent(event.sigma)
        if isinstance(event, PoissonGaussian):
            one = dp.PoissonSampledDpEvent(event.rate, one)
        accountant.compose(one, event.count)
    return accountant


def by_prv(events: tuple[Event, ...], delta: float) -> tuple[float, float]:
    import prv_accountant as prv

    releases, counts = [], []
    for event in events:
        assert isinstance(event, Gaussian | PoissonGaussian)
        rate = getattr(event, "rate", None)
        releases.append(
            prv.GaussianMechanism(event.sigma)
            if rate is None
            else prv.PoissonSubsampledGaussianMechanism(rate, event.sigma)
        )
        counts.append(event.count)
    accountant = prv.PRVAccountant(
        prvs=releases, max_self_compositions=counts, eps_error=0.02, delta_error=delta / 1000
    )
    low, estimate, _ = accountant.compute_epsilon(delta, counts)
    return float(low), float(estimate)


def by_opacus(events: tuple[Event, ...], delta: float) -> tuple[float, float]:
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    for event in events:
        assert isinstance(event, Gaussian | PoissonGaussian)
        accountant.history.append((event.sigma, getattr(event, "rate", 1.0), event.count))
    return 0.0, float(accountant.get_epsilon(delta))


PACKAGES: dict[tuple[str, str], Callable[[tuple[Event, ...], float], tuple[float, float]]] = {
    ("dp-accounting", "PLD"): by_google_pld,
    ("prv-accountant", "PLD"): by_prv,
    ("dp-accounting", "RDP"): by_google_rdp,
    ("opacus", "RDP"): by_opacus,
}


def rows() -> Iterator[dict[str, object]]:
    for events, delta in CASES:
        told = json.dumps([{"kind": e.kind, **asdict(e)} for e in events])
        for (package, method), compute in PACKAGES.items():
            low, epsilon = compute(events, delta)
            values = (told, delta, package, version(package), method, f"{low:.8g}")
            yield dict(zip(COLUMNS, (*values, f"{epsilon:.8g}"), strict=True))


def main() -> None:
    found = list(rows())
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()
