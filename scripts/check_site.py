"""Follows every link of the built documentation site: `python -m scripts.check_site build/site`.

Pages, files and headings of the site itself have to be there, and nothing that a page loads may come from elsewhere, so
that it is readable without a network. Links to other sites are listed, not fetched. Ends with 1 if anything is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
_NOT_LOADED = {"canonical", "alternate", "next", "prev"}
"""What a `link` is for that a browser does not load."""


class Page(HTMLParser):
    """A page's ids, what it links to, and what a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        for name, value in values.items():
            if (tag, name) in _LOADED and values.get("rel") not in _NOT_LOADED:
                self.loaded.append(value)


def problems(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """One line for each link that leads nowhere, and for each thing that is loaded from elsewhere."""
    for path, page in sorted(pages.items()):
        where = path.relative_to(site)
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    yield f"{where}: loads {link} from elsewhere"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{where}: links to {link}, which is not there"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{where}: links to {link}, and there is no such heading"


def main(arguments: list[str]) -> int:
    site = Path(arguments[0]).resolve()
    # The page for addresses that do not exist is shown at any depth, so its links count from the root of a server.
    paths = [path for path in site.rglob("*.html") if path.name != "404.html"]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    found = list(problems(site, pages))
    elsewhere = sorted({link for page in pages.values() for link in page.links if urlsplit(link).netloc})
    print("\n".join(["Links to other sites, not fetched:", *(f"  {link}" for link in elsewhere)]))
    print("\n".join(found) or f"{len(pages)} pages: every link leads to a page, a file or a heading that is there.")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
