"""Equal warnings of several flows are a single line; a long wait is printed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from harness.wait import wait_for
from twinlog.console.command_log import WarningMergeHandler, print_warnings, waits_reported
from twinlog.console.log_options import LogFormat, choose_log
from twinlog.errors.mistakes import ConfigWarning, MistakeKind


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def together(kept: Kept) -> WarningMergeHandler:
    return WarningMergeHandler(kept, hold_s=3600)


@pytest.fixture
def log(together: WarningMergeHandler) -> Iterator[logging.Logger]:
    log = logging.getLogger("together")
    log.setLevel(logging.INFO)
    log.addHandler(together)
    yield log
    log.removeHandler(together)


@pytest.mark.parametrize("verbose", [False, True])
def test_keys_that_mirror_maker_2_needs_are_printed_with_v_alone(
    capsys: pytest.CaptureFixture[str], verbose: bool
) -> None:
    keys = ConfigWarning("f", 3, "", "these keys are ignored here: plugin.path", kind=MistakeKind.IGNORED)
    misplaced = ConfigWarning("f", 4, "producer.acks", "ignored here; write acks", kind=MistakeKind.IGNORED)
    choose_log(LogFormat.TEXT, verbose=verbose, quiet=False)
    try:
        print_warnings([keys, misplaced])
    finally:
        choose_log(LogFormat.TEXT, verbose=False, quiet=False)
    printed = capsys.readouterr().err
    assert ("plugin.path" in printed) is verbose
    assert "producer.acks: ignored here" in printed


def test_where_no_thread_can_be_started_nothing_waits(
    log: logging.Logger, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        log.warning("a->b: slow")
        assert kept.lines == ["WARNING a->b: slow"]
    log.warning("a->b: slow")
    assert len(kept.lines) == 1


def test_the_id_of_joined_warnings_stays_in_front(
    log: logging.Logger, together: WarningMergeHandler, kept: Kept
) -> None:
    log.warning("TW-WAIT-01: a->b: waiting: cluster b unreachable")
    log.warning("TW-WAIT-01: c->b: waiting: cluster b unreachable")
    log.warning("TW-WAIT-02: d->b: waiting: cluster b unreachable")
    together.flush()
    assert kept.lines == [
        "WARNING TW-WAIT-01: a->b, c->b: waiting: cluster b unreachable",
        "WARNING TW-WAIT-02: d->b: waiting: cluster b unreachable",
    ]


def test_equal_warnings_of_several_flows_are_one(
    log: logging.Logger, together: WarningMergeHandler, kept: Kept
) -> None:
    for flow in ("a->b", "c->b", "b->a", "a->b"):
        log.warning("%s: waiting: cluster b unreachable", flow)
    log.warning("%s: waiting: %d", "a->b", 5)
    assert kept.lines == []
    together.flush()
    assert kept.lines == ["WARNING a->b, c->b, b->a: waiting: cluster b unreachable", "WARNING a->b: waiting: 5"]
    together.flush()
    assert len(kept.lines) == 2


def test_their_topics_are_put_together(log: logging.Logger, together: WarningMergeHandler, kept: Kept) -> None:
    for flow, topics in (("a->b", ["heartbeats"]), ("b->a", ["y", "x"])):
        text = f"refused of {', '.join(sorted(topics))} (why); default"
        log.warning("%s: %s", flow, text, extra={"of": topics})
    together.flush()
    assert kept.lines == ["WARNING a->b, b->a: refused of heartbeats, x, y (why); default"]


def test_a_message_of_no_flow_is_logged_at_once(log: logging.Logger, kept: Kept) -> None:
    log.info("a->b: created")
    log.error("a->b: FAILED")
    log.warning("Spark has 2 slots")
    assert kept.lines == ["INFO a->b: created", "ERROR a->b: FAILED", "WARNING Spark has 2 slots"]


def test_a_warning_waits_for_others_only_a_moment(
    log: logging.Logger, together: WarningMergeHandler, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "_hold_s", 0.05)
    log.warning("a->b: one")
    wait_for(lambda: kept.lines == ["WARNING a->b: one"], 60, "it is logged")
    log.warning("a->b: two")
    wait_for(lambda: kept.lines[1:] == ["WARNING a->b: two"], 60, "it is logged")


def test_a_warning_stands_before_what_its_flow_logs_next(
    log: logging.Logger, together: WarningMergeHandler, kept: Kept
) -> None:
    """Read in turn: a flow that is lost and taken again runs."""
    log.warning("a->b: another process may run the flow now")
    log.warning("c->b: slow")
    log.info("a->b: this process runs the flow")
    assert kept.lines == ["WARNING a->b: another process may run the flow now", "INFO a->b: this process runs the flow"]
    together.flush()
    assert kept.lines[2:] == ["WARNING c->b: slow"]


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
