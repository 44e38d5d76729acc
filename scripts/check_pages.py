"""Checks what single pages promise: an index is complete, a table's files exist, each word has its place.

- docs/decisions/index.md has one row for each decision, with its title and a status.
- CONTRIBUTING.md, "Where do I change": every file or folder in the table exists, from the root or from src/twinlog.
- zensical.toml: every page of docs is in the navigation of the site, but for single decisions, and no other.
- docs/design/glossary.md: rows are in the order of the alphabet, no word has two, and each names a place in the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

_DECISION = re.compile(r"^\| (\d+) \| \[(.+)\]\((\S+\.md)\) \| \S.* \| (accepted|superseded by \d+) \|$", re.MULTILINE)
_ROW = re.compile(r"^\|(?! *-)(.+)\|$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_PAGE = re.compile(r'= "([\w/-]+\.md)"')
_PLACE = re.compile(r"`[\w/.-]+\.py(?::[\w.]+)?`")


def wrong_pages(root: Path) -> Iterator[str]:
    """One line for each promise that a page below `root` does not keep; a page that is not there promises nothing."""
    pages = {
        "docs/decisions/index.md": _decisions,
        "CONTRIBUTING.md": _changes,
        "zensical.toml": _navigation,
        "docs/design/glossary.md": _glossary,
    }
    for name, check in pages.items():
        page = root / name
        if page.is_file():
            yield from (f"{name}: {problem}" for problem in check(page))


def _decisions(index: Path) -> Iterator[str]:
    text = index.read_text(encoding="utf-8")
    rows = {file: f"{number}. {title}" for number, title, file, _ in _DECISION.findall(text)}
    for page in sorted(index.parent.glob("[0-9]*.md")):
        heading = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        row = rows.pop(page.name, None)
        if row is None:
            yield f"has no row `| number | [title]({page.name}) | one line | accepted |`"
        elif row != heading:
            yield f"calls {page.name} `{row}`, and its own title is `{heading}`"
    yield from (f"has a row for {file}, which does not exist" for file in rows)


def _changes(contributing: Path) -> Iterator[str]:
    _, heading, section = contributing.read_text(encoding="utf-8").partition("## Where do I change")
    if not heading:
        yield "has no section `## Where do I change`"
    root = contributing.parent
    for row in _rows(section.partition("\n## ")[0]):
        for name in (name for cell in row[1:] for name in _CODE.findall(cell)):
            if not name.startswith("make ") and not any(
                (place / name).exists() for place in (root, root / "src" / "twinlog")
            ):
                yield f"`{name}` does not exist"


def _navigation(site: Path) -> Iterator[str]:
    named = set(_PAGE.findall(site.read_text(encoding="utf-8")))
    docs = site.parent / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    single = {page for page in pages if re.match(r"decisions/\d", page)}
    yield from (f"has no place for docs/{page} in its navigation" for page in sorted(pages - single - named))
    yield from (f"names docs/{page}, which does not exist" for page in sorted(named - pages))


def _glossary(glossary: Path) -> Iterator[str]:
    rows = _rows(glossary.read_text(encoding="utf-8"))
    words = [row[0].strip("*") for row in rows]
    yield from (f"`{after}` stands after `{before}`" for before, after in pairwise(words) if after < before)
    yield from (f"`{before}` has two rows" for before, after in pairwise(words) if after == before)
    yield from (f"`{row[0]}` names no place in the code" for row in rows if not any(map(_PLACE.search, row)))


def _rows(text: str) -> list[list[str]]:
    """The cells of a page's tables, without heads."""
    rows = [[cell.strip() for cell in row.split("|")] for row in _ROW.findall(text)]
    return rows[1:]
