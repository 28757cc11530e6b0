"""The digest of a method's code: what changes it, and what does not."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.methods.test_registry import TOY
from understudy.bench.work import code_digest as digests
from understudy.bench.work.code_digest import code_digest
from understudy.methods.contract import Method
from understudy.methods.registry import get_method, load_method

HOUSE = Path(digests.__file__).parents[2]


class Copy:
    """A copy of the rooms that count, which the digest reads in place of the real ones."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "understudy"
        for room in ("methods", "nets"):
            shutil.copytree(HOUSE / room, self.folder / room)
        fake = type("Package", (), {"__file__": str(self.folder / "__init__.py")})
        monkeypatch.setattr(digests, "understudy", fake)

    def replace(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    return Copy(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def merf() -> Method:
    return get_method("dp-merf")


@pytest.fixture(scope="module")
def gan() -> Method:
    return get_method("dp-gan")


def test_methods_differ_and_empty_lines_do_not_count(copy: Copy, merf: Method, gan: Method) -> None:
    assert len(code_digest(merf)) == 64
    assert code_digest(merf) != code_digest(gan)
    before = code_digest(merf)
    copy.replace("methods/dp_merf.py", "CLIP = 1.0", "\nCLIP = 1.0\n")
    assert code_digest(merf) == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("methods/dp_merf.py", "CLIP = 1.0", "CLIP = 1.0  # a remark"),
        ("methods/dp_merf.py", '"""DP-MERF: one noisy', '"""DP-MERF, that is: one noisy'),
        ("methods/dp_merf.py", '"""One noisy sum with clip 1', '"""A noisy sum with clip 1'),
        ("methods/dp_merf.py", "CLIP = 1.0", 'CLIP = 1.0\n"""How long."""\n'),
        ("methods/dp_merf.py", "CLIP = 1.0", "CLIP = (\n    1.0\n)"),
        ("nets/fourier.py", "import torch", "import torch  # of course"),
        ("methods/contract.py", "class Facts:", "class Facts:\n    x: int = 1\n"),
        ("methods/info.py", "TRAIN = ", "X = 1\nTRAIN = "),
        ("methods/dp_gan.py", "_GRADIENT_BYTES = ", "_GRADIENT_BYTES = OTHER = "),
    ],
)
def test_what_changes_nothing_does_not_count(
    copy: Copy, merf: Method, file: str, old: str, new: str
) -> None:
    before = code_digest(merf)
    copy.replace(file, old, new)
    assert code_digest(merf) == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("methods/dp_merf.py", "CLIP = 1.0", "CLIP = 1.5"),
        ("methods/dp_merf.py", "CLIP = 1.0", "CLIP = 1"),
        ("methods/synthesizer.py", "_ROWS_AT_ONCE = 2000", "_ROWS_AT_ONCE = 2001"),
        ("nets/fourier.py", "import torch", "import torch\nX = 1"),
        ("nets/sizes.py", "def image_shape", "X = 1\n\n\ndef image_shape"),
        ("nets/__init__.py", '"""', 'X = 1\n"""'),
    ],
)
def test_code_counts_wherever_the_method_imports_it_from(
    copy: Copy, merf: Method, file: str, old: str, new: str
) -> None:
    before = code_digest(merf)
    copy.replace(file, old, new)
    assert code_digest(merf) != before


def test_the_code_of_one_method_is_not_that_of_another(
    copy: Copy, merf: Method, gan: Method
) -> None:
    before = code_digest(merf), code_digest(gan)
    copy.replace("methods/gan_training.py", "_FAKES_AT_ONCE = 128", "_FAKES_AT_ONCE = 64")
    after = code_digest(merf), code_digest(gan)
    assert after[0] == before[0]
    assert after[1] != before[1]


