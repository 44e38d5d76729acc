"""The table of `make versions` says how the tests ended."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.versions import BEGIN, END, Outcomes, table, write


def report(node: str, outcome: str, when: str = "call") -> Any:
    return SimpleNamespace(
        nodeid=f"tests/test_versions.py::{node}", when=when, failed=outcome == "failed", passed=outcome == "passed"
    )


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


def test_only_the_part_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nbehind\n")
    for _ in range(2):
        write("new\n", page)
        assert page.read_text() == f"before\n{BEGIN}\nnew\n{END}\nbehind\n"
    page.write_text("no marks")
    with pytest.raises(ValueError, match="lacks"):
        write("new\n", page)
