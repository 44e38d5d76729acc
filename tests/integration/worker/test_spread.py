"""Flows spread over the processes that are ready, on a real coordinator: these come, are killed, and give flows up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from harness.cluster import KafkaCluster
from harness.wait import wait_for
from tests.integration.copying import flow_settings
from twinlog.model.types import Alias
from twinlog.settings.flow import FlowSettings
from twinlog.worker.elected_flow import hand_over_flows
from twinlog.worker.election.election import Election
from twinlog.worker.election.role import ElectionState
from twinlog.worker.election.roster import ElectionRegistry

FLOWS = 4
ENOUGH_S = 90.0
"""A session's end and a few moves, on a machine with other work."""


class HostedFlow:
    """A flow of a process that copies nothing."""

    clearing = False

    def __init__(self, settings: FlowSettings, roster: ElectionRegistry) -> None:
        self.settings = settings
        self.election = Election(settings, lambda: None, roster)

    @property
    def leads(self) -> bool:
        return self.election.standing is ElectionState.LEADING

    @property
    def can_hand_over(self) -> bool:
        return self.election.leads_for_s() > 1.0

    def hand_over(self, heir: str) -> None:
        self.election.give_up(heir)


class Process:
    """As much of a process as takes part in sharing flows."""

    def __init__(self, name: str, flows: list[FlowSettings], *, ready: bool, packs: bool = False) -> None:
        self.name = name
        self.roster = ElectionRegistry(ready=ready, packs=packs, name=name)
        self.hosted_flows = [HostedFlow(flow, self.roster) for flow in flows]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        for hosted in self.hosted_flows:
            hosted.election.start()
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            hand_over_flows(self.roster, self.hosted_flows)

    @property
    def runs(self) -> int:
        return sum(hosted.leads for hosted in self.hosted_flows)

    def kill(self) -> None:
        """Fall silent at once."""
        self._ended.set()
        self._thread.join()
        for hosted in self.hosted_flows:
            hosted.election._closed = True
            hosted.election._admin.close()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        for hosted in self.hosted_flows:
            hosted.election.stop(1.0)


@pytest.fixture
def flows(clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str]) -> list[FlowSettings]:
    """Flows with groups of their own."""
    one = flow_settings(*clusters)
    return [replace(one, source=Alias(f"s{number}"), worker_group_id=new_name("g")) for number in range(FLOWS)]


@contextmanager
def watched(processes: list[Process]) -> Iterator[None]:
    """At no moment two processes may run one flow."""
    doubled: list[tuple[int, list[str]]] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.01):
            for number in range(FLOWS):
                sure = [one.name for one in list(processes) if one.hosted_flows[number].election.leads_for_s() > 0]
                if len(sure) > 1:
                    doubled.append((number, sure))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert doubled == []


def test_flows_follow_processes_that_come_and_go(flows: list[FlowSettings]) -> None:
    processes: list[Process] = []
    everybody: list[Process] = []

    def start(name: str, *, ready: bool) -> Process:
        processes.append(Process(name, flows, ready=ready))
        everybody.append(processes[-1])
        stack.callback(processes[-1].stop)
        return processes[-1]

    def wait_for_shares(*wanted: int) -> None:
        def so() -> bool:
            return sorted(one.runs for one in processes) == sorted(wanted)

        try:
            wait_for(so, ENOUGH_S, f"shares are {wanted}")
        except TimeoutError as late:
            raise AssertionError(f"{late}: {[(one.name, one.runs) for one in processes]}") from late

    with ExitStack() as stack, watched(everybody):
        first = start("first", ready=True)
        wait_for_shares(4)
        terms = [hosted.election.term for hosted in first.hosted_flows]

        # One that is not ready is given nothing; once it is, flows move, and no more of them than it takes.
        second = start("second", ready=False)
        wait_for(
            lambda: all(hosted.election.standing is ElectionState.STANDBY for hosted in second.hosted_flows),
            ENOUGH_S,
            "stand by",
        )
        assert all(hosted.election.text.endswith(", not ready yet") for hosted in second.hosted_flows)
        assert [hosted.election.term for hosted in first.hosted_flows] == terms
        second.roster.be_ready(True)
        wait_for_shares(2, 2)
        assert sum(hosted.election.term for hosted in second.hosted_flows) == 2
        # It learns from its group who leads now.
        wait_for(
            lambda: (
                {hosted.election.text.split(" (")[0] for hosted in first.hosted_flows if not hosted.leads}
                == {"standing by for second"}
            ),
            ENOUGH_S,
            "the first one stands by for the second",
        )

        third = start("third", ready=True)
        wait_for_shares(2, 1, 1)
        assert sum(hosted.election.term for hosted in third.hosted_flows) == 1

        # Who is killed leaves its flows to those that are left, and these to nobody. It was appointed by another one,
        # and what it may believe afterwards is watched as well.
        processes.remove(second)
        before = {
            one.name: {hosted.settings.name for hosted in one.hosted_flows if hosted.leads} for one in (first, third)
        }
        second.kill()
        wait_for_shares(2, 2)
        for one in (first, third):
            assert before[one.name] <= {hosted.settings.name for hosted in one.hosted_flows if hosted.leads}

        processes.remove(first)
        first.stop()
        wait_for_shares(4)


def test_where_one_packs_all_flows_stay_together(flows: list[FlowSettings]) -> None:
    with ExitStack() as stack:
        processes = [Process(name, flows, ready=True, packs=True) for name in ("a", "b")]
        for process in processes:
            stack.callback(process.stop)
        # Groups see who comes first each for itself.
        wait_for(lambda: sorted(process.runs for process in processes) == [0, FLOWS], ENOUGH_S, "one runs all flows")
        (runner, other) = sorted(processes, key=lambda process: -process.runs)
        wait_for(
            lambda: all(hosted.election.standing is ElectionState.STANDBY for hosted in other.hosted_flows),
            ENOUGH_S,
            "stand by",
        )
        # Both have looked, and found that nothing is to move.
        wait_for(lambda: not any(one.roster.may_move for one in processes), ENOUGH_S, "nothing is to move")
        assert runner.runs == FLOWS
        runner.stop()
        wait_for(lambda: other.runs == FLOWS, ENOUGH_S, "the other one runs them")
