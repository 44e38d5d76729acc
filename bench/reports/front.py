"""Puts a run where readers come first: its table into bench/README.md, its main figures into README.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.reports.report import Document, place, tables
from harness.errors import HarnessError

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"

_HEADLINES = (
    ("json-1k", "records_per_s", "Records per second, 1 KB JSON", "{:,.0f}"),
    ("json-1k", "cpu_s_per_million", "CPU seconds for a million of these records", "{:.2f}"),
    ("latency", "p50_ms", "Median latency at 1,000 records per second, ms", "{:.2f}"),
)
"""Item, figure, its name in the README, and the format of the number."""

_LOW_RATE = ("latency", "cpu_meanwhile_s", "CPU seconds in {seconds} s at 1,000 records per second", "{:.1f}")
"""A fourth figure, in the README if the run has it: at low rates the processor time has another ratio."""


def write_front(document: Document, results: Path, root: Path = ROOT) -> None:
    """Replace what stands between the two marks in bench/README.md, and in README.md if the run has the main figures.

    Raises HarnessError when a page has no marks.
    """
    link = f"All figures and how they were measured: [{results.name}](results/{results.name})."
    parts = "\n".join(tables(document, brief=True))
    pages = {root / "bench" / "README.md": f"{place(document)}\n\n{parts}\n{link}\n"}
    headlines = _headlines(document, results.name)
    if headlines is not None:
        pages[root / "README.md"] = headlines
    texts = {page: _replaced(page, part) for page, part in pages.items()}
    for page, text in texts.items():
        page.write_text(text, encoding="utf-8")


def _replaced(page: Path, part: str) -> str:
    text = replace_between(page.read_text(encoding="utf-8") if page.is_file() else "", BEGIN, END, part)
    if text is None:
        raise HarnessError(f"{page} has no {BEGIN} and {END} to write between.")
    return text


def replace_between(text: str, first: str, last: str, part: str) -> str | None:
    """The text with `part` between two marks; None if it lacks them."""
    before, begin, rest = text.partition(first)
    _, end, behind = rest.partition(last)
    return f"{before}{first}\n{part}{last}{behind}" if begin and end else None


def _headlines(document: Document, results: str) -> str | None:
    lines = {(item["name"], line["figure"]): line for item in document["items"] for line in _pair(item)}
    if not all((item, figure) in lines for item, figure, _, _ in _HEADLINES):
        return None
    machine = document["machine"]
    rows = ["| | MirrorMaker 2 | twinlog | |", "|---|--:|--:|--:|"]
    shown = [*_HEADLINES, _LOW_RATE] if _LOW_RATE[:2] in lines else _HEADLINES
    for item, figure, title, shape in shown:
        line = lines[item, figure]
        values = shape.format(line["mm2"]), shape.format(line["twinlog"])
        name = title.format(seconds=document.get("latency_s"))
        rows.append(f"| {name} | {' | '.join(values)} | {_times(line)} |")
    eager: dict[str, Any] | None = lines.get(("latency", "p50_ms_eager"))
    kind = f"; with `linger.ms=0`, its median latency is {eager['mm2']:.2f} ms" if eager else ""
    return (
        "\n".join(rows) + f"\n\nOne machine with {machine['cores']} cores, brokers included, {machine['date']}: "
        f"[all figures](bench/results/{results}), [what sets the limits](bench/README.md).\nMirrorMaker 2 "
        f"{machine['kafka']} ran with Kafka's default `linger.ms=5`{kind}.\n"
    )


def _pair(item: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of an item, of those two systems also where it has more."""
    return item.get("lines") or [
        {
            "figure": row["figure"],
            "mm2": row["values"]["mm2"],
            "twinlog": row["values"]["twinlog"],
            "ratio": row["to_mm2"],
        }
        for row in item["rows"]
        if row["to_mm2"] is not None
    ]


def _times(line: dict[str, Any]) -> str:
    return f"{line['ratio']:.1f} ×" if line["ratio"] >= 1 else f"{line['ratio']:.2f} ×"
