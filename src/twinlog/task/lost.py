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
        """The source offset that the map names for the record at a target offset, if the two are the same."""
        there = known.to_source(at)
        if there is None or not there.exact:
            return None
        same = await _same(source, grant.source, there.offset, target, grant.remote, at)
        return there.offset if same else None

    last = await original(end - 1) if end > start else None
    newest = known.to_source(end - 1)
    if last is None and end > start and newest is not None and newest.exact:
        # Behind what is left there may be appends that came before the loss was seen.
        low, high = start, end - 1
        while low < high:
            middle = (low + high) // 2
            found = await original(middle)
            low, high, last = (middle + 1, high, found) if found is not None else (low, middle, last)
    if last is not None:
        return Place(last + 1, True)
    begin = known.to_source(end)
    return None if begin is None else Place(begin.offset, begin.exact and end == start)


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


async def _same(
    source: ClusterClient, there: TopicPartition, at: int, target: ClusterClient, here: TopicPartition, copied_at: int
) -> bool:
    """Whether a record and its copy are the same, as far as both can be read."""
    original = await _record(source, there, at)
    copy = await _record(target, here, copied_at)
    if original is None or copy is None:
        return True
    (_, sent, body), (stamped, timestamp, copied) = original, copy
    return body == copied and (stamped or sent == timestamp)


async def _record(client: ClusterClient, partition: TopicPartition, offset: int) -> tuple[bool, int, bytes] | None:
    """A record: whether its log stamped the time, its timestamp and its body; None when it is not there."""
    async for fetched, _ in chunks(client, partition, offset, committed=False, known=False):
        for batch in scan(fetched.records):
            if batch.is_control or not batch.base_offset <= offset <= batch.last_offset:
                continue
            for at, timestamp, body in record_bodies(fetched.records, batch):
                if at == offset:
                    return batch.is_log_append_time, timestamp, bytes(body)
        break
    return None
