"""Sends queued appends to the target: five requests in flight a connection, each with at most a batch per partition.

A broker takes the requests of a connection in turn: it reads a request only after its answer to the request before
(Kafka class SocketServer). So in a backlog the partitions of a broker are divided between two connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from twinlog.clock import LONG_AGO
from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka.client import LANES, ClusterClient
from twinlog.kafka.net.loop import Loop, Signal
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.produce_errors import NO_ANSWER, SentAppend
from twinlog.kafka.protocol.produce import Appended
from twinlog.model.types import TargetOffset, TopicName

_NOTHING = Appended(NO_ANSWER, -1, -1)

BACKLOG_BYTES = 1 << 20
"""A queue with so many bytes may take the second connection; fewer bytes share the requests of the first connection."""


class TargetAppender:
    """All appends of a task to a cluster.

    `allowed()` is asked before each request; while it is False, appends wait. `lost(error)` is called when the cluster
    refuses for good. Once `max_in_flight_bytes` are in flight, each connection has a single request at a time. The
    reason is that the frame of a request is a copy of its batches until the socket takes the frame.

    `transactional_id` is set when all appends are part of transactions. An offered queue is sent until it is empty; the
    code that puts an append into the queue offers the queue again.
    """

    def __init__(
        self,
        loop: Loop,
        client: ClusterClient,
        *,
        max_in_flight: int,
        max_request_bytes: int,
        max_in_flight_bytes: int,
        request_timeout_s: float,
        allowed: Callable[[], bool],
        lost: Callable[[TwinlogError], None],
    ) -> None:
        self.transactional_id: str | None = None
        self._loop = loop
        self._client = client
        self._max_in_flight = max_in_flight
        self._max_request_bytes = max_request_bytes
        self._max_in_flight_bytes = max_in_flight_bytes
        self._in_flight_bytes = 0
        self._timeout_s = request_timeout_s
        self._allowed = allowed
        self._lost = lost
        self._brokers: dict[int, tuple[_LaneAppender, ...]] = {}
        self._homeless: dict[AppendQueue, None] = {}
        self._stale = loop.signal()
        self._wanted: Callable[[], set[TopicName]] = set
        self._stopped = False

    def start(self, topics: Callable[[], set[TopicName]]) -> None:
        """Start the appender; `topics` returns the remote topics whose leaders are kept up to date."""
        self._wanted = topics
        self._loop.start(self._keep_leaders)

    def offer_queue(self, queue: AppendQueue) -> None:
        """Look at a queue, which may have appends to send."""
        leader = self._client.leader(queue.partition)
        if leader is None:
            self._homeless[queue] = None
            self._stale.set()
            return
        lanes = self._brokers.get(leader.node)
        if lanes is None:
            lanes = tuple(_LaneAppender(self, leader.node, number) for number in range(LANES))
            self._brokers[leader.node] = lanes
        if queue.all_acknowledged:
            # Two appends in flight by different connections may overtake each other.
            queue.lane = min(lanes, key=_LaneAppender.load).number if queue.queued_bytes >= BACKLOG_BYTES else 0
        lanes[queue.lane].offer_queue(queue)

    def refresh(self) -> None:
        """Refresh the leaders soon."""
        self._stale.set()

    def stop(self) -> None:
        self._stopped = True
        self._stale.set()
        for lane in self._lanes():
            lane.wake.set()

    def _lanes(self) -> Iterator[_LaneAppender]:
        return chain.from_iterable(self._brokers.values())

    def _arrived(self, size: int) -> None:
        crowded = self._in_flight_bytes >= self._max_in_flight_bytes
        self._in_flight_bytes -= size
        if crowded:
            for lane in self._lanes():
                lane.wake.set()

    async def _keep_leaders(self) -> None:
        while True:
            await self._stale.wait()
            if self._stopped:
                return
            try:
                await self._client.refresh(self._wanted())
            except TwinlogError as error:
                if isinstance(error, RefusedError):
                    self._lost(error)
            for lane in self._lanes():
                lane.move_on()
            homeless, self._homeless = self._homeless, {}
            for queue in homeless:
                self.offer_queue(queue)
            await self._loop.sleep(0.1)


class _LaneAppender:
    """The appends over a connection to a broker, which is opened for the first append."""

    __slots__ = ("_appender", "_in_flight", "_node", "_ready", "_runs", "number", "wake")

    def __init__(self, appender: TargetAppender, node: int, number: int) -> None:
        self._appender = appender
        self._node = node
        self.number = number
        self._runs = False
        self._ready: dict[AppendQueue, None] = {}
        self._in_flight = 0
        self.wake: Signal = appender._loop.signal()

    def load(self) -> int:
        """The number of its requests in flight and of its waiting queues."""
        return self._in_flight + len(self._ready)

    def offer_queue(self, queue: AppendQueue) -> None:
        self._ready[queue] = None
        if not self._runs:
            self._runs = True
            self._appender._loop.start(self.run)
        self.wake.set()

    def move_on(self) -> None:
        """Send appends that wait here for a retry to their new leader at once (KAFKA-15415)."""
        leader = self._appender._client.leader
        for queue in self._ready:
            if queue.not_before > LONG_AGO:
                there = leader(queue.partition)
                if there is not None and there.node != self._node:
                    queue.send_now()
                    self.wake.set()

    async def run(self) -> None:
        owner = self._appender
        now = owner._loop.clock.monotonic
        while not owner._stopped:
            entries, later = self._collect(now())
            if entries:
                size = sum(sent.append.bytes for _, sent in entries)
                self._in_flight += 1
                owner._in_flight_bytes += size
                owner._loop.start(self._send, entries, size)
            else:
                await self.wake.wait(later)

    def _collect(self, now: float) -> tuple[list[tuple[AppendQueue, SentAppend]], float | None]:
        """Appends for a request, and the seconds to wait if the list is empty (None: until woken)."""
        owner = self._appender
        if not self._ready or self._in_flight >= owner._max_in_flight:
            return [], None
        if self._in_flight and owner._in_flight_bytes >= owner._max_in_flight_bytes:
            return [], None
        if not owner._allowed():
            return [], 1.0
        # These appends stay in their queue: a release waits only for appends in flight.
        if throttled_s := owner._client.throttled_s(self._node, self.number):
            return [], throttled_s
        entries: list[tuple[AppendQueue, SentAppend]] = []
        size = 0
        later: float | None = None
        for queue in list(self._ready):
            if queue.lane != self.number:
                # The queue was offered to another lane since then.
                del self._ready[queue]
                continue
            bytes_ = queue.next_bytes(now)
            if not bytes_:
                if not queue.stopped and queue.not_before > now:
                    wait = queue.not_before - now
                    later = wait if later is None else min(later, wait)
                else:
                    del self._ready[queue]
                continue
            leader = owner._client.leader(queue.partition)
            if leader is None or leader.node != self._node:
                del self._ready[queue]
                owner.offer_queue(queue)
                continue
            if entries and size + bytes_ > owner._max_request_bytes:
                break
            size += bytes_
            entries.append((queue, queue.take_append()))
            del self._ready[queue]
            if queue.pending:
                # Put the queue behind all other queues: every partition gets its turn.
                self._ready[queue] = None
        return entries, later

    async def _send(self, entries: list[tuple[AppendQueue, SentAppend]], size: int) -> None:
        owner = self._appender
        topics: dict[str, list[tuple[int, bytes | bytearray | memoryview]]] = {}
        for queue, sent in entries:
            topic, partition = queue.partition
            topics.setdefault(topic, []).append((partition, sent.append.data))
        answers: dict[tuple[str, int], Appended] = {}
        try:
            answers = await owner._client.append(
                self._node, topics, owner._timeout_s, lane=self.number, transactional_id=owner.transactional_id
            )
        except TwinlogError as error:
            if isinstance(error, RefusedError):
                owner._lost(error)
            reached = not owner._client.unreachable(self._node, self.number)
            for _, sent in entries:
                sent.reached = reached
            owner.refresh()
        finally:
            self._in_flight -= 1
            owner._arrived(size)
        for queue, sent in entries:
            answer = answers.get(queue.partition, _NOTHING)
            if answer.code:
                sent.refusal = answer
            queue.record_response(sent, answer.code, TargetOffset(answer.base_offset), there=answer.at_ms >= 0)
            if not queue.idle:
                self._ready[queue] = None
        if self._ready:
            self.wake.set()
