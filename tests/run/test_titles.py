"""What a private folder is called stands in nothing that leaves."""

from __future__ import annotations

from tests import drawing
from tests.workplace import SMALL_MERF, Workplace

FOLDER = "patients-of-dr-grey"


def all_that_leaves(place: Workplace) -> dict[str, bytes]:
    files = [p for p in (place / "out").rglob("*") if p.is_file()]
    return {p.name: p.read_bytes() for p in (*files, place / "runs/out/report-public.html")}


def synthesized(place: Workplace, *words: str) -> dict[str, bytes]:
    drawing.class_folder(place / FOLDER, 30)
    released = ("--epsilon", "1", "--count", "30", "-o", "out", *words)
    place.run("synthesize", FOLDER, *SMALL_MERF, *released).succeeded()
    found = all_that_leaves(place)
    assert [name for name, content in found.items() if FOLDER.encode() in content] == []
    return found


def test_without_a_name_it_is_private_data(workplace: Workplace) -> None:
    found = synthesized(workplace)
    assert b"dp-merf on private data" in found["report-public.html"]
    assert b"# Synthetic stand-in for private data" in found["README.md"]


def test_the_owners_name_for_the_data_stands_instead(workplace: Workplace) -> None:
    found = synthesized(workplace, "--dataset", "Slides")
    assert b"dp-merf on Slides" in found["report-public.html"]
    assert b"# Synthetic stand-in for Slides" in found["README.md"]


def test_a_title_is_that_of_card_and_reports_also_after_an_evaluation(workplace: Workplace) -> None:
    found = synthesized(workplace, "--dataset", "Slides", "--title", "Shapes of cells")
    assert b"<title>Shapes of cells" in found["report-public.html"]
    assert b"# Shapes of cells" in found["README.md"]
    protocol = workplace.quick_protocol()
    workplace.run("evaluate", "--run", "runs/out", "--protocol", protocol).succeeded()
    page = all_that_leaves(workplace)["report-public.html"]
    assert b"Shapes of cells" in page
    assert b"Slides" not in page
    assert FOLDER.encode() not in page
