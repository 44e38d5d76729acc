"""Fills the offsets of a remote log before the first source offset to copy, and deletes the fillers again.

DeleteRecords (KIP-107) moves the begin of the log behind the fillers, in steps while more are appended. The end of the
log is the only state of this work: the next copier continues there. The last fillers stay until all are there, because
the next copier may have no position, and knows a log without copies by its fillers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinlog.batches.fillers import PORTION, make_fillers
from twinlog.clock import wall_ms
from twinlog.copier.offset_committer import OffsetCommitter
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.start.first_look import find_offset
from twinlog.copier.start.log_reader import chunks
from twinlog.errors import ClusterError, OffsetHoleError, RefusedError, TwinlogError
from twinlog.kafka.admin.topics import delete_records
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import EARLIEST
from twinlog.kafka.record.batch import scan
from twinlog.kafka.record.builder import MAX_RECORDS
from twinlog.kafka.record.compression import GZIP, ZSTD
from twinlog.kafka.retry import PARTITION_RECOVERY
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

_PRODUCE, _WITH_ZSTD = 0, 7
"""The first version of a produce request with zstd (KIP-110)."""

DELETED_AT_ONCE = 1 << 27
"""The fillers of a step of DeleteRecords: 59 MB with zstd. Brokers free whole segments only, some minutes later."""


@dataclass(slots=True)
class _Filling:
    """The fillers of a partition: deleted up to the offset `deleted`, and with the timestamp in ms of the first record.

    `unstored`: the next copier would end the work at an earlier offset.
    """

    deleted: SourceOffset
    timestamp: int | None = None
    unstored: bool = False


class OffsetFillers:
    """Fills the first offsets of the remote logs of a copier's `partitions`."""

    def __init__(
        self, context: CopierContext, partitions: Mapping[TopicPartition, PartitionCopy], committer: OffsetCommitter
    ) -> None:
        self._context = context
        self._committer = committer
        self._loop = context.loop
        self._target = context.target
        self._partitions = partitions

    async def fill(self, part: PartitionCopy) -> None:
        """Fill the offsets before the first source offset to copy, delete the fillers, and have the partition read.

        Only fillers are deleted: the copies begin at that offset. If the source deletes its first records meanwhile,
        the copies begin after these records.
        """
        backoff = PARTITION_RECOVERY.backoff()
        filling = _Filling(part.acknowledged.next_source)
        while not part.left and not part.failed and self._has(part):
            try:
                if await self._take_step(part, filling):
                    part.end_filling()
                    return
            except TwinlogError as error:
                if not isinstance(error, ClusterError) or isinstance(error, RefusedError):
                    part.fail_partition(error)
                    return
                part.report_trouble(str(error))
                await self._loop.sleep(backoff.count_failure())

    async def _take_step(self, part: PartitionCopy, filling: _Filling) -> bool:
        """Append fillers, delete some of them, or wait; returns whether all are deleted."""
        position = part.acknowledged
        assert position.kept_from is not None
        if filling.unstored:
            # The next copier must find all fillers before the first offset to copy, and delete them.
            await self._committer.store_position(part)
            filling.unstored = False
        elif part.state.unstored or part.misplaced is not None:
            await self._context.moved.wait(0.05)
        elif part.read.offset < position.kept_from and len(part.queue.pending) < PORTION:
            await self._append(part, position.kept_from, filling)
        elif position.next_source - MAX_RECORDS - filling.deleted >= DELETED_AT_ONCE:
            before = SourceOffset(position.next_source - MAX_RECORDS)
            if await self._delete(part, TargetOffset(before)):
                filling.deleted = before
        elif not part.arrived or position.next_source < position.kept_from:
            await self._context.moved.wait(0.05)
        elif (first := await self._first_left(part)) > position.kept_from:
            part.begin_later(first)
            filling.unstored = True
        else:
            return await self._delete(part, TargetOffset(position.kept_from))
        return False

    async def _append(self, part: PartitionCopy, end: SourceOffset, filling: _Filling) -> None:
        """Append the next fillers up to the offset `end`, so that some always wait for the target."""
        if filling.timestamp is None:
            filling.timestamp = await self._first_timestamp(part, end)
            return
        codec = ZSTD if self._target.supports(_PRODUCE, _WITH_ZSTD) else GZIP
        most = PORTION - len(part.queue.pending)
        most_bytes = part.limit.rules.max_batch_bytes
        part.fill_offsets(make_fillers(part.read.offset, end, filling.timestamp, codec, most_bytes, most))

    def _has(self, part: PartitionCopy) -> bool:
        return not self._context.stopped and self._partitions.get(part.source) is part

    async def _first_left(self, part: PartitionCopy) -> SourceOffset:
        """The first offset that the source still has. Raises ClusterError."""
        source = self._context.source
        await source.refresh_soon([part.source.topic])
        return SourceOffset(await find_offset(source, part.source, EARLIEST))

    async def _first_timestamp(self, part: PartitionCopy, first: SourceOffset) -> int:
        """The timestamp in ms of the first record to copy, so that fillers pass wherever this record passes.

        At the end of the source it is the present time.
        """
        await self._context.source.refresh_soon([part.source.topic])
        async for fetched, _ in chunks(
            self._context.source, part.source, first, committed=False, known=False, most_bytes=1
        ):
            for batch in scan(fetched.records):
                return batch.max_timestamp if batch.is_log_append_time else batch.base_timestamp
        return wall_ms(self._loop.clock)

    async def _delete(self, part: PartitionCopy, before: TargetOffset) -> bool:
        """Delete the fillers; returns False if the partition failed."""
        await self._target.refresh_soon([part.remote.topic])
        if await delete_records(self._target, part.remote, before) == Code.NONE:
            return True
        part.fail_partition(
            OffsetHoleError(
                f"{part.source}: the first source offset is {before}, and {part.remote} keeps the records before it: "
                "cleanup.policy of its topic lacks delete",
                way_out=f"set cleanup.policy of {part.remote.topic} to delete, or twinlog.offsets = translated for the "
                "topic",
            )
        )
        return False
