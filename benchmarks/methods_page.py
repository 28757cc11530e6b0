"""Print the table of figures of the methods page, from the evidence.

python benchmarks/methods_page.py
"""

from __future__ import annotations

from measure import EVIDENCE

from understudy.bench.evidence.store import read_store
from understudy.bench.tables.methods_page import methods_page_table

if __name__ == "__main__":
    print(methods_page_table(read_store(EVIDENCE)))
