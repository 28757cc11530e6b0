"""Suites: what a short YAML file says, and how it is told when it is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from understudy.bench.suite.cell import Cell, Suite
from understudy.bench.suite.suite import load_suite, suite_names
from understudy.errors import UserError


class Desk:
    """A folder with suite files in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, text: str, name: str = "mine.yaml") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    def load(self, text: str) -> Suite:
        return load_suite(self.write(text))

    def refused(self, text: str, *words: str) -> str:
        """The one sentence with which a suite is refused; it must hold all these words."""
        with pytest.raises(UserError) as caught:
            self.load(text)
        sentence = str(caught.value)
        assert "\n" not in sentence
        assert sentence.endswith((".", "?")), sentence
        for word in words:
            assert word in sentence, sentence
        return sentence


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


SMALL = "grid: {method: dp-merf, dataset: digits, epsilon: 1}"


def test_the_smallest_suite_is_one_line(desk: Desk) -> None:
    suite = desk.load(SMALL)
    assert suite == Suite("mine", (Cell("dp-merf", "digits", 1.0),), desk.folder / "mine.yaml")


def test_a_grid_is_every_combination_the_first_field_slowest(desk: Desk) -> None:
    cells = desk.load(
        """
        grid:
          dataset: [digits, portraits]
          method: [dp-merf, dp-gan]
          epsilon: [1, 10]
          seed: [0, 1]
        """
    ).cells
    assert len(cells) == 16
    assert len(set(cells)) == 16
    assert [c.title for c in cells[:3]] == [
        "digits dp-merf epsilon 1 seed 0",
        "digits dp-merf epsilon 1 seed 1",
        "digits dp-merf epsilon 10 seed 0",
    ]
    assert {c.dataset for c in cells[:8]} == {"digits"}


def test_any_field_may_be_a_list_and_settings_may_be_swept(desk: Desk) -> None:
    cells = desk.load(
        """
        grid:
          - {method: dp-gan, dataset: digits, epsilon: 1, size: [8, 16]}
          - {method: dp-merf, dataset: digits, epsilon: 1, settings: [{steps: 5}, {steps: 6}]}
        """
    ).cells
    assert [c.size for c in cells] == [8, 16, None, None]
    assert [c.settings for c in cells] == [(), (), ("steps=5",), ("steps=6",)]


def test_what_is_hidden_and_kept_is_given_as_on_the_command_line(desk: Desk) -> None:
    common = "method: dp-merf, dataset: portraits, epsilon: 1"
    cells = desk.load(
        f"""
        grid:
          - {{{common}, hide: [eyes, "eyes, mood"]}}
          - {{{common}, hide: hair, keep: mood}}
        """
    ).cells
    assert [c.hide for c in cells] == [("eyes",), ("eyes", "mood"), ("hair",)]
    assert [c.keep for c in cells] == [(), (), ("mood",)]
    found = cells[-1].run_config()
    assert (found.hide, found.keep) == (("hair",), ("mood",))


def test_public_inputs_are_one_word_or_several_by_name(desk: Desk) -> None:
    (desk.folder / "mine.npz").touch()
    cells = desk.load(
        """
        grid:
          - {method: pdp-diffusion, dataset: digits, epsilon: [1, 2], public: mnist}
          - {method: pdp-diffusion, dataset: digits, epsilon: 3, public: {records: mnist}}
          - method: dp-merf
            dataset: digits
            epsilon: 4
            weights: {warm: mine.npz, cold: taef2}
        """
    ).cells
    assert [c.public for c in cells] == [("mnist",), ("mnist",), ("records=mnist",), ()]
    assert cells[-1].weights == ("cold=taef2", f"warm={desk.folder / 'mine.npz'}")
    assert cells[-1].run_config().weights == cells[-1].weights


def test_weights_that_nobody_knows_are_refused_with_their_line(desk: Desk) -> None:
    desk.refused(
        "grid: {method: dp-merf, dataset: digits, epsilon: 1, weights: teaf2}",
        *("line 1", "no weights 'teaf2'", "did you mean taef2?"),
    )


