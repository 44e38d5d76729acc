"""Every page for people who use a keyboard, a screen reader or a phone, as far as its HTML shows it."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

import pytest

from tests.unit.ui.browser import Browser
from tests.unit.ui.fakes import FakeSources, fake_worker
from tests.unit.ui.topics.test_records import ONE, URL
from twinlog.ui.assets import FOLDER
from twinlog.ui.both_sides import RecordPair

PAGES = (
    "/ui/",
    "/ui/flow?flow=a-%3Eb",
    "/ui/topics",
    "/ui/topic?flow=a-%3Eb&topic=orders",
    "/ui/topic/confirm?flow=a-%3Eb&topic=orders&verb=skip-to&place=latest",
    "/ui/groups",
    "/ui/group?flow=a-%3Eb&group=shop",
    "/ui/readiness",
    "/ui/switchover",
    "/ui/switchover/confirm?flow=a-%3Eb&mode=run&kind=planned",
    "/ui/migration",
    URL,
    "/ui/connectors",
    "/ui/connector?name=copy",
    "/ui/connector/new",
    "/ui/connector/edit?name=copy",
    "/ui/connector/offsets?name=copy",
    "/ui/connector/offsets/reset?name=copy",
    "/ui/nothing",
)


class Outline(HTMLParser):
    """The parts of a page that assistive technology relies on."""

    VOID = frozenset({"meta", "link", "input", "br", "img", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.tags: Counter[str] = Counter()
        self.fields: list[dict[str, str]] = []
        self.labels: set[str] = set()
        self.labelled: list[str] = []
        self.unnamed: list[str] = []
        self.open: list[str] = []
        self.language = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        # A title in a drawing is a name of a part of it.
        self.tags[f"{tag} of svg" if tag == "title" and "svg" in self.open else tag] += 1
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in found:
            self.ids[found["id"]] += 1
        if tag == "html":
            self.language = found.get("lang", "")
        if tag in ("input", "select", "textarea") and found.get("type") != "hidden":
            self.fields.append(found)
        if tag == "label":
            self.labels.add(found["for"])
        self.labelled += [found[name] for name in ("aria-labelledby", "aria-describedby") if name in found]
        region = found.get("role") in ("region", "img") or tag == "nav"
        if region and not (found.get("aria-label") or found.get("aria-labelledby")):
            self.unnamed.append(tag)
        if tag == "th" and found.get("scope") not in ("col", "row"):
            self.unnamed.append(f"{tag} {found}")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_landmarks_labels_and_one_headline(browser: Browser, sources: FakeSources, page: str) -> None:
    sources.only.pairs = [RecordPair(ONE, ONE)]
    sources.rest = fake_worker(state="STOPPED")
    outline = Outline()
    outline.feed(browser.get(page).text)
    assert outline.open == []
    assert outline.language == "en"
    for tag in ("h1", "main", "header", "footer", "title"):
        assert outline.tags[tag] == 1, tag
    assert [name for name, count in outline.ids.items() if count > 1] == []
    assert all(field.get("id") in outline.labels for field in outline.fields), outline.fields
    assert outline.labels <= outline.ids.keys()
    assert set(outline.labelled) <= outline.ids.keys()
    assert outline.unnamed == []
    assert outline.tags["table"] == outline.tags["caption"]


def test_the_style_sheet_has_both_themes_and_a_visible_focus() -> None:
    sheet = (FOLDER / "console.css").read_text()
    assert "prefers-color-scheme: dark" in sheet
    assert '[data-theme="dark"]' in sheet
    assert ":focus-visible" in sheet
    assert "outline: none" not in sheet.replace("main:focus { outline: none; }", "")


@pytest.mark.parametrize("dark", [False, True])
def test_texts_have_contrast(dark: bool) -> None:
    """At least 4.5 to 1 for text, as WCAG 2.2 wants it."""
    sheet = (FOLDER / "console.css").read_text()
    block = sheet.split('[data-theme="dark"] {')[1] if dark else sheet.split(":root {")[1]
    colors = dict(
        part.strip().removeprefix("--").split(": ") for part in block.split("}")[0].split(";") if "--" in part
    )

    def light(color: str) -> float:
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    pairs = [("ink", "back"), ("ink", "raised"), ("dim", "back"), ("dim", "raised"), ("accent", "back")]
    pairs += [("accent", "raised"), ("back", "accent"), ("back", "bad"), ("ink", "plain-back")]
    pairs += [(name, f"{name}-back") for name in ("good", "warn", "bad")]
    pairs += [(name, "back") for name in ("good", "warn", "bad")]
    for text, back in pairs:
        one, other = sorted((light(colors[text]), light(colors[back])))
        assert (other + 0.05) / (one + 0.05) >= 4.5, (text, back)
