"""What a switchover shows while it waits, where no terminal is."""

from __future__ import annotations

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.ops.switchover.session import LINE_EVERY_S, SAME_EVERY_S, StepLines


def test_what_is_waited_for_is_a_line_when_it_changes_and_else_seldom(capsys: pytest.CaptureFixture[str]) -> None:
    clock = VirtualClock()
    show = StepLines(clock)
    show("settle", "wait until the source stands still")
    for _ in range(int(SAME_EVERY_S / LINE_EVERY_S)):
        clock.now += LINE_EVERY_S
        show("settle", "producers still write to orders")
    assert capsys.readouterr().err.count("producers still write to orders") == 1
    clock.now += SAME_EVERY_S
    show("settle", "producers still write to orders")
    clock.now += LINE_EVERY_S
    show("settle", "producers still write to payments")
    clock.now += LINE_EVERY_S / 2
    show("settle", "producers still write to clicks")
    show("drain", "wait until everything is copied")
    lines = capsys.readouterr().err.splitlines()
    assert [words for words in ("orders", "payments", "clicks", "copied") if any(words in line for line in lines)] == [
        "orders",
        "payments",
        "copied",
    ]
