"""Recovers a stalled partition: after a gap on the source, a loss on the target, or a record above the limit."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from twinlog.copier.offset_committer import OffsetCommitter
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.start.gap_check import GapCheck
from twinlog.copier.start.producer_ids import ProducerIds
from twinlog.copier.start.start_position import StartPositions
from twinlog.errors import ClusterError, EngineLostError, TwinlogError
from twinlog.kafka.admin.topics import describe_configs
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.partition_reader import SourceReader
from twinlog.kafka.retry import PARTITION_RECOVERY, RetryPolicy
from twinlog.mirror.gaps import UNKNOWN
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.topics import largest_batch
from twinlog.model.types import SourceOffset, TopicName, TopicPartition


class Recovery:
    """Recovers stalled partitions; after each step a partition copies or has failed."""

    def __init__(
        self,
        context: CopierContext,
        partitions: Mapping[TopicPartition, PartitionCopy],
        gap_check: GapCheck,
        start_positions: StartPositions,
        ids: ProducerIds,
        committer: OffsetCommitter,
        reader: SourceReader,
    ) -> None:
        self._context = context
        self._loop = context.loop
        self._settings = context.settings
        self._partitions = partitions
        self._gap_check = gap_check
        self._start_positions = start_positions
        self._ids = ids
        self._committer = committer
        self._reader = reader
        self._moved = context.moved
        self._checking: set[PartitionCopy] = set()
        self._resolving: set[PartitionCopy] = set()

    def _has(self, part: PartitionCopy) -> bool:
        """Whether the copier works and still has the partition."""
        return not self._context.stopped and self._partitions.get(part.source) is part

    async def pause(self, part: PartitionCopy, refusals: int) -> None:
        """The source refused a fetch of a partition that paused: look for the leader, and fetch again after a pause."""
        self._reader.refresh()
        client = self._settings.consumer.client
        await self._loop.sleep(RetryPolicy.of(client).pause_s(refusals))
        part.resume()

    async def check_source(self, part: PartitionCopy, end: SourceOffset | None) -> None:
        """The source lacks the next offset of a partition: find the reason, then stop or continue by policy."""
        await _once(self._checking, part, lambda: self._check(part, end))

    async def _check(self, part: PartitionCopy, end: SourceOffset | None) -> None:
        backoff = PARTITION_RECOVERY.backoff()
        while not part.left and self._has(part):
            if not part.at_rest:
                await self._moved.wait(0.05)
                continue
            # Recovery on the target may have it read again meanwhile, which would copy the same records twice.
            part.pause()
            before = part.acknowledged
            try:
                diverging_end = UNKNOWN if end is None else end
                position = await self._gap_check.find_position(
                    part.acknowledged, part.source, part.grant, diverging_end
                )
            except ClusterError as error:
                part.report_trouble(str(error))
                await self._loop.sleep(backoff.count_failure())
                continue
            except TwinlogError as error:
                part.fail_partition(error)
                return
            if end is not None and position == part.acknowledged:
                # All records are there, so only the leader epoch was wrong. A request with this epoch would fail again.
                position = replace(position, leader_epoch=-1)
                await self._loop.sleep(PARTITION_RECOVERY.first_s)
            if part.acknowledged is before and part.at_rest:
                part.seek(position)
                return
            # Recovery on the target has moved the position meanwhile.

    async def resolve_again(self, part: PartitionCopy) -> None:
        """The target lost the state of this producer: read the arrived records, and continue after them.

        If the arrived records explain the error, the producer continues with the sequence numbers of the log, otherwise
        under a new epoch (KIP-360). The new writer is stored first, for the next copier. A position that went back
        because the target lost records is stored first, too.
        """
        await _once(self._resolving, part, lambda: self._resolve_until(part))

    async def _resolve_until(self, part: PartitionCopy) -> None:
        moved = False
        backoff = PARTITION_RECOVERY.backoff()
        # If the partition were released now, its next copier would miss the loss.
        while (not part.left or part.misplaced is not None) and not part.failed and self._has(part):
            try:
                moved = moved or await self._resolve(part)
                if moved:
                    await self._committer.store_position(part)
            except (ClusterError, EngineLostError) as error:
                part.report_trouble(str(error))
            except TwinlogError as error:
                part.fail_partition(error)
                return
            else:
                if moved:
                    part.stored()
                    return
            await self._loop.sleep(backoff.count_failure())

    async def copy_again(self, part: PartitionCopy) -> None:
        """The target lost committed records: find them, and copy them again. All transactions are closed."""
        await _once(self._resolving, part, lambda: self._copy_again(part))

    async def _copy_again(self, part: PartitionCopy) -> None:
        backoff = PARTITION_RECOVERY.backoff()
        while part.misplaced is not None and not part.failed and self._has(part):
            before = part.committed
            grant = replace(part.grant, position=before, drained=False)
            try:
                found = await self._start_positions.after_what_is_left(grant, part.misplaced.end, before.next_source)
            except (ClusterError, EngineLostError) as error:
                part.report_trouble(str(error))
                await self._loop.sleep(backoff.count_failure())
            except TwinlogError as error:
                part.fail_partition(error)
            else:
                part.copy_again(replace(found, writer=None))

    async def _resolve(self, part: PartitionCopy) -> bool:
        """Move a partition past the arrived records.

        Returns False while these records are unknown. Raises the error that prevents the move.
        """
        # The stored map names the source offsets of lost records.
        await self._committer.store_position(part)
        grant = part.grant_again()
        runs: Sequence[CopiedRun] = ()
        found: Position | None
        if part.misplaced is None:
            resolved = await self._start_positions.find_positions([grant])
            if resolved.errors:
                raise resolved.errors[grant.source]
            found, runs = resolved.positions.get(grant.source), resolved.runs.get(grant.source, ())
            if found is None:
                return False
            difference = resolved.differences.get(grant.source)
            if difference is not None and not part.take_difference(difference):
                return False
        else:
            while part.queue.in_flight:
                await self._moved.wait(0.05)
            found = await self._start_positions.after_what_is_left(
                grant, part.misplaced.end, part.misplaced.next_source
            )
            if found.remote_topic_id != part.acknowledged.remote_topic_id:
                runs = part.misplaced.runs.take_runs()
        writer = found.writer
        if writer is None or writer == part.acknowledged.writer:
            identity = await self._ids.continue_identity(part.queue.identity)
            writer = Writer(identity.producer_id, identity.epoch, 0)
        if part.failed or (part.left and part.misplaced is None):
            return False
        part.set_writer(writer, found, runs)
        return True


async def _once(
    at_work: set[PartitionCopy], part: PartitionCopy, step: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Do a step for a partition, unless the step is running already: a partition may ask more than once."""
    if part in at_work:
        return
    at_work.add(part)
    try:
        await step()
    finally:
        at_work.discard(part)


