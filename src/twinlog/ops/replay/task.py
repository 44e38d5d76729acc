"""A Spark task of a replay: copies ranges of partitions into logs of their own, behind arrived records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

from twinlog.batches.arrow.bodies import first_difference, same_bytes
from twinlog.batches.prepare import prepare
from twinlog.errors import ClusterError, CopyError, GapError, TwinlogError
from twinlog.errors.message_ids import told
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.appends import Append, CopyRules
from twinlog.kafka.protocol.offsets import EARLIEST, LATEST
from twinlog.kafka.record.batch import HEADER_SIZE, read_batch
from twinlog.kafka.record.builder import encode_batch
from twinlog.kafka.record.records import record_bodies
from twinlog.kafka.retry import TASK_CONNECT_S
from twinlog.model.amounts import counted
from twinlog.model.types import SourceOffset
from twinlog.ops.replay.appender import PartitionAppender
from twinlog.ops.replay.model import PartitionToReplay, ReplayResult, ReplayRules
from twinlog.ops.verify.log_reader import ClusterLogs, LogReader
from twinlog.settings.client import ConsumerSettings


class ReplayedRecords(NamedTuple):
    """So many records are there, and the source offset after the last of them."""

    records: int
    next_source: int


def find_arrived(source: LogReader, into: LogReader, *, begin_lost: bool = False) -> ReplayedRecords:
    """Compare the whole content of the topic with the source's range from its begin on.

    Raises CopyError if the topic has other records: it belongs to another replay, or with `begin_lost` it may have
    records that the source has deleted since.
    """
    count = 0
    while True:
        ours, theirs = source.whole_batch(source.end), into.whole_batch(into.end)
        if ours is not None and theirs is not None:
            (records, batch), (copies, copy) = ours, theirs
            if (
                (batch.record_count, batch.length, batch.base_timestamp, batch.codec, batch.is_log_append_time)
                == (copy.record_count, copy.length, copy.base_timestamp, copy.codec, False)
            ) and same_bytes(
                records[batch.start + HEADER_SIZE : batch.end], copies[copy.start + HEADER_SIZE : copy.end]
            ):
                count += batch.record_count
                source.skip_batch()
                into.skip_batch()
                continue
        there, _ = into.rows(into.end)
        if there is None:
            return ReplayedRecords(count, source.position)
        mine, _ = source.rows(source.end)
        same = 0 if mine is None else first_difference(mine, there)
        if mine is None or (same < min(len(mine), len(there))):
            if begin_lost and not count and not same:
                raise CopyError(
                    f"{source.partition} begins at offset {source.position} by now (retention), and {into.partition} "
                    "with another record: earlier copies of an earlier replay are impossible to compare by now; give "
                    "another topic for the rest (--into), or delete this topic"
                )
            at, place = int(there.offsets[same]), source.position if mine is None else int(mine.offsets[same])
            raise CopyError(
                f"{into.partition} has at offset {at} another record than {source.partition} at offset {place}: an "
                "earlier replay of this range would have left the same record; give another topic (--into), or "
                "delete this topic"
            )
        count += same
        source.discard_before(int(mine.offsets[same - 1]) + 1)
        into.discard_before(int(there.offsets[same - 1]) + 1)
        source.more_at_once()
        into.more_at_once()


LOOK_S = 0.2


class Replay:
    """Connections to both clusters of a flow, for a single thread."""

    def __init__(self, rules: ReplayRules, loop: Loop) -> None:
        flow = rules.flow
        self._rules = rules
        self._loop = loop
        self._source = ClusterLogs(loop, flow.source, flow.consumer)
        self._target = ClusterLogs(loop, flow.target, ConsumerSettings(flow.producer.client))

    def close(self) -> None:
        self._source.close()
        self._target.close()
        self._loop.close()

    def copy(self, part: PartitionToReplay, progress: Callable[[int], None] = lambda _: None) -> ReplayResult:
        """Copy the missing records of a range; the row has the problem of a failure."""
        row = ReplayResult(part, problem=part.problem)
        if part.problem is not None:
            return row
        try:
            arrived = self._arrived(part)
            progress(arrived.next_source - part.start)
            row = replace(row, found=arrived.records)
            with closing(self._appended(part, arrived)) as copied:
                for count, size, offsets in copied:
                    row = replace(row, appended=row.appended + count, bytes=row.bytes + size)
                    progress(offsets)
        except TwinlogError as error:
            row = replace(row, problem=told(error, "TW-USE-06"))
        return row

    def _arrived(self, part: PartitionToReplay) -> ReplayedRecords:
        """The records that are there once all appends have arrived: an earlier task may just have been killed."""
        arrived, end = ReplayedRecords(0, part.start), self._end(part)
        while end > arrived.records:
            into = LogReader(
                self._target, part.into, 0, end, committed=False, topic_id=None, patience_s=self._rules.patience_s
            )
            arrived = find_arrived(
                self._reader(part, part.start, lost=_refuse_to_compare(part)), into, begin_lost=part.begin_lost
            )
            if arrived.records != end:
                raise CopyError(
                    f"{part.into} has {counted(end - arrived.records, 'empty offset')}, so another producer wrote "
                    "to it, too; "
                    "give another topic (--into), or delete this topic"
                )
            end = self._end(part)
        return arrived

    def _end(self, part: PartitionToReplay) -> int:
        """The end of the topic's log, once all its replicas have it. Raises CopyError if the log lost its begin."""
        client, into, clock = self._target.client, part.into, self._loop.clock
        give_up_at = clock.monotonic() + self._rules.patience_s

        async def ask() -> tuple[int, int, int]:
            if not client.connected:
                await client.connect(TASK_CONNECT_S)
            await client.refresh([into.topic])
            start = await client.list_offsets([into], EARLIEST)
            own_end = await client.list_offsets([into], LATEST, log_end=True)
            end = await client.list_offsets([into], LATEST)
            return start.get(into, -1), own_end.get(into, -1), end.get(into, -1)

        while True:
            start, own_end, end = self._loop.run(ask)
            if start > 0:
                raise CopyError(
                    f"{into} has lost its first {counted(start, 'offset')}, so that its former records are unknown; "
                    "give another topic (--into), or delete this topic"
                )
            if start == 0 and own_end == end:
                return end
            if clock.monotonic() > give_up_at:
                raise ClusterError(f"cluster {client.alias}: {into} lacks a leader, or its replicas lag behind")
            self._loop.run(self._loop.sleep, LOOK_S)

    def _appended(self, part: PartitionToReplay, arrived: ReplayedRecords) -> Generator[tuple[int, int, int]]:
        """Copies fetch by fetch; yields records, bytes, and source offsets that are done."""
        flow, client = self._rules.flow, self._target.client
        reader = self._reader(part, arrived.next_source, lost=_refuse_loss(part))
        rules = CopyRules.of(flow, part.source.topic)
        rules = replace(rules, max_batch_bytes=part.max_batch_bytes, oversized="stop", keep_offsets=False)
        if client.far:
            rules = rules.merging_all()
        appender = PartitionAppender(client, part.into, arrived.records, flow.producer, self._rules.patience_s)
        position = SourceOffset(arrived.next_source)
        try:
            while (fetched := reader.raw()) is not None:
                records, aborted, past = fetched
                past = min(past, part.end)
                while position < past:
                    prepared = prepare(records, position, rules, aborted)
                    appends = [kept for one in prepared.appends if (kept := before(one, part.end)) is not None]
                    self._loop.run(appender.append, appends)
                    done = SourceOffset(min(prepared.position, part.end))
                    yield sum(one.count for one in appends), sum(one.bytes for one in appends), done - position
                    position = done
        finally:
            self._loop.run(appender.close)

    def _reader(self, part: PartitionToReplay, start: int, *, lost: Callable[[int, int], None]) -> LogReader:
        return LogReader(
            self._source,
            part.source,
            start,
            part.end,
            committed=self._rules.flow.consumer.isolation_level == "read_committed",
            topic_id=part.source_id,
            patience_s=self._rules.patience_s,
            lost=lost,
        )


