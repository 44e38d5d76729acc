"""The source's log is cut back below what was copied: an unclean leader election on three real brokers.

Those of Kafka 2.1 do not say so in a fetch, and have no ids of topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic
from harness.versions import ZooKeeperCluster
from harness.wait import wait_for
from tests.connected_admins import connected_admin
from tests.integration.copying import CopyFlow, RunningCopier, flow_settings
from twinlog.errors import GapError
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.control.deciding import decide
from twinlog.worker.control.model import PartitionSelector, TopicCommand, TopicVerb
from twinlog.worker.control.source_logs import look

KEPT, LOST = 100, 60
COPIED = KEPT + LOST
NEW = 1000
"""Number of the first record written after the election."""


@dataclass(frozen=True)
class Case:
    """One topic: does the flow run at the election, how much is written after it, and what is the policy?"""

    running: bool
    grown: int
    policy: str

    @property
    def topic(self) -> str:
        return f"torn-{'running' if self.running else 'stopped'}-{self.grown}-{self.policy}"


SHORT, LONG = 10, 90
"""After the election the log ends before, or after, what was copied."""

CASES = [
    Case(running, grown, policy)
    for running in (False, True)
    for grown in (SHORT, LONG)
    for policy in ("stop", "continue")
]


@dataclass
class Torn:
    """What is left after the election."""

    flow: CopyFlow
    running: dict[str, RunningCopier]
    release: str

    def topic(self, case: Case) -> str:
        return f"{self.release}-{case.topic}"


class TornCluster(KafkaCluster):
    """Clients begin at node 3, which stays."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.brokers[3].ports.plaintext}"


class TornOldCluster(TornCluster, ZooKeeperCluster):
    """The same of Kafka 2.1."""


def wait_for_leader(cluster: KafkaCluster, topic: str, node: int) -> None:
    admin = AdminClient(cluster.client_config())

    def leads() -> bool:
        known = admin.list_topics(topic, timeout=60).topics[topic].partitions
        return bool(known) and int(known[0].leader) == node

    wait_for(leads, 60, f"{topic} is led by node {node}")


@pytest.fixture(scope="module", params=["new", pytest.param("old", marks=pytest.mark.scenario)])
def torn(target_cluster: KafkaCluster, request: pytest.FixtureRequest) -> Iterator[Torn]:
    """The election happens once, to all topics: it costs a dozen seconds.

    Node 2 goes; node 1 alone takes 60 records more, which are copied. Then node 1 goes too and node 2 comes back alone
    (node 3 only votes). It never saw those 60.
    """
    old = request.param == "old"
    cluster = TornOldCluster("torn-old", 3) if old else TornCluster("torn", 3, sasl=False, heap="256m")
    with cluster as source:
        flow = CopyFlow(source, target_cluster)
        try:
            yield _tear(source, flow, request.param)
        finally:
            flow.close()


def _tear(source: KafkaCluster, flow: CopyFlow, release: str) -> Torn:
    torn = Torn(flow, {}, release)
    names = {torn.topic(case): case for case in CASES}
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    topics = [NewTopic(name, 1, replica_assignment=[[1, 2]], config=config) for name in names]
    admin = AdminClient(source.client_config())
    for created in admin.create_topics(topics, operation_timeout=30).values():
        created.result(60)
    for name in names:
        wait_for_leader(source, name, 1)
        create_topic(flow.target, flow.remote(name))
        produce(source, name, numbered(KEPT))
    source.kill(2)
    for name in names:
        produce(source, name, numbered(LOST, start=KEPT))
    torn.running |= {name: flow.start(name, gap_policy=case.policy) for name, case in names.items() if case.running}
    flow.copy(*(name for name, case in names.items() if not case.running))
    for topic, copier in torn.running.items():
        copier.wait_for_position(topic, COPIED)
    source.kill(1)
    source.restart(2)
    for name, case in names.items():
        wait_for_leader(source, name, 2)
        produce(source, name, numbered(case.grown, start=NEW))
        assert [int(record.value or b"") for record in consume(source, name)] == [
            *range(KEPT),
            *range(NEW, NEW + case.grown),
        ]
    return torn


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.topic)
def test_the_source_was_cut_back(torn: Torn, case: Case) -> None:
    flow, topic = torn.flow, torn.topic(case)
    running = torn.running.get(topic) or flow.start(topic, gap_policy=case.policy)
    words = (f"cut back to offset {KEPT}", f"offsets {KEPT} to {COPIED - 1} (60 offsets) were copied and are gone")
    if case.policy == "stop":
        partition, error = running.wait_for_failure()
        assert partition == (topic, 0)
        assert isinstance(error, GapError)
        text = str(error)
        assert f"set north->south.twinlog.gap.policy.{topic} = skip" in text
        expected = list(range(COPIED))
    else:
        text = running.wait_for_event("gap")
        assert f"continues at offset {KEPT}" in text
        wait_for(lambda: running.position(topic).next_source == KEPT + case.grown, 60, "the rest is copied")
        expected = [*range(COPIED), *range(NEW, NEW + case.grown)]
    assert all(word in text for word in words), text
    running.release()
    assert len(running.events("gap")) == 1
    assert [int(record.value or b"") for record in consume(flow.target, flow.remote(topic))] == expected
    # Stopped, it stops again; gone on, it is done.
    again = flow.start(topic, gap_policy=case.policy)
    if case.policy == "stop":
        _, error = again.wait_for_failure()
        assert all(word in str(error) for word in words)
    else:
        produce(flow.source, topic, numbered(1, start=5000))
        again.wait_for_position(topic, KEPT + case.grown + 1)
        assert again.heard.events == []
    again.crash()


