"""Two logs as they are stored, and what comes out of comparing them; in virtual time."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Any

import google_crc32c

from harness.virtual.cluster import VirtualCluster
from harness.virtual.log import VirtualLog
from harness.virtual.loop import VirtualLoop
from twinlog.kafka.record.batch import CRC_START, LOG_APPEND_TIME
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.exact_map import CopiedRun, ExactMap
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.proven_ranges import ProvenRange
from twinlog.ops.verify.model import ComparedRange, PartitionToVerify, Side, Verdict, VerifyRules
from twinlog.ops.verify.recheck import PartitionToRecheck, RecheckVerdict, SideFindings, SideLog, recheck
from twinlog.ops.verify.sections import (
    Bounds,
    sections_of,
)
from twinlog.ops.verify.task import ClusterPair
from twinlog.settings.client import ClientSettings, ConsumerSettings

NOW = 1_700_000_000_000

SOURCE, REMOTE = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("s.t"), 0)

Stored = tuple[int, bytes]
"""Timestamp and body."""


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


def append_copies(target: VirtualCluster, records: Sequence[Stored], *, by_broker: bool) -> None:
    """Append a batch of copies; with `by_broker` the target replaces the timestamps by its own."""
    batch = encode_batch(records, 0)
    stamp(batch, -1, -1, -1)
    target.log("s.t").append(stamped_by_broker(batch, NOW + 10**9) if by_broker else bytes(batch))


def copy_committed(source: VirtualCluster, target: VirtualCluster) -> None:
    """20 plain records, 20 of an aborted and 20 of a committed transaction; the target lacks the aborted records."""
    records = some(60)
    put(source, "t", records[:20])
    for commit, chosen in ((False, records[20:40]), (True, records[40:])):
        batch = encode_batch(chosen, 0)
        stamp(batch, 5, 0, 0 if not commit else 20, transactional=True)
        assert source.log("t").append(bytes(batch))[0] == 0
        source.log("t").mark(5, 0, commit=commit)
    put(target, "s.t", records[:20] + records[40:])


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
    progress: list[int] = []
    try:
        return pair.compare(part, progress.append)
    finally:
        pair.close()


def read_again(
    clusters: tuple[VirtualCluster, VirtualCluster],
    ranges: Sequence[ComparedRange | ProvenRange],
    *sides: Side,
    compacted: bool = False,
    start: int | None = None,
    consumer: dict[str, Any] | None = None,
) -> RecheckVerdict:
    """The ranges of an earlier comparison, as both logs, or some sides, have them now; `start` is an outdated start."""
    source, target = clusters
    logs: dict[Side, VirtualLog] = {"source": source.log("t"), "target": target.log("s.t")}
    part = PartitionToRecheck(
        PartitionToVerify("s->w", SOURCE, REMOTE),
        tuple(ranges),
        tuple(
            SideLog(side, logs[side].start if start is None else start, logs[side].end, compacted)
            for side in sides or ("source", "target")
        ),
    )
    rules = VerifyRules(settings_of(source, **(consumer or {})), settings_of(target), "s", "w", patience_s=20)
    pair = ClusterPair(rules, VirtualLoop(source.loop.world))
    progress: list[int] = []
    try:
        found = recheck(pair, part, progress.append)
    finally:
        pair.close()
    if not any(side.problem for side in found.sides):
        assert sum(progress) == part.offsets
    return found


def on(found: RecheckVerdict, side: Side) -> SideFindings:
    return next(one for one in found.sides if one.side == side)


def in_step(count: int) -> ExactMap:
    known = ExactMap(SourceOffset(0), TargetOffset(0), complete=True)
    known.add_runs([CopiedRun(SourceOffset(0), TargetOffset(0), count)])
    return known
