"""The rules of the house: which way imports point, what is cheap, what is never used."""

from __future__ import annotations

import ast
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "understudy"

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

EVERYWHERE = {
    "understudy",
    "understudy.durable",
    "understudy.errors",
    "understudy.plugins",
    "understudy.progress",
}
"""Modules that belong to no room; the bare package is what holds the version."""

FEWEST_TESTS = 5000
"""A guard against tests that vanish unseen; raise it as the suite grows."""


Order = tuple[tuple[str, ...], ...]


def printed_order(page: str) -> Order:
    """The rooms as CONTRIBUTING prints them, top to bottom: each may import rooms below it.

    Rooms in one pair of braces are strangers.
    """
    block = re.search(r"^```text\n(cli -> .+?)^```$", page, re.MULTILINE | re.DOTALL)
    assert block, "CONTRIBUTING prints no order of rooms"
    return tuple(tuple(re.findall(r"\w+", rooms)) for rooms in block[1].split("->"))


ROOMS = printed_order(CONTRIBUTING)


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: str) -> Iterator[str]:
    """Every module that a source imports, wherever in it; all of ours are absolute."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written out in full"
            yield node.module or ""
            # `from understudy import cli` imports a room, not a name.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def level(room: str, order: Order) -> int:
    return next(i for i, rooms in enumerate(order) if room in rooms)


def wrong_turns(module: str, source: str, order: Order = ROOMS) -> list[str]:
    """Imports of this module that do not point downwards in this order."""
    parts = module.split(".")
    if len(parts) < 3 and not (PACKAGE / parts[-1]).is_dir():
        return []  # `understudy` itself and what belongs to no room
    room = parts[1]
    found = []
    for name in imports(source):
        target = name.split(".")
        if target[0] != "understudy" or name in EVERYWHERE:
            continue
        if ".".join(target[:2]) in EVERYWHERE or target[1] == room:
            continue
        if (PACKAGE / target[1]).is_dir() and level(target[1], order) <= level(room, order):
            found.append(f"{module} imports {name}")
    return found


def all_wrong_turns(order: Order) -> list[str]:
    return [turn for p in modules() for turn in wrong_turns(dotted(p), p.read_text(), order)]


def test_imports_point_one_way() -> None:
    assert all_wrong_turns(ROOMS) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("understudy.data.load", "from understudy.privacy.plan.plan import Plan"),
        ("understudy.privacy.door.door", "def f():\n    import understudy.methods.registry"),
        ("understudy.nets.unet", "from understudy.privacy.door.door import Door"),
        ("understudy.encoders.autoencoder_training", "from understudy.methods.vae import DenseVAE"),
        ("understudy.nets.vae", "from understudy.encoders.specs import Spec"),
        ("understudy.release.verify", "from understudy.audit.bare import main"),
        ("understudy.methods.dp_merf", "from understudy.run.config import RunConfig"),
        ("understudy.run.start", "from understudy import cli"),
        ("understudy.federated.user", "from understudy.run.filter import Source"),
        ("understudy.filters.filter", "from understudy.federated.user import User"),
    ],
)
def test_an_import_the_wrong_way_is_seen(module: str, line: str) -> None:
    assert wrong_turns(module, line)


def rooms_out_of_place(order: Order) -> list[str]:
    """Rooms that an order leaves out, invents, or names more than once."""
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    named = [room for line in order for room in line]
    return sorted({*(rooms ^ set(named)), *(room for room in named if named.count(room) > 1)})


def test_every_room_has_its_place() -> None:
    assert rooms_out_of_place(ROOMS) == []


@pytest.mark.parametrize(
    ("printed", "wrong"),
    [
        ("federated -> ", ""),
        ("-> nets", "-> nets -> kitchen"),
        ("-> data", "-> data -> nets"),
    ],
)
def test_a_printed_order_without_every_room_is_seen(printed: str, wrong: str) -> None:
    assert rooms_out_of_place(printed_order(CONTRIBUTING.replace(printed, wrong)))


@pytest.mark.parametrize(
    ("printed", "wrong"),
    [
        ("privacy -> nets", "nets -> privacy"),
        ("privacy -> nets", "{privacy, nets}"),
        ("run -> federated", "federated -> run"),
        ("filters -> methods", "methods -> filters"),
    ],
)
def test_a_printed_order_that_the_code_does_not_keep_is_seen(printed: str, wrong: str) -> None:
    assert printed in CONTRIBUTING
    assert all_wrong_turns(printed_order(CONTRIBUTING.replace(printed, wrong)))


def loaded_by(statement: str) -> set[str]:
    """The top-level modules in memory after a statement ran in a fresh interpreter."""
    script = (
        f"import sys\n{statement}\nprint(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


HEAVY = {"torch", "dp_accounting", "sklearn", "scipy", "pyarrow", "opacus", "datasets", "PIL"}


def test_importing_the_package_is_cheap() -> None:
    assert not loaded_by("import understudy; dir(understudy)") & (HEAVY | {"numpy", "typer"})


def test_help_is_cheap() -> None:
    statement = "from understudy.cli.main import run; assert run(['--help']) == 0"
    assert not loaded_by(statement) & (HEAVY | {"numpy"})
    statement = "from understudy.cli.main import run; assert run(['synthesize', '--help']) == 0"
    assert not loaded_by(statement) & (HEAVY | {"numpy"})


def test_help_takes_less_than_half_a_second() -> None:
    """Of the processor's time, so that a busy machine does not fail it; the best of three."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = [sys.executable, "-m", "understudy", "--help"]
        subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(times) < 0.5


