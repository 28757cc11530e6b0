"""Take evidence back that no longer shows what the code does; the index keeps the reason.

python benchmarks/withdraw_evidence.py WHY NAME...
"""

from __future__ import annotations

import sys

from measure import EVIDENCE

from understudy.bench.evidence.index import EvidenceIndex
from understudy.errors import UserError

if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit("say why, and name the files without .json")
    try:
        EvidenceIndex(EVIDENCE).withdraw(sys.argv[2:], sys.argv[1])
    except UserError as error:
        raise SystemExit(str(error)) from error
