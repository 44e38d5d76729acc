"""The check of the built site finds links that lead nowhere, and what is loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_site import main


def pages(site: Path, body: str) -> list[str]:
    (site / "deep").mkdir()
    (site / "index.html").write_text(f'<h1 id="top">Here</h1>{body}', encoding="utf-8")
    (site / "deep" / "that.html").write_text(
        '<h2 id="there">There</h2><a href="../index.html#top">up</a>', encoding="utf-8"
    )
    return [str(site)]


@pytest.mark.parametrize(
    "body",
    [
        '<a href="deep/that.html#there">a</a><a href="#top">b</a><a href="deep/that.html">c</a>',
        '<a href="https://kafka.apache.org/#no">elsewhere</a>',
        '<link rel="canonical" href="https://x.test/"><img src="data:image/png;base64,AA">',
    ],
)
def test_links_that_lead_somewhere_are_accepted(tmp_path: Path, body: str) -> None:
    assert main(pages(tmp_path, body)) == 0


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="that.html">a</a>', "index.html: links to that.html, which is not there"),
        ('<a href="deep/that.html#top">a</a>', "index.html: links to deep/that.html#top, and there is no such heading"),
        ('<a href="#there">a</a>', "index.html: links to #there, and there is no such heading"),
        ('<script src="https://cdn.test/x.js"></script>', "index.html: loads https://cdn.test/x.js from elsewhere"),
        ('<link rel="stylesheet" href="//x.test/x.css">', "index.html: loads //x.test/x.css from elsewhere"),
        ('<img src="no.svg">', "index.html: links to no.svg, which is not there"),
    ],
)
def test_links_that_lead_nowhere_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, problem: str
) -> None:
    assert main(pages(tmp_path, body)) == 1
    assert problem in capsys.readouterr().out.splitlines()


def test_links_to_other_sites_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(pages(tmp_path, '<a href="https://kafka.apache.org/">a</a>')) == 0
    assert "  https://kafka.apache.org/" in capsys.readouterr().out.splitlines()


def test_no_page_at_all_is_wrong(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 1
