"""Which shares the driver gives to the bridge, and when it starts the bridge's process."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from harness.wait import wait_for
from twinlog.console.log_options import JsonFormatter
from twinlog.kafka.retry import BRIDGE_START
from twinlog.lease.channel import DriverAddress, LeaseTicket
from twinlog.model.types import Alias
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import COPIER_MEMORY_BYTES, LEAST_COPIER_MEMORY_BYTES, FlowSettings
from twinlog.settings.transform import TransformSettings
from twinlog.worker import bridge as module
from twinlog.worker.bridge import AGAIN_S, HANGS_S, MEMORY_BYTES, Bridge, BridgeProcess

SERVER: Any = SimpleNamespace(first_address=DriverAddress("127.0.0.1", 1, b"secret"))


class Process:
    """The bridge's process; `started` are all of them."""

    started: list[Process]
    fails = False

    def __init__(self) -> None:
        if self.fails:
            raise OSError("no more processes")
        self.tickets: list[LeaseTicket] = []
        self.exit_code: int | None = None
        self.full = self.closed = self.killed = False
        self.started.append(self)

    @property
    def unsent_bytes(self) -> int:
        return len(self.tickets) if self.full else 0

    def add_ticket(self, ticket: LeaseTicket) -> None:
        self.tickets.append(ticket)

    def send_tickets(self) -> None:
        pass

    def kill(self) -> None:
        self.killed = True

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    Process.started, Process.fails = [], False
    monkeypatch.setattr(module, "BridgeProcess", Process)
    return Process.started


def flow(
    *shares: int,
    transform: TransformSettings | None = None,
    ready: bool = True,
    bridged: bool = False,
    of_shares: int = 1,
    by_tasks: bool = False,
) -> Any:
    client = ClientSettings(("x:1",))
    clients = ConsumerSettings(client), ProducerSettings(client), AdminSettings(client), AdminSettings(client)
    settings = FlowSettings(Alias("a"), Alias("b"), *clients, transform=transform)
    begun = threading.Event()
    if ready:
        begun.set()

    def stop_bridge() -> None:
        leases.stops += 1

    def renew_lease() -> None:
        leases.lease += 1

    leases = SimpleNamespace(
        stops=0,
        stop_bridge=stop_bridge,
        renew_lease=renew_lease,
        copied_by_tasks=by_tasks,
        left_without_tasks=list(shares),
        lease=3,
        bridged=bridged,
        current=lambda: (3, of_shares),
    )
    return SimpleNamespace(leases=leases, changes=SimpleNamespace(copiers=settings), ready=begun, ended=False)


def test_each_share_without_a_task_is_given_once_in_a_while(processes: list[Process]) -> None:
    clock = VirtualClock()
    bridge = Bridge(clock=clock)
    for _ in range(3):
        bridge.poll_flows([flow(0, 2)], SERVER)
        clock.now += AGAIN_S / 4
    (process,) = processes
    assert [(ticket.flow, ticket.lease, ticket.share) for ticket in process.tickets] == [("a->b", 3, 0), ("a->b", 3, 2)]
    clock.now += AGAIN_S
    bridge.poll_flows([flow(0)], SERVER)
    assert len(process.tickets) == 3


@pytest.mark.parametrize(
    "idle", [flow(), flow(0, ready=False), flow(0, transform=TransformSettings(sql="SELECT * FROM records"))]
)
def test_no_process_is_started_without_work_for_it(idle: Any, processes: list[Process]) -> None:
    Bridge().poll_flows([idle], SERVER)
    assert processes == []


@pytest.mark.parametrize("local", [True, False])
def test_the_bridge_copies_a_flow_with_a_function_only_beside_local_tasks(
    local: bool, processes: list[Process]
) -> None:
    Bridge(local=local).poll_flows([flow(0, transform=TransformSettings("module:function"))], SERVER)
    assert len(processes) == local