def test_listing_datasets_needs_no_torch() -> None:
    statement = "from understudy.cli.main import run; assert run(['datasets']) == 0"
    assert not loaded_by(statement) & {"torch", "dp_accounting", "sklearn"}


def test_the_cheapness_check_sees_what_is_loaded() -> None:
    assert {"numpy", "PIL"} <= loaded_by("import understudy; understudy.load")


def test_every_public_name_can_be_had() -> None:
    import understudy

    for name in understudy.__all__:
        assert getattr(understudy, name).__doc__, name
    with pytest.raises(AttributeError):
        understudy.nonsense  # noqa: B018


def test_no_public_name_is_a_module_too() -> None:
    """Importing a module of the same name would take the name's place."""
    import understudy

    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix in ("", ".py")}
    assert not parts & set(understudy.__all__)


def test_evaluate_stays_a_function_whatever_was_used_before() -> None:
    uses = "import understudy; understudy.synthesize; import understudy.evaluation.evaluate"
    assert loaded_by(f"{uses}; assert callable(understudy.evaluate)")


@pytest.mark.parametrize("banned", ["torchvision", "cPickle", "dill", "joblib", "shelve"])
def test_never_imported(banned: str) -> None:
    users = [
        dotted(path)
        for path in modules()
        if any(name.partition(".")[0] == banned for name in imports(path.read_text()))
    ]
    assert users == []


def unpickling(source: str) -> list[str]:
    """Calls that could run what a file says; naming an unpickling error is no such call."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "pickle":
            found.append("from pickle import")
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pickle":
            found += [node.attr] if not node.attr.endswith("Error") else []
        if isinstance(node, ast.Call):
            called, words = ast.unparse(node.func), {k.arg: k.value for k in node.keywords}
            safe = {"np.load": ("allow_pickle", "False"), "torch.load": ("weights_only", "True")}
            if called in safe:
                word, value = safe[called]
                found += [called] if word not in words or ast.unparse(words[word]) != value else []
            found += [called] if called in ("torch.save", "exec", "eval") else []
    return found


def test_nothing_is_unpickled() -> None:
    found = {dotted(path): unpickling(path.read_text()) for path in modules()}
    assert {module: calls for module, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import pickle\npickle.loads(b'')",
        "from pickle import loads",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "torch.load(path)",
        "torch.save(x, path)",
        "eval(text)",
    ],
)
def test_unpickling_is_seen(line: str) -> None:
    assert unpickling(line)


def test_every_module_says_what_it_is() -> None:
    sources = {dotted(path): ast.parse(path.read_text()) for path in modules()}
    assert [name for name, source in sources.items() if not ast.get_docstring(source)] == []


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: nothing says which files belong to the project")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


MACHINE_PATH = re.compile(
    r"(?<![\w.:/])/(?:home|Users|root|work|mnt|data|scratch|private/var|var/folders)/[\w.-]+"
)


def test_no_tracked_file_names_a_place_on_somebodys_machine() -> None:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        found += [f"{path.name}: {match[0]}" for match in MACHINE_PATH.finditer(text)]
    assert [f for f in found if not f.startswith("test_")] == []


def test_the_path_check_sees_a_path() -> None:
    assert MACHINE_PATH.search("see /" + "home/alice/photos")
    assert not MACHINE_PATH.search("https://example.org/home/alice")


def test_no_data_and_nothing_large_is_tracked() -> None:
    large = [p.name for p in tracked_files() if p.exists() and p.stat().st_size > 500_000]
    assert large == []


def test_no_test_has_vanished(request: pytest.FixtureRequest) -> None:
    """Counted when the whole suite is collected, not when some of it is asked for."""
    config = request.config
    everything = {Path(word).resolve() for word in config.args} == {(ROOT / "tests").resolve()}
    if not everything or config.option.keyword or config.option.markexpr:
        pytest.skip("only some tests were asked for")
    assert request.session.testscollected >= FEWEST_TESTS
