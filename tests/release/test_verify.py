"""Each way of spoiling a release, and that `verify` says why it fails."""

import io
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.release.forge import FACTS, Story, edit_json, long_story, rehash, restate, retell
from understudy.errors import UserError
from understudy.release.bundle import ReleaseInfo
from understudy.release.claim import Tuning
from understudy.release.signing import make_keys, sign
from understudy.release.verify import verify

FLIPS_PER_FILE = 40


def story_of(folder: Path) -> Story:
    lines = (folder / "ledger.jsonl").read_bytes().splitlines()
    return Story([(d["kind"], d["body"]) for d in map(json.loads, lines)])


def old_story_of(folder: Path) -> Story:
    """The ledger as version 0.1 would have released it: with a void, and blocks cut short."""
    story, first = long_story(), story_of(folder).entries[0][1]
    story.entries[0] = ("plan", {name: first[name] for name in ("plan", "run")})
    return story


def test_good_release_passes(plain: ReleaseInfo) -> None:
    found = verify(plain.folder)
    assert found.ok
    assert found.problems == ()
    assert found.verdict == "consistent, not authenticated"
    assert found.digest == plain.digest
    assert found.cost is not None
    assert found.claim is not None
    assert found.cost.epsilon == pytest.approx(found.claim.epsilon, rel=1e-9)
    assert found.lines()[:2] == ["consistent, not authenticated", found.claim.statement[0]]


def test_digest_or_key_authenticates(
    plain: ReleaseInfo, signed: ReleaseInfo, keys: tuple[Path, Path]
) -> None:
    assert verify(plain.folder, digest=plain.digest).verdict == "consistent and authenticated"
    assert verify(signed.folder, key=keys[1]).verdict == "consistent and authenticated"
    unasked = verify(signed.folder)
    assert unasked.ok
    assert unasked.verdict == "consistent, not authenticated"
    assert "fingerprint" in unasked.notes[0]


def flips(data: bytes, seed: int) -> list[tuple[int, int]]:
    """First, last and random positions, each with the bit to flip."""
    chooser = random.Random(seed)
    inside = [chooser.randrange(len(data)) for _ in range(FLIPS_PER_FILE - 2)]
    return [(p, 1 << chooser.randrange(8)) for p in (0, len(data) - 1, *inside)]


def test_any_flipped_byte_in_any_file_is_caught(signed: ReleaseInfo) -> None:
    files = sorted(p for p in signed.folder.rglob("*") if p.is_file())
    assert len(files) == 8
    for seed, path in enumerate(files):
        name = path.relative_to(signed.folder).as_posix()
        good = path.read_bytes()
        for position, bit in flips(good, seed):
            bad = bytearray(good)
            bad[position] ^= bit
            path.write_bytes(bytes(bad))
            found = verify(signed.folder)
            assert not found.ok, f"{name}, byte {position}, bit {bit}"
            assert name.split("/")[-1] in " ".join(found.problems) or name == "manifest.sha256"
        path.write_bytes(good)
    assert verify(signed.folder).ok