FOLLOWS_S = 15.0
"""How long a record waits for the remote topic's limit to follow its source's limit."""

LOOK_S = 0.5
LIMIT_EVENT = "limit"
"""The kind of event on which the driver brings settings up to date at once."""


class MaxMessageBytes:
    """Reads limits for the partitions of a copier; an event asks the driver to raise a limit."""

    def __init__(self, context: CopierContext) -> None:
        self._context = context
        self._loop = context.loop
        self._source = context.source
        self._target = context.target
        self._follows = context.settings.sync_topic_configs_interval_s is not None

    async def refresh_limit(self, part: PartitionCopy) -> None:
        """Read the current limit of the remote topic and let the partition continue with it, raised or unchanged."""
        reported = False
        deadline = self._loop.clock.monotonic() + FOLLOWS_S
        while not part.left:
            try:
                limit = await _limit(self._target, part.remote.topic)
                wanted = await _limit(self._source, part.source.topic)
            except ClusterError as error:
                part.report_trouble(str(error))
                await self._loop.sleep(LOOK_S)
                continue
            known = part.limit.topic_bytes
            awaited = self._follows and limit is not None and wanted is not None and known >= limit < wanted
            if not awaited or self._loop.clock.monotonic() > deadline:
                part.take_limit(limit)
                return
            text = f"a record does not fit, {part.remote.topic} takes {limit} bytes and {part.source.topic} {wanted}"
            part.report_trouble(text)
            if not reported:
                reported = True
                self._context.report_event(LIMIT_EVENT, f"{text}; the settings of both are compared now")
            await self._loop.sleep(LOOK_S)


async def _limit(client: ClusterClient, topic: TopicName) -> int | None:
    """The topic's `max.message.bytes`, or None if the answer lacks the topic."""
    found, _ = await describe_configs(client, [topic])
    return largest_batch(found.get(topic, ()))
