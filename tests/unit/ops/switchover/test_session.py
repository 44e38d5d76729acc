"""A living process keeps its switchover, a dead process blocks nothing; and the lines of the steps."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.console.log_options import LogFormat, choose_log
from twinlog.errors import ClusterError
from twinlog.errors.message_ids import told
from twinlog.mirror.topics.journal_keys import SwitchoverState
from twinlog.model.types import Alias
from twinlog.ops.switchover.journal import JournalEntries, SwitchoverRun, TopicJournal
from twinlog.ops.switchover.model import SwitchoverDirection, SwitchoverKind, SwitchoverOptions, UnderWayError
from twinlog.ops.switchover.owner import ALIVE_HERE_S, ALIVE_S, WATCHED_S, require_free, require_silent, this_process
from twinlog.ops.switchover.session import LINE_EVERY_S, SAME_EVERY_S, StepLines, report_state

HERE = socket.gethostname()


def entries(owner: str, silent_s: float = 0.0, state: SwitchoverState = SwitchoverState.RUNNING) -> JournalEntries:
    seen_ms = int((time.time() - silent_s) * 1000)
    return JournalEntries(
        SwitchoverRun(
            "r",
            SwitchoverDirection(Alias("a"), Alias("b")),
            SwitchoverOptions(SwitchoverKind.PLANNED),
            state,
            seen_ms,
            owner,
            seen_ms,
        )
    )


@pytest.mark.parametrize(
    "free",
    [
        JournalEntries(),
        entries("elsewhere 1", state=SwitchoverState.DONE),
        entries("elsewhere 1", silent_s=2 * ALIVE_S),
        # A process ended its work with an error, and lives on.
        entries(""),
        entries(f"{HERE} no-number other"),
        entries(this_process()),
        # A container that was started anew has its host's name and its number again.
        entries(f"{HERE} {os.getpid()} other", silent_s=2 * ALIVE_S),
        # The number belongs to another process since a boot.
        entries(f"{HERE} {os.getppid()} other", silent_s=2 * ALIVE_HERE_S),
    ],
)
def test_it_is_free(free: JournalEntries) -> None:
    require_free(free)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_killed_process_that_nobody_has_asked_for_its_end_blocks_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        owned = entries(f"{HERE} {child.pid} other")
        with pytest.raises(UnderWayError):
            require_free(owned)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        os.kill(child.pid, 0)
        require_free(owned)


def test_the_time_until_a_silent_process_counts_as_ended_is_named() -> None:
    with pytest.raises(UnderWayError, match=r"\(last entry \d s ago\); .* it counts as ended in 1\d s$"):
        require_free(entries("elsewhere 1", silent_s=5.0))
    with pytest.raises(UnderWayError, match=r"it counts as ended in (600|5\d\d) s$"):
        require_free(entries(f"{HERE} {os.getppid()} other"))


@pytest.mark.parametrize(
    "owner",
    ["elsewhere 1", "elsewhere 1 other", f"{HERE} {os.getppid()} other", f"{HERE} {os.getpid()} other"],
    ids=["another host", "another host, with an id", "a process that exists", "a container of the same name"],
)
def test_another_process_is_named(owner: str) -> None:
    with pytest.raises(UnderWayError, match=r"works on switchover a->b .* wait for it, or give --take-over"):
        require_free(entries(owner))


@pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="needs /proc")
def test_a_container_with_the_name_of_its_host_has_numbers_of_its_own() -> None:
    boot, space = this_process().split(" ")[3].rsplit("/", 1)
    gone = f"{HERE} 99999999 other"
    require_free(entries(f"{gone} {boot}/{space}"))
    for elsewhere in (f"{boot}/pid:[1]", f"another-boot/{space}"):
        with pytest.raises(UnderWayError, match=r"counts as ended in (20|19) s"):
            require_free(entries(f"{gone} {elsewhere}"))


class WatchedJournal:
    """A journal whose owner writes entries while it is watched, if it lives."""

    def __init__(self, owner: str, silent_s: float, *, lives: bool) -> None:
        self._known = entries(owner, time.time() - VirtualClock().wall() + silent_s)
        self.lives = lives
        self.looks = 0

    def read_unclaimed(self) -> JournalEntries:
        run = self._known.run
        assert run is not None
        self.looks += 1
        written_ms = 5_000 * (self.looks - 1) if self.lives else 0
        return JournalEntries(replace(run, seen_ms=run.seen_ms + written_ms))


@pytest.mark.parametrize("silent_s", [2 * ALIVE_S, -2 * ALIVE_S], ids=["clock behind", "clock ahead"])
def test_a_living_process_whose_clock_differs_keeps_its_switchover(silent_s: float) -> None:
    clock, words = VirtualClock(), list[tuple[str, str]]()

    def show(step: str, text: str) -> None:
        words.append((step, text))

    living, ended = (WatchedJournal("elsewhere 1 other", silent_s, lives=lives) for lives in (True, False))
    with pytest.raises(UnderWayError, match="process 1 on elsewhere works on"):
        require_silent(cast("TopicJournal", living), show, clock=clock)
    assert clock.now - VirtualClock().now == WATCHED_S
    clock.now = VirtualClock().now
    require_silent(cast("TopicJournal", ended), show, clock=clock)
    assert words == [("check", "see that process 1 on elsewhere has ended")] * 2


def test_a_process_that_has_surely_ended_is_not_watched() -> None:
    clock = VirtualClock()
    for owner, silent_s in (("", 60.0), ("elsewhere 1 other", 4_000.0), (f"{HERE} 99999999 other", 1.0)):
        journal = WatchedJournal(owner, silent_s, lives=False)
        require_silent(cast("TopicJournal", journal), lambda *_: None, clock=clock)
        assert journal.looks == 1
    assert clock.now == VirtualClock().now


def test_an_error_of_a_switchover_has_the_id_of_its_cause_or_of_its_class() -> None:
    with pytest.raises(UnderWayError) as refused:
        require_free(entries("elsewhere 1"))
    assert told(refused.value).startswith("TW-SWITCH-07: process 1 on elsewhere works on switchover a->b")
    assert told(UnderWayError("nothing is under way")) == "TW-SWITCH-11: nothing is under way"


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


@pytest.fixture
def quiet() -> Iterator[None]:
    choose_log(LogFormat.TEXT, verbose=False, quiet=True)
    yield
    choose_log(LogFormat.TEXT, verbose=False, quiet=False)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("terminal", [True, False])
def test_a_quiet_command_keeps_the_warnings_of_its_steps(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    clock = VirtualClock()
    show = StepLines(clock)
    clock.now += 12.0
    show("catch-up", "5 records left")
    show("catch-up", "TW-SWITCH-14: 5 records left; nothing is copied: flow a->b must run")
    show("settle", "wait until the source stands still")
    show("settle", "TW-SWITCH-01: producers still write to orders")
    show("settle", "TW-SWITCH-01: producers still write to orders")
    assert capsys.readouterr().err.splitlines() == [
        "TW-SWITCH-14: 12.0 s  catch-up  5 records left; nothing is copied: flow a->b must run",
        "TW-SWITCH-01: 12.0 s  settle    producers still write to orders",
    ]


def test_a_warning_of_a_step_has_its_level_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    choose_log(LogFormat.JSON, verbose=False, quiet=False)
    try:
        show = StepLines(VirtualClock())
        show("fence", "producers are fenced")
        show("settle", "TW-SWITCH-01: producers still write to orders")
    finally:
        choose_log(LogFormat.TEXT, verbose=False, quiet=False)
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(one["level"], one.get("id")) for one in found] == [("info", None), ("warning", "TW-SWITCH-01")]


class SilentJournal:
    """A journal whose cluster answers no more, or has never answered."""

    def __init__(self, known: JournalEntries | None) -> None:
        self.was_read = known is not None
        self.entries = known or JournalEntries()

    def read(self) -> JournalEntries:
        raise ClusterError("cluster b: no broker can be reached")


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (
            None,
            (
                "twinlog: TW-SWITCH-16: cluster b, which keeps the journal of switchover a->b, gave no answer, and no "
                "journal is known: this command ran no step, and an earlier switchover may have fenced producers on a; "
                "start b, or correct b.bootstrap.servers; once b answers, the same command with --status prints the "
                "state"
            ),
        ),
        (JournalEntries(), "is silent now; as last read: no switchover has begun; once b answers"),
        (entries("elsewhere 1"), "as last read: a->b is running, last step none; the same command continues there"),
    ],
)
def test_a_silent_journal_is_reported_with_its_cluster_and_the_way_out(
    known: JournalEntries | None, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = cast(TopicJournal, SilentJournal(known))
    report_state(journal, SwitchoverDirection(Alias("a"), Alias("b")))
    assert words in capsys.readouterr().err