def test_any_flip_is_caught_also_when_the_manifest_is_made_anew_and_the_digest_is_known(
    plain: ReleaseInfo,
) -> None:
    for path in sorted(p for p in plain.folder.rglob("*") if p.is_file()):
        if path.name == "manifest.sha256":
            continue
        good = path.read_bytes()
        bad = bytearray(good)
        bad[len(good) // 2] ^= 1
        path.write_bytes(bytes(bad))
        rehash(plain.folder)
        found = verify(plain.folder, digest=plain.digest)
        assert "this is not that release" in " ".join(found.problems), path.name
        path.write_bytes(good)


@pytest.mark.parametrize("name", ["README.md", "claim.json", "ledger.jsonl", "croissant.json"])
def test_missing_files_are_named(plain: ReleaseInfo, name: str) -> None:
    (plain.folder / name).unlink()
    assert f"{name} is missing." in verify(plain.folder).problems
    rehash(plain.folder)
    assert f"{name} is missing." in verify(plain.folder).problems


def test_missing_table_and_manifest_are_named(plain: ReleaseInfo) -> None:
    (plain.folder / plain.shards[0]).unlink()
    assert "data/train-*.parquet is missing." in verify(plain.folder).problems
    (plain.folder / "manifest.sha256").unlink()
    found = verify(plain.folder)
    assert "manifest.sha256 is missing." in found.problems
    assert found.digest is None


@pytest.mark.parametrize("name", ["notes.txt", "data/extra.parquet", ".hidden", "data/x/y"])
def test_extra_files_are_named_also_when_listed(plain: ReleaseInfo, name: str) -> None:
    (plain.folder / name).parent.mkdir(exist_ok=True)
    (plain.folder / name).write_text("hello")
    assert f"{name} is not in the manifest." in verify(plain.folder).problems
    rehash(plain.folder)
    assert verify(plain.folder).problems == (f"{name} does not belong in a release.",)


ON_THE_WAY = (
    *(".DS_Store", "data/.DS_Store", ".gitattributes", "._README.md", "Thumbs.db", "desktop.ini"),
    ".cache/huggingface/download/README.md.metadata",
)


@pytest.mark.parametrize("name", ON_THE_WAY)
def test_what_is_left_on_the_way_is_noted_and_harms_nothing(plain: ReleaseInfo, name: str) -> None:
    (plain.folder / name).parent.mkdir(parents=True, exist_ok=True)
    (plain.folder / name).write_bytes(b"\x80\x04litter.")
    found = verify(plain.folder, digest=plain.digest)
    assert found.verdict == "consistent and authenticated"
    assert f"{name} is no part of it: a file left on the way, not looked into." in found.notes
    rehash(plain.folder)
    assert verify(plain.folder).problems == (f"{name} does not belong in a release.",)


def test_a_link_is_never_left_on_the_way(plain: ReleaseInfo) -> None:
    (plain.folder / ".DS_Store").symlink_to(plain.folder / "claim.json")
    assert ".DS_Store does not belong in a release." in verify(plain.folder).problems


def test_a_contact_sheet_shows_the_tables_and_nothing_else(plain: ReleaseInfo) -> None:
    sheet = plain.folder / "contact-sheet.png"
    whole = sheet.read_bytes()
    pixels = np.array(Image.open(sheet))
    pixels[-3, 3] ^= 1
    Image.fromarray(pixels).save(sheet)
    rehash(plain.folder)
    told = ("contact-sheet.png shows something else than the tables hold.",)
    assert verify(plain.folder).problems == told
    text = PngInfo()
    text.add_text("Comment", "of the owner's")
    Image.open(io.BytesIO(whole)).save(sheet, pnginfo=text)
    rehash(plain.folder)
    assert verify(plain.folder).problems == (
        "contact-sheet.png carries metadata (PNG chunk 'tEXt').",
    )
    Image.fromarray(pixels[:-1]).save(sheet)
    rehash(plain.folder)
    assert "does not have the declared shape" in verify(plain.folder).problems[0]


def test_a_release_without_a_contact_sheet_verifies(plain: ReleaseInfo) -> None:
    (plain.folder / "contact-sheet.png").unlink()
    assert verify(plain.folder).problems == ("contact-sheet.png is in the manifest but missing.",)
    rehash(plain.folder)
    assert verify(plain.folder).ok


def test_a_claim_has_one_form(plain: ReleaseInfo) -> None:
    path = plain.folder / "claim.json"
    path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=False) + "\n")
    rehash(plain.folder)
    assert verify(plain.folder).problems == ("claim.json is not in its canonical form.",)


def test_links_and_empty_folders_are_named(plain: ReleaseInfo, tmp_path: Path) -> None:
    (plain.folder / "empty").mkdir()
    moved = tmp_path / "elsewhere.json"
    shutil.move(plain.folder / "claim.json", moved)
    (plain.folder / "claim.json").symlink_to(moved)
    problems = verify(plain.folder).problems
    assert "claim.json is not a plain file." in problems
    assert "empty does not belong in a release." in problems


def swap_lines(manifest: bytes) -> bytes:
    lines = manifest.splitlines(keepends=True)
    return b"".join([lines[1], lines[0], *lines[2:]])


@pytest.mark.parametrize(
    "change",
    [
        swap_lines,
        lambda m: m + b"\n",
        lambda m: m[:-1],
        lambda m: m.replace(b"\n", b"\r\n"),
        lambda m: m + m.splitlines(keepends=True)[0],
        lambda m: m.upper(),
        lambda m: b"\xef\xbb\xbf" + m,
    ],
)
def test_manifest_has_one_form(plain: ReleaseInfo, change: Callable[[bytes], bytes]) -> None:
    path = plain.folder / "manifest.sha256"
    path.write_bytes(change(path.read_bytes()))
    assert not verify(plain.folder).ok


def dropped(lines: list[bytes], at: int) -> list[bytes]:
    return lines[:at] + lines[at + 1 :]


def swapped(lines: list[bytes], at: int) -> list[bytes]:
    return [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]


def repeated(lines: list[bytes], at: int) -> list[bytes]:
    return [*lines[: at + 1], *lines[at:]]


