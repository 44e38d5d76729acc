"""A flow with a level of its own has more lines in the log, or fewer; every other flow has the lines of before."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.connect.rest.levels import Levels
from twinlog.process import flow_levels as module
from twinlog.process.flow_levels import MOST_S, FlowLevels, FlowLogLevel

FLOW, OTHER = "east->west", "east->north"
LOG = logging.getLogger("twinlog.worker.for_these_tests")
FOREIGN = logging.getLogger("kafka.for_these_tests")
NO_LEVEL = logging.CRITICAL + 1


class Kept(logging.Handler):
    """Keeps the lines that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def levels(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> FlowLevels:
    found = FlowLevels(clock)
    monkeypatch.setattr(module, "FLOW_LEVELS", found)
    return found


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """The lines that handlers get, while the log has lines from INFO on."""
    kept, root = Kept(), logging.getLogger()
    before = root.level
    root.addHandler(kept)
    root.setLevel(logging.INFO)
    yield kept.lines
    root.removeHandler(kept)
    root.setLevel(before)


def on_thread(name: str, step: Callable[[], None]) -> None:
    thread = threading.Thread(target=step, name=name)
    thread.start()
    thread.join(60)


def test_only_the_flow_with_the_level_has_debug_lines(levels: FlowLevels, lines: list[str]) -> None:
    LOG.debug("%s: before", FLOW)
    levels.set_level(FLOW, logging.DEBUG, 60.0)
    LOG.debug("%s: looks", FLOW)
    LOG.debug("TW-GAP-01: %s: looks", FLOW)
    LOG.debug("%s: looks", OTHER)
    LOG.debug("of no flow, though it names %s: in passing", FLOW)
    LOG.info("%s: informs", OTHER)
    assert lines == [f"{FLOW}: looks", f"TW-GAP-01: {FLOW}: looks", f"{OTHER}: informs"]


@pytest.mark.parametrize("name", ["flow {}", "copier {}", "stand-in {}", "grants {}_7", "{}: write checkpoints"])
def test_lines_of_the_threads_of_a_flow_are_its_own(levels: FlowLevels, lines: list[str], name: str) -> None:
    levels.set_level(FLOW, logging.DEBUG, 60.0)
    for flow in (FLOW, OTHER, f"north {FLOW}"):
        on_thread(name.format(flow), lambda flow=flow: LOG.debug("orders-0 of %s", flow))  # type: ignore[misc]
    assert lines == [f"orders-0 of {FLOW}"]


def test_a_level_above_that_of_the_process_keeps_lines_back(levels: FlowLevels, lines: list[str]) -> None:
    levels.set_level(FLOW, FlowLogLevel.ERROR.number, 60.0)
    for flow in (FLOW, OTHER):
        LOG.warning("%s: warns", flow)
        LOG.error("%s: fails", flow)
    assert lines == [f"{FLOW}: fails", f"{OTHER}: warns", f"{OTHER}: fails"]


def test_a_level_ends_after_its_time_and_when_it_is_ended(
    levels: FlowLevels, lines: list[str], clock: VirtualClock
) -> None:
    levels.set_level(FLOW, logging.DEBUG, 60.0)
    clock.now += 59.0
    LOG.debug("%s: in time", FLOW)
    clock.now += 1.0
    LOG.debug("%s: too late", FLOW)
    assert (lines, levels.lowest) == ([f"{FLOW}: in time"], NO_LEVEL)
    levels.set_level(FLOW, logging.DEBUG, 10 * MOST_S)
    levels.set_level(OTHER, logging.DEBUG, 60.0)
    levels.clear_level(FLOW)
    LOG.debug("%s: ended", FLOW)
    LOG.debug("%s: goes on", OTHER)
    assert lines[1:] == [f"{OTHER}: goes on"]
    levels.set_level(FLOW, logging.DEBUG, 10 * MOST_S)
    clock.now += MOST_S
    assert levels.lowest == NO_LEVEL


def test_lines_below_a_warning_go_to_a_sink_without_the_name_of_the_flow(levels: FlowLevels, lines: list[str]) -> None:
    got: list[tuple[int, str]] = []
    others: list[tuple[int, str]] = []

    def keep(level: int, text: str) -> None:
        got.append((level, text))

    def keep_others(level: int, text: str) -> None:
        others.append((level, text))

    levels.set_level(FLOW, logging.DEBUG, 60.0, keep)
    LOG.debug("%s: %s begins", FLOW, "orders-0")
    LOG.warning("%s: warns", FLOW)
    assert (got, lines) == ([(logging.DEBUG, "orders-0 begins")], [f"{FLOW}: warns"])
    # The end of a copier leaves the level of another copier of the flow alone.
    levels.set_level(FLOW, logging.DEBUG, 60.0, keep_others)
    levels.clear_level(FLOW, keep_others)
    LOG.info("%s: informs", FLOW)
    assert (got[1:], others) == ([(logging.INFO, "informs")], [])


def test_loggers_of_other_programs_and_the_levels_of_connect_stay_as_they_are(
    levels: FlowLevels, lines: list[str]
) -> None:
    connect = Levels()
    before = connect.list_levels()
    levels.set_level(FLOW, logging.DEBUG, 60.0)
    on_thread(f"flow {FLOW}", lambda: FOREIGN.debug("the bytes that were sent"))
    assert (lines, connect.list_levels()) == ([], before)
    name = LOG.name
    try:
        assert connect.set_level(name, "DEBUG", 1) == [name]
        LOG.debug("%s: looks", OTHER)
        connect.set_level(name, "ERROR", 2)
        LOG.warning("%s: warns", OTHER)
        LOG.debug("%s: looks", FLOW)
        assert connect.get_level(name) == ("ERROR", 2)
    finally:
        LOG.setLevel(logging.NOTSET)
    assert lines == [f"{OTHER}: looks", f"{FLOW}: looks"]


def test_a_line_whose_values_do_not_fit_ends_no_step(
    levels: FlowLevels, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    levels.set_level(FLOW, logging.DEBUG, 60.0)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    LOG.debug("%d partitions", "no number")
    assert lines == []


def test_each_level_has_the_number_of_the_standard_library() -> None:
    assert [level.number for level in FlowLogLevel] == [0, 10, 20, 30, 40]
