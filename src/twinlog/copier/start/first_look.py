"""Reads the first records to compare after a crash, for many partitions in a few requests.

A copier appends few records after it stored its last positions, so the first answer usually has all of them. Separate
requests for each of thousands of partitions would take minutes, and far longer with a distant cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from twinlog.copier.start.lost_records import LastRecord
from twinlog.errors import ClusterError, CorruptBatchError, RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.leader_fetch import fetch_once
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import PartitionResponse
from twinlog.kafka.protocol.offsets import EARLIEST, LATEST
from twinlog.kafka.record.batch import read_batch
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import ExactMap
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

TOGETHER = 100
"""How many partitions are read in a request. The start of a log may move while its partition is compared."""

LOOK_BYTES, PARTITION_BYTES = 2 << 20, 64 << 10
"""The size of an answer, and the most bytes of a partition in it. A partition with more bytes is read by itself."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The bounds of two logs: the start of the source log, and the start and the end of the remote log.

    `source_read` and `read` are the answers of both leaders from `source_begin` and `target_begin` on, if the leaders
    were asked already. `last` is the last record that the target should have, with its answers, if the target may have
    lost records.
    """

    source_start: SourceOffset
    start: TargetOffset
    end: TargetOffset
    source_read: PartitionResponse | None = None
    read: PartitionResponse | None = None
    last: LastRecord | None = None

    def source_begin(self, position: Position) -> SourceOffset:
        """The first source offset to read for the stored `position`."""
        return max(position.next_source, self.source_start)

    def target_begin(self, position: Position) -> TargetOffset:
        """The first remote offset to read."""
        assert position.next_target is not None
        return max(position.next_target, self.start)


class GrantedPartition(NamedTuple):
    """A granted partition, its stored position, and the end offset of its remote log.

    `unverified` means that the log may lack records that the position counts, though the log is as long. `known` is the
    stored map up to the position, if the log is `in_doubt` and a map is stored.
    """

    grant: Grant
    position: Position
    end: TargetOffset
    unverified: bool = False
    known: ExactMap | None = None

    @property
    def has_arrived(self) -> bool:
        """Whether the remote log holds more records than the position counts."""
        return self.position.next_target is not None and self.end > self.position.next_target

    @property
    def in_doubt(self) -> bool:
        """Whether the remote log may have lost records that the position counts."""
        return self.unverified or (self.position.next_target is not None and self.end < self.position.next_target)

    @property
    def left(self) -> TargetOffset:
        """The offset up to which the remote log may have the records that the position counts."""
        return self.end if self.position.next_target is None else min(self.end, self.position.next_target)

    @property
    def last(self) -> LastRecord | None:
        """The last record before `left` that the stored map names; None if the map or the record is missing."""
        found = None if self.known is None else self.known.last_before(self.left)
        return None if found is None else LastRecord(*found)


async def log_starts(source: ClusterClient, target: ClusterClient, grant: Grant) -> tuple[SourceOffset, TargetOffset]:
    """The first offsets of the source log and of the remote log. Raises ClusterError."""
    here = await find_offset(source, grant.source, EARLIEST)
    there = await find_offset(target, grant.remote, EARLIEST)
    return SourceOffset(here), TargetOffset(there)


async def find_offset(client: ClusterClient, partition: TopicPartition, at: int) -> int:
    """The first (`EARLIEST`) or next (`LATEST`) offset of a log. Raises ClusterError."""
    codes: dict[TopicPartition, int] = {}
    found = await client.list_offsets([partition], at, errors=codes)
    if partition not in found:
        raise unreported(client, partition, codes)
    return found[partition]


def unreported(client: ClusterClient, partition: TopicPartition, codes: Mapping[TopicPartition, int]) -> ClusterError:
    """The error of a partition whose leader reports no offset; `codes` has the error code of the leader's answer."""
    why = error_codes.explain(codes[partition]) if partition in codes else "the answer of its leader is missing"
    return ClusterError(f"cluster {client.alias}: {partition} does not report its offsets: {why}")


