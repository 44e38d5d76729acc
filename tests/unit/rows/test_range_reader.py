"""A task reads a range of offsets, whatever happens to brokers and topics meanwhile; in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import FETCH
from twinlog.errors import ClusterError, GapError, RefusedError
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.types import TopicName, TopicPartition
from twinlog.rows.offset_range import OffsetRange
from twinlog.rows.range_reader import RangeReader
from twinlog.settings.flow import ClientSettings, ConsumerSettings

PART = TopicPartition(TopicName("t"), 0)


@pytest.fixture
def cluster() -> Iterator[VirtualCluster]:
    with virtual_loop(1) as loop:
        made = VirtualCluster(loop, "c", brokers=2)
        made.create("t")
        for number in range(10):
            made.write("t", b"%d" % (2 * number), b"%d" % (2 * number + 1))
        yield made


def settings_of(cluster: VirtualCluster, fetch_bytes: int) -> ConsumerSettings:
    return ConsumerSettings(ClientSettings(cluster.bootstrap), max_partition_fetch_bytes=fetch_bytes)


def read(
    cluster: VirtualCluster,
    wanted: OffsetRange,
    *,
    fail: bool = True,
    fetch_bytes: int = 300,
    patience_s: float = 20,
) -> list[int]:
    reader = RangeReader(settings_of(cluster, fetch_bytes), VirtualLoop(cluster.loop.world))
    try:
        return [
            int(value)
            for batch in reader.read(wanted, headers=True, fail_on_data_loss=fail, patience_s=patience_s)
            for value in batch.column("value").to_pylist()
        ]
    finally:
        reader.close()


def whole(cluster: VirtualCluster, start: int = 0, end: int = 20) -> OffsetRange:
    return OffsetRange(PART, start, end, cluster.topics.ids["t"])


def test_reads_from_inside_a_batch_to_inside_another(cluster: VirtualCluster) -> None:
    assert read(cluster, whole(cluster, 3, 16)) == list(range(3, 16))


def test_goes_on_with_another_leader(cluster: VirtualCluster) -> None:
    reader = RangeReader(settings_of(cluster, 300), VirtualLoop(cluster.loop.world))
    seen: list[bytes] = []
    for batch in reader.read(whole(cluster), headers=False, fail_on_data_loss=True, patience_s=20):
        if not seen:
            # The old leader refuses, and the new one is asked in vain once.
            cluster.move("t", 0, 2)
            cluster.fault(FETCH, Fault(lost=True), times=2)
        seen += batch.column("value").to_pylist()
    reader.close()
    assert [int(value) for value in seen] == list(range(20))
    assert not cluster.faults_left


def test_what_was_deleted_ends_the_query_or_is_left_out(cluster: VirtualCluster) -> None:
    cluster.log("t").delete_before(8)
    with pytest.raises(GapError, match=r"in offset \[2, 20\) for topic partition t-0: the log has offsets 8 to 20 now"):
        read(cluster, whole(cluster, 2))
    assert read(cluster, whole(cluster, 2), fail=False) == list(range(8, 20))
    assert read(cluster, whole(cluster, 2, 5), fail=False) == []


def test_a_log_that_was_cut_ends_the_query_or_the_range(cluster: VirtualCluster) -> None:
    wanted = whole(cluster, 14)
    cluster.log("t").cut(10)
    with pytest.raises(GapError, match="the log has offsets 0 to 10 now"):
        read(cluster, wanted)
    assert read(cluster, wanted, fail=False) == []


def test_a_partition_that_gives_nothing_is_given_up_by_name(cluster: VirtualCluster) -> None:
    before = cluster.now()
    with pytest.raises(ClusterError, match=r"t-0 gave nothing from offset 20 on for 20 s.*kafkaConsumer.pollTimeoutMs"):
        read(cluster, whole(cluster, 18, 25))
    assert 20 <= cluster.now() - before < 30
    # A long poll each, no loop.
    assert cluster.asked[FETCH] < 100


def test_a_missing_permission_is_named(cluster: VirtualCluster) -> None:
    cluster.fault(FETCH, Fault(code=Code.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(RefusedError, match="lacks READ on topic t, needed for reading its records"):
        read(cluster, whole(cluster))
