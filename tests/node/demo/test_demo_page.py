"""The page: well-formed, self-contained, honest about failures, and readable in both colour schemes."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from loremesh.node.demo.page import render
from loremesh.node.demo.style import STYLE
from loremesh.node.demo.svg import bars, curve, lengths, scatter
from loremesh.node.demo.table import show
from tests.node.demo.samples import failing, phase, result

SVG = "svg"


def parsed(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def test_the_page_is_well_formed_with_a_picture_for_each_part_of_the_story() -> None:
    page = parsed(render(result()))

    pictures = page.findall(f".//{SVG}")
    assert len(pictures) == 4
    assert all(picture.find("title") is not None and picture.find("desc") is not None for picture in pictures)
    assert len(page.findall(".//h1")) == 1


def test_the_page_runs_nothing_and_fetches_nothing() -> None:
    page = render(result())

    for sign in ("<script", "http:", "https:", "src=", "href=", "url(", "@import", "javascript:"):
        assert sign not in page


def test_the_page_says_what_does_not_hold() -> None:
    assert "All 9 checks hold" in render(result())

    page = render(failing())

    assert "1 of 9 checks fail: cyd lost nothing" in page
    assert 'class="verdict failed"' in page


@pytest.mark.parametrize(
    ("rights", "word"),
    [((7, 6, 6), "below the sharing phase"), ((7, 7, 6), "where it was"), ((8, 7, 8), "above the sharing")],
)
def test_the_page_tells_which_way_the_revocation_came_out(rights: tuple[int, int, int], word: str) -> None:
    phases = [*result().phases[:3], phase("revoked", "after its revocation", *rights)]

    assert word in render(msgspec.structs.replace(result(), phases=phases))


def test_words_from_outside_cannot_break_the_page() -> None:
    odd = msgspec.structs.replace(
        result().hostile, outcomes={"<b>&\"'": {"<i>": 1}}, unsigned={"<b>&\"'": {}}
    )

    page = render(msgspec.structs.replace(result(), hostile=odd))

    assert parsed(page) is not None
    assert "<i>" not in page


def test_pictures_of_nothing_are_pictures() -> None:
    for picture in (
        bars([], "t", "d"),
        curve([], [], "t", "d"),
        lengths([], "t", "d"),
        scatter([], [], ("x", "y"), "t", "d"),
    ):
        assert ElementTree.fromstring(picture).find("title") is not None


def test_a_bar_is_as_high_as_its_share() -> None:
    page = parsed(render(result()))

    heights = [float(box.attrib["height"]) for box in page.findall(f".//{SVG}")[0].findall("rect")]

    assert heights[:3] == pytest.approx([148 * 2 / 8, 148 * 1 / 8, 148 * 3 / 8], abs=0.06)


def schemes() -> list[dict[str, str]]:
    found = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part)) for part in STYLE.split("@media")]
    assert len(found) == 2
    assert found[0].keys() == found[1].keys()
    return found


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_text_has_a_contrast_of_4_5_and_pictures_one_of_3(scheme: int) -> None:
    colours = schemes()[scheme]

    for behind in ("paper", "card", "band"):
        for text in ("ink", "soft", "held", "failed"):
            assert contrast(colours[text], colours[behind]) >= 4.5, (text, behind)
    for mark in ("a", "b", "c", "all", "hostile", "limit"):
        assert contrast(colours[mark], colours["paper"]) >= 3.0, mark


def test_the_table_fits_eighty_columns_and_names_each_check() -> None:
    out = io.StringIO()

    show(Console(file=out, width=80, markup=False, highlight=False), failing())

    said = out.getvalue()
    assert "FAILS  cyd lost nothing" in said
    assert "each alone" in said
    assert max(len(line) for line in said.splitlines() if "│" in line) <= 80
