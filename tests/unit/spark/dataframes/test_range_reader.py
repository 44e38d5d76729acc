"""A task reads a range of offsets, whatever happens to brokers and topics meanwhile; in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import FETCH, LIST_OFFSETS, METADATA
from twinlog.batches.arrow.decode import Rows, decode
from twinlog.errors import ClusterError, GapError, RefusedError
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ClientSettings, ConsumerSettings
from twinlog.spark.dataframes.offset_range import OffsetRange
from twinlog.spark.dataframes.range_reader import RangeReader

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
    # Of a micro-batch that was logged before another process planned it, the id may not be known.
    assert read(cluster, OffsetRange(PART, 3, 16)) == list(range(3, 16))


def test_a_partition_that_stands_still_is_said_long_before_it_fails(
    cluster: VirtualCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a query waits for as long as `kafkaConsumer.pollTimeoutMs`, and no log says for what."""
    cluster.fault(FETCH, Fault(code=Code.NOT_LEADER_OR_FOLLOWER), times=40)
    assert read(cluster, whole(cluster), patience_s=120) == list(range(20))
    first, last = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert first.startswith("TW-NET-12: t-0 returns nothing from offset 0 on, and is fetched again for up to 120 s: ")
    assert last == "TW-NET-12: t-0 is read again, from offset 0 on"


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