def before(append: Append, end: int) -> Append | None:
    """Cut the records from a source offset on from an append; None if the append becomes empty."""
    kept = sum(max(0, min(count, end - first)) for first, count in append.spans)
    if kept == append.count:
        return append
    if not kept:
        return None
    batch = read_batch(append.data, 0)
    assert batch is not None
    found = [(timestamp, body) for _, timestamp, body in record_bodies(memoryview(append.data), batch)][:kept]
    return replace(append, data=encode_batch(found, batch.codec), count=kept)


def _refuse_to_compare(part: PartitionToReplay) -> Callable[[int, int], None]:
    def lost(start: int, end: int) -> None:
        raise GapError(
            f"{part.source}: the source deleted offsets {start} to {end - 1} (retention) before their comparison with "
            f"the copies in {part.into}; give another topic for the rest (--into), or delete this topic"
        )

    return lost


def _refuse_loss(part: PartitionToReplay) -> Callable[[int, int], None]:
    def lost(start: int, end: int) -> None:
        raise GapError(
            f"{part.source}: the source deleted offsets {start} to {end - 1} (retention) before they were copied; a "
            "range from a later offset on needs another topic (--into)"
        )

    return lost


def replay_partitions(
    parts: Iterable[PartitionToReplay], rules: ReplayRules, progress: Callable[[int], None] = lambda _: None
) -> Iterator[ReplayResult]:
    """Copy ranges in turn; `progress(offsets)` is called during the copying."""
    # kafka-python logs every lost connection as an error; a lasting error is in the row.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    replay = Replay(rules, Loop())
    try:
        for part in parts:
            yield replay.copy(part, progress)
    finally:
        replay.close()
