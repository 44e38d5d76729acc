"""Fetches raw record batches from a broker in an incremental fetch session (KIP-227).

A session remembers the requested partitions. So a poll over thousands of idle partitions names only the partitions with
a new position.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.leader_epochs import VerifiedLogs, find_divergence
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import (
    EPOCHS_SINCE,
    TOPIC_IDS_SINCE,
    FetchedPartitions,
    FetchPosition,
    PartitionResponse,
    RawFetch,
    Topic,
)
from twinlog.model.types import TopicName, TopicPartition

_SESSION_FAULTS = frozenset(
    {Code.FETCH_SESSION_ID_NOT_FOUND, Code.INVALID_FETCH_SESSION_EPOCH, Code.FETCH_SESSION_TOPIC_ID_ERROR}
)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A source partition and the broker's answer for it."""

    partition: TopicPartition
    answer: PartitionResponse


class FetchSession:
    """The fetch session with a broker; belongs to a single coroutine.

    With `kept` False the broker keeps no session: for single fetches of a few partitions. Several sessions with a
    broker have a `connection` each.
    """

    def __init__(
        self, client: ClusterClient, node: int, *, read_committed: bool, kept: bool = True, connection: int = 0
    ) -> None:
        self._client = client
        self._node = node
        self._connection = connection
        self.read_committed = read_committed
        self._kept = kept
        self._names: dict[uuid.UUID, TopicName] = {}
        """The names of the topics that the broker was asked for in this session."""
        self._verified = VerifiedLogs()
        """Verified logs of brokers before Kafka 2.7, whose fetches hide a truncated log."""
        self._reset()

    def _reset(self) -> None:
        self._id = 0
        self._epoch = 0 if self._kept else -1
        self._known: dict[TopicPartition, FetchPosition] = {}
        """The partitions in the broker's session.

        A fetch with a refused partition returns at once, until a request forgets that partition.
        """
        self._refused: set[TopicPartition] = set()
        """Partitions that the last fetch refused.

        The next fetch names them again, because the broker drops refused partitions from its session.
        """

    def add_readers(self, partitions: Iterable[TopicPartition]) -> None:
        """Have the broker answer the next fetch for these partitions, also for idle partitions.

        They have a new reader, which has yet to learn the ends of their logs.
        """
        if self._epoch > 0 and any(part in self._known for part in partitions):
            # A broker answers for a partition in its session only after a change. A full fetch closes the session.
            self._epoch = 0

    async def fetch(
        self,
        wanted: Mapping[TopicPartition, FetchPosition],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        rack: str = "",
    ) -> list[Fetched]:
        """Read the records of each wanted partition from its position on; waits up to `max_wait_ms` for `min_bytes`.

        A leader that gets our `rack` may name a replica near us to read from instead (KIP-392). A truncation of the log
        below the position is reported, also for brokers whose fetches hide it. Raises ClusterError when the broker is
        unreachable or the session is lost; the next call starts a new session.
        """
        if not self._kept:
            # A request to a throttling broker fails at once, and a reader of a whole log would retry for ever.
            await self._client.unthrottled(self._node)
            wanted = {part: self._of_leader(part, at) for part, at in wanted.items()}
        if self._epoch <= 0:
            ask: Mapping[TopicPartition, FetchPosition] = wanted
            forgotten: list[TopicPartition] = []
            self._names.clear()
        else:
            ask = {part: at for part, at in wanted.items() if self._known.get(part) != at or part in self._refused}
            # For the broker a recreated topic is another topic; the session would continue to answer for the deleted
            # topic.
            forgotten = [
                part
                for part, at in self._known.items()
                if (now_at := wanted.get(part)) is None
                or (now_at.topic_id is not at.topic_id and now_at.topic_id != at.topic_id)
            ]
        now = self._client.loop.clock.monotonic
        self._verified.begin_fetch(now())
        with_ids = all(at.topic_id is not None for at in wanted.values())
        request = RawFetch(
            # A cluster's metadata format may be older than its brokers, and lack ids (Kafka class FetchRequest).
            API_VERSION=RawFetch.NEWEST if with_ids else TOPIC_IDS_SINCE - 1,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            read_committed=self.read_committed,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=_by_topic(ask),
            forgotten=self._forgotten(forgotten),
            rack=rack,
        )
        for name, topic_id in request.topics:
            if topic_id is not None:
                self._names[topic_id] = name
        try:
            timeout_s = (max_wait_ms + self._client.settings.request_timeout_ms) / 1000
            response: FetchedPartitions = await self._client.send(
                request, self._node, timeout_s, connection=self._connection
            )
        except Exception:
            self._lose()
            raise
        if response.error_code != Code.NONE:
            self._lose()
            if response.error_code in _SESSION_FAULTS:
                return []
            raise ClusterError(
                f"cluster {self._client.alias}: fetch refused: {error_codes.explain(response.error_code)}"
            )
        if self._kept and response.session_id:
            self._id = response.session_id
            self._epoch = 1 if self._epoch == 2**31 - 1 else self._epoch + 1
            self._known = dict(wanted)
            self._refused.clear()
        else:
            self._reset()
        found = self._responses(response)
        if request.API_VERSION >= EPOCHS_SINCE:
            return found
        self._verified.end_fetch(wanted, now())
        try:
            return await self._checked(found, wanted)
        except Exception:
            self._lose()
            raise

    def _lose(self) -> None:
        self._reset()
        self._verified.clear()

    async def _checked(self, found: list[Fetched], wanted: Mapping[TopicPartition, FetchPosition]) -> list[Fetched]:
        """Replace the answers of partitions whose logs differ from the read records; for brokers before Kafka 2.7."""
        unsure = {
            one.partition: wanted[one.partition]
            for one in found
            # A truncated log may end below the position.
            if one.answer.error in (Code.NONE, Code.OFFSET_OUT_OF_RANGE)
            and one.partition in wanted
            and self._verified.lacks(one.partition, wanted[one.partition])
            # Only the leader answers this question.
            and self._client.leads(one.partition, self._node)
        }
        if not unsure:
            return found
        other = await find_divergence(self._client, self._node, unsure)
        self._verified.add({part: at for part, at in unsure.items() if part not in other})
        for partition in other:
            self._verified.drop_partition(partition)
        self._refused.update(other)
        return [Fetched(one.partition, other.get(one.partition, one.answer)) for one in found]

    def _of_leader(self, partition: TopicPartition, at: FetchPosition) -> FetchPosition:
        leader = self._client.leader(partition)
        return at if leader is None else at._replace(leader_epoch=leader.epoch)

    def _responses(self, response: FetchedPartitions) -> list[Fetched]:
        found = []
        for key, parts in response.topics:
            name = self._names.get(key) if isinstance(key, uuid.UUID) else TopicName(key)
            if name is None:
                continue
            for part in parts:
                partition = TopicPartition(name, part.partition)
                found.append(Fetched(partition, part))
                if part.error != Code.NONE:
                    self._refused.add(partition)
                    self._verified.drop_partition(partition)
        return found

    def _forgotten(self, partitions: Sequence[TopicPartition]) -> dict[Topic, list[int]]:
        topics: dict[Topic, list[int]] = {}
        for part in partitions:
            topics.setdefault((part.topic, self._known[part].topic_id), []).append(part.partition)
        return topics


def _by_topic(ask: Mapping[TopicPartition, FetchPosition]) -> dict[Topic, list[tuple[int, FetchPosition]]]:
    topics: dict[Topic, list[tuple[int, FetchPosition]]] = {}
    name, topic_id, asked = None, None, []
    for part, at in ask.items():
        # An id is compared and hashed by Python code, and neighbours mostly have the same id.
        if part.topic != name or at.topic_id is not topic_id:
            name, topic_id = part.topic, at.topic_id
            asked = topics.setdefault((name, topic_id), [])
        asked.append((part.partition, at))
    return topics
