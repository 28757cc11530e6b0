"""The registry: lazy, strict about names, helpful about wrong ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from understudy.errors import UserError
from understudy.methods.registry import (
    MethodEntry,
    Registry,
    get_method,
    load_method,
    method_names,
)

TOY = """
from dataclasses import dataclass
from understudy.methods.info import MethodInfo
from understudy.methods.config import setting

class Toy:
    info = MethodInfo(name="toy", summary="", paper="", family="test")
    @dataclass(frozen=True)
    class Config:
        width: int = setting(3, "how wide", low=1)
    class Output:
        def load(folder): ...
    def spend(self, config, facts): ...
    def fit(self, config, parts, plan, public, context): ...

class NoFit:
    info = Toy.info
    Config = Toy.Config
    Output = Toy.Output
    def spend(self, config, facts): ...

class Loose(Toy):
    @dataclass
    class Config:
        width: int = 3
"""


def install(folder: Path, name: str, entry_points: str) -> None:
    """A third-party distribution, as an installer would leave it on the path."""
    (folder / f"{name}.py").write_text(TOY)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[understudy.methods]\n{entry_points}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("toypack", "otherpack"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_built_in_names_are_listed() -> None:
    assert {"dp-gan", "dp-merf"} <= set(method_names())


def test_listing_imports_neither_torch_nor_a_method() -> None:
    code = (
        "import sys\n"
        "from understudy.methods.registry import method_names\n"
        "assert method_names()\n"
        "heavy = [m for m in sys.modules if m == 'torch' or '.methods.dp_' in m]\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_third_party_method_is_found_and_loaded(site: Path) -> None:
    install(site, "toypack", "toy = toypack:Toy")
    registry = Registry.discover()
    assert registry.entry("toy").source == "package toypack"
    assert registry.get("toy").info.name == "toy"


def test_third_party_clash_with_built_in_is_refused(site: Path) -> None:
    install(site, "toypack", "dp-merf = toypack:Toy")
    with pytest.raises(UserError, match=r"dp-merf.*toypack.*same name as a built-in method"):
        method_names()


def test_two_third_parties_cannot_share_a_name(site: Path) -> None:
    install(site, "toypack", "toy = toypack:Toy")
    install(site, "otherpack", "toy = otherpack:Toy")
    with pytest.raises(UserError, match="same name as one of package"):
        method_names()


def test_the_same_entry_seen_twice_is_no_clash() -> None:
    entry = MethodEntry("toy", "toypack:Toy", "package toypack")
    assert Registry([entry, entry]).names() == ("toy",)


def test_unknown_name_suggests_near_ones() -> None:
    with pytest.raises(UserError, match="did you mean dp-merf"):
        Registry.discover().get("dp-merv")


def test_registered_name_must_be_the_methods_own(site: Path) -> None:
    install(site, "toypack", "tool = toypack:Toy")
    with pytest.raises(UserError, match="calls itself 'toy'"):
        Registry.discover().get("tool")


@pytest.mark.parametrize("name", ["DP", "dp_merf", "-x", "", "a b"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="lower-case"):
        MethodEntry(name, "toypack:Toy", "test")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("toypack", "package.module:Class"),
        ("toypack:Tay", "did you mean Toy"),
        ("no_such_module_here:Toy", "cannot import"),
        ("toypack:NoFit", "needs `fit`"),
        ("toypack:Loose", "frozen dataclass"),
        ("toypack:dataclass", "no class"),
    ],
)
def test_what_is_not_a_method_is_named(site: Path, target: str, message: str) -> None:
    (site / "toypack.py").write_text(TOY)
    with pytest.raises(UserError, match=message):
        load_method(target)


def test_load_method_by_dotted_path(site: Path) -> None:
    (site / "toypack.py").write_text(TOY)
    assert load_method("toypack:Toy").info.family == "test"


class TestFiles:
    """A method that is one file, called by its path."""

    @pytest.fixture(autouse=True)
    def _own_path(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "path", list(sys.path))
        for name in ("toyfile", "toybroken"):
            monkeypatch.delitem(sys.modules, name, raising=False)

    def test_it_is_loaded_by_name_of_file_and_class(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "toyfile.py").write_text(TOY)
        assert get_method(f"{tmp_path / 'toyfile.py'}:Toy").info.name == "toy"
        monkeypatch.chdir(tmp_path)
        assert get_method("toyfile.py:Toy").info.name == "toy"
        assert type(get_method("./toyfile.py:Toy")).__module__ == "toyfile"

    @pytest.mark.parametrize(
        ("name", "text", "target", "message"),
        [
            ("toyfile.py", TOY, "toyfile.py:Tay", "no class 'Tay'; did you mean Toy"),
            ("toyfile.py", TOY, "toyfiel.py:Toy", "no method file .*toyfiel"),
            ("toyfile.py", TOY, "toyfile.py", "name the class in it too: toyfile.py:Class"),
            ("toyfile.py", TOY, "toyfile.py:NoFit", "needs `fit`"),
            ("toy-file.py", TOY, "toy-file.py:Toy", "rename"),
            ("json.py", TOY, "json.py:Toy", "another module is called 'json'"),
            ("toybroken.py", "def", "toybroken.py:Toy", "cannot be imported: SyntaxError"),
            ("toybroken.py", "1 / 0", "toybroken.py:Toy", "ZeroDivisionError"),
        ],
    )
    def test_what_is_wrong_is_named(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        text: str,
        target: str,
        message: str,
    ) -> None:
        (tmp_path / name).write_text(text)
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UserError, match=message):
            get_method(target)
