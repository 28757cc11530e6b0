"""Print the table of figures of the methods page, from the evidence.

python benchmarks/methods_page.py
"""

from __future__ import annotations

from measure import EVIDENCE

from understudy.bench.methods_page import methods_page_table
from understudy.bench.store import read_store

if __name__ == "__main__":
    print(methods_page_table(read_store(EVIDENCE)))
