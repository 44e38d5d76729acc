"""Appends twinlog's records to a topic, a batch of each partition at a time: positions, maps, offset syncs, progress.

The producer is not idempotent: the second copy of a record has the same content. Records that must be written once are
part of a transaction (`ClaimedTopic`); positions in a transaction use the queues of copied records (`PositionLog`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError, FencedError, NotAppendedError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.metadata import TopicMetadata
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import IN_THE_LOG, Remedy, remedy_for
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.produce import partition_for
from twinlog.kafka.record.builder import encode_batch, own_batch, portions, record_body
from twinlog.kafka.record.compression import NONE
from twinlog.kafka.retry import TOPIC_LEADER
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition

OwnRecord = tuple[bytes, bytes | None] | tuple[bytes | None, bytes | None, Iterable[tuple[str, bytes | None]]]
"""Key, value (None deletes) and optional headers; only a record for partition 0 may lack a key."""

_Batches = list[tuple[int, bytes | bytearray | memoryview]]
"""Encoded batches, each with its partition's number."""

_Round = list[tuple[int, Sequence[bytes]]]
"""The content of a request: for each partition a batch, as the partition's number and the bodies of its records."""


class TopicWriter:
    """Appends to a topic, a call at a time. `purpose` completes "... needs it" in the error for a missing permission.

    All records go to partition 0, as the records of MirrorMaker 2's connectors do. With `by_key` a record goes to the
    partition of its key, as the records of Connect's workers do. With `control` the records overtake copied records on
    a connection of their own. `wait_s` is the time in seconds that an append waits for a leader.
    """

    def __init__(
        self,
        client: ClusterClient,
        topic: TopicName,
        timeout_s: float,
        purpose: str,
        *,
        by_key: bool = False,
        control: bool = True,
        codec: int = NONE,
        wait_s: float = 0.0,
    ) -> None:
        self.topic = topic
        self.appended = 0
        """The number of acknowledged records of the last `append`.

        With a single partition these are the first records.
        """
        self.in_doubt = False
        """Whether unacknowledged records may be in the log, or may still arrive."""
        self._client = client
        self._timeout_s = timeout_s
        self._purpose = purpose
        self._by_key = by_key
        self._control = control
        self._codec = codec
        self._wait_s = wait_s
        self._moved = False
        """Whether leaders may have moved."""

    async def append(
        self, records: Iterable[OwnRecord], *, at_once: bool = False, timestamp_ms: int | None = None
    ) -> None:
        """Append records in order, with `at_once` in a single batch; returns once all in-sync replicas have them.

        All records get the same timestamp (None: now). If a broker fails to answer, the other brokers still get their
        records. Raises ClusterError when the append of some records failed for now, NotAppendedError when a broker
        gives the reason, RefusedError if the principal lacks WRITE on the topic.
        """
        self.appended, self.in_doubt = 0, False
        topic = await self._look_up()
        stamp = wall_ms(self._client.loop.clock) if timestamp_ms is None else timestamp_ms
        troubles: list[ClusterError] = []
        rounds: dict[int, list[_Round]] = {}
        """The rounds of each broker."""
        for partition, bodies in self._bodies(records, topic).items():
            leader = topic.leaders.get(partition)
            if leader is None:
                text = f"cluster {self._client.alias}: {self.topic}-{partition} has no leader"
                troubles.append(NotAppendedError(text, Code.LEADER_NOT_AVAILABLE))
                continue
            there = rounds.setdefault(leader.node, [])
            for number, portion in enumerate([bodies] if at_once else portions(bodies)):
                if number == len(there):
                    there.append([])
                there[number].append((partition, portion))
        self._moved = True
        for node, there in rounds.items():
            try:
                for batches in there:
                    await self._append_on(node, batches, stamp)
            except RefusedError:
                raise
            except ClusterError as error:
                troubles.append(error)
        self._moved = not all(
            isinstance(error, NotAppendedError) and remedy_for(error.code) is Remedy.SPLIT for error in troubles
        )
        try:
            if troubles:
                raise troubles[0]
        finally:
            # The traceback of an error holds this frame.
            troubles.clear()

    async def encode(self, records: Iterable[OwnRecord]) -> dict[TopicPartition, list[Append]]:
        """Records as batches for each partition of the topic, which the caller appends in a transaction.

        Raises as `append` does.
        """
        topic = await self._look_up()
        now = wall_ms(self._client.loop.clock)
        return {
            TopicPartition(self.topic, partition): [
                Append(
                    encode_batch(((now, body) for body in some), self._codec),
                    len(some),
                    SourceOffset(0),
                    SourceOffset(0),
                    now,
                    (),
                )
                for some in portions(bodies)
            ]
            for partition, bodies in self._bodies(records, topic).items()
        }

    async def append_encoded(self, where: TopicPartition, append: Append, transactional_id: str) -> TargetOffset:
        """Append a batch of `encode` with its sequence number, in an open transaction; returns the batch's base offset.

        Raises FencedError when another producer has the transactional id, otherwise as `append` does.
        """
        topic = self._client.topic(self.topic)
        leader = None if topic is None else topic.leaders.get(where.partition)
        if leader is None:
            raise self.error_of(where.partition, Code.LEADER_NOT_AVAILABLE)
        self._moved = True
        sent: _Batches = [(where.partition, append.data)]
        (base_offset,) = await self._send(leader.node, sent, [append.count], transactional_id)
        self._moved = False
        return base_offset

    def _bodies(self, records: Iterable[OwnRecord], topic: TopicMetadata) -> dict[int, list[bytes]]:
        found: dict[int, list[bytes]] = {}
        for record in records:
            partition = partition_for(record[0] or b"", topic.partitions) if self._by_key else 0
            found.setdefault(partition, []).append(record_body(*record))
        return found

    async def _look_up(self) -> TopicMetadata:
        """The topic with its leaders, asked for again when the last append failed."""
        found = None if self._moved else self._client.topic(self.topic)
        now = self._client.loop.clock.monotonic
        until = now() + self._wait_s
        tries = 0
        while not self._has_leader(found):
            found = (await self._client.refresh([self.topic])).get(self.topic)
            if found is not None and error_codes.refused(found.error):
                raise self.lacks_write()
            if not self._has_leader(found):
                if now() >= until:
                    code = Code.LEADER_NOT_AVAILABLE if found is None else found.error
                    text = f"cluster {self._client.alias}: topic {self.topic} does not exist, or has no leader"
                    raise NotAppendedError(text, code)
                tries += 1
                await self._client.loop.sleep(min(TOPIC_LEADER.pause_s(tries), max(0.0, until - now())))
        assert found is not None
        return found

    def _has_leader(self, topic: TopicMetadata | None) -> bool:
        if topic is None or topic.error:
            return False
        return bool(topic.leaders) if self._by_key else 0 in topic.leaders

    async def _append_on(self, node: int, batches: _Round, stamp: int) -> None:
        sent: _Batches = [
            (partition, own_batch(((stamp, body) for body in bodies), self._codec)) for partition, bodies in batches
        ]
        await self._send(node, sent, [len(bodies) for _, bodies in batches])

    async def _send(
        self, node: int, sent: _Batches, counts: Sequence[int], transactional_id: str | None = None
    ) -> list[TargetOffset]:
        """Send batches with these counts of records; returns their base offsets."""
        # Sending takes the batches out of the list.
        sizes = [(partition, len(batch)) for partition, batch in sent]
        doubtful, self.in_doubt = self.in_doubt, True
        answers = await self._client.append(
            node, {self.topic: sent}, self._timeout_s, control=self._control, transactional_id=transactional_id
        )
        self.in_doubt = doubtful
        wrong: tuple[int, int, int] | None = None
        offsets: list[TargetOffset] = []
        for (partition, size), count in zip(sizes, counts, strict=True):
            answer = answers.get((self.topic, partition))
            # The result of a partition that the response lacks is unknown.
            code = Code.REQUEST_TIMED_OUT if answer is None else answer.code
            if answer is not None and code == Code.NONE:
                self.appended += count
                offsets.append(TargetOffset(answer.base_offset))
                continue
            self.in_doubt = self.in_doubt or code in IN_THE_LOG
            wrong = partition, code, size
            if remedy_for(code) is Remedy.AUTHORIZE:
                break
        if wrong is not None:
            raise self.error_of(*wrong, transactional=transactional_id is not None)
        return offsets

    def error_of(
        self, partition: int, code: int, size: int = 0, *, transactional: bool = False
    ) -> NotAppendedError | RefusedError | FencedError:
        """The error for an error code of a broker; the leaders are asked for before the next append or `encode`."""
        self._moved = True
        remedy = remedy_for(code, transactional=transactional)
        text = f"cluster {self._client.alias}: {self.topic}-{partition}: {error_codes.explain(code)}"
        if remedy is Remedy.AUTHORIZE:
            return self.lacks_write()
        if remedy is Remedy.FENCE and transactional:
            return FencedError(f"{text}: another process writes to it now")
        return NotAppendedError(text, code, size)

    def lacks_write(self) -> RefusedError:
        """The error for a missing permission."""
        return self._client.lacks("WRITE", f"topic {self.topic}", self._purpose)
