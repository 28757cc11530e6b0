"""`understudy.bench.away` where only torch, numpy, safetensors and the standard library exist."""

from __future__ import annotations

import sys

from understudy.audit.bare import become_bare


def require_bare() -> None:
    for absent in ("yaml", "typer", "rich", "dp_accounting", "scipy", "sklearn", "PIL"):
        try:
            __import__(absent)
        except ImportError:
            continue
        raise SystemExit(f"{absent} can be imported; this machine is not bare")


if __name__ == "__main__":
    become_bare("understudy")
    require_bare()
    from understudy.bench.away.fit_jobs import main

    sys.exit(main(sys.argv[1:]))