@pytest.mark.parametrize(
    ("shares", "memory"), [(1, COPIER_MEMORY_BYTES), (4, MEMORY_BYTES // 4), (1_000, LEAST_COPIER_MEMORY_BYTES)]
)
def test_all_copiers_of_the_bridge_share_its_memory(shares: int, memory: int, processes: list[Process]) -> None:
    Bridge().poll_flows([flow(0, of_shares=shares)], SERVER)
    ((ticket,),) = [process.tickets for process in processes]
    assert ticket.settings().copier_memory_bytes == memory


@pytest.mark.parametrize("by_tasks", [True, False])
def test_copiers_of_the_bridge_end_for_other_settings_and_begin_with_these(
    by_tasks: bool, processes: list[Process], caplog: pytest.LogCaptureFixture
) -> None:
    """Also copiers whose tickets are on their way: the lease of these tickets is over."""
    caplog.set_level("INFO", "twinlog")
    bridge, copied = Bridge(clock=VirtualClock()), flow(0, by_tasks=by_tasks)
    bridge.poll_flows([copied], SERVER)
    copied.changes.copiers = replace(copied.changes.copiers, lease_seconds=99.0)
    if by_tasks:
        copied.leases.left_without_tasks = []
    for _ in range(2):
        bridge.poll_flows([copied], SERVER)
    assert copied.leases.stops == (not by_tasks)
    assert caplog.text.count("a->b: the copiers end, and begin with the new settings of a->b") == (not by_tasks)
    given = [(ticket.lease, ticket.settings().lease_seconds == 99.0) for ticket in processes[0].tickets]
    assert given == [(3, False), (4, True)][: 2 - by_tasks]


def test_a_bridge_that_is_switched_off_copies_nothing(processes: list[Process]) -> None:
    bridge = Bridge(wanted=False)
    bridge.start()
    bridge.poll_flows([flow(0)], SERVER)
    assert processes == []


def test_a_process_that_has_ended_is_replaced_at_the_next_need(processes: list[Process]) -> None:
    bridge = Bridge()
    bridge.start()
    (first,) = processes
    first.exit_code = 0
    bridge.poll_flows([flow()], SERVER)
    assert (first.closed, len(processes)) == (True, 1)
    bridge.poll_flows([flow(0)], SERVER)
    assert [len(process.tickets) for process in processes] == [0, 1]
    bridge.close()
    assert processes[1].closed


def test_after_a_failed_start_the_flows_wait_for_spark_and_the_next_start_comes_a_minute_later(
    processes: list[Process], caplog: pytest.LogCaptureFixture
) -> None:
    Process.fails = True
    clock = VirtualClock()
    bridge = Bridge(clock=clock)
    for _ in range(3):
        bridge.poll_flows([flow(0)], SERVER)
        clock.now += AGAIN_S
    assert caplog.messages == ["TW-SPARK-07: the bridge: it cannot run yet, flows wait for Spark: no more processes"]
    Process.fails = False
    bridge.poll_flows([flow(0)], SERVER)
    assert processes == []
    clock.now += BRIDGE_START.first_s
    bridge.poll_flows([flow(0)], SERVER)
    assert [len(process.tickets) for process in processes] == [1]


def test_a_process_that_crashes_is_started_once_a_minute(processes: list[Process]) -> None:
    clock = VirtualClock()
    bridge = Bridge(clock=clock)
    for _ in range(100):
        bridge.poll_flows([flow(0)], SERVER)
        for process in processes:
            process.exit_code = 1
        clock.now += AGAIN_S
    assert 3 <= len(processes) <= 4


def test_a_process_that_hangs_is_killed_and_holds_nothing_up(processes: list[Process]) -> None:
    clock = VirtualClock()
    bridge = Bridge(clock=clock)
    bridge.start()
    (process,) = processes
    process.full = True
    for _ in range(int(HANGS_S)):
        bridge.poll_flows([flow(0)], SERVER)
        clock.now += 1.0
        assert not process.killed
    asked = len(process.tickets)
    assert asked <= 2, "what waits is not asked for again"
    bridge.poll_flows([flow(0)], SERVER)
    assert process.killed
    clock.now += BRIDGE_START.first_s
    bridge.poll_flows([flow(0)], SERVER)
    assert [len(one.tickets) for one in processes] == [asked, 1]


def test_a_process_that_the_machine_refuses_leaves_no_files_open(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    pipe = os.pipe

    def limited() -> tuple[int, int]:
        if made:
            raise OSError(errno.EMFILE, "Too many open files")
        made.extend(pipe())
        return made[0], made[1]

    monkeypatch.setattr(os, "pipe", limited)
    with pytest.raises(OSError, match="Too many open files"):
        BridgeProcess()
    for file in made:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)


def test_a_real_process_that_reads_nothing_holds_no_call_up() -> None:
    """The pipe of a stopped process fills up; the tickets wait here, and arrive in order once it reads."""
    process = BridgeProcess()
    try:
        os.kill(process.pid, signal.SIGSTOP)
        client = flow(0).changes.copiers
        for number in range(200):
            process.add_ticket(LeaseTicket.of(client, SERVER.first_address, 1, number))
            process.send_tickets()
        waiting = process.unsent_bytes
        assert waiting > 0
        os.kill(process.pid, signal.SIGCONT)

        def taken() -> bool:
            process.send_tickets()
            return not process.unsent_bytes

        wait_for(taken, 60, "the process takes all tickets")
        assert process.exit_code is None
    finally:
        process.kill()
    assert process.exit_code == -signal.SIGKILL


class Warns:
    """A value that logs a warning in the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return logging.warning, ("TW-TARGET-05: %s: transaction: aborted", "a->b")


def test_a_warning_of_the_real_process_is_in_the_format_of_this_process(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    process = BridgeProcess()
    try:
        # The share is claimed of a driver at a port that nobody listens at.
        ticket: Any = SimpleNamespace(pack=lambda: (Warns(), "127.0.0.1", 1, b"secret", 1, 0, b""))
        process.add_ticket(ticket)

        def logged() -> bool:
            process.send_tickets()
            return bool(caplog.records)

        wait_for(logged, 60, "the process logs its warning")
        assert process.exit_code is None
    finally:
        process.kill()
    (line,) = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    assert (line["level"], line["id"], line["flow"]) == ("warning", "TW-TARGET-05", "a->b")
    assert "aborted" not in capfd.readouterr().err


def test_the_log_names_the_begin_and_the_end_once(processes: list[Process], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", module.__name__)
    bridge = Bridge()
    for bridged, by_tasks in (
        (False, False),
        (True, False),
        (False, False),
        (True, True),
        (False, True),
        (False, True),
    ):
        bridge.poll_flows([flow(bridged=bridged, by_tasks=by_tasks)], SERVER)
    assert caplog.messages == [
        "a->b: the bridge copies until Spark has a task for the flow",
        "a->b: Spark's tasks copy now",
    ]
