"""`python -m understudy.bench.away JOB`: work packed jobs off."""

from __future__ import annotations

import sys

from understudy.bench.away.fit_jobs import main

if __name__ == "__main__":
    sys.exit(main())
