"""The files of the console: their hashes, their caches, and where the ones of others came from."""

from __future__ import annotations

import gzip
import hashlib
import json
import re

from tests.unit.ui.browser import Browser
from twinlog.ui.assets import FOLDER
from twinlog.ui.rendering import TEMPLATES

FIRST_PAGE_BYTES = 300_000


def urls(text: str) -> list[str]:
    return re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', text)


def test_files_of_others_are_as_their_authors_published_them() -> None:
    known = json.loads((FOLDER / "vendored.json").read_text())
    named = set()
    for package in known["packages"]:
        assert package["licence"]
        assert package["integrity"].startswith("sha512-")
        assert package["licence_file"] in package["files"]
        for name, digest in package["files"].items():
            named.add(name)
            assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, name
    assert {path.name for path in FOLDER.iterdir() if ".min." in path.name} <= named


def test_a_browser_keeps_a_file_for_a_year_and_asks_for_a_changed_file(browser: Browser) -> None:
    found = urls(browser.get("/ui/flow?flow=a-%3Eb").text)
    assert len(found) > 5
    for url in found:
        answer = browser.get(url, accept_encoding="gzip")
        assert answer.status == 200
        assert "immutable" in answer.headers["cache-control"]
        plain = browser.get(url)
        assert gzip.decompress(answer.content) == plain.content
        again = browser.get(url, if_none_match=plain.headers["etag"])
        assert (again.status, again.content) == (304, b"")
        assert browser.get(url.replace("/static/", "/static/0")).status == 404


def test_the_first_page_is_light(browser: Browser) -> None:
    page = browser.get("/ui/flow?flow=a-%3Eb", accept_encoding="gzip")
    assert page.headers["content-encoding"] == "gzip"
    size = len(page.content) + sum(len(browser.get(url, accept_encoding="gzip").content) for url in urls(page.text))
    assert size < FIRST_PAGE_BYTES
    assert sum(len(browser.get(url).content) for url in urls(page.text)) < FIRST_PAGE_BYTES


def test_no_template_has_a_script_a_style_or_an_address_of_elsewhere() -> None:
    for path in TEMPLATES.iterdir():
        text = path.read_text()
        assert not re.search(r"<script(?![^>]* src=)", text), path
        assert not re.search(r"<style|\bstyle=|\son\w+=|hx-on|javascript:|js:|https?://|//[a-z]", text), path
        assert "|safe" not in text, path
        assert "autoescape" not in text, path


def test_no_file_of_our_own_asks_elsewhere() -> None:
    for path in FOLDER.iterdir():
        if ".min." in path.name or path.suffix in (".txt", ".json"):
            continue
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|url\(|innerHTML\b|eval\(|new Function", text), path
