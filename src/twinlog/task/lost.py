"""Finds what is to be copied again when the target lost records that it had acknowledged, as an unclean election does.

The exact map says where each record on the target came from (`offsets.maps`). The last record that is left is compared
with the one that the map names, because the target may have lost a part of the map as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.errors import ClusterError
from twinlog.kafka.client import EARLIEST, LATEST, ClusterClient
from twinlog.offsets.exact import ExactMap
from twinlog.offsets.maps import ExactMaps
from twinlog.offsets.positions import Position
from twinlog.offsets.segments import decode_segment_key
from twinlog.read.batches import scan
from twinlog.read.records import decode_records, record_bodies
from twinlog.task.grant import Grant
from twinlog.task.resume import chunks
from twinlog.types import TopicName, TopicPartition

HOLE = 32
"""So many target offsets in a row may be markers of transactions, or records of somebody else."""

NOTHING = -1

Stored = tuple[bool, int, bytes]
"""A record: whether its log stamped the time, its timestamp in ms and its body."""


@dataclass(frozen=True, slots=True)
class Place:
    """The source offset to copy on from; unless `exact`, what lies around it may be missing or there twice."""

    next_source: int
    exact: bool


async def find_place(
    source: ClusterClient,
    target: ClusterClient,
    segments: TopicName,
    grant: Grant,
    position: Position,
    start: int,
    end: int,
) -> Place | None:
    """Where the records come from that the remote log, from `start` to `end`, has not got any more.

    `position` is what was acknowledged, `segments` the topic of exact maps. None when no map says anything of that
    place. Raises ClusterError.
    """
    known = await _map(target, segments, grant.source, position)
    if known is None:
        return None

    async def original(at: int) -> int | None:
        """The source offset that the map names for the record at a target offset, or the last one before it, if the
        two are the same; NOTHING when there is no record."""
        for place in range(at, max(start, at - HOLE) - 1, -1):
            there = known.to_source(place)
            if there is None or not there.exact:
                return None
            back = known.to_target(there.offset)
            copy = await _record(target, grant.remote, place) if back is not None and back.offset == place else None
            if copy is not None:
                return there.offset if await _same(source, grant.source, there.offset, copy) else None
        return NOTHING

    last = await original(end - 1) if end > start else NOTHING
    if last == NOTHING and end - start <= HOLE:
        begin = known.to_source(start)
        return None if begin is None else Place(begin.offset, begin.exact)
    newest = known.to_source(end - 1)
    boundary = end
    if last is None and newest is not None and newest.exact:
        # Behind what is left there may be appends that came before the loss was seen.
        low, high = start, end - 1
        while low < high:
            middle = (low + high) // 2
            found = await original(middle)
            low, high, last = (middle + 1, high, found) if found is not None else (low, middle, last)
        # Where not even the first is the same, the map is of something else.
        boundary = end if last is None else low
    if last is not None and last != NOTHING:
        return Place(last + 1, True)
    begin = known.to_source(boundary)
    return None if begin is None else Place(begin.offset, False)


async def _map(
    target: ClusterClient, segments: TopicName, partition: TopicPartition, position: Position
) -> ExactMap | None:
    """The stored map of a partition, up to its position."""
    await target.refresh_soon([segments])
    where = TopicPartition(segments, 0)
    start = (await target.list_offsets([where], EARLIEST)).get(where)
    end = (await target.list_offsets([where], LATEST)).get(where)
    if start is None or end is None:
        raise ClusterError(f"cluster {target.alias}: {where} does not tell its offsets")
    records: list[tuple[bytes | None, bytes | None]] = []
    if start < end:
        async for fetched, go_on in chunks(target, where, start, committed=False, known=True):
            for batch in scan(fetched.records):
                start = max(start, batch.last_offset + 1)
                if batch.is_control:
                    continue
                for record in decode_records(fetched.records, batch):
                    of = decode_segment_key(record.key)
                    if of is not None and of.partition == partition:
                        records.append((record.key, record.value))
            if start >= end:
                break
            go_on(start)
    maps = ExactMaps()
    maps.take(records)
    if position.next_target is not None:
        maps.reach(partition, position.next_source, position.next_target, life=position.life)
    return maps.map(partition)


async def _same(source: ClusterClient, partition: TopicPartition, at: int, copy: Stored) -> bool:
    """Whether a record of the source and its copy are the same; True when the source has not got it any more."""
    original = await _record(source, partition, at)
    if original is None:
        return True
    (_, sent, body), (stamped, timestamp, copied) = original, copy
    return body == copied and (stamped or sent == timestamp)


async def _record(client: ClusterClient, partition: TopicPartition, offset: int) -> Stored | None:
    """The record at an offset; None when it is not there."""
    async for fetched, _ in chunks(client, partition, offset, committed=False, known=False):
        for batch in scan(fetched.records):
            if batch.is_control or not batch.base_offset <= offset <= batch.last_offset:
                continue
            for at, timestamp, body in record_bodies(fetched.records, batch):
                if at == offset:
                    return batch.is_log_append_time, timestamp, bytes(body)
        break
    return None