@pytest.mark.parametrize("grown", [SHORT, LONG])
def test_the_gap_that_would_be_accepted_begins_where_the_log_was_cut(torn: Torn, grown: int) -> None:
    """Also where the log is longer by now than what was copied, or shorter: nothing that was written since is passed
    over."""
    flow, topic = torn.flow, torn.topic(Case(False, grown, "stop"))
    part = TopicPartition(TopicName(topic), 0)
    settings = flow_settings(flow.source, flow.target)
    command = TopicCommand("c", TopicVerb.ACCEPT_GAP, (PartitionSelector(topic),))
    position = flow.stored(topic)
    assert position is not None
    assert position.next_source == COPIED
    with connected_admin(settings.source, settings.source_admin.client) as source:
        logs = look(settings, source, command, [part], {part: position})
    move = decide(command, part, position, logs[part])
    assert (move.changes, move.before, move.after, move.passed) == (True, COPIED, KEPT, 0)
    assert f"cut back to offset {KEPT}" in move.text


@pytest.mark.scenario
def test_an_election_there_and_back_while_appends_wait_is_found(target_cluster: KafkaCluster) -> None:
    """Before Kafka 2.4 no fetch shows it: the partition is in none, its leader is the same, connections stay open, and
    the log has grown beyond the position."""
    topic = "there-and-back"
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    with TornOldCluster("back", 3, config={"replica.lag.time.max.ms": "3000"}) as source:
        flow = CopyFlow(source, target_cluster)
        admin = AdminClient(source.client_config())
        made = admin.create_topics([NewTopic(topic, 1, replica_assignment=[[1, 2]], config=config)])
        made[topic].result(60)

        def in_sync(count: int) -> None:
            def seen() -> bool:
                try:
                    found = admin.list_topics(topic, timeout=40)
                except KafkaException:
                    # The client may still wait for the killed broker.
                    return False
                return len(found.topics[topic].partitions[0].isrs) == count

            wait_for(seen, 60, f"{count} replicas of {topic} are in sync")

        wait_for_leader(source, topic, 1)
        create_topic(target_cluster, flow.remote(topic))
        produce(source, topic, numbered(KEPT))
        source.kill(2)
        in_sync(1)
        produce(source, topic, numbered(LOST, start=KEPT))
        running = flow.start(topic)
        running.wait_for_position(topic, COPIED)
        running.allowed.clear()
        large = [NewRecord(b"%d " % number + bytes(100_000)) for number in range(COPIED, COPIED + 200)]
        produce(source, topic, large)
        wait_for(lambda: running.queued_bytes(topic) > 8 << 20, 60, "the queue is full, and nothing more is read")
        source.suspend(1)
        source.restart(2, wait=False)
        wait_for_leader(source, topic, 2)
        produce(source, topic, numbered(1000, start=NEW))
        source.resume(1)
        in_sync(2)
        source.elect_preferred()
        wait_for_leader(source, topic, 1)
        running.allowed.set()
        held = running.wait_for_held()
        assert (held.topic, held.message_id) == (topic, "TW-GAP-02")
        assert f"cut back to offset {KEPT}" in held.text
        copied = [int((record.value or b"").split()[0]) for record in consume(target_cluster, flow.remote(topic))]
        assert copied == list(range(len(copied)))
        flow.close()
