"""A picture is drawn from its text, and the check fails when it is not."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from scripts import picture

TEXT = """\
# a comment
size 300 200
title A & B
box cluster 10 20 100 80 Source <east>
text topic orders
gap 4
log 3 orders-0
arrow both 110 60 200 60 200 100
label end 150 50 batches
"""
SVG = "{http://www.w3.org/2000/svg}"


def test_a_description_becomes_boxes_texts_and_arrows() -> None:
    svg = ET.fromstring(picture.draw(TEXT))
    assert svg.attrib["viewBox"] == "0 0 300 200"
    assert [text.text for text in svg.iter(f"{SVG}title")] == ["A & B"]
    assert [text.text for text in svg.iter(f"{SVG}text")] == ["Source <east>", "topic orders", "orders-0", "batches"]
    assert [rect.attrib["class"] for rect in svg.iter(f"{SVG}rect")] == ["page", "box cluster", *["batch"] * 3]
    line, end, start = [path.attrib["d"] for path in svg.iter(f"{SVG}path")]
    assert line == "M110 60 L200 60 L200 100"
    assert end.startswith("M200 100 ")
    assert start.startswith("M110 60 ")


@pytest.mark.parametrize("line", ["circle 1 2 3", "size a b", "box cluster 1 2 3 x Name"])
def test_what_is_no_description_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=line.split(maxsplit=1)[0]):
        picture.draw(f"size 1 1\ntitle x\n{line}\n")


def test_a_picture_without_words_for_those_who_do_not_see_it_is_refused() -> None:
    with pytest.raises(ValueError, match="title"):
        picture.draw("size 1 1\n")


def test_a_picture_that_was_not_drawn_anew_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "PICTURES", tmp_path)
    (tmp_path / "one.txt").write_text(TEXT, encoding="utf-8")
    assert picture.main(["--check"]) == 1
    assert not (tmp_path / "one.svg").exists()
    assert picture.main([]) == 0
    assert picture.main(["--check"]) == 0
    (tmp_path / "one.txt").write_text(TEXT.replace("orders", "payments"), encoding="utf-8")
    assert picture.main(["--check"]) == 1
