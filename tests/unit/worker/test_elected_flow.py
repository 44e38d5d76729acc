"""A flow is left to another process only once nothing is left here that may append."""

from __future__ import annotations

import errno
import logging
import socket
import threading
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from harness.wait import wait_for
from tests.unit.worker.election.electing import ALL_STORED, Election, Flow, Stored, elected_flow_of
from tests.unit.worker.election.test_election import SETTINGS
from twinlog.clock import SYSTEM
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.retry import READ_AHEAD, RetryPolicy
from twinlog.model.types import Alias
from twinlog.process.log_once import AGAIN_S
from twinlog.settings.flow import CustomClass
from twinlog.worker import elected_flow as module
from twinlog.worker import retrying
from twinlog.worker.elected_flow import ElectedFlow
from twinlog.worker.election.member import Leadership, LeaderTerm, Member
from twinlog.worker.election.role import ElectionState
from twinlog.worker.election.roster import ElectionRegistry
from twinlog.worker.flow import flow_host
from twinlog.worker.flow.flow import FlowState
from twinlog.worker.flow.flow_host import FlowBuilder
from twinlog.worker.flows_without_spark import ElectedIdleFlow
from twinlog.worker.placement.processes import FlowMembers


@pytest.fixture(autouse=True)
def all_stored(monkeypatch: pytest.MonkeyPatch) -> list[Stored]:
    ALL_STORED.clear()
    monkeypatch.setattr(module, "StoredOffsets", Stored)
    return ALL_STORED


@pytest.mark.parametrize(
    ("releases", "between"),
    [
        pytest.param(True, ["stop"], id="in order"),
        pytest.param(False, ["stop", "cut off", "wait 5"], id="a copier that hangs"),
    ],
)
def test_a_flow_is_handed_over_when_its_copiers_are_gone(
    monkeypatch: pytest.MonkeyPatch, releases: bool, between: list[str]
) -> None:
    done: list[str] = []
    clock = VirtualClock()
    monkeypatch.setattr(clock, "sleep", lambda seconds: done.append(f"wait {seconds:g}"))
    elected, lease_server = elected_flow_of(done, releases=releases, clock=clock)
    elected.poll_flow(lease_server)
    assert elected.can_hand_over
    elected.hand_over("b")
    assert not elected.can_hand_over
    assert elected.state is FlowState.STARTING
    wait_for(lambda: "close" in done, 60, "nothing runs here")
    assert done == ["start", *between, "leave to b", "end the query", "close"]
    wait_for(lambda: elected.poll_flow(lease_server) is None and not elected.clearing, 60, "it may be taken again")
    assert (elected.flow, elected.stands_by, lease_server.flows) == (None, True, {})


@pytest.mark.parametrize(("releases", "end"), [(True, "leave"), (False, "fall silent")])
def test_at_the_end_a_hanging_copier_delays_the_next_process(*, releases: bool, end: str) -> None:
    done: list[str] = []
    elected, lease_server = elected_flow_of(done, releases=releases)
    elected.poll_flow(lease_server)
    elected.stop()
    assert done == ["start", "stop", end]


def test_nor_while_it_is_being_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    elected, lease_server = elected_flow_of(done)
    hangs = threading.Event()
    monkeypatch.setattr(Flow, "drop_copiers", lambda _: hangs.wait(60))
    monkeypatch.setattr(flow_host, "COPIERS_STOP_S", 0.1)
    monkeypatch.setattr(flow_host, "JOBS_STOP_S", 0.1)
    elected.poll_flow(lease_server)
    election: Any = elected.election
    election.term = 2
    elected.poll_flow(lease_server)
    elected.stop()
    assert done[-1] == "fall silent"
    hangs.set()


def is_cleared(elected: ElectedFlow, lease_server: Any) -> bool:
    elected.poll_flow(lease_server)
    return not elected.clearing