def test_what_was_deleted_ends_the_query_or_is_left_out(
    cluster: VirtualCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.log("t").delete_before(8)
    with pytest.raises(GapError, match=r"in offset \[2, 20\) for topic partition t-0: the log has offsets 8 to 20 now"):
        read(cluster, whole(cluster, 2))
    assert read(cluster, whole(cluster, 2), fail=False) == list(range(8, 20))
    assert read(cluster, whole(cluster, 2, 5), fail=False) == []
    # It is false already.
    assert "failOnDataLoss is false: Could not read records in offset [2, 20)" in caplog.text
    assert "set the source option" not in caplog.text


def test_a_log_that_was_cut_ends_the_query_or_the_range(cluster: VirtualCluster) -> None:
    wanted = whole(cluster, 14)
    cluster.log("t").cut(10)
    with pytest.raises(GapError, match="the log has offsets 0 to 10 now"):
        read(cluster, wanted)
    assert read(cluster, wanted, fail=False) == []


def test_a_log_that_was_cut_where_the_reader_is(cluster: VirtualCluster) -> None:
    """No broker refuses the offset at its end, however long it is asked."""
    wanted = whole(cluster, 14)
    cluster.log("t").cut(16)
    before = cluster.now()
    with pytest.raises(GapError, match=r"in offset \[16, 20\) .*: the log has offsets 0 to 16 now"):
        read(cluster, wanted)
    assert 20 <= cluster.now() - before < 30
    # A long poll each, no loop.
    assert cluster.asked[FETCH] < 100
    assert read(cluster, wanted, fail=False) == [14, 15]


@pytest.mark.parametrize("anew", [False, True])
def test_a_topic_that_was_deleted_ends_the_query_or_the_range(cluster: VirtualCluster, anew: bool) -> None:
    wanted = whole(cluster)
    cluster.topics.delete("t")
    if anew:
        cluster.create("t")
        cluster.write("t", *[b"99"] * 30)
    before = cluster.now()
    with pytest.raises(GapError, match=r"in offset \[0, 20\) .*: the topic was deleted"):
        read(cluster, wanted, patience_s=600)
    assert 10 <= cluster.now() - before < 30
    assert read(cluster, wanted, fail=False, patience_s=600) == []


def test_a_broker_that_does_not_know_the_topic_yet_has_lost_nothing(cluster: VirtualCluster) -> None:
    reader = RangeReader(settings_of(cluster, 300), VirtualLoop(cluster.loop.world))
    seen: list[bytes] = []
    for batch in reader.read(whole(cluster), headers=False, fail_on_data_loss=False, patience_s=20):
        if not seen:
            cluster.fault(FETCH, Fault(code=Code.UNKNOWN_TOPIC_ID))
            cluster.fault(METADATA, Fault(code=Code.UNKNOWN_TOPIC_OR_PARTITION), times=3)
        seen += batch.column("value").to_pylist()
    reader.close()
    assert [int(value) for value in seen] == list(range(20))
    assert not cluster.faults_left


def test_where_the_log_begins_is_asked_again(cluster: VirtualCluster) -> None:
    cluster.log("t").delete_before(8)
    cluster.fault(LIST_OFFSETS, Fault(lost=True), times=2)
    assert read(cluster, whole(cluster, 2), fail=False) == list(range(8, 20))


def test_what_was_to_begin_at_the_earliest_begins_where_the_log_does_by_then(cluster: VirtualCluster) -> None:
    wanted = replace(whole(cluster), from_earliest=True)
    cluster.log("t").delete_before(8)
    assert read(cluster, wanted) == list(range(8, 20))
    reader = RangeReader(settings_of(cluster, 300), VirtualLoop(cluster.loop.world))
    rows = reader.read(wanted, headers=False, fail_on_data_loss=True, patience_s=20)
    next(rows)
    cluster.log("t").delete_before(18)
    with pytest.raises(GapError, match="the log has offsets 18 to 20 now"):
        list(rows)
    reader.close()


def test_a_partition_that_gives_nothing_is_given_up_by_name(cluster: VirtualCluster) -> None:
    before = cluster.now()
    storage_error = 56
    cluster.fault(FETCH, Fault(code=storage_error), times=1_000)
    with pytest.raises(
        ClusterError, match=r"t-0 returned nothing from offset 18 on for 20 s.*kafkaConsumer.pollTimeoutMs"
    ):
        read(cluster, whole(cluster, 18))
    assert 20 <= cluster.now() - before < 30
    assert cluster.asked[FETCH] < 100


def test_a_missing_permission_is_named(cluster: VirtualCluster) -> None:
    cluster.fault(FETCH, Fault(code=Code.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(RefusedError, match="lacks READ on topic t, needed for reading its records"):
        read(cluster, whole(cluster))


def test_the_next_records_are_asked_for_while_the_last_are_used(cluster: VirtualCluster) -> None:
    reader = RangeReader(settings_of(cluster, 100), VirtualLoop(cluster.loop.world))

    def begin(wanted: OffsetRange) -> Iterator[Any]:
        return reader.read(wanted, headers=False, fail_on_data_loss=True, patience_s=20)

    rows = begin(whole(cluster))
    first = next(rows)
    got, asked = first.num_rows, cluster.asked[FETCH]
    assert cluster.asked[FETCH] == asked == 2
    # One that is left in the middle, as for a LIMIT, is nobody else's.
    other = [int(value) for batch in begin(whole(cluster, 7, 12)) for value in batch.column("value").to_pylist()]
    assert other == [7, 8, 9, 10, 11]
    assert [int(value) for batch in rows for value in batch.column("value").to_pylist()] == list(range(got, 20))
    reader.close()


def test_an_answer_is_decoded_in_pieces(cluster: VirtualCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch of a few megabytes may be gigabytes of records, decompressed."""
    monkeypatch.setattr("twinlog.batches.arrow.decode.MOST_BYTES", 10_000)
    decoded: list[int] = []

    def measured(*args: Any) -> Rows:
        rows = decode(*args)
        decoded.append(sum(batch.nbytes for batch in rows.batches))
        return rows

    monkeypatch.setattr("twinlog.spark.dataframes.range_reader.decode", measured)
    (log,) = cluster.create("zeros")
    for number in range(100):
        batch = encode_batch([(number, record_body(None, bytes(4_000) + b"%d" % number))], CODECS["gzip"])
        stamp(batch, -1, -1, -1)
        log.append(bytes(batch))
    reader = RangeReader(settings_of(cluster, 1 << 20), VirtualLoop(cluster.loop.world))
    wanted = OffsetRange(TopicPartition(TopicName("zeros"), 0), 3, 98)
    rows = reader.read(wanted, headers=False, fail_on_data_loss=True, patience_s=20)
    values = [int(value.strip(b"\0")) for batch in rows for value in batch.column("value").to_pylist()]
    reader.close()
    assert values == list(range(3, 98))
    assert max(decoded) < 20_000
    assert cluster.asked[FETCH] == 1


def test_nothing_is_asked_for_ahead_of_somebody_slow(cluster: VirtualCluster) -> None:
    """Its answer would be given up with its connection, and be asked for again."""
    reader = RangeReader(settings_of(cluster, 100), VirtualLoop(cluster.loop.world))
    rows = reader.read(whole(cluster), headers=False, fail_on_data_loss=True, patience_s=20)
    fetches = []
    for pause_s in (60, 60, 60, 1, 1, 1):
        next(rows)
        fetches.append(cluster.asked[FETCH])
        cluster.loop.run(cluster.loop.sleep, pause_s)
    assert fetches == [2, 2, 3, 4, 6, 7]
    reader.close()
