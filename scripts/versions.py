"""`make versions`: the tests of a mirror with other releases of Kafka, and their table.

    python -m scripts.versions [--release 2.8.2]... [--write] [arguments of pytest]

With `--write` and all releases the table goes into README.md, between its two marks.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from bench.reports.front import replace_between
from harness.jvm.jars import KAFKA_VERSION
from harness.versions import RELEASES

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "integration" / "versions"
BEGIN, END = "<!-- versions:begin -->", "<!-- versions:end -->"
KINDS = {
    "plain": "plain records with each codec",
    "compacted": "a compacted topic",
    "transactional": "transactions, some rolled back",
    "old_format": "records of format v1 (2.x as source)",
    "groups": "the offsets of a group",
    "kill_9": "a stream during `kill -9` and a restart",
}
"""The comparisons, by the names of the tests."""

COLUMNS = {
    ("from", "at-least-once"): "as source",
    ("from", "exactly-once"): "as source, exactly once",
    ("to", "at-least-once"): "as target",
    ("to", "exactly-once"): "as target, exactly once",
}


class Outcomes:
    """A plugin of pytest that keeps the names of tests by release, direction and guarantee: of those to run, of the
    passed and of the failed tests. A skipped test is not to run."""

    def __init__(self) -> None:
        self.wanted: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self.passed: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self.failed: dict[tuple[str, str, str], set[str]] = defaultdict(set)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            name, place = _test(item.nodeid)
            if place is not None:
                self.wanted[place].add(name)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name, place = _test(report.nodeid)
        if place is None:
            return
        if report.failed:
            self.failed[place].add(name)
        elif report.skipped:
            self.wanted[place].discard(name)
        elif report.when == "call" and report.passed:
            self.passed[place].add(name)


def _test(node: str) -> tuple[str, tuple[str, str, str] | None]:
    """The kind of a test, and its place in the table."""
    name, _, parameters = node.rpartition("::")[2].partition("[")
    return name.removeprefix("test_"), _place(parameters.rstrip("]"))


def _place(parameters: str) -> tuple[str, str, str] | None:
    """Release, direction and guarantee of a test's parameters, in any order."""
    for release in RELEASES:
        for way, guarantee in COLUMNS:
            rest = parameters.replace(release, "", 1).replace(guarantee, "", 1).replace(way, "", 1)
            if not rest.strip("-") and len(rest) < len(parameters):
                return release, way, guarantee
    return None


def table(found: Outcomes, releases: tuple[str, ...]) -> str:
    """A row for each release: the number of passed comparisons in each column, or the failed and missing ones."""
    rows = [f"| Kafka | {' | '.join(COLUMNS.values())} |", f"|---|{'---|' * len(COLUMNS)}"]
    for release in releases:
        cells = []
        for way, guarantee in COLUMNS:
            place = release, way, guarantee
            failed, wanted = sorted(found.failed[place]), found.wanted[place] | found.passed[place]
            missing = sorted(wanted - found.passed[place])
            if failed:
                cells.append(f"**failed: {', '.join(failed)}**")
            elif missing:
                cells.append(f"**not run: {', '.join(missing)}**")
            else:
                cells.append(f"{len(wanted)} of {len(wanted)}" if wanted else "")
        rows.append(f"| {release} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def legend(date: datetime.date) -> str:
    """The lines below the table."""
    return f"With Kafka {KAFKA_VERSION} on the other side, {date}. Compared: {'; '.join(KINDS.values())}.\n"


def write(text: str, page: Path) -> None:
    """Replace the table of a page. Raises ValueError if the page lacks the marks."""
    found = replace_between(page.read_text(encoding="utf-8"), BEGIN, END, text)
    if found is None:
        raise ValueError(f"{page} lacks {BEGIN} and {END}")
    page.write_text(found, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make versions", description=__doc__, allow_abbrev=False)
    parser.add_argument("--release", action="append", choices=RELEASES, help="only this release; can be repeated")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    asked, others = parser.parse_known_args()
    releases = tuple(release for release in RELEASES if not asked.release or release in asked.release)
    if asked.write and releases != RELEASES:
        parser.error("--write needs all releases")
    found = Outcomes()
    chosen = " or ".join(releases)
    status = pytest.main(["-m", "versions", "-p", "no:randomly", "-k", chosen, str(TESTS), *others], plugins=[found])
    date = datetime.datetime.now(datetime.UTC).date()
    text = f"{table(found, releases)}\n{legend(date)}"
    print(f"\n{text}")
    if asked.write:
        write(text, ROOT / "README.md")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