def test_every_field_arrives_in_the_run(desk: Desk) -> None:
    (cell,) = desk.load(
        """
        defaults: {delta: 1e-6, protocol: reduced, device: cpu, seed: 3}
        grid:
          method: dp-merf
          dataset: portraits
          epsilon: 0.5
          label: glasses
          size: 16
          channels: 1
          samples: 100
          limit: 50
          settings: {bandwidths: [0.1, 2e-2], blurs: [0, 1], windows: [0, 0], mass: 0}
        """
    ).cells
    config = cell.run_config()
    assert (config.source, config.method, config.epsilon, config.delta) == (
        "portraits",
        "dp-merf",
        0.5,
        1e-6,
    )
    assert (config.label, config.size, config.channels) == ("glasses", 16, 1)
    assert (config.samples, config.limit, config.seed, config.device) == (100, 50, 3, "cpu")
    assert config.changes == ("bandwidths=0.1,2e-2", "blurs=0,1", "mass=0", "windows=0,0")
    assert cell.protocol == "reduced"


@pytest.mark.parametrize(
    ("written", "value"), [("1e-5", 1e-5), ("1.5E-6", 1.5e-6), ("0.001", 1e-3), ("1e-05", 1e-5)]
)
def test_a_number_is_read_as_people_write_it(desk: Desk, written: str, value: float) -> None:
    (cell,) = desk.load(f"defaults: {{delta: {written}}}\n{SMALL}").cells
    assert cell.delta == value


def test_a_large_seed_is_kept_to_its_last_digit(desk: Desk) -> None:
    seeds = (2**53, 2**53 + 1, 2**63 - 1)
    suite = desk.load(SMALL.replace("epsilon: 1", f"epsilon: 1, seed: {list(seeds)}"))
    assert tuple(cell.seed for cell in suite.cells) == seeds
    with pytest.raises(UserError, match="--limit must be at most 9223372036854775807"):
        load_suite("smoke", limit=2**63)


def test_overrides_change_some_runs_and_later_ones_win(desk: Desk) -> None:
    cells = desk.load(
        """
        grid: {method: [dp-merf, dp-gan], dataset: [digits, portraits], epsilon: [1, 10]}
        overrides:
          - {where: {dataset: portraits}, size: 16, settings: {latent: 4}}
          - {where: {method: dp-gan, dataset: portraits, epsilon: [10]}, settings: {steps: 9}}
          - {where: {method: dp-gan, epsilon: 10}, size: 32}
        """
    ).cells
    changed = {c.title: (c.size, c.settings) for c in cells}
    assert changed["digits dp-merf epsilon 1 seed 0"] == (None, ())
    assert changed["portraits dp-merf epsilon 10 seed 0"] == (16, ("latent=4",))
    assert changed["portraits dp-gan epsilon 1 seed 0"] == (16, ("latent=4",))
    assert changed["portraits dp-gan epsilon 10 seed 0"] == (32, ("latent=4", "steps=9"))
    assert changed["digits dp-gan epsilon 10 seed 0"] == (32, ())


def test_an_empty_key_is_as_good_as_none(desk: Desk) -> None:
    assert desk.load(f"{SMALL}\ndefaults:\noverrides:\n") == desk.load(SMALL)


def test_an_override_may_ask_for_what_is_there_by_default(desk: Desk) -> None:
    suite = desk.load(f"{SMALL}\noverrides: [{{where: {{seed: 0}}, samples: 5}}]")
    assert suite.cells[0].samples == 5


