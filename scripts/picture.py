"""Draws docs/pictures/*.svg from the text files beside them; with --check only compares, ends with 1 if one differs.

The first lines of a text file list what may stand in it. A picture has its own background and follows the colour scheme
that the reader's system asks for, so that it is readable on a light page and on a dark one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
LINE, CELL = 23, 9
"""Height of a line of text, width of a record batch; pixels."""

_STYLE = """\
  .page { fill: #ffffff; }
  text { fill: #1f2430; font: 14px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
  .title { font-weight: 600; font-size: 16px; }
  .label { fill: #4a5263; font-size: 13px; }
  .line { fill: none; stroke: #4a5263; stroke-width: 1.6; }
  .head { fill: #4a5263; }
  .box { stroke-width: 1.6; }
  .cluster { fill: #eef3fb; stroke: #4f7cc4; }
  .task { fill: #fdf1e4; stroke: #d0802c; }
  .driver { fill: #edf6ee; stroke: #4f9a5b; }
  .batch { fill: #4f7cc4; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #14171f; }
    text { fill: #e6e9f0; }
    .label { fill: #aeb6c6; }
    .line { stroke: #aeb6c6; }
    .head { fill: #aeb6c6; }
    .cluster { fill: #1b2536; stroke: #6f9be0; }
    .task { fill: #33261a; stroke: #e09a4f; }
    .driver { fill: #1b2c20; stroke: #6fbd7c; }
    .batch { fill: #6f9be0; }
  }"""


def draw(text: str) -> str:
    """The SVG of a description. Raises ValueError, with the line, where that is no description."""
    return "\n".join(_svg(text)) + "\n"


def _svg(text: str) -> Iterator[str]:
    title, left, y, end = "", 0, 0, "</svg>"
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        match word:
            case "" | "#":
                continue
            case "size":
                width, height = _numbers(rest, line)
                yield (
                    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                    f'width="{width}" height="{height}" role="img">'
                )
                yield f"<style>\n{_STYLE}\n</style>"
            case "title":
                title = rest
                yield f"<title>{escape(title)}</title>"
                yield '<rect class="page" width="100%" height="100%" rx="10"/>'
            case "box":
                kind, *place, name = rest.split(" ", 5)
                left, top, width, height = _numbers(" ".join(place), line)
                yield f'<rect class="box {kind}" x="{left}" y="{top}" width="{width}" height="{height}" rx="8"/>'
                yield f'<text class="title" x="{left + 16}" y="{top + 30}">{escape(name)}</text>'
                y = top + 34 + LINE
            case "text":
                yield f'<text x="{left + 16}" y="{y}">{escape(rest)}</text>'
                y += LINE
            case "gap":
                y += int(rest)
            case "log":
                cells, _, name = rest.partition(" ")
                y += 6
                for at in range(int(cells)):
                    yield (
                        f'<rect class="batch" x="{left + 16 + at * CELL}" y="{y - 12}" width="{CELL - 2}" '
                        f'height="15" rx="1"/>'
                    )
                yield f'<text class="label" x="{left + 16 + 9 * CELL + 10}" y="{y}">{escape(name)}</text>'
                y += LINE
            case "arrow":
                heads, _, points = rest.partition(" ")
                yield from _arrow(_numbers(points, line), both=heads == "both")
            case "label":
                anchor, across, base, name = rest.split(" ", 3)
                yield f'<text class="label" text-anchor="{anchor}" x="{across}" y="{base}">{escape(name)}</text>'
            case _:
                raise ValueError(f"not a line of a picture: {line}")
    if not title:
        raise ValueError("a picture needs a title, for those who do not see it")
    yield end


def _arrow(numbers: list[int], *, both: bool) -> Iterator[str]:
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    yield f'<path class="line" d="M{" L".join(f"{x} {y}" for x, y in points)}"/>'
    yield _head(*list(pairwise(points))[-1])
    if both:
        yield _head(points[1], points[0])


def _head(before: tuple[int, int], tip: tuple[int, int]) -> str:
    (x0, y0), (x, y) = before, tip
    dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
    back, wide = 10, 5
    left = f"{x - back * dx + wide * dy} {y - back * dy + wide * dx}"
    right = f"{x - back * dx - wide * dy} {y - back * dy - wide * dx}"
    return f'<path class="head" d="M{x} {y} L{left} L{right} Z"/>'


def _numbers(text: str, line: str) -> list[int]:
    try:
        return [int(word) for word in text.split()]
    except ValueError:
        raise ValueError(f"numbers are wanted in: {line}") from None


def main(arguments: list[str]) -> int:
    stale = []
    for source in sorted(PICTURES.glob("*.txt")):
        picture, drawn = source.with_suffix(".svg"), draw(source.read_text(encoding="utf-8"))
        if not picture.is_file() or picture.read_text(encoding="utf-8") != drawn:
            stale.append(picture.name)
            if "--check" not in arguments:
                picture.write_text(drawn, encoding="utf-8")
    if "--check" in arguments:
        print(
            f"Not drawn from their text, run make picture: {', '.join(stale)}" if stale else "The pictures are drawn."
        )
        return 1 if stale else 0
    print(f"Drawn: {', '.join(stale) or 'nothing to do'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
