"""Reads exact maps from the target, for partitions whose records the target lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.topic_pages import TopicPages
from twinlog.kafka.record.last_records import LastRecords, keep_last
from twinlog.mirror.offsets.exact_map import ExactMap
from twinlog.mirror.offsets.maps import ExactMaps
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import partition_name, split_segment_key
from twinlog.model.types import TopicName, TopicPartition

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