@pytest.mark.parametrize("story", [story_of, old_story_of])
@pytest.mark.parametrize("spoil", [dropped, swapped, repeated])
def test_dropped_swapped_repeated_lines_are_caught_by_the_chain(
    plain: ReleaseInfo,
    spoil: Callable[[list[bytes], int], list[bytes]],
    story: Callable[[Path], Story],
) -> None:
    """The attacker makes claim, words, card and manifest match; the chain still breaks."""
    lines = story(plain.folder).lines()
    last = len(lines) - (1 if spoil is swapped else 0)
    for at in range(last):
        retell(plain.folder, spoil(lines, at))
        found = verify(plain.folder)
        assert not found.ok, at
        assert "ledger" in " ".join(found.problems)
    retell(plain.folder, lines)
    assert verify(plain.folder).ok


def _without_a_use(story: Story) -> None:
    for _, body in story.entries[3:5]:
        body["uses"] = 9  # type: ignore[index]


def _in_two_blocks(story: Story) -> None:
    del story.entries[3:]
    story.block(1, "votes", 4).block(2, "votes", 6).add("close")


def _with_a_void(story: Story) -> None:
    reserve = story.entries.pop(3)
    story.entries[3:3] = [reserve, ("void", {"block": 1}), ("reserve", {**reserve[1], "block": 2})]
    story.entries[6][1]["block"] = 2  # type: ignore[index]


@pytest.mark.parametrize(
    "told", [_without_a_use, _in_two_blocks, _with_a_void, lambda s: s.entries.reverse()]
)
def test_a_released_ledger_tells_nothing_but_its_plan(
    plain: ReleaseInfo, told: Callable[[Story], None]
) -> None:
    """Chained anew, with claim, words, card and manifest to match."""
    story = story_of(plain.folder)
    retell(plain.folder, story.lines())
    assert verify(plain.folder).ok
    told(story)
    retell(plain.folder, story.lines())
    said = " ".join(verify(plain.folder).problems)
    assert "and nothing else" in said or "does not begin with a plan" in said


def test_a_format_of_ledgers_to_come_is_named(plain: ReleaseInfo) -> None:
    story = story_of(plain.folder)
    story.entries[0] = ("plan", {**story.entries[0][1], "format": "understudy-ledger/3"})
    retell(plain.folder, story.lines())
    assert "has format 'understudy-ledger/3'" in " ".join(verify(plain.folder).problems)


def test_words_of_another_format_are_refused(plain: ReleaseInfo) -> None:
    restate(plain.folder, lambda claim: replace(claim, format="understudy-claim/1"))
    assert "the claim's format is" in " ".join(verify(plain.folder).problems)


def test_shorter_ledger_chained_anew_needs_digest_or_key(
    signed: ReleaseInfo, keys: tuple[Path, Path]
) -> None:
    """A forger who rebuilds everything is consistent: only digest or key tells."""
    story = old_story_of(signed.folder)
    without_void = Story([e for e in story.entries if e[1].get("block") != 1])
    for _, body in without_void.entries:
        if body.get("block", 0) > 1:
            body["block"] -= 1  # type: ignore[index]
    new = retell(signed.folder, without_void.lines())
    assert new != signed.digest
    by_digest = verify(signed.folder, digest=signed.digest)
    assert "this is not that release" in " ".join(by_digest.problems)
    assert "signature.json signs the digest" in " ".join(verify(signed.folder).problems)
    (signed.folder / "signature.json").unlink()
    assert verify(signed.folder).verdict == "consistent, not authenticated"
    by_key = verify(signed.folder, key=keys[1])
    assert "is not signed" in " ".join(by_key.problems)
    assert not by_key.authenticated


