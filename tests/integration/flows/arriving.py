"""Waits for what a running process copies, and judges it in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaException

from harness.checks.checker import SLOW_TICK_S, Load, require_clean
from harness.cluster import KafkaCluster
from harness.topics import create_topic, offsets
from harness.wait import wait_for
from tests.integration.mirror_process import MirrorProcess

COPY_S = 240.0


def end_of(cluster: KafkaCluster, remote: str, partition: int) -> int:
    """The next offset of a remote partition; 0 while it is not there, or does not report it."""
    try:
        return offsets(cluster, remote, partition)[1]
    except KafkaException:
        return 0


@dataclass(frozen=True, slots=True)
class LoadedFlow:
    """One flow with load on its only topic."""

    source: KafkaCluster
    target: KafkaCluster
    remote: str
    load: Load

    @property
    def copied(self) -> int:
        """Records in the remote topic."""
        return sum(end_of(self.target, self.remote, number) for number in range(len(self.load.sent)))


def both_ways(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], partitions: int, rate: int
) -> tuple[LoadedFlow, LoadedFlow]:
    """Of the flows left->right and right->left, each with a new topic; their load has not begun."""
    left, right = clusters
    there, back = (create_topic(cluster, new_name("t"), partitions) for cluster in clusters)
    return (
        LoadedFlow(left, right, f"left.{there}", Load(left, there, partitions, rate=rate, tick_s=SLOW_TICK_S)),
        LoadedFlow(right, left, f"right.{back}", Load(right, back, partitions, rate=rate, tick_s=SLOW_TICK_S)),
    )


def wait_until_copied(
    process: MirrorProcess, flows: Iterable[LoadedFlow], more: int = 0, deadline_s: float = COPY_S
) -> None:
    """Wait until each flow has copied so many more records than were written by now; fails with the process's log."""
    for flow in flows:
        count = flow.load.total + more

        def arrived(flow: LoadedFlow = flow, count: int = count) -> bool:
            assert process.alive, process.log
            return flow.copied >= count

        try:
            wait_for(arrived, deadline_s, f"{count} records are in {flow.remote}")
        except TimeoutError as late:
            raise AssertionError(f"{late}, {flow.copied} are\n{process.log}") from late


def require_true_copies(flows: Iterable[LoadedFlow]) -> None:
    """Fails unless each flow copied exactly what was written."""
    for flow in flows:
        assert require_clean(flow.source, flow.load.topic, flow.target, flow.remote) == flow.load.total
