"""Appends twinlog's records to a topic: positions, maps, offset syncs, checkpoints, heartbeats, progress.

The producer is not idempotent: the second copy of a record has the same content. Positions in a transaction must be
written once, so these positions use the queues of copied records (`mirror.offsets.position_log`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError, NotAppendedError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.metadata import TopicMetadata
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.partitioner import partition_for
from twinlog.kafka.record.compression import NONE
from twinlog.kafka.record.own_records import own_batch, portions, record_body
from twinlog.model.types import TopicName, TopicPartition

OwnRecord = tuple[bytes, bytes | None] | tuple[bytes | None, bytes | None, Iterable[tuple[str, bytes | None]]]
"""Key, value (None deletes) and optional headers; only a record for partition 0 may lack a key."""

RETRY_S = 0.1

_IN_THE_LOG = frozenset({Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""Codes of records that are in the leader's log, and that followers may still get."""

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
        too_large = error_codes.TOO_LARGE
        self._moved = not all(isinstance(error, NotAppendedError) and error.code in too_large for error in troubles)
        try:
            if troubles:
                raise troubles[0]
        finally:
            # The traceback of an error holds this frame.
            troubles.clear()

    async def encode(self, records: Iterable[OwnRecord]) -> dict[TopicPartition, list[Sequence[bytes]]]:
        """The bodies of records for each partition of the topic, in portions that each make a batch.

        The caller appends the bodies in a transaction. Raises as `append` does.
        """
        topic = await self._look_up()
        return {
            TopicPartition(self.topic, partition): list(portions(bodies))
            for partition, bodies in self._bodies(records, topic).items()
        }

    def look_again(self) -> None:
        """Ask for the topic's leaders before the next append or `encode`."""
        self._moved = True

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
        while not self._has_leader(found):
            found = (await self._client.refresh([self.topic])).get(self.topic)
            if found is not None and error_codes.refused(found.error):
                raise self.lacks_write()
            if not self._has_leader(found):
                if now() >= until:
                    code = Code.LEADER_NOT_AVAILABLE if found is None else found.error
                    text = f"cluster {self._client.alias}: topic {self.topic} does not exist, or has no leader"
                    raise NotAppendedError(text, code)
                await self._client.loop.sleep(RETRY_S)
        assert found is not None
        return found

    def _has_leader(self, topic: TopicMetadata | None) -> bool:
        if topic is None or topic.error:
            return False
        return bool(topic.leaders) if self._by_key else 0 in topic.leaders

    async def _append_on(self, node: int, batches: _Round, stamp: int) -> None:
        sent: list[tuple[int, bytes | bytearray | memoryview]] = [
            (partition, own_batch(((stamp, body) for body in bodies), self._codec)) for partition, bodies in batches
        ]
        # Sending takes the batches out of the list.
        sizes = [len(batch) for _, batch in sent]
        doubtful, self.in_doubt = self.in_doubt, True
        answers = await self._client.append(node, {self.topic: sent}, self._timeout_s, control=self._control)
        self.in_doubt = doubtful
        wrong: tuple[int, int, int] | None = None
        for (partition, bodies), size in zip(batches, sizes, strict=True):
            answer = answers.get((self.topic, partition))
            # The result of a partition that the response lacks is unknown.
            code = Code.REQUEST_TIMED_OUT if answer is None else answer.code
            if code == Code.NONE:
                self.appended += len(bodies)
                continue
            self.in_doubt = self.in_doubt or code in _IN_THE_LOG
            wrong = code, partition, size
            if error_codes.refused(code):
                raise self.lacks_write()
        if wrong is not None:
            code, partition, size = wrong
            text = f"cluster {self._client.alias}: {self.topic}-{partition}: {error_codes.explain(code)}"
            raise NotAppendedError(text, code, size)

    def lacks_write(self) -> RefusedError:
        """The error for a missing permission."""
        return self._client.lacks("WRITE", f"topic {self.topic}", self._purpose)
