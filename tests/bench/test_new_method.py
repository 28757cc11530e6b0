"""`bench new-method`: one file, and it is a method: checked, keyed, in a suite, and run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.test_house import HEAVY, loaded_by
from tests.workplace import Workplace
from understudy.bench.new_method import class_name, new_method
from understudy.bench.suite.suite import load_suite
from understudy.bench.templates.class_means import ClassMeansSynthesizer
from understudy.bench.work.phase_keys import phase_keys
from understudy.data.load import load
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.methods.registry import get_method
from understudy.release.load import load_release


@pytest.fixture(autouse=True)
def _clean_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test imports from its folder must not stay for the next one."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("blur_"):
            del sys.modules[name]


@pytest.fixture
def written(workplace: Workplace) -> Workplace:
    said = workplace.run("bench", "new-method", "blur-first").succeeded().out
    assert "blur_first.py:BlurFirst" in said
    assert workplace.tree() == {"blur_first.py"}
    return workplace


@pytest.mark.slow
def test_it_passes_every_contract_check(written: Workplace) -> None:
    said = written.run("check-method", "blur_first.py:BlurFirst").succeeded().out
    assert said.count("pass  ") == len(said.splitlines()) == 9


def test_it_stands_in_a_suite_as_it_is(written: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = written / "mine.yaml"
    suite.write_text(
        "grid:\n  method: [blur_first.py:BlurFirst, dp-merf]\n  dataset: digits\n  epsilon: 1\n"
        "overrides: [{where: {method: 'blur_first.py:BlurFirst'}, settings: {grid: 4}}]\n"
    )
    cells = load_suite(suite).cells
    assert cells[0].title == "digits blur-first epsilon 1 seed 0"
    keys = phase_keys(cells[0], data=None)
    assert keys.fit != phase_keys(cells[1], data=None).fit
    monkeypatch.chdir(written.folder)
    assert phase_keys(load_suite("mine.yaml").cells[0], data=None) == keys
    file = written / "blur_first.py"
    file.write_text(file.read_text().replace("0.15", "0.16"))
    assert phase_keys(cells[0], data=None).fit != keys.fit
    suite.write_text(suite.read_text().replace("grid: 4", "gird: 4"))
    with pytest.raises(UserError, match=r"line 5: .*no setting 'gird'; did you mean grid\?"):
        load_suite(suite)


def test_it_makes_a_release_whose_images_tell_the_classes_apart(written: Workplace) -> None:
    words = ("synthesize", "digits", "--method", "blur_first.py:BlurFirst", "--epsilon", "10")
    written.run(*words, "-o", "out", "--samples", "200").succeeded()
    made, claim = load_release(written / "out")
    assert claim.method.name == "blur-first"
    assert 9.9 < claim.epsilon <= 10
    assert _nearest_mean_accuracy(made, load("digits").part("test")) > 0.6


def _nearest_mean_accuracy(made: Records, real: Records) -> float:
    """How often the nearest synthetic class mean is that of a real record's class."""
    means = np.stack([made.features[made.labels == code].mean(axis=0) for code in range(10)])
    distances = ((real.features[:, None].astype(float) - means) ** 2).sum(axis=(2, 3, 4))
    return float((distances.argmin(axis=1) == real.labels).mean())


def test_the_template_itself_refers_to_nothing_else() -> None:
    text = Path(sys.modules[ClassMeansSynthesizer.__module__].__file__ or "").read_text()
    assert "understudy.bench" not in text.replace("`understudy bench new-method`", "")
    assert "bench.templates" not in text
    ours = [line for line in text.splitlines() if "import" in line and "understudy" in line]
    assert ours == ["import understudy.authoring as us"]


def test_another_file_may_be_named(workplace: Workplace) -> None:
    workplace.run("bench", "new-method", "blur-it", "-o", "lab/blur_it_well.py").succeeded()
    target = f"{workplace / 'lab/blur_it_well.py'}:BlurIt"
    assert get_method(target).info.name == "blur-it"


@pytest.mark.parametrize("name", ["Blur", "blur_it", "3d", "-x", "blur it", "", "none"])
def test_a_name_that_cannot_be_one_is_refused(workplace: Workplace, name: str) -> None:
    workplace.run("bench", "new-method", "--", name).refused("like my-method")
    assert workplace.tree() == set()


def test_a_name_or_a_file_that_is_taken_is_refused(workplace: Workplace) -> None:
    workplace.run("bench", "new-method", "dp-merf").refused("'dp-merf' already")
    workplace.run("bench", "new-method", "json").refused("json.py", "installed module 'json'", "-o")
    workplace.run("bench", "new-method", "blur-x", "-o", "blur-x.py").refused("blur-x.py", "_")
    workplace.run("bench", "new-method", "blur-x", "-o", "blur").refused(".py")
    (workplace / "blur_x.py").write_text("precious = True\n")
    workplace.run("bench", "new-method", "blur-x").refused("blur_x.py exists already")
    assert (workplace / "blur_x.py").read_text() == "precious = True\n"


def test_classes_are_named_as_python_does() -> None:
    assert class_name("dp-2-stage-gan") == "Dp2StageGan"


def test_bench_alone_shows_its_help(workplace: Workplace) -> None:
    said = workplace.run("bench")
    assert said.code == 2
    assert "new-method" in said.out
    assert said.err == ""


def test_new_method_gives_the_address(tmp_path: Path) -> None:
    assert new_method("blur-q", tmp_path / "blur_q.py") == f"{tmp_path / 'blur_q.py'}:BlurQ"


def test_the_help_of_bench_is_cheap() -> None:
    statement = "from understudy.cli.main import run; assert run(['bench', '--help']) == 0"
    assert not loaded_by(statement) & (HEAVY | {"numpy", "duckdb"})


@pytest.mark.slow
def test_from_one_file_to_its_first_row_in_the_table(written: Workplace) -> None:
    """One new file for the method, one for the suite that names it, and no edit elsewhere."""
    (written / "mine.yaml").write_text(
        f"grid: {{method: 'blur_first.py:BlurFirst', dataset: digits, epsilon: 1, limit: 200, "
        f"samples: 60, protocol: {written.quick_protocol()}}}\n"
    )
    ran = written.run("bench", "run", "mine.yaml", "--jobs", "1").succeeded()
    assert "1 done" in ran.out
    rows = written.run("bench", "table", "--no-published").succeeded().out.splitlines()
    assert any(line.split()[:1] == ["blur-first"] for line in rows), rows
