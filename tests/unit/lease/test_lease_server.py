"""A driver answers planners with the shares of their flows, and whoever calls its port."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from harness.wait import wait_for
from tests.unit.worker.leasing import World, assignment, require
from twinlog.errors import EngineError
from twinlog.lease import lease_server as lease_server_module
from twinlog.lease import leases as leases_module
from twinlog.lease.channel import Channel, greet_as_copier
from twinlog.lease.lease_server import LeaseServer, QueryFlows
from twinlog.lease.leases import Leases
from twinlog.lease.messages import Claim, CopierEnded, CopierHeartbeat, Grant, Share, Stop
from twinlog.model.types import TopicName, TopicPartition


def flow(name: str) -> Leases:
    return Leases(name, lambda _: [], lambda *_: None, lambda *_: None)


def test_a_planner_waits_until_there_is_work() -> None:
    leases = flow("a->b")
    bundle = QueryFlows("q", [leases])
    began = time.monotonic()
    assert bundle.next_batch(0, 0.1) == 0
    assert time.monotonic() - began >= 0.1
    leases.renew_lease(())
    assert bundle.next_batch(0, 0.05) == 0
    timer = threading.Timer(0.1, leases.renew_lease, [assignment([0])])
    timer.start()
    assert bundle.next_batch(7, 5) == 8
    timer.join()
    leases.stop(0)
    assert bundle.next_batch(8, 0.05) == 8


def test_tasks_are_due_until_every_share_is_claimed() -> None:
    world = World()
    bundle = QueryFlows("q", [world.leases])
    lease = world.leases.renew_lease(assignment([0]))
    one = world.copier("one")
    one.claim(lease)
    require(lambda: not world.leases.unclaimed, "it is claimed")
    assert bundle.next_batch(1, 0.05) == 1
    timer = threading.Timer(0.1, one.die)
    timer.start()
    assert bundle.next_batch(1, 5) == 2
    timer.join()
    world.close()


def test_several_flows_share_a_task() -> None:
    one, two = flow("a->b"), flow("b->a")
    bundle = QueryFlows("q", [one, two])
    assert bundle.shares() == []
    one.renew_lease(assignment([0, 1]))
    assert bundle.shares() == [[Share("a->b", 1, 0)]]
    two.renew_lease(assignment([2]))
    two.renew_lease()
    assert bundle.shares() == [[Share("a->b", 1, 0), Share("b->a", 2, 0)]]
    bundle.remove(one)
    assert bundle.shares() == [[Share("b->a", 2, 0)]]
    two.renew_lease(assignment([2], [3]))
    assert bundle.shares() == [[Share("b->a", 3, 0)], [Share("b->a", 3, 1)]]
    two.stop(0)
    assert bundle.shares() == []


def test_a_flow_that_comes_later_has_work_at_once() -> None:
    one, two = flow("a->b"), flow("b->a")
    bundle = QueryFlows("q", [one])
    two.renew_lease(assignment([0]))
    timer = threading.Timer(0.1, bundle.add, [two])
    timer.start()
    assert bundle.next_batch(3, 5) == 4
    timer.join()


PARTS = frozenset(TopicPartition(TopicName("t" * 200), number) for number in range(40_000))


def grants(parts: Sequence[TopicPartition]) -> list[Grant]:
    return [Grant(part, part, None, 1000, None) for part in parts]


@pytest.fixture
def lease_server() -> Iterator[LeaseServer]:
    lease_server = LeaseServer("127.0.0.1")
    yield lease_server
    lease_server.close()


def test_behind_nat_it_waits_where_it_is_and_is_called_by_another_name() -> None:
    server = LeaseServer("twinlog.example", bind_address="0.0.0.0")
    try:
        assert (server.address.host, server.address.here.host) == ("twinlog.example", "127.0.0.1")
        # Spark's planner is on this machine, and may not get out and in again by that name.
        with socket.create_connection((server.address.here.host, server.address.here.port), timeout=20) as caller:
            assert caller.recv(1)
    finally:
        server.close()


def test_a_port_that_is_taken_and_an_address_of_another_machine_are_refused_with_the_way_out(
    lease_server: LeaseServer,
) -> None:
    port = lease_server.address.port
    with pytest.raises(
        EngineError, match=rf"port {port} of 127.0.0.1 \(twinlog.driver.port\) is taken, .* or 0 for any"
    ):
        LeaseServer("127.0.0.1", port=port)
    with pytest.raises(EngineError, match=r"at 192\.0\.2\.1:0 .* set twinlog\.driver\.bind\.address"):
        LeaseServer("192.0.2.1")


def test_a_further_address_serves_beside_the_first_until_the_server_ends(lease_server: LeaseServer) -> None:
    first = lease_server.address
    second = lease_server.open_address("twinlog.example", bind_address="0.0.0.0")
    assert lease_server.address is second
    for address in (first, second.here):
        with socket.create_connection((address.host, address.port), timeout=20) as caller:
            assert caller.recv(1)
    lease_server.close()
    for address in (first, second.here):
        LeaseServer("127.0.0.1", port=address.port).close()


def test_a_port_of_ones_own_is_free_again_at_once(lease_server: LeaseServer) -> None:
    """As after a restart of a process."""
    address = lease_server.address
    with socket.create_connection((address.host, address.port), timeout=20):
        lease_server.close()
    LeaseServer("127.0.0.1", port=address.port).close()


def lines() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "line"]


def test_a_silent_caller_is_disconnected(lease_server: LeaseServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_server_module, "HANDSHAKE_S", 0.3)
    before = set(lines())
    with socket.create_connection((lease_server.address.host, lease_server.address.port)) as silent:
        silent.settimeout(20)
        while silent.recv(4096):
            # The challenge.
            pass
    wait_for(lambda: not set(lines()) - before, 60, "its thread has ended")


def test_a_driver_that_may_have_no_more_threads_goes_on_once_it_may(
    lease_server: LeaseServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lease_server_module, "PAUSE_S", 0.01)
    really = threading.Thread.start
    # The thread for the line, then the timer of the next line's.
    for lacking in ("line", "Thread-"):

        def start(thread: threading.Thread, lacking: str = lacking) -> None:
            # The servers of other tests may still be called by what they left.
            starter = getattr(threading.current_thread(), "_target", None)
            if thread.name.startswith(lacking) and getattr(starter, "__self__", None) is lease_server:
                raise RuntimeError("can't start new thread")
            really(thread)

        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            for _ in range(3):
                with socket.create_connection((lease_server.address.host, lease_server.address.port)) as refused:
                    refused.settimeout(20)
                    assert refused.recv(4096) == b""
    # Each once a minute.
    assert caplog.text.count("can't start new thread") == 2
    Channel.open(lease_server.address).close()


def one_copier(lease_server: LeaseServer) -> tuple[Leases, Channel]:
    """The leases of a flow, and the connection of a copier that has called."""
    leases = Leases("a->b", grants, lambda *_: None, lambda *_: None)
    lease_server.flows["a->b"] = leases
    line = Channel.open(lease_server.address)
    greet_as_copier(line, "a->b", "one")
    wait_for(lambda: len(leases._ledger.sessions) == 1, 60, "the copier is known")
    return leases, line


def test_a_copier_of_a_flow_that_has_ended_ends_in_order(lease_server: LeaseServer) -> None:
    """Its task began while the flow ended. Cut off it would fail, be run again by Spark, and be reported each time."""
    line = Channel.open(lease_server.address)
    greet_as_copier(line, "east->west", "copier")
    line.send(Claim(1, 7))
    assert line.receive() == Stop()
    line.send(CopierEnded())
    with pytest.raises((EOFError, OSError)):
        line.receive()
    line.close()


def test_a_copier_that_does_not_read_delays_no_other(
    lease_server: LeaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suspended worker: its grants fill the connection, and then a plan has a message for it."""
    monkeypatch.setattr(leases_module, "DEAD_S", 1.0)
    leases, line = one_copier(lease_server)
    lease = leases.plan((PARTS,))
    line.send(Claim(lease))
    wait_for(lambda: not leases.unclaimed, 60, "it has claimed")
    # To be answered after all that.
    line.send(CopierHeartbeat(1.0))
    planner = threading.Thread(target=leases.plan, args=((frozenset(list(PARTS)[:1]),),), daemon=True)
    planner.start()
    planner.join(60)
    assert not planner.is_alive()
    wait_for(lambda: len(leases._ledger.sessions) == 0, 60, "it is cut off")
    assert leases.unclaimed
    line.close()
    leases.stop(0)


def test_a_copier_that_hangs_in_the_middle_of_a_message_is_cut_off(
    lease_server: LeaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases_module, "DEAD_S", 1.0)
    leases, line = one_copier(lease_server)
    # A message of a hundred bytes, by its header; only these follow.
    os.write(line.fileno(), (100).to_bytes(4, "big") + b"{")
    wait_for(lambda: len(leases._ledger.sessions) == 0, 60, "it is cut off")
    line.close()
    leases.stop(0)
