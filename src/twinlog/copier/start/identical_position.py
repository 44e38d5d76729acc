"""Finds the position of a partition whose copies keep the offsets of their sources: the end of its remote log.

The next record of the target has the next offset of the source, so the end of the log is the position. Both logs are
compared from the stored position on; if the position is missing, at the last record. Markers and aborted records have
the same offsets on both sides, too. A difference holds the partition, because every later offset would be wrong.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace

from twinlog.batches.fillers import are_fillers
from twinlog.copier.start.first_look import find_offset, log_starts
from twinlog.copier.start.gap_check import GapCheck
from twinlog.copier.start.log_reader import CHUNK_BYTES, chunks
from twinlog.copier.start.producer_ids import fencing
from twinlog.copier.start.resume_after_crash import writer_after
from twinlog.errors import DivergedError
from twinlog.kafka.admin.partition_states import require_current_id
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol.offsets import LATEST
from twinlog.kafka.record.batch import AbortedFilter, Batch, scan
from twinlog.kafka.record.records import is_abort_marker, record_bodies
from twinlog.kafka.record.stamp import sequence_after
from twinlog.lease.messages import Grant
from twinlog.mirror.gaps import find_gap
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

LOOK_BACK = 1_000
"""How many offsets before the end of a log are searched for a record, if the last offset is a marker."""


@dataclass(frozen=True, slots=True)
class _LoggedBatch:
    """A batch of a log, and its records as (offset, timestamp in ms, body); a marker has no record."""

    batch: Batch
    records: list[tuple[int, int, bytes]]

    def places(self) -> Iterator[tuple[int, int, bytes | None]]:
        """The records, and in the place of a marker None."""
        if self.batch.is_control:
            yield self.batch.last_offset, -1, None
        yield from self.records

    @property
    def fills(self) -> bool:
        """Whether the records of the batch are fillers."""
        return are_fillers([body for _, _, body in self.records])


class IdenticalPositions:
    """The positions of partitions whose copies keep their offsets."""

    def __init__(self, source: ClusterClient, target: ClusterClient, gap_check: GapCheck) -> None:
        self._source = source
        self._target = target
        self._gap_check = gap_check

    async def find_position(
        self,
        grant: Grant,
        end: TargetOffset,
        first: SourceOffset | None,
        topic_id: str | None,
        remote_id: str | None,
    ) -> Position:
        """The position at the end of a remote log that is at rest and ends at `end`.

        `first` is the first source offset to copy by the start rule, None if a stored position has it. The ids are
        those of both topics now. Raises DivergedError if the remote log has other records than the source, GapError if
        the source topic was recreated, ClusterError.
        """
        stored = grant.position if grant.position is not None and grant.position.kept_from is not None else None
        if stored is not None and _differ(stored.remote_topic_id, remote_id):
            await require_current_id(self._target, grant.remote)
            stored = None if end else replace(stored, writer=None)
        source_start, start = await log_starts(self._source, self._target, grant)
        now = Position(SourceOffset(end), end, -1, topic_id, remote_id, remote_topic=grant.remote.topic)
        recreated = stored is not None and _differ(stored.topic_id, topic_id)
        if not end:
            known = None if stored is None or recreated else stored.kept_from
            kept_from = max(source_start, first or SourceOffset(0), known or SourceOffset(0))
            writer = None if stored is None else _writer_at(stored, end, None)
            return replace(now, kept_from=kept_from, writer=writer)
        if stored is not None and recreated:
            await require_current_id(self._source, grant.source)
            gap = find_gap(stored.next_source, source_start, SourceOffset(0), recreated=True)
            assert gap is not None
            self._gap_check.handle_gap(gap, grant, stored, topic_id)
        if stored is None:
            return await self._without_stored(grant, now, first, remote_id, source_start, start)
        assert stored.kept_from is not None
        assert stored.next_target is not None
        now = replace(now, kept_from=stored.kept_from)
        if stored.next_target == end:
            now = replace(now, leader_epoch=stored.leader_epoch)
        if end <= stored.kept_from:
            last = await self._last_batch(grant.remote, end) if start < end else None
            if last is not None and not last.fills:
                raise _diverged(grant, TargetOffset(end - 1), "before the first record that is copied")
            writer = _writer_at(stored, end, None if last is None else last.batch)
            return replace(now, writer=writer, kept_from=max(stored.kept_from, source_start))
        if grant.drained and stored.next_target == end:
            return replace(now, writer=stored.writer)
        since = max(min(stored.next_target, end - 1), start, source_start, stored.kept_from)
        if stored.writer is not None:
            unseen = max(stored.next_target, start)
            await self._require_own(grant, stored.writer, unseen, min(since, end))
        await self._compare(grant, since, end, stored.next_target)
        last_own = None
        if stored.writer is not None and stored.next_target < end:
            last_own = await self._last_of(grant.remote, stored.writer, max(stored.next_target, start), end)
            if last_own is None:
                # Only markers and aborted records follow the position, or the target deleted the records that follow.
                return replace(now, writer=stored.writer if start <= stored.next_target else fencing(stored.writer))
        return replace(now, writer=_writer_at(stored, end, last_own))

    async def _without_stored(
        self,
        grant: Grant,
        now: Position,
        first: SourceOffset | None,
        remote_id: str | None,
        source_start: SourceOffset,
        start: TargetOffset,
    ) -> Position:
        """The position at the end of a remote log that has no stored position, and begins at `start`."""
        end = TargetOffset(now.next_source)
        begun = SourceOffset(start)
        last = await self._last_batch(grant.remote, end) if start < end else None
        writer = _writer_of(last)
        if last.fills if last is not None else end <= (first or 0):
            # The first copy is still to come.
            begun = max(SourceOffset(end), first or SourceOffset(0), source_start)
        elif grant.position is not None and _has_translated(grant.position, remote_id, end):
            before = end if grant.position.next_target is None else grant.position.next_target
            raise DivergedError(
                f"{grant.source}: {grant.remote} has diverged: it has copies with translated offsets, with the "
                f"copy of source offset {grant.position.next_source - 1} before offset {before}"
            )
        else:
            # Markers may be the last offsets.
            since = end - 1 if last is not None and not last.batch.is_control else end - LOOK_BACK
            since = max(since, start, source_start)
            compared = 0 if source_start >= end else await self._compare(grant, since, end, end)
            # A log of markers alone, as after a compaction of the source, fits each source.
            markers = last is not None and since <= start
            if not compared and not (markers and not await self._has_records(grant.remote, start, end)):
                raise DivergedError(
                    f"{grant.source}: {grant.remote} may have diverged: it ends at offset {end}, its position is "
                    "missing, and both logs lack a common record to compare"
                )
            if writer is None:
                async for found in _batches(self._target, grant.remote, max(end - LOOK_BACK, start), end):
                    writer = _writer_of(found) or writer
        return replace(now, kept_from=begun, writer=writer)

    async def _last_batch(self, remote: TopicPartition, end: TargetOffset) -> _LoggedBatch | None:
        """The batch before the end of a log; None if compaction removed it."""
        async for found in _batches(self._target, remote, end - 1, end, most_bytes=1):
            return found
        return None

    async def _has_records(self, remote: TopicPartition, start: TargetOffset, end: TargetOffset) -> bool:
        """Whether a log has a record between its two bounds, or offsets that the target does not return."""
        past: int = start
        async for found in _batches(self._target, remote, start, end):
            if found.records:
                return True
            past = found.batch.last_offset + 1
        return past < end

    async def _last_of(self, remote: TopicPartition, writer: Writer, since: int, end: TargetOffset) -> Batch | None:
        """The last batch of a writer between two offsets of a log; None if there is none."""
        last = None
        async for found in _batches(self._target, remote, since, end):
            if found.batch.producer_id == writer.producer_id and not found.batch.is_control:
                last = found.batch
        return last

    async def _require_own(self, grant: Grant, writer: Writer, since: int, until: int) -> None:
        """Require that the records from offset `since` up to `until`, which the source has deleted, are of a writer.

        Records of applications must not pass for copies, because the copies of deleted records are deleted, too. Raises
        DivergedError.
        """
        if since >= until:
            return
        # Copies of aborted records have producers of their own. A committed reader leaves them out, and reads up to the
        # first open transaction, which may be of a lost copier.
        past = since
        for committed in (True, False):
            async for found in _batches(self._target, grant.remote, past, until, committed=committed):
                batch = found.batch
                own = batch.producer_id == writer.producer_id or batch.is_control
                own = own or (batch.is_transactional and not committed)
                if since <= batch.base_offset < until and not own:
                    raise DivergedError(
                        f"{grant.source}: {grant.remote} has diverged: at offset {batch.base_offset} it has a record "
                        f"of another producer, and {grant.source} has deleted its record"
                    )
                past = batch.last_offset + 1
            if past >= until:
                return

    async def _compare(self, grant: Grant, since: int, end: TargetOffset, acknowledged: TargetOffset) -> int:
        """Compare the records of both logs from offset `since` up to `end`; returns the number of compared offsets.

        Records that the source has lost or compacted meanwhile are left out. `acknowledged` is the end of the remote
        log by the stored position. Raises DivergedError at the first difference.
        """
        source_end = await find_offset(self._source, grant.source, LATEST)
        compared = await self._count_equal(grant, since, min(end, source_end))
        if acknowledged <= source_end < end:
            # A record that the source appends now would be left out, because its offset is taken. A source that ends
            # before the acknowledged records was cut back: this is a gap.
            raise DivergedError(
                f"{grant.source}: {grant.remote} has diverged: at offset {source_end} it has a record, and "
                f"{grant.source} ends there"
            )
        return compared

    async def _count_equal(self, grant: Grant, since: int, until: int) -> int:
        """The number of records and markers from offset `since` up to `until`, which are equal. Raises DivergedError.

        An offset that one of the logs lacks was compacted there; the other log may still have its record or a marker.
        """
        compared = 0
        if since >= until:
            return 0
        originals = self._originals(grant.source, since, until)
        original = await anext(originals, None)
        async for copies in _batches(self._target, grant.remote, since, until):
            for offset, timestamp, body in copies.places():
                if not since <= offset < until:
                    continue
                while original is not None and original[0] < offset:
                    original = await anext(originals, None)
                if original is None or original[0] != offset:
                    continue
                _, sent_at, sent = original
                if (body is None) != (sent is None):
                    raise _diverged(grant, TargetOffset(offset), "a marker" if body is None else "a record")
                compared += 1
                if body is None:
                    continue
                same_time = copies.batch.is_log_append_time or sent_at == timestamp
                if sent != body or not same_time:
                    raise _diverged(grant, TargetOffset(offset), "another record")
        return compared

    async def _originals(
        self, source: TopicPartition, begin: int, end: int
    ) -> AsyncIterator[tuple[int, int, bytes | None]]:
        async for found in _batches(self._source, source, begin, end):
            for place in found.places():
                yield place


async def _batches(
    client: ClusterClient,
    partition: TopicPartition,
    begin: int,
    end: int,
    *,
    committed: bool = False,
    most_bytes: int = CHUNK_BYTES,
) -> AsyncIterator[_LoggedBatch]:
    """The batches of a log from offset `begin` up to offset `end`; with `committed` without those of open and aborted
    transactions. Raises ClusterError if `begin` is gone."""
    at = begin
    async for fetched, go_on in chunks(client, partition, at, committed=committed, known=True, most_bytes=most_bytes):
        view, hidden = fetched.records, AbortedFilter(fetched.aborted if committed else ())
        for batch in scan(view):
            gone = hidden.hides(batch, abort_marker=is_abort_marker(view, batch))
            if batch.last_offset >= at:
                at = batch.last_offset + 1
                if gone:
                    if at >= end:
                        return
                    continue
                bodies = () if batch.is_control else record_bodies(view, batch)
                yield _LoggedBatch(batch, [(offset, sent_at, bytes(body)) for offset, sent_at, body in bodies])
                if at >= end:
                    return
        go_on(at)


def _differ(one: str | None, other: str | None) -> bool:
    """Whether two ids of a topic are known and differ."""
    return None not in (one, other) and one != other


def _has_translated(position: Position, remote_id: str | None, end: TargetOffset) -> bool:
    """Whether a stored position tells that the remote log has copies at other offsets than their sources.

    The log ends at `end`. MirrorMaker 2 stores no target offset, so only a log that is too short tells it.
    """
    if position.kept_from is not None or _differ(position.remote_topic_id, remote_id):
        return False
    if position.next_target is None:
        return SourceOffset(end) < position.next_source
    return SourceOffset(position.next_target) != position.next_source


def _writer_at(stored: Position, end: TargetOffset, last: Batch | None) -> Writer | None:
    """The writer of the next record in a log that ends at `end`; `last` is the last batch, None if it is deleted.

    If the log has lost records, its former appends are fenced.
    """
    writer, counted = stored.writer, stored.next_target
    if writer is None or counted is None or end == counted:
        return writer
    if end < counted:
        return fencing(writer)
    if last is not None:
        return writer_after(writer, last)
    return replace(writer, sequence=sequence_after(writer.sequence, end - counted))


def _writer_of(last: _LoggedBatch | None) -> Writer | None:
    """The writer that continues a log whose position is missing: late appends of an earlier copier are its own."""
    if last is None or last.batch.producer_id < 0 or last.batch.is_transactional:
        return None
    batch = last.batch
    return Writer(
        batch.producer_id, batch.producer_epoch, sequence_after(batch.base_sequence, batch.last_offset_delta + 1)
    )


def _diverged(grant: Grant, at: TargetOffset, what: str) -> DivergedError:
    return DivergedError(
        f"{grant.source}: {grant.remote} has diverged: at offset {at} it has {what}, other than {grant.source}"
    )
