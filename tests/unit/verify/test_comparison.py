"""Two logs are compared as they are stored, with one thing or another wrong with the copy; in virtual time."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import google_crc32c
import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import FETCH
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.offsets.exact import ExactMap
from twinlog.record.batch import CRC_START, LOG_APPEND_TIME
from twinlog.record.builder import encode_batch
from twinlog.record.compression import CODECS
from twinlog.record.own_records import record_body
from twinlog.record.stamp import stamp
from twinlog.settings.flow import ClientSettings, ConsumerSettings
from twinlog.verify import alignment, by_content
from twinlog.verify.model import MOST_LEFT, Left, PartitionToVerify, Section, Verdict, VerifyRules
from twinlog.verify.sections import (
    COMPACTED_SOURCE,
    COMPACTED_TARGET,
    IN_TRANSACTION,
    NOT_YET,
    OLDER,
    RETAINED_SOURCE,
    RETAINED_TARGET,
    TRUNCATED,
    Bounds,
    sections_of,
)
from twinlog.verify.task import ClusterPair

NOW = 1_700_000_000_000
SOURCE, REMOTE = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("s.t"), 0)
PLANTED = 150

Stored = tuple[int, bytes]
"""Timestamp and body."""


@pytest.fixture
def clusters() -> Iterator[tuple[VirtualCluster, VirtualCluster]]:
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        source.create("t")
        target.create("s.t")
        yield source, target


def made(number: int, value: bytes = b"") -> Stored:
    return NOW + number, record_body(b"k%d" % number, value or b"value %d" % number, (("h", b"%d" % number),))


def some(count: int) -> list[Stored]:
    return [made(number) for number in range(count)]


def digest_of(records: Sequence[Stored]) -> str:
    parts = (
        b"".join(struct.pack(">q", timestamp) for timestamp, _ in records),
        b"".join(struct.pack(">i", len(body)) for _, body in records),
        b"".join(body for _, body in records),
        b"",
    )
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def put(
    cluster: VirtualCluster, topic: str, records: Sequence[Stored], per_batch: int = 20, codec: str = "none"
) -> None:
    for start in range(0, len(records), per_batch):
        batch = encode_batch(records[start : start + per_batch], CODECS[codec])
        stamp(batch, -1, -1, -1)
        assert cluster.log(topic).append(bytes(batch))[0] == 0


def stamped_by_broker(batch: bytearray, at_ms: int) -> bytes:
    """As a topic with `message.timestamp.type = LogAppendTime` has it."""
    batch[22] |= LOG_APPEND_TIME
    struct.pack_into(">q", batch, 35, at_ms)
    struct.pack_into(">I", batch, 17, google_crc32c.value(bytes(batch[CRC_START:])))
    return bytes(batch)


def settings_of(cluster: VirtualCluster, **others: Any) -> ConsumerSettings:
    return ConsumerSettings(ClientSettings(cluster.bootstrap), max_partition_fetch_bytes=3_000, **others)


def verify(
    clusters: tuple[VirtualCluster, VirtualCluster],
    known: ExactMap | None = None,
    bounds: Bounds | None = None,
    *,
    consumer: dict[str, Any] | None = None,
    rules: dict[str, Any] | None = None,
    **others: Any,
) -> Verdict:
    source, target = clusters
    there, remote = source.log("t"), target.log("s.t")
    bounds = bounds or Bounds(there.start, there.end, remote.start, remote.end)
    sections, left = sections_of(known, bounds)
    part = PartitionToVerify(
        "s->w",
        SOURCE,
        REMOTE,
        tuple(sections),
        tuple(left),
        source_id=source.topics.ids["t"],
        target_id=target.topics.ids["s.t"],
        **others,
    )
    read = VerifyRules(
        settings_of(source, **(consumer or {})), settings_of(target), "s", "w", patience_s=20, **(rules or {})
    )
    pair = ClusterPair(read, VirtualLoop(source.loop.world))
    told: list[int] = []
    try:
        return pair.compare(part, told.append)
    finally:
        pair.close()


def in_step(count: int) -> ExactMap:
    known = ExactMap(SourceOffset(0), TargetOffset(0), complete=True)
    known.copied(SourceOffset(0), TargetOffset(0), count)
    return known


def flipped(records: list[Stored]) -> list[Stored]:
    body = bytearray(records[PLANTED][1])
    body[-8] ^= 1
    return [*records[:PLANTED], (records[PLANTED][0], bytes(body)), *records[PLANTED + 1 :]]


def missing(records: list[Stored]) -> list[Stored]:
    return records[:PLANTED] + records[PLANTED + 1 :]


def doubled(records: list[Stored]) -> list[Stored]:
    return [*records[: PLANTED + 1], *records[PLANTED:]]


def swapped(records: list[Stored]) -> list[Stored]:
    return [*records[:PLANTED], records[PLANTED + 1], records[PLANTED], *records[PLANTED + 2 :]]


PLANTS: list[tuple[Callable[[list[Stored]], list[Stored]], str, int, int]] = [
    (flipped, "value", PLANTED, 1),
    (missing, "missing", PLANTED, 1),
    (doubled, "doubled", PLANTED + 1, 1),
    (swapped, "order", PLANTED, 2),
]


@pytest.mark.parametrize(("source_batch", "target_batch"), [(20, 20), (1, 50), (50, 7)])
@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("mapped", [False, True])
def test_equal_however_batches_are_cut(
    clusters: tuple[VirtualCluster, VirtualCluster], source_batch: int, target_batch: int, codec: str, mapped: bool
) -> None:
    records = some(400)
    put(clusters[0], "t", records, source_batch)
    put(clusters[1], "s.t", records, target_batch, codec)
    found = verify(clusters, in_step(400) if mapped else None)
    assert (found.equal, found.records, found.differences, found.left) == (True, 400, 0, [])
    assert (found.source_start, found.source_end, found.target_start, found.target_end) == (0, 400, 0, 400)
    assert found.source_digest == found.target_digest != ""
    assert bool(found.whole_batches) == (source_batch == target_batch and codec == "none")
    # Of records alone digests are the same however they are batched.
    every = verify(clusters, in_step(400) if mapped else None, rules={"every_record": True})
    assert (every.equal, every.whole_batches) == (True, 0)
    assert every.source_digest == digest_of(records)


@pytest.mark.parametrize("per_batch", [1, 20])
def test_records_missing_right_behind_the_begin_are_reported(
    clusters: tuple[VirtualCluster, VirtualCluster], per_batch: int
) -> None:
    records = some(400)
    put(clusters[0], "t", records, per_batch)
    put(clusters[1], "s.t", records[:190] + records[205:], per_batch)
    found = verify(clusters, bounds=Bounds(0, 400, 0, 385, since=200))
    assert found.first is not None
    assert (found.equal, found.differences, found.first.what, found.first.source_offset) == (False, 5, "missing", 200)
    assert (found.records, [one for one in found.left if one.side == "source"]) == (195, [])


def test_where_copying_began_behind_the_begin_nothing_is_missing(
    clusters: tuple[VirtualCluster, VirtualCluster],
) -> None:
    records = some(400)
    put(clusters[0], "t", records)
    put(clusters[1], "s.t", [made(number, b"of somebody else") for number in range(1_000, 1_010)] + records[205:])
    found = verify(clusters, bounds=Bounds(0, 400, 0, 205, since=200))
    assert (found.equal, found.differences, found.records) == (True, 0, 195)
    assert [(one.start, one.end) for one in found.left if one.side == "source"] == [(200, 205)]


@pytest.mark.parametrize(("plant", "what", "offset", "count"), PLANTS)
@pytest.mark.parametrize(("source_batch", "target_batch"), [(20, 20), (1, 50)])
def test_finds_what_is_planted(
    clusters: tuple[VirtualCluster, VirtualCluster],
    plant: Callable[[list[Stored]], list[Stored]],
    what: str,
    offset: int,
    count: int,
    source_batch: int,
    target_batch: int,
) -> None:
    records = some(400)
    put(clusters[0], "t", records, source_batch)
    put(clusters[1], "s.t", plant(records), target_batch)
    found = verify(clusters)
    assert found.first is not None
    assert (found.equal, found.first.what, found.first.source_offset, found.differences) == (
        False,
        what,
        offset,
        count,
    )
    assert abs(found.first.target_offset - offset) <= 1
    assert found.source_digest != found.target_digest
    # It goes on behind it, to the end.
    assert found.records >= 398
    assert found.source_end == 400


@pytest.mark.parametrize(("field", "other"), [("key", 0), ("headers", 2), ("timestamp", 3)])
def test_names_the_field_that_differs(clusters: tuple[VirtualCluster, VirtualCluster], field: str, other: int) -> None:
    records = some(40)
    changed = {
        0: (NOW + 7, record_body(b"K7", b"value 7", (("h", b"7"),))),
        2: (NOW + 7, record_body(b"k7", b"value 7", (("h", b"7"), ("h", None)))),
        3: (NOW + 8, records[7][1]),
    }[other]
    put(clusters[0], "t", records)
    put(clusters[1], "s.t", [*records[:7], changed, *records[8:]])
    for known in (None, in_step(40)):
        found = verify(clusters, known)
        assert found.first is not None
        assert (found.first.what, found.first.source_offset, found.first.target_offset) == (field, 7, 7)
        assert (found.records, found.differences) == (39, 1)


def test_by_the_map_a_swap_is_an_order(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    put(clusters[0], "t", some(400))
    put(clusters[1], "s.t", swapped(some(400)))
    found = verify(clusters, in_step(400))
    assert found.first is not None
    assert (found.first.what, found.first.source_offset, found.differences) == ("order", PLANTED, 2)


def test_holes_of_a_map_are_no_differences(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    """Compaction before copying and markers on the target, both known to the map."""
    source, target = clusters
    put(source, "t", some(100), 1)
    log = source.log("t")
    log.batches = [one for one in log.batches if not 30 <= one[0].base_offset < 50]
    put(target, "s.t", some(30), 10)
    target.log("s.t").mark(7, 0, commit=True)
    put(target, "s.t", some(100)[50:], 10)
    known = ExactMap(SourceOffset(0), TargetOffset(0), complete=True)
    known.copied(SourceOffset(0), TargetOffset(0), 30)
    known.copied(SourceOffset(50), TargetOffset(31), 50)
    found = verify(clusters, known)
    assert (found.equal, found.records, found.left, found.foreign) == (True, 80, [], 0)
    assert verify(clusters).equal is True
    # What the map has no copy of and the source still has is missing.
    put(source, "t", some(1))
    known.passed(SourceOffset(101))
    late = verify(clusters, known)
    assert late.first is not None
    assert (late.first.what, late.first.source_offset, late.differences) == ("missing", 100, 1)


@pytest.mark.parametrize("mapped", [True, False])
def test_compaction_and_retention_are_reported_not_counted(
    clusters: tuple[VirtualCluster, VirtualCluster], mapped: bool
) -> None:
    source, target = clusters
    put(source, "t", some(300), 1)
    put(target, "s.t", some(300), 1)
    source.log("t").delete_before(40)
    target.log("s.t").delete_before(60)
    log = source.log("t")
    log.batches = [one for one in log.batches if not 100 <= one[0].base_offset < 120]
    copies = target.log("s.t")
    copies.batches = [one for one in copies.batches if one[0].base_offset != 200]
    known = in_step(300) if mapped else None
    syncs = () if mapped else ((150, 150),)
    found = verify(clusters, known, source_compacted=True, target_compacted=True, syncs=syncs)
    assert (found.equal, found.differences, found.records) == (True, 0, 219)
    ranges = {(one.side, one.start, one.end) for one in found.left}
    assert {("target", 100, 120), ("source", 200, 201)} <= ranges
    if mapped:
        assert Left("source", 0, 60, RETAINED_TARGET) in found.left
        assert (
            Left("target", 0, 40, RETAINED_SOURCE)
            in verify(clusters, known, Bounds(40, 300, 0, 300), source_compacted=True, target_compacted=True).left
        )
    else:
        assert ("source", 40, 60) in ranges
    # A change is found beside all holes.
    changed = {number: made(number) for number in range(300)} | {250: made(250, b"other")}
    copies.batches.clear()
    copies.start = 0
    put(target, "s.t", [changed[number] for number in range(300)], 1)
    copies.delete_before(60)
    found = verify(clusters, known, source_compacted=True, target_compacted=True, syncs=syncs)
    assert found.first is not None
    assert (found.first.what, found.first.source_offset, found.differences) == ("value", 250, 1)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("kept", [300, 7])
def test_every_record_that_compaction_left_is_compared_without_a_map(
    clusters: tuple[VirtualCluster, VirtualCluster], side: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One side has been compacted, from its begin on, and the other one has not been yet."""
    monkeypatch.setattr(alignment, "WINDOWS", (8, 16, 32))
    source, target = clusters
    put(source, "t", some(2_100), 1 if side == "source" else 50)
    put(target, "s.t", some(2_100), 1 if side == "target" else 50)
    log = source.log("t") if side == "source" else target.log("s.t")
    log.batches = [one for one in log.batches if one[0].base_offset % (2_100 // kept) == 6]
    flags = {f"{side}_compacted": True}
    last = log.batches[-1][0].base_offset
    found = verify(clusters, syncs=((last, last),), **flags)
    assert (found.equal, found.differences, found.records) == (True, 0, kept)
    assert {one.side for one in found.left} == {"target" if side == "source" else "source"}
    if kept < MOST_LEFT:
        assert sum(one.end - one.start for one in found.left) == 2_100 - kept
    assert {one.reason for one in found.left} == {COMPACTED_SOURCE if side == "source" else COMPACTED_TARGET}
    # What the other side lacks is no hole of compaction.
    other = target.log("s.t") if side == "source" else source.log("t")
    gone = log.batches[kept // 2][0].base_offset // 50 * 50
    other.batches = [one for one in other.batches if one[0].base_offset != gone]
    assert verify(clusters, **flags).equal is False


def test_the_begin_is_found_where_brokers_set_timestamps(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    """Those of the target tell nothing, and what was asked for begins before its log does."""
    source, target = clusters
    put(source, "t", some(400))
    for start in range(0, 400, 20):
        batch = encode_batch(some(400)[start : start + 20], 0)
        stamp(batch, -1, -1, -1)
        target.log("s.t").append(stamped_by_broker(batch, NOW + 10**9))
    target.log("s.t").delete_before(100)
    bounds = Bounds(0, 400, 100, 400, until=250)
    for syncs in ((), ((390, 390),)):
        found = verify(clusters, None, bounds, syncs=syncs)
        assert (found.equal, found.records, found.left) == (True, 150, [Left("source", 0, 100, RETAINED_TARGET)])


@pytest.mark.parametrize(
    "compacted", [(), ("source_compacted",), ("target_compacted",), ("source_compacted", "target_compacted")]
)
@pytest.mark.parametrize("since", [None, 100])
def test_wrong_copies_at_the_begin_are_found_without_a_map(
    clusters: tuple[VirtualCluster, VirtualCluster], compacted: tuple[str, ...], since: int | None
) -> None:
    """Where copies of what was asked for begin is told by records that are the same, and these are not."""
    source, target = clusters
    first = since or 0
    put(source, "t", some(400))
    put(
        target, "s.t", [*some(first), *(made(first + number, b"wrong") for number in range(5)), *some(400)[first + 5 :]]
    )
    flags: dict[str, Any] = dict.fromkeys(compacted, True)
    for syncs in ((), ((390, 390),)):
        found = verify(clusters, None, Bounds(0, 400, 0, 400, since=since), syncs=syncs, **flags)
        assert found.first is not None
        assert (found.equal, found.differences, found.records) == (False, 5, 395 - first)
        assert (found.first.what, found.first.source_offset, found.first.target_offset) == ("value", first, first)
        assert [(one.side, one.start, one.end) for one in found.left] == ([("target", 0, 100)] if since else [])


def test_others_before_the_begin_are_no_wrong_copies(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    """Copying began in the middle, into a topic that somebody else had written to; or each side was compacted alone."""
    source, target = clusters
    put(source, "t", some(200))
    put(target, "s.t", [*(made(1_000 + number, b"else") for number in range(10)), *some(200)[100:]])
    found = verify(clusters)
    assert (found.equal, found.records) == (True, 100)
    assert [(one.side, one.start, one.end) for one in found.left] == [("source", 0, 100), ("target", 0, 10)]
    for log in (source.log("t"), target.log("s.t")):
        log.batches.clear()
    put(source, "t", [(NOW, record_body(b"a", b"1", ())), *some(50)])
    put(target, "s.t", [(NOW, record_body(b"b", b"2", ())), *some(50)])
    assert verify(clusters, source_compacted=True, target_compacted=True).equal is True


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_wrong_timestamp_near_one_that_cannot_be_compared_is_a_difference(
    clusters: tuple[VirtualCluster, VirtualCluster], side: str, compacted: bool
) -> None:
    """The topic began to stamp records itself, or a record of the source has no timestamp; it was compared for ever."""
    source, target = clusters
    records = some(60)
    if side == "source":
        records[45] = -1, records[45][1]
    copies = [*records]
    copies[10] = NOW + 777_777, copies[10][1]
    put(source, "t", records, 15)
    put(target, "s.t", copies[:40])
    rest = encode_batch([*some(60)[40:]], 0)
    stamp(rest, -1, -1, -1)
    target.log("s.t").append(stamped_by_broker(rest, NOW + 10**9) if side == "target" else bytes(rest))
    found = verify(clusters, target_compacted=compacted)
    assert found.first is not None
    assert (found.first.what, found.first.source_offset, found.first.target_offset) == ("timestamp", 10, 10)
    assert (found.differences, found.records, found.left) == (1, 59, [])
    assert found.source_digest != found.target_digest


def test_foreign_records_count_or_do_not(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    source, target = clusters
    put(source, "t", some(100))
    put(target, "s.t", some(60))
    put(target, "s.t", [made(7, b"of somebody else"), made(8, b"else")])
    put(target, "s.t", some(100)[60:])
    known = ExactMap(SourceOffset(0), TargetOffset(0), complete=True)
    known.copied(SourceOffset(0), TargetOffset(0), 60)
    known.copied(SourceOffset(60), TargetOffset(62), 40)
    for one in (known, None):
        found = verify(clusters, one)
        assert found.first is not None
        assert (found.equal, found.first.what, found.first.target_offset) == (False, "extra", 60)
        assert (found.foreign, found.differences, found.records) == (2, 2, 100)
        free = verify(clusters, one, rules={"ignore_foreign": True})
        assert (free.equal, free.foreign, free.first, free.records) == (True, 2, None, 100)
        assert free.source_digest == free.target_digest
    # One that is there twice is no foreign one.
    put(target, "s.t", some(100)[99:])
    twice = verify(clusters, known, rules={"ignore_foreign": True})
    assert twice.first is not None
    assert (twice.equal, twice.first.what, twice.differences) == (False, "doubled", 1)


@pytest.mark.parametrize("mapped", [True, False])
def test_somebody_else_who_writes_all_the_time_hides_nothing(
    clusters: tuple[VirtualCluster, VirtualCluster], mapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More places without a copy than are searched for, and behind all of them a record that is there twice."""
    monkeypatch.setattr(by_content, "MOST_PLACES", 50)
    source, target = clusters
    records = some(500)
    copies: list[Stored] = []
    known = ExactMap(SourceOffset(0), TargetOffset(0), complete=True)
    for start in range(0, 500, 4):
        known.copied(SourceOffset(start), TargetOffset(len(copies)), 4)
        copies += [*records[start : start + 4], made(start, b"else")]
    put(source, "t", records, 50)
    put(target, "s.t", copies, 50)
    found = verify(clusters, known if mapped else None)
    assert (found.equal, found.foreign, found.differences, found.records) == (False, 125, 125, 500)
    assert found.left == []
    put(target, "s.t", [records[-3]])
    found = verify(clusters, known if mapped else None, rules={"ignore_foreign": True})
    assert found.first is not None
    assert (found.foreign, found.first.what, found.differences, found.left) == (125, "doubled", 1, [])


def test_where_too_much_differs_the_rest_is_named(
    clusters: tuple[VirtualCluster, VirtualCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places where a look at a few records is not enough."""
    source, target = clusters
    copies: list[Stored] = []
    for start in range(0, 500, 100):
        copies += [*some(start + 100)[start:], *(made(start + number, b"else") for number in range(80))]
    put(source, "t", some(500))
    put(target, "s.t", copies)
    assert verify(clusters).left == []
    monkeypatch.setattr(by_content, "MOST_PLACES", 2)
    found = verify(clusters)
    assert (found.equal, found.records, found.foreign) == (False, 300, 160)
    assert [(one.side, one.start, one.end) for one in found.left] == [("source", 300, 500), ("target", 460, 900)]
    assert "--from-timestamp" in found.left[0].reason


def test_the_begin_is_found_without_a_map(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    """Retention of different lengths, and offsets that parted long before."""
    source, target = clusters
    put(source, "t", some(3_000), 50)
    put(target, "s.t", [made(9_000 + number) for number in range(500)], 50)
    put(target, "s.t", some(3_000), 50)
    source.log("t").delete_before(2_000)
    target.log("s.t").delete_before(1_500)
    found = verify(clusters)
    assert (found.equal, found.records, found.differences) == (True, 1_000, 0)
    # The source begins with a record whose copy the target has, so it is the source that has deleted something.
    assert found.left == [Left("target", 1_500, 2_500, RETAINED_SOURCE)]
    target.log("s.t").delete_before(3_000)
    assert verify(clusters).left == [Left("source", 2_000, 2_500, RETAINED_TARGET)]


def test_aborted_records_are_not_expected_where_committed_ones_are_copied(
    clusters: tuple[VirtualCluster, VirtualCluster],
) -> None:
    source, target = clusters
    records = some(60)
    put(source, "t", records[:20])
    for commit, chosen in ((False, records[20:40]), (True, records[40:])):
        batch = encode_batch(chosen, 0)
        stamp(batch, 5, 0, 0 if not commit else 20, transactional=True)
        assert source.log("t").append(bytes(batch))[0] == 0
        source.log("t").mark(5, 0, commit=commit)
    put(target, "s.t", records[:20] + records[40:])
    committed = verify(clusters, consumer={"isolation_level": "read_committed"})
    assert (committed.equal, committed.records) == (True, 40)
    plain = verify(clusters)
    assert plain.first is not None
    assert (plain.first.what, plain.differences) == ("missing", 20)


def test_a_position_without_a_map_bounds_the_source_alone(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    """As MirrorMaker 2 stores it: what it copies meanwhile is no difference."""
    source, target = clusters
    put(source, "t", some(100))
    put(target, "s.t", some(90))
    found = verify(clusters, None, Bounds(0, 100, 0, 90, copied_up_to=80))
    assert (found.equal, found.records, found.source_end) == (True, 80, 80)
    lacking = verify(clusters, None, Bounds(0, 100, 0, 90, copied_up_to=95))
    assert lacking.first is not None
    assert (lacking.first.what, lacking.first.source_offset, lacking.differences) == ("missing", 90, 5)


def test_a_range_that_was_asked_for(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    source, target = clusters
    put(source, "t", some(200))
    put(target, "s.t", flipped(some(200)))
    for known in (in_step(200), None):
        bounds = Bounds(0, 200, 0, 200, since=33, until=140)
        found = verify(clusters, known, bounds)
        assert (found.equal, found.records, found.source_start, found.source_end) == (True, 107, 33, 140)
        assert verify(clusters, known, replace(bounds, until=151)).differences == 1


def test_logs_that_have_nothing_in_common_are_given_up(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    source, target = clusters
    put(source, "t", some(20_000), 500)
    put(target, "s.t", [made(number, b"other") for number in range(20_000)], 500)
    found = verify(clusters)
    assert found.equal is False
    assert [(one.side, one.start, one.end) for one in found.left] == [("source", 0, 20_000), ("target", 0, 20_000)]


def test_goes_on_after_trouble_and_reports_what_lasts(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    source, target = clusters
    put(source, "t", some(300))
    put(target, "s.t", some(300))
    source.fault(FETCH, Fault(lost=True), times=2)
    assert verify(clusters).equal is True
    target.stop(1)
    found = verify(clusters)
    assert found.equal is None
    assert "cluster w" in (found.problem or "")


def test_what_is_deleted_meanwhile_is_passed_over(clusters: tuple[VirtualCluster, VirtualCluster]) -> None:
    source, target = clusters
    put(source, "t", some(300))
    put(target, "s.t", some(300))
    bounds = Bounds(0, 300, 0, 300)
    source.log("t").delete_before(100)
    found = verify(clusters, in_step(300), bounds)
    assert (found.equal, found.records) == (True, 200)
    assert [(one.side, one.start, one.end) for one in found.left] == [("source", 0, 100)]


def test_drawn_copies_are_judged_as_record_by_record(
    clusters: tuple[VirtualCluster, VirtualCluster], chance: random.Random
) -> None:
    """Batches cut at random, some records lost, changed or repeated: what is counted is what was done."""
    source, target = clusters
    records = some(600)
    copies = list(records)
    lost, changed, repeated = sorted(chance.sample(range(20, 580, 8), 3))
    copies[changed] = made(changed, b"changed")
    copies.insert(repeated, copies[repeated])
    del copies[lost]
    for cluster, topic, chosen in ((source, "t", records), (target, "s.t", copies)):
        at = 0
        while at < len(chosen):
            size = chance.choice([1, 3, 20, 90])
            put(cluster, topic, chosen[at : at + size], size, chance.choice(["none", "zstd"]))
            at += size
    found = verify(clusters)
    assert (found.differences, found.equal) == (3, False)
    assert found.first is not None
    assert found.first.source_offset == lost


def test_copies_behind_an_open_transaction_are_not_missing() -> None:
    known = in_step(100)
    bounds = Bounds(0, 100, 0, 60, copied_up_to=100, copies_end=100)
    assert sections_of(known, bounds)[0][1] == Section("not copied", 60, 100, 60, 60)
    found, left = sections_of(known, replace(bounds, hidden=True))
    assert found == [Section("exact", 0, 60, 0, 60)]
    assert left == [Left("source", 60, 100, IN_TRANSACTION)]


def test_sections_of_a_map_with_what_nobody_knows() -> None:
    known = ExactMap(SourceOffset(10), TargetOffset(0))
    known.copied(SourceOffset(10), TargetOffset(0), 5)
    known.jumped(SourceOffset(40), TargetOffset(25))
    known.copied(SourceOffset(40), TargetOffset(25), 10)
    found, left = sections_of(known, Bounds(10, 60, 0, 40, copied_up_to=55, copies_end=40))
    assert found == [
        Section("exact", 10, 15, 0, 5),
        Section("by content", 15, 40, 5, 25),
        Section("exact", 40, 50, 25, 35),
        Section("by content", 50, 55, 35, 40),
    ]
    assert left == [Left("source", 55, 60, NOT_YET)]


@pytest.mark.parametrize("position", [None, 300])
def test_a_side_whose_retention_took_everything_is_no_difference(
    clusters: tuple[VirtualCluster, VirtualCluster], position: int | None
) -> None:
    """Without a map, nothing tells what the target had; a copy of what is asked for may be gone as well."""
    source, target = clusters
    put(source, "t", some(300))
    put(target, "s.t", some(300))
    target.log("s.t").delete_before(300)
    found = verify(clusters, None, Bounds(0, 300, 300, 300, copied_up_to=position))
    assert (found.equal, found.differences) == (None, 0)
    assert found.left == [Left("source", 0, 300, RETAINED_TARGET)]


@pytest.mark.parametrize("limit", [{"until": 100}, {"copied_up_to": 100}])
@pytest.mark.parametrize("stamped", [False, True])
def test_a_target_that_begins_behind_what_is_asked_for_is_no_difference(
    clusters: tuple[VirtualCluster, VirtualCluster], limit: dict[str, int], stamped: bool
) -> None:
    """Its first records are copies of later ones, and not wrong copies of these."""
    source, target = clusters
    put(source, "t", some(400))
    for start in range(0, 400, 20):
        batch = encode_batch(some(400)[start : start + 20], 0)
        stamp(batch, -1, -1, -1)
        target.log("s.t").append(stamped_by_broker(batch, NOW + 10**9) if stamped else bytes(batch))
    target.log("s.t").delete_before(250)
    found = verify(clusters, None, Bounds(0, 400, 250, 400, **limit))
    assert (found.equal, found.differences) == (None, 0)
    assert [one for one in found.left if one.reason == RETAINED_TARGET] == [Left("source", 0, 100, RETAINED_TARGET)]
    # Somebody else's record in front of them may be there in the place of a copy.
    log = target.log("s.t")
    log.batches.clear()
    log.start = 0
    put(target, "s.t", [*some(250), made(7, b"of somebody else"), *some(400)[251:]], 10)
    log.delete_before(250)
    found = verify(clusters, None, Bounds(0, 400, 250, 400, **limit))
    assert found.equal is False


@pytest.mark.parametrize("position", [None, 300])
def test_wrong_copies_are_no_retention(clusters: tuple[VirtualCluster, VirtualCluster], position: int | None) -> None:
    source, target = clusters
    put(source, "t", some(300))
    put(target, "s.t", [made(number + 1_000) for number in range(300)])
    target.log("s.t").delete_before(50)
    found = verify(clusters, None, Bounds(0, 300, 50, 300, copied_up_to=position))
    assert found.equal is False
    assert found.differences > 0


def test_copies_whose_source_deleted_everything_are_not_foreign(
    clusters: tuple[VirtualCluster, VirtualCluster],
) -> None:
    source, target = clusters
    put(source, "t", some(100))
    put(target, "s.t", some(100))
    source.log("t").delete_before(100)
    found = verify(clusters)
    assert (found.equal, found.differences, found.left) == (True, 0, [Left("target", 0, 100, OLDER)])
    # A log that never lost its begin has no such excuse.
    source.log("t").start = 0
    assert verify(clusters, None, Bounds(0, 0, 0, 100)).differences == 100


def test_the_marker_behind_a_position_is_no_record_that_was_not_copied(
    clusters: tuple[VirtualCluster, VirtualCluster],
) -> None:
    source, target = clusters
    batch = encode_batch(some(10), 0)
    stamp(batch, 5, 0, 0, transactional=True)
    source.log("t").append(bytes(batch))
    source.log("t").mark(5, 0, commit=True)
    put(target, "s.t", some(10))
    found = verify(clusters, None, Bounds(0, 11, 0, 10, copied_up_to=10))
    assert (found.equal, found.records, found.left) == (True, 10, [])
    put(source, "t", [made(11)])
    found = verify(clusters, None, Bounds(0, 12, 0, 10, copied_up_to=10))
    assert found.left == [Left("source", 10, 12, NOT_YET)]


def test_what_lies_behind_the_position_is_named() -> None:
    for known in (in_step(60), None):
        _, left = sections_of(known, Bounds(0, 100, 0, 60, copied_up_to=60, copies_end=60))
        assert left == [Left("source", 60, 100, NOT_YET)]
        _, left = sections_of(known, Bounds(0, 100, 0, 60, copied_up_to=60, copies_end=60, since=70, until=90))
        assert left == [Left("source", 70, 90, NOT_YET)]
        assert sections_of(known, Bounds(0, 100, 0, 60, copied_up_to=60, copies_end=60, until=50))[1] == []


def test_a_source_that_ends_before_what_was_copied_is_named() -> None:
    """As after an election of an unclean leader: no copy is compared with nothing."""
    found, left = sections_of(in_step(100), Bounds(0, 80, 0, 100, copied_up_to=100, copies_end=100))
    assert found == [Section("exact", 0, 80, 0, 80)]
    assert left == [Left("target", 80, 100, TRUNCATED)]
