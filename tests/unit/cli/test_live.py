"""The live table and the log lines show what counts, and nothing that is not known."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from twinlog.cli import live, live_table
from twinlog.lease.progress import PartitionCounters, PartitionProgress, Report
from twinlog.worker.status.flow_status import FlowStatus

REFUSED = "cannot connect: cluster primary: no broker can be reached: primary-1:9092: connection refused"
WAITING = ("waiting", "target cluster unreachable since 14:03:10, nothing is copied")


@dataclass
class Flow:
    """As much of a flow as the table looks at."""

    flow_status: FlowStatus = field(default_factory=FlowStatus)
    settings: Any = field(default_factory=lambda: SimpleNamespace(name="east->west"))
    status: tuple[str, str | None] = ("running", None)
    ended: bool = False
    absent: bool = False

    def take(self, end: int) -> None:
        part = PartitionProgress("t", 0, 5, 5, end, PartitionCounters(records=5, bytes=50))
        self.flow_status.add_report(Report("east->west", "one", 1, 0, 1.0, 0.1, partitions=(part,)))


def line(flow: Flow) -> str:
    shown: Any = flow
    return live._line(shown)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_cut_off(width: int) -> None:
    console = Console(width=width, color_system=None)
    flow = Flow(status=("starting", REFUSED))
    runner: Any = SimpleNamespace(flows=[flow], idle=[], web_url=None)
    with console.capture() as captured:
        console.print(live_table.LiveTable(runner, console)._table())
    shown = captured.get()
    assert "\u2026" not in shown
    for word in ("east->west", "starting", "refused", "records/s", "lag", "unknown", "copied"):
        assert word in shown
    assert ("partitions" in shown) == (width >= live_table.WIDE)


def test_a_lag_is_logged_with_its_age() -> None:
    flow = Flow()
    flow.take(5)
    assert line(flow) == (
        "east->west: running, 1 partition, 5 records copied, 5 records/s, 0.0 MB/s, lag 0 (0 s ago), ETA now"
    )


def test_a_lag_that_is_not_known_of_all_partitions_ends_at_no_time() -> None:
    flow = Flow()
    flow.take(5)
    other = PartitionProgress("t", 1, 5, 5, -1)
    flow.flow_status.add_report(Report("east->west", "one", 1, 0, 1.0, 0.1, partitions=(other,)))
    assert line(flow).endswith("lag 0 (0 s ago, 1 partition unknown), ETA ?")


def test_a_waiting_flow_logs_the_reason_and_no_rate() -> None:
    flow = Flow(status=WAITING)
    flow.take(7)
    assert line(flow) == (
        "east->west: waiting: target cluster unreachable since 14:03:10, nothing is copied, "
        "1 partition, 5 records copied, lag 2 (0 s ago)"
    )


def test_a_failed_flow_has_its_reason_in_the_line_of_the_failure() -> None:
    flow = Flow(status=("failed", "TW-NET-03: cluster east: the login was refused"))
    assert line(flow) == "east->west: failed (TW-NET-03), 0 partitions, 0 records copied"
    assert line(Flow(status=("failed", "a reason"))).startswith("east->west: failed (TW-FLOW-01), ")


def test_who_stands_by_has_no_figures() -> None:
    assert line(Flow(status=("standing by for host-1", None), absent=True)) == "east->west: standing by for host-1"


def test_an_unchanged_status_is_not_logged_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    flow = Flow()
    flow.take(5)
    runner: Any = SimpleNamespace(flows=[flow], web_url=None)
    lines = live.LogLines(runner)

    def news() -> bool:
        shown: Any = flow
        return lines._is_news(shown)

    assert [news(), news()] == [True, False]
    flow.take(6)
    assert [news(), news()] == [True, False]
    flow.status = WAITING
    assert [news(), news()] == [True, False]
    flow.take(9)
    assert not news()
    monkeypatch.setattr(live, "SAME_EVERY_S", 0.0)
    assert news()
    with caplog.at_level(logging.INFO):
        lines.stop()
    assert len(caplog.records) == 1