def test_a_flow_that_failed_or_has_caught_up_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for state in (FlowState.FAILED, FlowState.DONE):
        done: list[str] = []
        elected, lease_server = elected_flow_of(done, until=True)
        elected.poll_flow(lease_server)
        assert elected.occupied
        monkeypatch.setattr(Flow, "state", state)
        elected.poll_flow(lease_server)
        assert elected.over
        wait_for(partial(done.__contains__, "close"), 60, "nothing runs here")
        wait_for(
            partial(is_cleared, elected, lease_server),
            60,
            "it is cleared",
        )
        assert done == ["start", "stop", "leave", "end the query", "close"]
        assert (elected.state, elected.occupied, elected.running) == (state, False, None)
        monkeypatch.setattr(Flow, "state", FlowState.RUNNING)


@pytest.mark.parametrize("until", [True, False])
def test_who_ends_when_all_is_copied_waits_only_for_one_that_does_too(
    *, until: bool, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []
    elected, lease_server = elected_flow_of(done, until=True)
    election: Any = elected.election
    election.standing = ElectionState.STANDBY
    election.leadership = Leadership(Member("other", until=until), LeaderTerm(3, "id", 1.0))
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            elected.poll_flow(lease_server)
    assert elected.ended is not until
    if until:
        assert caplog.text.count("a->z: other catches up with this flow") == 1
        election.standing = ElectionState.LEADING
        elected.poll_flow(lease_server)
        assert done == ["go on with what was read", "start"]
    else:
        assert "runs this flow already" in (elected.status[1] or "")
        wait_for(lambda: done == ["leave"], 60, "it leaves")


def test_a_flow_whose_target_is_an_alias_of_that_of_another_flow_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """It stood by for its own process for ever."""
    done: list[str] = []
    elected, lease_server = elected_flow_of(done)
    election: Any = elected.election
    election.standing, election.twin = ElectionState.STANDBY, "a->y"
    for _ in range(3):
        elected.poll_flow(lease_server)
    assert elected.ended
    assert "this process runs a->y from a into the same cluster already: z is another alias of it" in caplog.text
    wait_for(lambda: done == ["leave"], 60, "it leaves")


@pytest.mark.parametrize("standing", [ElectionState.STANDBY, ElectionState.WAITING])
def test_who_stands_by_has_read_what_is_stored_when_it_takes_over(
    monkeypatch: pytest.MonkeyPatch, all_stored: list[Stored], standing: ElectionState
) -> None:
    done: list[str] = []
    elected, lease_server = elected_flow_of(done)
    election: Any = elected.election
    election.standing = ElectionState.JOINING
    elected.poll_flow(lease_server)
    assert (all_stored, elected.has_read) == ([], False)
    election.standing = standing
    for _ in range(3):
        elected.poll_flow(lease_server)
    assert [stored.done for stored in all_stored] == [["read a->z", "follow"]]
    assert not elected.has_read
    all_stored[0].looked = True
    assert elected.has_read
    election.standing = ElectionState.LEADING
    elected.poll_flow(lease_server)
    elected.close()
    assert all_stored[0].done == ["read a->z", "follow"]
    assert done == ["go on with what was read", "start", "close"]


def test_what_was_read_ahead_is_closed_with_its_process(
    monkeypatch: pytest.MonkeyPatch, all_stored: list[Stored]
) -> None:
    clock = VirtualClock()
    elected, lease_server = elected_flow_of([], clock=clock)
    election: Any = elected.election
    election.standing = ElectionState.STANDBY
    for broken in ("__init__", "start_reading"):
        with monkeypatch.context() as patched:
            patched.setattr(Stored, broken, no_thread)
            for _ in range(3):
                elected.poll_flow(lease_server)
        assert not elected.has_read
        clock.now += READ_AHEAD.first_s
    assert [stored.done for stored in all_stored] == [["read a->z", "close"]]
    elected.poll_flow(lease_server)
    elected.close()
    assert all_stored[1].done == ["read a->z", "follow", "close"]


def test_who_withdraws_reads_no_further(all_stored: list[Stored]) -> None:
    elected, lease_server = elected_flow_of([], until=True)
    election: Any = elected.election
    election.standing = ElectionState.WAITING
    elected.poll_flow(lease_server)
    election.standing = ElectionState.STANDBY
    election.leadership = Leadership(Member("other", until=False), LeaderTerm(3, "id", 1.0))
    elected.poll_flow(lease_server)
    assert elected.over
    wait_for(lambda: all_stored[0].done == ["read a->z", "follow", "close"], 60, "nothing is read any more")
    elected.poll_flow(lease_server)
    assert len(all_stored) == 1


def no_thread(*_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_an_elected_flow_is_cleared_once_a_thread_can_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []
    elected, lease_server = elected_flow_of(done)
    elected.poll_flow(lease_server)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        elected.hand_over("b")
        for _ in range(3):
            elected.poll_flow(lease_server)
    assert (done, elected.clearing, elected.can_hand_over) == (["start"], True, False)
    assert caplog.text.count("a->z: cannot be ended here yet, trying again: can't start new thread") == 1
    wait_for(lambda: elected.poll_flow(lease_server) is None and not elected.clearing, 60, "it may be taken again")  # type: ignore[func-returns-value]
    assert done == ["start", "stop", "leave to b", "end the query", "close"]


def test_at_the_end_what_waits_for_a_thread_is_done_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    elected, lease_server = elected_flow_of(done)
    elected.poll_flow(lease_server)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        elected.hand_over("b")
        elected.stop()
    assert done == ["start", "stop", "leave to b", "end the query", "close", "leave"]


def test_a_flow_that_cannot_be_ended_in_order_is_left_to_others_once_the_session_has_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []
    elected, lease_server = elected_flow_of(done)
    elected.poll_flow(lease_server)

    def broken(flow: Flow, timeout_s: float) -> bool:
        raise OSError("broken")

    monkeypatch.setattr(Flow, "stop", broken)
    elected.hand_over("b")
    wait_for(lambda: elected.poll_flow(lease_server) is None and not elected.clearing, 60, "it is cleared")  # type: ignore[func-returns-value]
    assert done == ["start", "fall silent", "end the query", "close"]
    assert (elected.over, elected.state, elected.occupied) == (True, FlowState.FAILED, False)
    assert "broken" in caplog.text


def test_a_flow_goes_to_a_process_that_may_reach_the_source(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A firewall may stand between this process alone and the source."""
    clock = VirtualClock()
    done: list[str] = []
    elected, lease_server = elected_flow_of(done, clock=clock)
    elected._roster = ElectionRegistry(name="me")
    elected._roster.set_members("a->z", FlowMembers("me", {"me": True, "b": False, "c": False}))
    elected.poll_flow(lease_server)

    def after(seconds: float) -> list[str]:
        clock.now += seconds
        elected.poll_flow(lease_server)
        return done

    monkeypatch.setattr(Flow, "source_away", True)
    assert after(0) == after(module.AWAY_S + 1) == ["start"]
    # Nobody is ready. Somebody is, but the source was there meanwhile.
    monkeypatch.setattr(Flow, "source_away", False)
    after(1)
    elected._roster.set_members("a->z", FlowMembers("me", {"me": True, "b": False, "c": True}))
    monkeypatch.setattr(Flow, "source_away", True)
    assert after(0) == after(module.AWAY_S - 1) == ["start"]
    after(1)
    wait_for(lambda: "close" in done, 60, "nothing runs here")
    assert done == ["start", "stop", "leave to c", "end the query", "close"]
    assert "a->z: a was out of reach from here for 60 s: handed over to c, which may reach it" in caplog.text
    # Nobody else took it: then it stays.
    wait_for(lambda: elected.poll_flow(lease_server) is None and not elected.clearing, 60, "it may be taken again")  # type: ignore[func-returns-value]
    election: Any = elected.election
    election.standing = ElectionState.LEADING
    assert (
        after(1)[5:]
        == after(module.AWAY_S + 1)[5:]
        == after(module.AWAY_S + 1)[5:]
        == ["go on with what was read", "start"]
    )


def test_who_ends_when_all_is_copied_keeps_its_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AWAY_S", 0.0)
    monkeypatch.setattr(Flow, "source_away", True)
    done: list[str] = []
    elected, lease_server = elected_flow_of(done, until=True)
    elected._roster = ElectionRegistry(name="me")
    elected._roster.set_members("a->z", FlowMembers("me", {"me": True, "b": True}))
    for _ in range(3):
        elected.poll_flow(lease_server)
    assert done == ["start"]


class Threads:
    """Lets so many threads be started, None for as many as wanted; `started` counts how many were."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = 0
        begin = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            if self.left == 0:
                no_thread(thread)
            begin(thread)
            if self.left is not None:
                self.left -= 1

        monkeypatch.setattr(threading.Thread, "start", start)


def test_a_flow_is_taken_once_there_may_be_threads_for_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retrying, "FEW_THREADS", RetryPolicy(0.0, 0.0))
    threads = Threads(monkeypatch)
    other = replace(SETTINGS, source=Alias("b"))

    threads.left = None
    builder = FlowBuilder(local=True, wake=lambda: None, clock=SYSTEM, connect=ClusterAdmin)
    elected = ElectedFlow(SETTINGS, builder, lambda: [SETTINGS, other], lambda flow: lambda: None)
    elected.election = Election([])  # type: ignore[assignment]
    lease_server: Any = SimpleNamespace(flows={})
    before = threading.active_count()
    for some in range(4):
        threads.left = some
        elected.poll_flow(lease_server)
        assert (elected.flow, lease_server.flows) == (None, {}), some
        assert elected.status == (
            "starting",
            "TW-LEADER-06: cannot be run here yet, trying again: can't start new thread",
        )
        wait_for(lambda: threading.active_count() <= before, 60, "what was begun is ended")
    assert caplog.text.count("a->z: cannot be run here yet, trying again: can't start new thread") == 1
    threads.left = None
    elected.poll_flow(lease_server)
    assert list(lease_server.flows) == ["a->z"]
    elected.stop()
    elected.close()


def test_a_flow_is_taken_once_there_may_be_files_for_its_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The process has other flows, which keep their files."""
    monkeypatch.setattr(retrying, "FEW_THREADS", RetryPolicy(0.0, 0.0))
    pair, left = socket.socketpair, [100]

    def limited() -> tuple[socket.socket, socket.socket]:
        if not left[0]:
            raise OSError(errno.EMFILE, "Too many open files")
        left[0] -= 1
        return pair()

    monkeypatch.setattr(socket, "socketpair", limited)
    builder = FlowBuilder(local=True, wake=lambda: None, clock=SYSTEM, connect=ClusterAdmin)
    elected = ElectedFlow(SETTINGS, builder, lambda: [SETTINGS], lambda flow: lambda: None)
    elected.election = Election([])  # type: ignore[assignment]
    idle = ElectedIdleFlow(SETTINGS, lambda: None)
    idle.election = Election([])  # type: ignore[assignment]
    lease_server: Any = SimpleNamespace(flows={})
    before = threading.active_count()
    for some in range(2):
        left[0] = some
        elected.poll_flow(lease_server)
        assert (elected.flow, lease_server.flows) == (None, {}), some
        assert "cannot be run here yet, trying again: [Errno 24] Too many open files" in (elected.status[1] or "")
        wait_for(lambda: threading.active_count() <= before, 60, "what was begun is ended")
    idle.poll_flow()
    assert "Too many open files" in idle.text
    assert caplog.text.count("cannot be run here yet, trying again") == 2
    left[0] = 100
    elected.poll_flow(lease_server)
    assert list(lease_server.flows) == ["a->z"]
    elected.stop()
    elected.close()


def test_a_flow_whose_class_is_unusable_by_now_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The class was there when the file was read; another process may have it still."""
    naming = CustomClass("gone_meanwhile:Naming", "replication.policy.class", "mm2.properties", 7)
    flow = replace(SETTINGS, policy="custom", policy_class=naming)
    builder = FlowBuilder(local=True, wake=lambda: None, clock=SYSTEM, connect=ClusterAdmin)
    elected = ElectedFlow(flow, builder, lambda: [flow], lambda flow: lambda: None)
    done: list[str] = []
    elected.election = Election(done)  # type: ignore[assignment]
    lease_server: Any = SimpleNamespace(flows={})
    before = threading.active_count()
    elected.poll_flow(lease_server)
    assert (elected.flow, elected.state, lease_server.flows) == (None, FlowState.FAILED, {})
    assert "the module 'gone_meanwhile' is missing" in (elected.failure or "")
    assert "a->z: FAILED: " in caplog.text
    wait_for(lambda: done == ["leave"], 60, "another process may run it")
    wait_for(lambda: threading.active_count() <= before, 60, "its connections are closed")


def test_heartbeats_begin_once_threads_can_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retrying, "FEW_THREADS", RetryPolicy(0.0, 0.0))
    threads = Threads(monkeypatch)
    threads.left = None
    elected = ElectedIdleFlow(SETTINGS, lambda: None)
    elected.election = Election([])  # type: ignore[assignment]
    threads.left = 0
    for _ in range(2):
        elected.poll_flow()
    assert elected.text == "heartbeats only: TW-LEADER-06: cannot be run here yet, trying again: can't start new thread"
    threads.left = 1
    for _ in range(2):
        elected.poll_flow()
    assert caplog.text.count("cannot be run here yet") == 1
    assert caplog.text.count("cannot write heartbeats yet, trying again: can't start new thread") == 1
    threads.left = None

    def refuse(*_: Any) -> None:
        raise ClusterError("cluster z: nobody is there")

    monkeypatch.setattr(ClusterAdmin, "connect", refuse)
    elected.poll_flow()
    wait_for(lambda: elected.text == "cluster z: nobody is there", 60, "a heartbeat was tried")
    elected.stop()


@pytest.mark.parametrize("standing", [ElectionState.LEADING, ElectionState.STANDBY])
def test_a_flow_that_is_not_wanted_any_more_ends_and_is_left(standing: ElectionState) -> None:
    done: list[str] = []
    elected, lease_server = elected_flow_of(done)
    election: Any = elected.election
    election.standing = standing
    elected.poll_flow(lease_server)
    elected.end()
    assert not elected.gone
    wait_for(lambda: elected.poll_flow(lease_server) is None and elected.gone, 60, "it is gone")  # type: ignore[func-returns-value]
    ran = ["start", "stop", "leave", "end the query", "close"]
    assert done == (ran if standing is ElectionState.LEADING else ["leave"])
    elected.close()


def test_a_flow_continues_with_other_settings_wherever_it_runs() -> None:
    done: list[str] = []
    elected, lease_server = elected_flow_of(done)
    first, second = replace(SETTINGS, topics=("a",)), replace(SETTINGS, topics=("b",))
    elected.change_settings(first, [first])
    assert (elected.settings, elected.wanted) == (first, first)
    elected.poll_flow(lease_server)
    assert done == ["tell the others", "start"]
    elected.change_settings(second, [second])
    assert done[2:] == ["tell the others", "change"]
    assert elected.settings == second


def test_refused_heartbeats_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    elected = ElectedIdleFlow(SETTINGS, lambda: None, clock)
    refused: Any = SimpleNamespace(
        standing=ElectionState.REFUSED, term=0, text="TW-RIGHT-02: cluster z: User:mm lacks READ on group a-mm2"
    )
    elected.election = refused
    for _ in range(3):
        elected.poll_flow()
        clock.sleep(2.0)
    line = "TW-RIGHT-02: a->z: refused, trying again: cluster z: User:mm lacks READ on group a-mm2"
    assert [record.getMessage() for record in caplog.records] == [line]
    clock.sleep(AGAIN_S + 1)
    elected.poll_flow()
    assert len(caplog.records) == 2
