"""A topic that has one writer at a time: who stood still while another one claimed it writes nothing any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import virtual_loop
from harness.virtual.requests import END_TXN, INIT_PRODUCER_ID, PRODUCE
from twinlog.errors import ClusterError, FencedError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.producer.claimed_topic import ClaimedTopic
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import BATCH_BYTES
from twinlog.model.types import TopicName
from twinlog.settings.client import ClientSettings

TOPIC = TopicName("configs")


class Leader:
    """A process that writes to the topic, and reads what is committed."""

    def __init__(self, cluster: VirtualCluster) -> None:
        loop = cluster.loop
        self.admin = ClusterAdmin("worker", ClientSettings(cluster.bootstrap), loop)
        self.admin.connect()
        writer = TopicWriter(self.admin.client, TOPIC, 5.0, "writing", by_key=True, wait_s=5.0)
        self.topic = ClaimedTopic(writer, self.admin.client, "connect-cluster-workers", transaction_ms=60_000)
        self._reader = TopicReader(self.admin, TOPIC, committed=True)
        self._read: list[bytes] = []

    def claim(self) -> None:
        self.admin.call(self.topic.claim_topic)

    def append(self, *values: bytes) -> None:
        self.admin.call(self.topic.append, [(b"key", value) for value in values])

    @property
    def read(self) -> list[bytes]:
        self._read += [record.value or b"" for _, record in self._reader.read()]
        return self._read


@pytest.fixture
def cluster() -> Iterator[VirtualCluster]:
    with virtual_loop(1) as loop:
        made = VirtualCluster(loop, "worker", brokers=2)
        made.create(TOPIC)
        yield made


def test_what_is_appended_is_read_at_once(cluster: VirtualCluster) -> None:
    one = Leader(cluster)
    assert not one.topic.claimed
    with pytest.raises(ClusterError, match="not claimed"):
        one.append(b"early")
    one.claim()
    big = b"x" * BATCH_BYTES
    for values in ([b"1", b"2"], [], [big, big, b"3"], [b"4"]):
        one.append(*values)
        assert one.read[-len(values) :] == values or not values
    assert one.read == [b"1", b"2", big, big, b"3", b"4"]
    assert one.topic.claimed


@pytest.mark.parametrize("step", ["add", "_send", "end"])
def test_who_stood_still_before_any_step_writes_nothing(
    cluster: VirtualCluster, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = Leader(cluster), Leader(cluster)
    one.claim()
    one.append(b"1")
    sender = one.topic if step == "_send" else one.topic._coordinator
    send = getattr(sender, step)

    async def late(*arguments: Any, **more: Any) -> Any:
        await two.topic.claim_topic()
        await two.topic.append([(b"key", b"2")])
        return await send(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(sender, step, late)
        with pytest.raises((ClusterError, FencedError)):
            one.append(b"late")
    assert not one.topic.claimed
    two.append(b"3")
    assert two.read == [b"1", b"2", b"3"]


def test_a_claim_ends_what_the_last_writer_left_open(cluster: VirtualCluster) -> None:
    one, two = Leader(cluster), Leader(cluster)
    one.claim()
    cluster.fault(END_TXN, Fault(lost=True), times=50)
    with pytest.raises(ClusterError):
        one.append(b"open")
    cluster.faults.clear()
    two.claim()
    two.append(b"2")
    assert two.read == [b"2"]
    with pytest.raises(ClusterError, match="not claimed"):
        one.append(b"1")


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        (PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER)),
        (PRODUCE, Fault(lost=True)),
        (END_TXN, Fault(code=Code.NOT_COORDINATOR)),
    ],
)
def test_after_an_error_it_is_claimed_again(cluster: VirtualCluster, key: int, fault: Fault) -> None:
    one = Leader(cluster)
    one.claim()
    if fault.code and key == PRODUCE:
        cluster.codes(PRODUCE, TOPIC, fault.code)
    else:
        cluster.fault(key, fault)
    with pytest.raises(ClusterError):
        one.append(b"1")
    assert not one.topic.claimed
    one.claim()
    one.append(b"2")
    assert one.read == [b"2"]


def test_it_is_not_claimed_again_from_somebody_else(cluster: VirtualCluster) -> None:
    one, two = Leader(cluster), Leader(cluster)
    one.claim()
    cluster.codes(PRODUCE, TOPIC, Code.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(ClusterError):
        one.append(b"1")
    two.claim()
    with pytest.raises(FencedError):
        one.admin.call(one.topic.claim_again)
    two.append(b"2")
    assert two.read == [b"2"]


def test_without_the_right_to_the_id_that_is_named(cluster: VirtualCluster) -> None:
    one = Leader(cluster)
    cluster.fault(INIT_PRODUCER_ID, Fault(code=Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    with pytest.raises(RefusedError, match="WRITE on transactional id connect-cluster-workers"):
        one.claim()