class TestExtends:
    def test_keys_here_change_those_there(self, desk: Desk) -> None:
        desk.write(
            """
            defaults: {protocol: reduced, samples: 50, settings: {steps: 7, latent: 4}}
            grid: {method: [dp-merf, dp-gan], dataset: digits, epsilon: [1, 10]}
            overrides: [{where: {method: dp-gan}, settings: {batch: 16}}]
            """,
            "base.yaml",
        )
        cells = desk.load(
            """
            extends: base.yaml
            defaults: {samples: 60, settings: {steps: 8}}
            grid: {epsilon: 5, seed: [0, 1]}
            overrides: [{where: {seed: 1}, settings: {batch: 32}}]
            """
        ).cells
        assert [c.title for c in cells] == [
            "digits dp-merf epsilon 5 seed 0",
            "digits dp-merf epsilon 5 seed 1",
            "digits dp-gan epsilon 5 seed 0",
            "digits dp-gan epsilon 5 seed 1",
        ]
        assert {c.protocol for c in cells} == {"reduced"}
        assert {c.samples for c in cells} == {60}
        assert cells[0].settings == ("latent=4", "steps=8")
        assert cells[2].settings == ("batch=16", "latent=4", "steps=8")
        assert cells[3].settings == ("batch=32", "latent=4", "steps=8")

    def test_a_suite_that_ships_can_be_extended_by_name(self, desk: Desk) -> None:
        suite = desk.load("extends: smoke\ngrid: {dataset: digits, epsilon: [1]}")
        assert {c.dataset for c in suite.cells} == {"digits"}
        assert len(suite.cells) == 2

    def test_a_list_of_grids_replaces_the_parents(self, desk: Desk) -> None:
        suite = desk.load(f"extends: smoke\ngrid:\n  - {SMALL.removeprefix('grid: ')}\n")
        assert suite.cells == (Cell("dp-merf", "digits", 1.0, protocol="reduced"),)

    def test_paths_are_relative_to_the_file_that_names_them(self, desk: Desk) -> None:
        photos = desk.folder / "shared" / "photos" / "cat"
        photos.mkdir(parents=True)
        desk.write("grid: {method: dp-merf, dataset: photos, epsilon: 1}", "shared/base.yaml")
        (cell,) = desk.load("extends: shared/base.yaml").cells
        assert Path(cell.dataset) == desk.folder / "shared" / "photos"

    def test_a_circle_is_refused(self, desk: Desk) -> None:
        desk.write("extends: mine.yaml", "other.yaml")
        desk.refused(
            "extends: other.yaml", "line 1", "extends itself", "mine.yaml -> other.yaml -> mine"
        )

    def test_a_missing_parent_is_named_with_the_line(self, desk: Desk) -> None:
        desk.refused("\n\nextends: smok", "mine.yaml, line 1", "did you mean smoke?")
        desk.refused("extends: none.yaml", "line 1", "no suite file", "none.yaml")


UNKNOWN = {
    "gird: {method: dp-merf}": ("line 1", "no key 'gird'", "did you mean grid?"),
    "grid:\n  methud: dp-merf": ("line 2", "'methud'", "did you mean method?"),
    f"{SMALL}\ndefaults:\n  delta: 1e-5\n  protocl: reduced": ("line 4", "did you mean protocol?"),
    f"{SMALL}\noverrides:\n  - where: {{sede: 0}}\n    size: 8": ("line 3", "did you mean seed?"),
    "grid:\n  dataset: digits\n  epsilon: 1\n  method:\n    - dp-merf\n    - dp-gam": (
        "line 6",
        "no method 'dp-gam'",
        "did you mean dp-gan",
    ),
    "grid: {method: dp-merf, epsilon: 1,\n  dataset: [digits, portrait]}": (
        "line 2",
        "no dataset 'portrait'",
        "did you mean portraits?",
    ),
    f"{SMALL}\ndefaults: {{protocol: standart}}": (
        "line 2",
        "no protocol 'standart'",
        "did you mean standard?",
    ),
    f"{SMALL}\ndefaults: {{protocol: none.yaml}}": ("line 2", "no protocol file", "none.yaml"),
    f"{SMALL}\ndefaults:\n  settings:\n    steps: 3\n    stepz: 4": (
        "line 5",
        "dp-merf has no setting 'stepz'",
        "did you mean steps?",
    ),
    "grid: {method: 'x.py:Mine', dataset: digits, epsilon: 1}": ("line 1", "no method file"),
    "grid: {method: dp-merf, dataset: ./photos, epsilon: 1}": ("line 1", "./photos does not"),
}


