"""Commands that read from clusters say what they wait for, once that takes long, and nothing before."""

from __future__ import annotations

import threading

import pytest

from harness.wait import wait_for
from twinlog.console.command_log import waits_reported


class Reader:
    """One that waits for broker 2; `asked` is set when somebody wants to know."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def waits(self) -> list[str]:
        self.asked.set()
        return ["broker 2 of cluster west has not answered for 4 s"]


def test_what_takes_long_is_named_once_for_all_flows(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = Reader(), Reader()
    with waits_reported([first, second], long_s=0.0, again_s=60.0):
        wait_for(second.asked.is_set, 60.0, "both are asked")
    printed = capsys.readouterr()
    assert printed.err == "twinlog: waiting: broker 2 of cluster west has not answered for 4 s\n"
    assert not printed.out


def test_a_quick_answer_is_all_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    reader = Reader()
    with waits_reported([reader], long_s=60.0):
        pass
    assert capsys.readouterr().err == ""
    assert not reader.asked.is_set()
