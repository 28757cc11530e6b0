"""As `bare_script`, on a machine that has Pillow, too.

python -m tests.bench.scripts.bare_with_pillow benchmarks/NAME.py WORDS ...
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from PIL import Image, JpegImagePlugin  # what is in memory already can be had for good

from understudy.audit.bare import become_bare

if __name__ == "__main__":
    assert Image is not None
    assert JpegImagePlugin is not None
    become_bare("understudy")
    for absent in ("yaml", "typer", "rich", "dp_accounting", "scipy", "sklearn", "torchvision"):
        try:
            __import__(absent)
        except ImportError:
            continue
        raise SystemExit(f"{absent} can be imported; this machine is not bare")
    del sys.argv[0]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
