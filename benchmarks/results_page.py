"""Write the results page from the evidence: our figures and the published ones beside them.

python benchmarks/results_page.py
"""

from __future__ import annotations

from measure import EVIDENCE, REPOSITORY

from understudy.bench.evidence.store import read_store
from understudy.bench.tables.results_page import results_page

if __name__ == "__main__":
    (REPOSITORY / "docs" / "results.md").write_text(results_page(read_store(EVIDENCE)))