async def look(
    source: ClusterClient, target: ClusterClient, behind: Iterable[GrantedPartition], *, read_committed: bool
) -> tuple[dict[TopicPartition, LogBounds], TwinlogError | None]:
    """The logs, by source partition, that hold more than their position counts or may have lost some of these records.

    Returns an error if the error prevents all comparisons. Each leader gets a request for log starts and a request for
    records, or two requests for records if some logs are in doubt. The result leaves out a partition with an unknown
    start. If a partition was refused, the result is empty: a later request for each partition by itself shows the
    refused partition.
    """
    try:
        return await _look(source, target, behind, read_committed=read_committed), None
    except RefusedError:
        return {}, None
    except TwinlogError as error:
        # The traceback would hold this frame, and so the error itself.
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
            # Read committed, so that the answer also lists the aborted transactions.
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
    """The answers of leaders for partitions from an offset on, as far as an answer has a whole batch."""
    answers = await fetch_once(
        client, offsets, read_committed=read_committed, partition_bytes=PARTITION_BYTES, most_bytes=LOOK_BYTES
    )
    return {partition: answer for partition, answer in answers.items() if _is_whole(answer)}


def _is_whole(answer: PartitionResponse) -> bool:
    """Whether an answer begins with a whole batch.

    A damaged batch is reported by the later read of its partition alone.
    """
    with suppress(CorruptBatchError):
        return answer.error == Code.NONE and read_batch(answer.records, 0) is not None
    return False


STILL_S = 0.25
"""A log is at rest when its last growth is older than this."""

AT_MOST_S = 5.0
"""A log that grows for longer has another writer, which the comparison finds. A marker is awaited for the same time."""


class LogsAtRest:
    """The logs of a copier's remote partitions that it waits for, each with the begin of the wait."""

    def __init__(self, target: ClusterClient) -> None:
        self._target = target
        self._moving: dict[TopicPartition, float] = {}
        """The time since which a log grows that should be at rest (monotonic seconds); in `_unmarked` the time since
        which a log lacks a marker."""
        self._unmarked: dict[TopicPartition, float] = {}
        self._errors: dict[TopicPartition, ClusterError] = {}

    @property
    def awaited(self) -> Set[TopicPartition]:
        """The logs that the copier waits for."""
        return self._moving.keys() | self._unmarked.keys()

    def forget_logs(self, remotes: Iterable[TopicPartition]) -> None:
        """Start the wait again for logs whose partitions are released or taken."""
        for remote in remotes:
            self._moving.pop(remote, None)
            self._unmarked.pop(remote, None)
            self._errors.pop(remote, None)

    def error_of(self, remote: TopicPartition) -> ClusterError:
        """The reason why the last `find_ends` left a log out."""
        return self._errors.get(remote) or unreported(self._target, remote, {})

    async def find_ends(self, remotes: Sequence[TopicPartition]) -> dict[TopicPartition, TargetOffset]:
        """Ends of those remote logs that hold every append of a lost copier.

        The caller asks again for the remaining logs. The leader may have the copier's last appends before the followers
        have them, and handles its remaining requests only after that. So a log counts once its high watermark is at its
        end and both are still.
        """
        codes: dict[TopicPartition, int] = {}
        before = await self._target.list_offsets(remotes, LATEST, log_end=True, errors=codes)
        await self._target.loop.sleep(STILL_S)
        after = await self._target.list_offsets(remotes, LATEST, log_end=True, errors=codes)
        seen = await self._target.list_offsets(remotes, LATEST, errors=codes)
        now = self._target.loop.clock.monotonic()
        final: dict[TopicPartition, TargetOffset] = {}
        for remote in remotes:
            if remote not in seen or remote not in before:
                self._errors[remote] = unreported(self._target, remote, codes)
        for remote, end in seen.items():
            moving_since = self._moving.setdefault(remote, now)
            if remote not in before:
                continue
            whole = end >= before[remote]
            if whole and (end == before[remote] == after.get(remote) or now - moving_since > AT_MOST_S):
                final[remote] = TargetOffset(end)
                del self._moving[remote]
                self._errors.pop(remote, None)
                continue
            # Below `min.insync.replicas` the high watermark stays where it is (KIP-966).
            why = "still grows" if whole else "has records above its high watermark, as with too few replicas in sync"
            self._errors[remote] = ClusterError(f"cluster {self._target.alias}: {remote} {why}")
        return final

    def lacks_marker(self, remote: TopicPartition, counted: TargetOffset | None, end: TargetOffset) -> bool:
        """Whether the marker of the last transaction is still on its way to a log.

        The position counts the offsets before `counted`, the marker's offset included, and the end offset of the log is
        the marker's offset.
        """
        if counted != end + 1:
            self._unmarked.pop(remote, None)
            return False
        now = self._target.loop.clock.monotonic()
        return now - self._unmarked.setdefault(remote, now) < AT_MOST_S