def test_forger_with_a_key_of_his_own_is_caught(
    signed: ReleaseInfo, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    new = restate(signed.folder, lambda c: replace(c, tuning=Tuning(False)))
    make_keys(tmp_path / "forger.pem", tmp_path / "forger.pub")
    (signed.folder / "signature.json").write_bytes(sign(new, tmp_path / "forger.pem"))
    assert verify(signed.folder).verdict == "consistent, not authenticated"
    assert "another key" in " ".join(verify(signed.folder, key=keys[1]).problems)


@pytest.mark.parametrize("factor", [0.5, 0.999, 1.5])
def test_edited_epsilon_is_recomputed_from_the_ledger(plain: ReleaseInfo, factor: float) -> None:
    restate(plain.folder, lambda c: replace(c, epsilon=c.epsilon * factor))
    found = verify(plain.folder)
    assert len(found.problems) == 1
    assert "the claim says epsilon" in found.problems[0]


def test_edited_epsilon_in_plan_claim_and_ledger_is_caught_by_its_events(
    plain: ReleaseInfo,
) -> None:
    story = story_of(plain.folder)
    story.entries[0][1]["plan"].update(epsilon=0.1)
    retell(plain.folder, story.lines())
    restate(plain.folder, lambda c: replace(c, epsilon=0.1))
    assert "the plan states epsilon 0.1, but its events cost" in " ".join(
        verify(plain.folder).problems
    )


def test_words_alone_cannot_be_edited(plain: ReleaseInfo) -> None:
    def flatter(data: dict[str, list[str]]) -> None:
        data["statement"][0] = data["statement"][0].replace("epsilon 0.", "epsilon 0.0")

    edit_json(plain.folder / "claim.json", flatter)
    rehash(plain.folder)
    assert "sentence 1 of the statement" in " ".join(verify(plain.folder).problems)


def test_card_and_metadata_must_say_what_the_claim_says(plain: ReleaseInfo) -> None:
    card = plain.folder / "README.md"
    card.write_text(card.read_text().replace("per image, not per person", "per person"))
    edit_json(plain.folder / "croissant.json", lambda d: d.update(description="Anonymous."))
    rehash(plain.folder)
    problems = " ".join(verify(plain.folder).problems)
    assert "README.md does not say what the claim says" in problems
    assert "croissant.json does not describe" in problems


def test_record_count_and_schema_are_held_against_the_tables(plain: ReleaseInfo) -> None:
    restate(plain.folder, lambda c: replace(c, records=replace(c.records, count=25)))
    assert "the claim counts 25 records, the tables hold 24." in verify(plain.folder).problems
    restate(
        plain.folder, lambda c: replace(c, records=replace(c.records, count=24, shape=(1, 6, 8)))
    )
    assert "declared shape" in " ".join(verify(plain.folder).problems)


def test_runs_that_may_not_be_released_do_not_verify(plain: ReleaseInfo) -> None:
    story = long_story(replace(FACTS, audited=True))
    retell(plain.folder, story.lines())
    assert "it was audited" in " ".join(verify(plain.folder).problems)
    restate(plain.folder, lambda c: replace(c, tuning=Tuning(False, ("a", "b"), "test data")))
    assert "selected on test data" in " ".join(verify(plain.folder).problems)


@pytest.mark.parametrize("name", ["claim.json", "ledger.jsonl", "croissant.json", "signature.json"])
@pytest.mark.parametrize(
    "content", [b"", b"null\n", b"[]\n", b"{}\n", b'{"kind":1,"body":[]}\n', b"[" * 100_000]
)
def test_garbage_is_a_problem_not_a_crash(signed: ReleaseInfo, name: str, content: bytes) -> None:
    (signed.folder / name).write_bytes(content)
    rehash(signed.folder)
    found = verify(signed.folder)
    assert not found.ok
    assert found.verdict == "not verified"


def test_blocks_are_checked_apart_from_the_code_that_wrote_them(
    plain: ReleaseInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the ledger's own check of its story out of order, `verify` still sees it."""
    story = old_story_of(plain.folder)
    reserve = next(body for _, body in story.entries if body.get("block") == 3)
    reserve["uses"] = 50  # type: ignore[index]
    retell(plain.folder, story.lines())
    assert "beyond its plan" in " ".join(verify(plain.folder).problems)
    monkeypatch.setattr("understudy.privacy.ledger.ledger.check_story", lambda _: None)
    assert "beyond the 10 planned" in " ".join(verify(plain.folder).problems)


@pytest.mark.parametrize(
    "body", [{}, {"block": 0}, {"block": 0, "mechanism": "votes", "uses": "many"}]
)
def test_malformed_blocks_are_problems_not_crashes(
    plain: ReleaseInfo, body: dict[str, object]
) -> None:
    story = old_story_of(plain.folder)
    story.entries[1] = ("reserve", body)
    retell(plain.folder, story.lines())
    assert "ledger" in " ".join(verify(plain.folder).problems)


def test_wrong_arguments_are_one_sentence(plain: ReleaseInfo, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no release at"):
        verify(tmp_path / "nowhere")
    (tmp_path / "config.yaml").write_text("source: digits")
    (tmp_path / "claim.json").write_text("{}")
    with pytest.raises(UserError, match="is a run folder"):
        verify(tmp_path)
    with pytest.raises(UserError, match="64 lower-case hexadecimal"):
        verify(plain.folder, digest="abc")


@pytest.mark.parametrize("steps", [10**9, 10**400])
def test_absurd_counts_are_a_problem_and_not_a_crash_or_an_endless_sum(
    plain: ReleaseInfo, steps: int
) -> None:
    story = story_of(plain.folder)
    plan = dict(story.entries[0][1]["plan"])
    steps_of_it = {"kind": "dp-sgd", "name": "steps", "steps": steps, "rate": 1e-9}
    steps_of_it |= {"clip": 1.0, "sigma": 1e6, "multiplicity": 1, "part": "train"}
    plan["mechanisms"] = [*plan["mechanisms"], steps_of_it]
    story.entries[0] = ("plan", {**story.entries[0][1], "plan": plan})
    retell(plain.folder, story.lines())
    found = verify(plain.folder)
    assert not found.ok
    assert any("steps" in p or "uses" in p or "accountant" in p for p in found.problems)
