"""Sends queued appends to the target: per broker five requests in flight, each with at most a batch per partition."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.clock import LONG_AGO
from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop, Signal
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.produce_errors import NO_ANSWER, SentAppend
from twinlog.kafka.protocol.produce import Appended
from twinlog.model.types import TargetOffset, TopicName

_NOTHING = Appended(NO_ANSWER, -1, -1)


class TargetAppender:
    """All appends of a task to a cluster.

    `allowed()` is asked before each request; while it is False, appends wait. `lost(error)` is called when the cluster
    refuses for good. Once `max_in_flight_bytes` are in flight, each broker has a single request at a time. The reason
    is that the frame of a request is a copy of its batches until the socket takes the frame.

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
        self._brokers: dict[int, _BrokerAppender] = {}
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
        broker = self._brokers.get(leader.node)
        if broker is None:
            broker = self._brokers[leader.node] = _BrokerAppender(self, leader.node)
            self._loop.start(broker.run)
        broker.offer_queue(queue)

    def refresh(self) -> None:
        """Refresh the leaders soon."""
        self._stale.set()

    def stop(self) -> None:
        self._stopped = True
        self._stale.set()
        for broker in self._brokers.values():
            broker.wake.set()

    def _arrived(self, size: int) -> None:
        crowded = self._in_flight_bytes >= self._max_in_flight_bytes
        self._in_flight_bytes -= size
        if crowded:
            for broker in self._brokers.values():
                broker.wake.set()

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
            for broker in self._brokers.values():
                broker.move_on()
            homeless, self._homeless = self._homeless, {}
            for queue in homeless:
                self.offer_queue(queue)
            await self._loop.sleep(0.1)


class _BrokerAppender:
    __slots__ = ("_appender", "_in_flight", "_node", "_ready", "wake")

    def __init__(self, appender: TargetAppender, node: int) -> None:
        self._appender = appender
        self._node = node
        self._ready: dict[AppendQueue, None] = {}
        self._in_flight = 0
        self.wake: Signal = appender._loop.signal()

    def offer_queue(self, queue: AppendQueue) -> None:
        self._ready[queue] = None
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
            self.wake.clear()
            entries, later = self._collect(now())
            if entries:
                size = sum([sent.append.bytes for _, sent in entries])
                self._in_flight += 1
                owner._in_flight_bytes += size
                owner._loop.start(self._send, entries, size)
            if not entries or not self._ready:
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
        if throttled_s := owner._client.throttled_s(self._node):
            return [], throttled_s
        entries: list[tuple[AppendQueue, SentAppend]] = []
        size = 0
        later: float | None = None
        for queue in list(self._ready):
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
                self._node, topics, owner._timeout_s, transactional_id=owner.transactional_id
            )
        except TwinlogError as error:
            if isinstance(error, RefusedError):
                owner._lost(error)
            reached = not owner._client.unreachable(self._node)
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