@pytest.mark.parametrize("text", UNKNOWN, ids=lambda text: text.replace("\n", " "))
def test_what_does_not_exist_is_refused_with_its_line(desk: Desk, text: str) -> None:
    desk.refused(text, "mine.yaml", *UNKNOWN[text])


WRONG_VALUES = {
    "epsilon: many": ("epsilon must be a number", "'many'"),
    "epsilon: '1'": ("epsilon must be a number",),
    "epsilon: yes": ("epsilon must be a number",),
    "epsilon: .inf": ("epsilon must be a number",),
    "epsilon: 0": ("epsilon must be above 0",),
    "epsilon: {a: 1}": ("epsilon must be a number", "values by name"),
    "epsilon: []": ("epsilon is an empty list",),
    "seed: 9223372036854775808": ("seed must be at most 9223372036854775807",),
    "epsilon: [[1]]": ("epsilon must be a number", "a list"),
    "delta: 1.5": ("delta must be above 0 and below 1",),
    "seed: 1.5": ("seed must be a whole number of at least 0",),
    "seed: -1": ("seed must be a whole number of at least 0",),
    "samples: 0": ("samples must be a whole number of at least 1",),
    "size: big": ("size must be a whole number",),
    "label: no": ("label must be text", "quotes"),
    "label: 3": ("label must be text", "quotes"),
    "channels: 2": ("channels must be 1 (grey) or 3 (colour)",),
    "device: gpu": ("device must be auto, cpu or cuda",),
    "limit: 1": ("limit must be a whole number of at least 2",),
    "settings: fast": ("settings must be values by name", "fast"),
    "settings: {steps: 0}": ("'steps' must be a whole number of at least 1",),
    "settings: {steps: fast}": ("'steps' must be a whole number",),
    "settings: {bandwidths: [1, 2]}": ("'bandwidths'", "give as many of each"),
}


@pytest.mark.parametrize("line", WRONG_VALUES)
def test_a_wrong_value_is_named_with_its_line(desk: Desk, line: str) -> None:
    rest = "" if line.startswith("epsilon") else "\n  epsilon: 1"
    text = f"# a remark\ngrid:\n  method: dp-merf\n  dataset: digits{rest}\n  {line}\n"
    desk.refused(text, "mine.yaml", f"line {5 + bool(rest)}", *WRONG_VALUES[line])


def test_a_run_that_is_there_twice_is_refused_with_both_lines(desk: Desk) -> None:
    twice = """
        grid:
          - {method: [dp-merf, dp-gan], dataset: digits, epsilon: [1, 10]}
          - {method: dp-merf, dataset: digits, epsilon: 10}
        """
    desk.refused(twice, "line 3", "digits dp-merf epsilon 10 seed 0", "line 2")
    desk.load(twice.replace("epsilon: 10}", "epsilon: 9}"))


@pytest.mark.parametrize(
    "second",
    [
        "settings: {steps: 400}",  # what the preset says anyway
        "settings: {steps: '400'}",
        "device: cpu",
        "delta: 0.00001",
        "method: 'understudy.methods.dp_merf:DPMerf'",
    ],
)
def test_runs_are_the_same_when_their_work_is(desk: Desk, second: str) -> None:
    first = "{method: dp-merf, dataset: digits, epsilon: 1}"
    start = "{" if second.startswith("method") else "{method: dp-merf, "
    other = f"{start}{second}, dataset: digits, epsilon: 1}}"
    desk.refused(f"grid:\n  - {first}\n  - {other}", "line 3", "is there already, from line 2")


def test_a_list_with_equal_values_is_refused(desk: Desk) -> None:
    desk.refused(SMALL.replace("1}", "[1, 1.0]}"), "line 1", "twice")


def test_keys_that_stand_twice_are_refused(desk: Desk) -> None:
    desk.refused("grid:\n  epsilon: 1\n  epsilon: 2", "line 3", "'epsilon' twice", "line 2")


