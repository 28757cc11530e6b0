"""A script of benchmarks/ where only torch, numpy, safetensors and the standard library exist.

python -m tests.bench.scripts.bare_script benchmarks/NAME.py WORDS ...
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tests.bench.away.bare_away import require_bare
from understudy.audit.bare import become_bare

if __name__ == "__main__":
    become_bare("understudy")
    require_bare()
    del sys.argv[0]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))  # as when it is run itself
    runpy.run_path(sys.argv[0], run_name="__main__")
