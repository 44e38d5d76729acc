"""Reads, of many partitions in a few requests, the begin of what has to be compared after a crash.

As a rule that is all of it: what a copier appended since it stored its last positions is little. One request after the
other for each partition would take minutes for thousands of them, far longer where a cluster is far away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from twinlog.copier.start.lost_records import LastRecord
from twinlog.copier.start.resume_after_crash import LogBounds
from twinlog.errors import ClusterError, CorruptBatchError, RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.single_fetch import fetch_once
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.kafka.protocol.list_offsets import EARLIEST
from twinlog.kafka.record.batch import read_batch
from twinlog.lease.grant import Grant
from twinlog.mirror.offsets.exact_map import ExactMap
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

TOGETHER = 100
"""How many partitions are looked at in one request. What is known of a log's start gets old while they are compared."""

LOOK_BYTES, PARTITION_BYTES = 2 << 20, 64 << 10
"""The size of an answer, and the most of one partition in it. Whatever has more is read by itself."""


class GrantedPartition(NamedTuple):
    """A granted partition, its stored position, and where its remote log ends.

    `unverified` means that the log may lack what the position counts, though it is as long. `known` is the stored map
    up to the position, where the log is `in_doubt` and there is one.
    """

    grant: Grant
    position: Position
    end: TargetOffset
    unverified: bool = False
    known: ExactMap | None = None

    @property
    def has_arrived(self) -> bool:
        """Whether the remote log holds more than the position counts."""
        return self.position.next_target is not None and self.end > self.position.next_target

    @property
    def in_doubt(self) -> bool:
        """Whether the remote log may have lost records that the position counts."""
        return self.unverified or (self.position.next_target is not None and self.end < self.position.next_target)

    @property
    def left(self) -> TargetOffset:
        """Up to where the remote log may have what the position counts."""
        return self.end if self.position.next_target is None else min(self.end, self.position.next_target)

    @property
    def last(self) -> LastRecord | None:
        """The last record up to there, in a log in doubt whose map names one."""
        found = None if self.known is None else self.known.last_before(self.left)
        return None if found is None else LastRecord(*found)


async def log_starts(source: ClusterClient, target: ClusterClient, grant: Grant) -> tuple[SourceOffset, TargetOffset]:
    """Where the logs of both partitions begin. Raises ClusterError."""
    here = await source.list_offsets([grant.source], EARLIEST)
    there = await target.list_offsets([grant.remote], EARLIEST)
    if grant.source not in here or grant.remote not in there:
        raise ClusterError(f"{grant.source} or {grant.remote} does not report its offsets")
    return SourceOffset(here[grant.source]), TargetOffset(there[grant.remote])


async def look(
    source: ClusterClient, target: ClusterClient, behind: Iterable[GrantedPartition], *, read_committed: bool
) -> tuple[dict[TopicPartition, LogBounds], TwinlogError | None]:
    """The logs of those partitions whose remote log holds more than their position counts, or may have lost some of
    that, by source partition; or the error that keeps all of them from being compared.

    One request for log starts to each leader, and one for records, or two where some are in doubt. A partition that
    reports no start is missing, and all of them where one was refused: who asks for each by itself is refused only that
    one.
    """
    try:
        return await _look(source, target, behind, read_committed=read_committed), None
    except RefusedError:
        return {}, None
    except TwinlogError as error:
        # By its traceback it would hold this frame, and so itself.
        return {}, error.with_traceback(None)


async def _look(
    source: ClusterClient, target: ClusterClient, behind: Iterable[GrantedPartition], *, read_committed: bool
) -> dict[TopicPartition, LogBounds]:
    compared = [one for one in behind if one.has_arrived or one.in_doubt]
    if not compared:
        return {}
    known = source.loop.spawn(source.list_offsets, [one.grant.source for one in compared], EARLIEST)
    remote_starts = await target.list_offsets([one.grant.remote for one in compared], EARLIEST)
    source_starts = await known
    found = {
        one.grant.source: (
            one,
            LogBounds(
                SourceOffset(source_starts[one.grant.source]),
                TargetOffset(remote_starts[one.grant.remote]),
                one.end,
                last=one.last,
            ),
        )
        for one in compared
        if one.grant.source in source_starts and one.grant.remote in remote_starts
    }
    arrived = [(one, logs) for one, logs in found.values() if one.has_arrived]
    lasts = [(one.grant, logs.last) for one, logs in found.values() if logs.last is not None]
    source_begins = {one.grant.source: logs.source_begin(one.position) for one, logs in arrived}
    begins = {one.grant.remote: logs.target_begin(one.position) for one, logs in arrived}
    spawn = source.loop.spawn
    originals, copies, last_originals, last_copies = await source.loop.gather(
        [
            spawn(_read, source, source_begins, read_committed),
            spawn(_read, target, begins, False),
            spawn(_read, source, {grant.source: last.source for grant, last in lasts}, read_committed),
            # Read so, it shows what was aborted, too.
            spawn(_read, target, {grant.remote: last.target for grant, last in lasts}, True),
        ]
    )
    return {
        here: replace(
            logs,
            source_read=originals.get(here),
            read=copies.get(one.grant.remote),
            last=logs.last
            and logs.last._replace(original=last_originals.get(here), copy=last_copies.get(one.grant.remote)),
        )
        for here, (one, logs) in found.items()
    }


async def _read(
    client: ClusterClient, offsets: Mapping[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, PartitionResponse]:
    """What leaders answer for partitions from an offset on, where that is a batch at least."""
    answers = await fetch_once(
        client, offsets, read_committed=read_committed, partition_bytes=PARTITION_BYTES, most_bytes=LOOK_BYTES
    )
    return {partition: answer for partition, answer in answers.items() if _is_whole(answer)}


def _is_whole(answer: PartitionResponse) -> bool:
    """Whether it begins with a batch; a damaged one is reported by whoever reads that partition by itself."""
    with suppress(CorruptBatchError):
        return answer.error == Code.NONE and read_batch(answer.records, 0) is not None
    return False