@pytest.mark.parametrize(
    ("imports", "use"),
    [
        ("import understudy.authoring as us", "us.condition_codes"),
        ("import understudy.authoring", "understudy.authoring.condition_codes"),
        ("from understudy import authoring", "authoring.condition_codes"),
        ("from understudy.authoring import condition_codes", "condition_codes"),
        ("from understudy.authoring import condition_codes as codes", "codes"),
        ("from understudy.authoring import *", "condition_codes"),
    ],
)
def test_what_comes_by_way_of_authoring_counts(
    copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports: str, use: str
) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "toy_author.py").write_text(f"{imports}\nCODES = {use}\n{TOY}")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "toy_author", raising=False)
    method = load_method(f"{tmp_path / 'lab' / 'toy_author.py'}:Toy")
    before = code_digest(method)
    copy.replace("nets/generators.py", "import torch\n", "import torch\nX = 1\n")
    assert (code_digest(method) == before) is ("*" not in imports)
    before = code_digest(method)
    copy.replace("methods/conditions.py", "if n < 0:", "if n <= 0:")
    assert code_digest(method) != before


class TestOfOthers:
    """Third parties: a package, a file on its own, an installed module."""

    def test_a_package_counts_whole_as_far_as_it_is_imported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = tmp_path / "toyhouse"
        (package / "inner").mkdir(parents=True)
        files = {
            "__init__.py": "",
            "method.py": f"from .inner import tools\nfrom . import shared\n{TOY}",
            "inner/__init__.py": "",
            "inner/tools.py": "from ..far import away\n",
            "far.py": "away = 1\n",
            "shared.py": "",
            "unused.py": "",
        }
        for name, text in files.items():
            (package / name).write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        method = load_method("toyhouse.method:Toy")
        before = code_digest(method)
        for name in files:
            (package / name).write_text(f"{files[name]}\nANOTHER = 1\n")
            assert (code_digest(method) != before) is (name != "unused.py"), name
            (package / name).write_text(files[name])
        assert code_digest(method) == before

    def test_a_file_counts_with_what_it_imports_from_beside_it(self, tmp_path: Path) -> None:
        folder = tmp_path / "lab"
        folder.mkdir()
        (folder / "toy_alone.py").write_text(
            f"import toy_helper\nimport understudy.privacy.plan.plan\n{TOY}"
        )
        (folder / "toy_helper.py").write_text("X = 1\n")
        (folder / "stranger.py").write_text("X = 1\n")
        method = load_method(f"{folder / 'toy_alone.py'}:Toy")
        before = code_digest(method)
        (folder / "stranger.py").write_text("X = 2\n")
        assert code_digest(method) == before
        (folder / "understudy" / "privacy").mkdir(parents=True)
        (folder / "understudy" / "privacy" / "plan.py").write_text("not even Python")
        assert code_digest(method) == before, "a checkout of Understudy may lie there"
        (folder / "toy_helper.py").write_text("X = 20\n")
        assert code_digest(method) != before

    def test_where_a_file_lies_does_not_count(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = []
        for place in ("here", "there"):
            (tmp_path / place).mkdir()
            (tmp_path / place / "toy_moved.py").write_text(TOY)
            monkeypatch.delitem(sys.modules, "toy_moved", raising=False)
            monkeypatch.setattr(sys, "path", [p for p in sys.path if str(tmp_path) not in p])
            found.append(code_digest(load_method(f"{tmp_path / place / 'toy_moved.py'}:Toy")))
        assert found[0] == found[1]

    def test_an_installed_module_counts_without_its_neighbours(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        site = tmp_path / "site-packages"
        site.mkdir()
        (site / "toy_installed.py").write_text(f"import toy_neighbour\n{TOY}")
        (site / "toy_neighbour.py").write_text("X = 1\n")
        monkeypatch.syspath_prepend(str(site))
        method = load_method("toy_installed:Toy")
        before = code_digest(method)
        (site / "toy_neighbour.py").write_text("X = 20\n")
        assert code_digest(method) == before
        (site / "toy_installed.py").write_text(f"import toy_neighbour\nX = 2\n{TOY}")
        assert code_digest(method) != before


def test_where_modules_lie_does_not_count(copy: Copy, merf: Method) -> None:
    before = code_digest(merf)
    (copy.folder / "nets" / "fourier.py").rename(copy.folder / "nets" / "random_features.py")
    copy.replace("methods/dp_merf.py", "understudy.nets.fourier", "understudy.nets.random_features")
    assert code_digest(merf) == before


def test_which_names_are_imported_counts(copy: Copy, merf: Method) -> None:
    before = code_digest(merf)
    copy.replace("methods/dp_merf.py", "import math\n", "import cmath as math\n")
    assert code_digest(merf) != before
