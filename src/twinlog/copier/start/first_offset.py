"""Where granted partitions begin that were never copied, by what the driver decided about each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol.list_offsets import EARLIEST, LATEST
from twinlog.lease.grant import Grant
from twinlog.mirror.offsets.starts import AT_FIRST, Begin
from twinlog.model.types import SourceOffset, TopicPartition


async def first_offsets(
    source: ClusterClient, grants: Sequence[Grant], *, read_committed: bool
) -> dict[TopicPartition, SourceOffset]:
    """The source offsets at which they begin, of those partitions whose leaders answer; asks each leader at most three
    times, whatever the number of partitions. Raises ClusterError and RefusedError."""
    by_place: dict[int | None, list[TopicPartition]] = defaultdict(list)
    found: dict[TopicPartition, SourceOffset] = {}
    for grant in grants:
        begin = _begin_of(source, grant)
        if begin.offset is not None:
            found[grant.source] = begin.offset
        else:
            by_place[begin.since_ms].append(grant.source)
    for since, partitions in by_place.items():
        # The end comes first: a record that is appended between two requests may be copied, and never be passed over.
        ends: dict[TopicPartition, int] = {}
        if since is not None:
            ends = await source.list_offsets(partitions, LATEST, read_committed=read_committed)
        at = EARLIEST if since is None else since
        offsets = await source.list_offsets(partitions, at, read_committed=read_committed and since is not None)
        for partition, offset in offsets.items():
            if offset >= 0:
                found[partition] = SourceOffset(offset)
            elif partition in ends:
                found[partition] = SourceOffset(ends[partition])
    return found


def _begin_of(source: ClusterClient, grant: Grant) -> Begin:
    """Where a partition begins: at its first record where its topic was recreated since that was decided."""
    known = source.topic(grant.source.topic)
    now = None if known is None or known.topic_id is None else str(known.topic_id)
    return AT_FIRST if None not in (now, grant.topic_id) and now != grant.topic_id else grant.begin
