"""Makes the grants of a flow: the position of each partition, and the largest batch of its remote topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from twinlog.lease.fencing import TransactionalIds
from twinlog.lease.grant import Grant
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.starts import AT_FIRST
from twinlog.model.types import TopicPartition
from twinlog.worker.flow.retrying import FlowRetrier
from twinlog.worker.topics.topic_refresh import TopicRefresh


class FlowGrants:
    """Reads the data of grants from the target; `retry` reads until the target answers, or the flow is stopped.

    `remote()` has each copied source partition with its remote partition, and may return another object each time.
    `is_held(partition)` is whether a partition is held.
    """

    def __init__(
        self,
        ids: TransactionalIds | None,
        retry: FlowRetrier,
        positions: PositionStore,
        maps: MapStore,
        topics: TopicRefresh,
        remote: Callable[[], Mapping[TopicPartition, TopicPartition]],
        is_held: Callable[[TopicPartition], bool],
    ) -> None:
        self._ids = ids
        self._retry = retry
        self._positions = positions
        self._maps = maps
        self._topics = topics
        self._remote = remote
        self._is_held = is_held

    def make_grants(self, partitions: Sequence[TopicPartition]) -> list[Grant]:
        """The grants that a copier needs to begin; waits until the positions are read from the target."""
        # Fence lost copiers first: only then is it certain which of their positions count.
        if self._ids is not None and not self._retry(self._ids.fence_lost, "fence a lost copier"):
            return []
        positions: dict[TopicPartition, Position] = {}
        if not self._retry(lambda: positions.update(self._positions.read(partitions)), "read positions"):
            return []
        if not self._retry(self._maps.read, "read where records were copied to"):
            return []
        tips, remote = self._maps.tips(partitions), self._remote()
        return [
            Grant(
                source=part,
                remote=remote[part],
                topic_id=self._topics.topic_id(part.topic),
                max_batch_bytes=self._topics.limit(remote[part].topic),
                position=self._topics.position(part, remote[part].topic, positions.get(part)),
                tip=tips.get(part),
                heartbeats=self._topics.is_heartbeats(part.topic),
                # If the topic has a new name and its old position is ignored, all records are copied again.
                begin=AT_FIRST if part in positions else self._topics.starts.get_start(part),
                on_trial=self._is_held(part),
            )
            for part in partitions
            if part in remote
        ]
