"""An audit in three parts: packed here, run where only torch is, judged here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.rig import GAN
from tests.scripts import FOLDER, load_script
from tests.workplace import Workplace
from understudy.errors import PrivacyError
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.ledger.ledger import read_ledger
from understudy.release.build import run_facts

ROOT = FOLDER.parent
script = load_script("audit_away")
SURE = ("--canaries", "300", "--confidence", "0.999999")
SMALL = [word for setting in GAN for word in ("--set", setting)]
"""An honest audit may contradict the claim with the rest of its confidence; no test may."""


def packed(place: Workplace, *more: str) -> Path:
    words = ["pack", "dp-gan", "digits", "1", "--limit", "60", *SMALL, "--set", "steps=4", *SURE]
    job = place / "job"
    assert script.main([*words, "-o", str(job), "--home", str(place.home), *more]) == 0
    return job


def run_bare(place: Workplace, *words: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "tests.bench.scripts.bare_script",
        str(FOLDER / "audit_away.py"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, "run", *words, "--device", "cpu"],
        cwd=place.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def judged(place: Workplace, *results: str) -> dict[str, Any]:
    paths = [str(place / name) for name in results]
    assert script.main(["judge", *paths, "--evidence", str(place / "evidence")]) == 0
    (path,) = (place / "evidence").glob("audit-*.json")
    assert path.name == "audit-dp-gan-gpu.json"
    written = json.loads(path.read_text())
    assert written["audience"] == "public"
    found: dict[str, Any] = written["result"]
    return found


def test_an_audit_is_run_where_only_torch_is_and_judged_at_home(workplace: Workplace) -> None:
    job = packed(workplace)
    (entered,) = workplace.book("enter")
    assert entered["purpose"] == "audit"
    assert "packed for another machine as" in entered["facts"]
    assert job.stat().st_mode & 0o777 == 0o700
    done = run_bare(workplace, "job", "-o", "result.json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = judged(workplace, "result.json")["white-box, epsilon 1"]
    assert not found["contradicted"]
    assert found["guesses"] == 120
    assert found["claim"] == entered["plan"]["epsilon"]
    assert run_facts(read_ledger(job / "run" / "ledger.jsonl")).audited
    with pytest.raises(PrivacyError, match="not for release"):
        Book.open("digits", workplace.home).mark_released(entered["run"], "0" * 64)
    again = run_bare(workplace, "job", "-o", "again.json")
    assert again.returncode == 2
    assert "its plan is single-use; pack another" in again.stderr


def test_a_twin_is_found_out_and_other_ledgers_are_refused(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    job = packed(workplace, "--twin", "--set", "steps=60")
    result = workplace / "result.json"
    assert script.main(["run", str(job), "--device", "cpu", "-o", str(result)]) == 0
    assert judged(workplace, "result.json")["twin, epsilon 1"]["contradicted"]
    both = ["judge", str(result), str(result), "--evidence", str(workplace / "evidence")]
    assert script.main(both) == 2
    assert "judge every audit that was run, once" in capsys.readouterr().err
    whole = json.loads(result.read_text())
    lines = whole["ledger"].splitlines(keepends=True)
    result.write_text(json.dumps({**whole, "ledger": "".join(lines[:-1])}))
    assert script.main(["judge", str(result)]) == 2
    assert "not that of a finished audit" in capsys.readouterr().err
    other = {**whole["claimed"], "mechanisms": whole["claimed"]["mechanisms"] * 2}
    result.write_text(json.dumps({**whole, "claimed": other}))
    assert script.main(["judge", str(result)]) == 2
    assert len(list((workplace / "evidence").glob("audit-*.json"))) == 1
    result.write_text(json.dumps({**whole, "public": False}))
    assert script.main(["judge", str(result), "--evidence", str(workplace / "owners")]) == 0
    (theirs,) = (workplace / "owners").glob("audit-*.json")
    assert json.loads(theirs.read_text())["audience"] == "owner"


def test_what_cannot_be_audited_is_refused_before_anything_is_entered(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    job = workplace / "job"
    words = ["dp-gan", "digits", "1", "-o", str(job), "--home", str(workplace.home)]
    assert script.main(["pack", *words, "--canaries", "3"]) == 2
    assert "too few" in capsys.readouterr().err
    assert script.main(["run", str(workplace / "nothing"), "-o", str(workplace / "r")]) == 2
    assert not job.exists()
    assert workplace.book("enter") == []
