"""One fuzzed input again: `python -m tests.fuzz.replay TARGET NUMBER`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.fuzz.harness import try_one
from tests.fuzz.scene import build_scene
from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    name, number = sys.argv[1], int(sys.argv[2])
    scene = build_scene(Path(tempfile.mkdtemp()))
    target = next(t for t in TARGETS if t.name == name)
    print(try_one(target, number, scene) or "nothing was broken")
    print(f"the spoilt copy is in {scene.folder}")
