"""The stored exact maps of granted partitions, and the limit of reads at the same time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Mapping
from typing import Any

from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.topic_pages import TopicPages
from twinlog.kafka.net.loop import Loop, Signal
from twinlog.kafka.record.last_records import LastRecords, keep_last
from twinlog.mirror.offsets.exact_map import ExactMap
from twinlog.mirror.offsets.maps import ExactMaps
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import partition_name, split_segment_key
from twinlog.model.types import TopicName, TopicPartition


class KeyedSemaphore:
    """`total` permits, at most `each` of them for the same key.

    Callers get permits in their order; callers of a full key are passed over. A returned permit goes to the caller that
    waits longest, before any new caller.
    """

    def __init__(self, loop: Loop, total: int, each: int) -> None:
        self._loop = loop
        self._total = total
        self._each = each
        self._taken: Counter[Hashable] = Counter()
        self._waiting: deque[tuple[Hashable, Signal]] = deque()

    def make_permit(self, key: Hashable) -> Permit:
        """Make a permit for a key; `async with` holds it."""
        return Permit(self, key)

    async def acquire(self, key: Hashable) -> None:
        """Wait for a permit."""
        if self._free(key):
            self._taken[key] += 1
            return
        given = self._loop.signal()
        self._waiting.append((key, given))
        await given.wait()

    def release(self, key: Hashable) -> None:
        """Give a permit back."""
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]
        for one in list(self._waiting):
            waiting, given = one
            if self._free(waiting):
                self._waiting.remove(one)
                self._taken[waiting] += 1
                given.set()
                return

    def _free(self, key: Hashable) -> bool:
        return self._taken[key] < self._each and self._taken.total() < self._total


class Permit:
    """A permit of a semaphore."""

    __slots__ = ("_key", "_semaphore")

    def __init__(self, semaphore: KeyedSemaphore, key: Hashable) -> None:
        self._semaphore = semaphore
        self._key = key

    async def __aenter__(self) -> None:
        await self._semaphore.acquire(self._key)

    async def __aexit__(self, *_: object) -> None:
        self._semaphore.release(self._key)


ROUND_S = 0.05
"""How long a read waits for further partitions that need it: a broker that lost its log lost the logs of many
partitions."""

STALLED_S = 60.0
"""A read without records for this time ends with an error, as when a quota throttles it."""


class StoredMaps:
    """The maps in a topic.

    The topic is read from its begin to its end, once for all callers that ask at the same time.
    """

    def __init__(self, target: ClusterClient, topic: TopicName) -> None:
        self._target = target
        self._topic = topic
        self._wanted: dict[TopicPartition, Position] = {}
        self._round: Any = None

    async def read(self, positions: Mapping[TopicPartition, Position]) -> Mapping[TopicPartition, ExactMap]:
        """The maps of source partitions up to the given positions; partitions whose map is missing are left out.

        Raises ClusterError.
        """
        self._wanted |= positions
        if self._round is None:
            self._round = self._target.loop.spawn(self._read_together)
        found: Mapping[TopicPartition, ExactMap] = await self._round
        return found

    async def _read_together(self) -> Mapping[TopicPartition, ExactMap]:
        await self._target.loop.sleep(ROUND_S)
        wanted, self._wanted, self._round = self._wanted, {}, None
        maps = ExactMaps()
        maps.apply_records(await self._records(wanted))
        for partition, position in wanted.items():
            if position.next_target is not None:
                maps.extend_map(partition, position.next_source, position.next_target, generation=position.generation)
        return {partition: known for partition in wanted if (known := maps.map(partition)) is not None}

    async def _records(self, wanted: Mapping[TopicPartition, Position]) -> list[tuple[bytes | None, bytes | None]]:
        pages = TopicPages(self._target, self._topic, stalled_s=STALLED_S)
        reading = pages.begin_scan()
        records: list[tuple[bytes | None, bytes | None]] = []
        names = {partition_name(partition) for partition in wanted}
        while answers := await reading.page():
            for fetched in answers:
                for partition, answer, batch in pages.visible(fetched):
                    # The topic may have a million records, mostly of other partitions; only records of wanted
                    # partitions are decoded.
                    last: LastRecords = {}
                    keep_last(answer.records, batch, pages.next_offset(partition), last)
                    for key, record in last.items():
                        parts = split_segment_key(key)
                        if parts is not None and parts[0] in names:
                            records.append((key, record.value()))
        return records