def test_an_override_for_nothing_is_refused(desk: Desk) -> None:
    rule = "overrides:\n  - {where: {dataset: portraits}, size: 16}"
    desk.refused(f"{SMALL}\n{rule}", "line 3", "for no run")
    desk.write(f"grid: {{method: dp-merf, dataset: portraits, epsilon: 1}}\n{rule}", "base.yaml")
    inherited = desk.load("extends: base.yaml\ngrid: {dataset: digits}")
    assert inherited.cells == (Cell("dp-merf", "digits", 1.0),)


@pytest.mark.parametrize("rule", ["{where: {seed: 0}}", "{size: 16}", "big"])
def test_an_override_says_where_and_what(desk: Desk, rule: str) -> None:
    desk.refused(f"{SMALL}\noverrides: [{rule}]", "line 2", "override")


@pytest.mark.parametrize("field", ["method", "dataset", "epsilon"])
def test_what_every_run_needs_must_be_there(desk: Desk, field: str) -> None:
    parts = {"method": "dp-merf", "dataset": "digits", "epsilon": "1"}
    del parts[field]
    grid = ", ".join(f"{key}: {value}" for key, value in parts.items())
    desk.refused(f"grid: {{{grid}}}", "line 1", f"no {field}")


def test_a_run_without_guarantee_says_so(desk: Desk) -> None:
    (cell,) = desk.load(SMALL.replace("epsilon: 1", "epsilon: null")).cells
    assert cell.epsilon is None
    assert cell.title == "digits dp-merf no guarantee seed 0"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("grid: [", "line 1"),
        ("grid:\n\t- x", "line 2"),
        ("- 1", "a suite must be values by name"),
        ("defaults: {delta: 1e-5}", "no grid"),
        ("grid:\n", "no grid"),
        ("a: &a [*a]", "no key 'a'"),
        ("[" * 700, "nested too deeply"),
    ],
)
def test_what_is_no_suite_is_refused(desk: Desk, text: str, words: str) -> None:
    desk.refused(text, "mine.yaml", words)


def test_other_bytes_are_refused(desk: Desk) -> None:
    path = desk.folder / "mine.yaml"
    path.write_bytes(b"\xff\xfe\x00grid")
    with pytest.raises(UserError, match=r"mine\.yaml"):
        load_suite(path)


def test_unknown_suites_are_answered_with_near_names(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean smoke"):
        load_suite("smok")
    with pytest.raises(UserError, match=r"no suite file .*none\.yaml"):
        load_suite(tmp_path / "none.yaml")


def test_a_limit_holds_for_every_run(desk: Desk) -> None:
    path = desk.write(f"defaults: {{limit: 500}}\n{SMALL}")
    assert load_suite(path).cells[0].limit == 500
    assert load_suite(path, limit=20).cells[0].limit == 20
    with pytest.raises(UserError, match="--limit must be at least 2"):
        load_suite(path, limit=1)


class TestShipped:
    def test_all_of_them_load(self) -> None:
        for name in suite_names():
            assert load_suite(name).name == name
            assert load_suite(name).source is None

    def test_smoke_is_two_by_two_by_three(self) -> None:
        cells = load_suite("smoke").cells
        assert len(cells) == 12
        assert {(c.method, c.dataset, c.epsilon) for c in cells} == {
            (method, dataset, epsilon)
            for method in ("dp-merf", "dp-gan")
            for dataset in ("digits", "portraits")
            for epsilon in (1.0, 5.0, 10.0)
        }
        assert {c.protocol for c in cells} == {"reduced"}

    def test_mnist_uses_the_presets_and_the_standard_protocol(self) -> None:
        cells = load_suite("mnist").cells
        assert len(cells) == 8
        assert {replace(c, method="", dataset="", epsilon=None) for c in cells} == {
            Cell("", "", None)
        }
        assert {c.dataset for c in cells} == {"mnist", "fashion-mnist"}


def test_a_part_of_a_suite_by_method() -> None:
    whole = load_suite("smoke")
    assert whole.only(None) == whole
    part = whole.only(["dp-merf"])
    assert {cell.method for cell in part.cells} == {"dp-merf"}
    assert len(part.cells) == 6
    with pytest.raises(UserError, match=r"no method 'dp-gna'.*dp-gan"):
        whole.only(["dp-gna"])
