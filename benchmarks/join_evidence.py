"""Bring evidence that was measured elsewhere (another branch, another machine) into the index.

python benchmarks/join_evidence.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from measure import EVIDENCE

from understudy.bench.evidence.joining import join_evidence
from understudy.errors import UserError

if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("give one folder of evidence, with its index.jsonl")
    try:
        joined = join_evidence(Path(sys.argv[1]), EVIDENCE)
    except UserError as error:
        raise SystemExit(str(error)) from error
    print("\n".join(path.name for path in joined) or "nothing new")
