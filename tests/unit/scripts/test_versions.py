"""The table of `make versions` says how the tests ended."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.versions import BEGIN, END, KINDS, ROOT, TESTS, Outcomes, legend, table, write


def report(node: str, outcome: str, when: str = "call") -> Any:
    return SimpleNamespace(
        nodeid=f"tests/test_versions.py::{node}",
        when=when,
        failed=outcome == "failed",
        passed=outcome == "passed",
        skipped=outcome == "skipped",
    )


def collected(*nodes: str) -> Any:
    return SimpleNamespace(items=[SimpleNamespace(nodeid=f"tests/test_versions.py::{node}") for node in nodes])


def test_a_row_has_passed_counts_and_names_of_failed_tests() -> None:
    found = Outcomes()
    for node, outcome, when in (
        ("test_plain[2.8.2-from-at-least-once]", "passed", "call"),
        ("test_groups[2.8.2-from-at-least-once]", "passed", "call"),
        ("test_old_format[2.8.2-from-at-least-once]", "skipped", "call"),
        ("test_plain[2.8.2-to-exactly-once]", "passed", "call"),
        ("test_kill_9[2.8.2-to-exactly-once]", "failed", "call"),
        ("test_groups[4.4.0-to-at-least-once]", "failed", "setup"),
    ):
        found.pytest_runtest_logreport(report(node, outcome, when))
    rows = table(found, ("2.8.2", "4.4.0")).splitlines()
    assert rows[0] == "| Kafka | as source | as source, exactly once | as target | as target, exactly once |"
    assert rows[2] == "| 2.8.2 | 2 of 2 |  |  | **failed: kill_9** |"
    assert rows[3] == "| 4.4.0 |  |  | **failed: groups** |  |"


def test_a_comparison_that_was_not_reached_is_named() -> None:
    found = Outcomes()
    places = "2.8.2-to-at-least-once", "2.8.2-to-exactly-once"
    found.pytest_collection_finish(
        collected(*(f"test_{kind}[{place}]" for kind in ("plain", "old_format", "kill_9") for place in places))
    )
    for place in places:
        found.pytest_runtest_logreport(report(f"test_plain[{place}]", "passed"))
        found.pytest_runtest_logreport(report(f"test_old_format[{place}]", "skipped"))
    found.pytest_runtest_logreport(report(f"test_kill_9[{places[0]}]", "passed"))
    assert table(found, ("2.8.2",)).splitlines()[2] == "| 2.8.2 |  |  | 2 of 2 | **not run: kill_9** |"


def test_each_comparison_is_below_the_table_of_the_readme() -> None:
    names = re.findall(r"^def test_(\w+)", (TESTS / "test_versions.py").read_text("utf-8"), re.MULTILINE)
    assert list(KINDS) == names
    readme = (ROOT / "README.md").read_text("utf-8")
    date = re.search(r"on the other side, (\d{4}-\d\d-\d\d)\.", readme)
    assert date is not None
    assert legend(datetime.date.fromisoformat(date[1])) in readme


def test_only_the_part_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nbehind\n")
    for _ in range(2):
        write("new\n", page)
        assert page.read_text() == f"before\n{BEGIN}\nnew\n{END}\nbehind\n"
    page.write_text("no marks")
    with pytest.raises(ValueError, match="lacks"):
        write("new\n", page)
