"""Reads source partitions: long polls of each broker, so that a copier has a new record within two milliseconds.

A partition is read from its leader, or from a replica in our rack that the leader named (`nearest`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.broker_poll import BrokerPoll, Cursor
from twinlog.kafka.consumer.fetch_pace import FULL, MOST_S, FetchPacer, Pacer
from twinlog.kafka.consumer.nearest import NearestReplicas
from twinlog.kafka.consumer.session_places import SESSIONS, SessionPlace, SessionPlaces
from twinlog.kafka.fetch_session import Fetched, FetchSession
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.kafka.retry import Backoff
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ConsumerSettings

NO_ROOM_S = 0.02
"""Pause in seconds before the reader reserves memory again."""

THROTTLED_LOOK_S = 1.0
"""Longest pause in seconds of the reader of a throttling broker: the reader may have to stop meanwhile."""

REFUSED_S = 30
"""The pause in seconds after a refused login. The copier ends meanwhile; the prover reads again after it."""

LEAST_WAIT_MS = 25
"""A shorter wait would send fetch after fetch to an idle broker; a record ends the wait in any case."""

EMPTY_ANSWERS = 3
"""So many answers in a row may come early and empty. Then the reader pauses.

Brokers usually wait; the pause keeps the reader from a tight loop.
"""

LONG_S = 0.005
"""The longest time in seconds with the answers of a broker.

Then the loop serves its other coroutines, as the appends of the last partition and the line to the driver.
"""

READ_AHEAD_BYTES = 8 << 20
"""A partition is read while fewer of its bytes wait to be appended; the limit is lower when memory is short."""

MAX_FETCH_BYTES = 16 << 20
"""Upper limit in bytes of an answer of a near broker."""

BACKLOG_BYTES = 1 << 20
"""After an answer with so many bytes of a partition, its next records are requested before the answer is taken.

To take the answer keeps the loop busy for milliseconds, and the broker reads its log meanwhile.
"""


class Memory(Protocol):
    """The memory for answers: see `copier.memory.CopierMemory`."""

    @property
    def room_bytes(self) -> int:
        """Bytes that are free."""

    def share_bytes(self, sessions: int) -> int:
        """The largest answer in bytes to ask for in each of so many sessions."""

    def reserve(self, place: SessionPlace, most_bytes: int) -> int:
        """Reserve up to `most_bytes` for a session's answer; returns the reserved bytes, 0 if all memory is in use."""

    def release(self, place: SessionPlace) -> None:
        """Free the reserved bytes after the answer was taken, or after the request failed."""


class SourceReader:
    """Reads every partition in `cursors` and hands each answer to `deliver(asked position, fetched)`.

    `lost(error)` is called when the cluster refuses for good; after any other error the reader tries again for ever.
    `pacer()` makes the pauses between the fetches from a broker. By default the reader fetches at once. A broker with
    many partitions has up to `sessions` fetch sessions.
    """

    def __init__(
        self,
        loop: Loop,
        client: ClusterClient,
        settings: ConsumerSettings,
        cursors: Mapping[TopicPartition, Cursor],
        memory: Memory,
        deliver: Callable[[FetchPosition, Fetched], None],
        lost: Callable[[TwinlogError], None],
        pacer: Callable[[], Pacer] = lambda: FetchPacer(0),
        sessions: int = SESSIONS,
    ) -> None:
        self._loop = loop
        self._pacer = pacer
        self._now = loop.clock.monotonic
        self._client = client
        self._settings = settings
        self._cursors = cursors
        self._memory = memory
        self._deliver = deliver
        self._lost = lost
        self._nearest = NearestReplicas(client, settings.client_rack, settings.client.metadata_max_age_ms / 1000)
        self._places = SessionPlaces(self._nearest, sessions)
        self._polls: dict[SessionPlace, BrokerPoll] = {}
        self._pacers: dict[int, Pacer] = {}
        self._stale = loop.signal()
        self._stopped = False
        self.trouble: str | None = None
        """Why the last fetch failed; None after a successful fetch."""

    def start(self) -> None:
        self._loop.start(self._keep_leaders)

    def wake(self) -> None:
        """Look at all cursors again after cursors were added or removed, or leaders moved."""
        self._places.divide(self._cursors)
        for cursor in self._cursors:
            place = self._places.place(cursor)
            if place is None:
                self._stale.set()
            else:
                self._poll(place)
        for poll in self._polls.values():
            poll.rebuild = True
            poll.wake.set()

    def resume(self, partition: TopicPartition) -> None:
        """Read a partition again that was held back, or that has another session now."""
        place = self._places.place(partition)
        if place is not None:
            poll = self._poll(place)
            poll.changed[partition] = None
            poll.wake.set()

    def answered_at(self, partition: TopicPartition) -> float | None:
        """The monotonic second of the last answer in the partition's session, None before its first answer.

        The broker is the leader or the near replica that the partition is read from. A broker also answers for idle
        partitions.
        """
        place = self._places.place(partition)
        return None if place is None else self._client.contact.data_at(*place)

    def throttled_by(self, partition: TopicPartition) -> int | None:
        """The broker that a partition is read from, while that broker throttles this client; else None."""
        node = self._nearest.node(partition)
        return None if node is None or not self._client.throttled_s(node) else node

    def refresh(self) -> None:
        """Refresh the leaders soon."""
        self._stale.set()

    def stop(self) -> None:
        self._stopped = True
        self._stale.set()
        for poll in self._polls.values():
            poll.wake.set()

    def _poll(self, place: SessionPlace) -> BrokerPoll:
        poll = self._polls.get(place)
        if poll is None:
            partition_bytes = self._settings.max_partition_fetch_bytes
            self._polls[place] = poll = BrokerPoll(self._client, self._places, self._cursors, place, partition_bytes)
            self._loop.start(self._run, poll)
        return poll

    async def _keep_leaders(self) -> None:
        while True:
            await self._stale.wait(self._settings.client.metadata_max_age_ms / 1000)
            if self._stopped:
                return
            topics: set[TopicName] = {partition.topic for partition in self._cursors}
            if topics:
                try:
                    await self._client.refresh(topics)
                except RefusedError as error:
                    self._lost(error)
                except TwinlogError:
                    pass
                self.wake()
            await self._loop.sleep(0.1)

    async def _run(self, poll: BrokerPoll) -> None:
        settings, node = self._settings, poll.node
        read_committed = settings.isolation_level == "read_committed"
        session = FetchSession(self._client, node, read_committed=read_committed, connection=poll.place.connection)
        backoff = Backoff.of(settings.client)
        # The rate of the records of all sessions of the broker decides.
        pace = self._pacers.setdefault(node, self._pacer())
        empty = 0
        most_ms = max(LEAST_WAIT_MS, settings.fetch_max_wait_ms)
        ahead: _FetchAhead | None = None
        while not self._stopped:
            if ahead is None:
                for moved in poll.choose(self._read_ahead(poll)):
                    self.resume(moved)
                wait_ms = poll.patience_ms(self._now(), most_ms)
                if not poll.wanted:
                    await poll.wake.wait(wait_ms / 1000 if poll.held_back else None)
                    continue
                if throttled_s := self._client.throttled_s(node):
                    await self._loop.sleep(min(throttled_s, THROTTLED_LOOK_S))
                    continue
                most_bytes = self._memory.reserve(poll.place, self._most_bytes(poll))
                if not most_bytes:
                    await self._loop.sleep(NO_ROOM_S)
                    continue
                asked_at, asking = self._now(), self._ask(session, poll, most_bytes, wait_ms)
            else:
                most_bytes, wait_ms, asked_at, asking = ahead
                ahead = None
            try:
                answers = await asking
            except RefusedError as error:
                self._lost(error)
                await self._wait_refused()
                continue
            except TwinlogError as error:
                self.trouble = str(error)
                for partition in self._nearest.leave_broker(node):
                    poll.changed[partition] = None
                    self.resume(partition)
                self.refresh()
                await self._loop.sleep(backoff.count_failure())
                continue
            self.trouble = None
            elapsed_s = self._now() - asked_at
            received = sum(len(fetched.answer.records) for fetched in answers)
            empty = 0 if received or elapsed_s >= wait_ms / 2000 else empty + 1
            if self._client.far:
                asked = min(most_bytes, poll.size.bytes)
                poll.size.record_answer(received, asked, elapsed_s, self._client.round_trip_s)
            pause_s = pace.pause_s((fetched.answer.records for fetched in answers), self._now())
            if pause_s and _are_full(answers, received, most_bytes, poll.size.bytes):
                pause_s = 0.0
            asked_for = {one.partition: at for one in answers if (at := poll.wanted.get(one.partition)) is not None}
            ahead = self._ask_ahead(session, poll, answers, most_ms)
            if ahead is not None:
                # The request is sent now.
                await self._loop.sleep(0)
            accepted = await self._take_all(node, poll, asked_for, answers) and empty <= EMPTY_ANSWERS
            # The next answer needs the memory of these answers.
            answers.clear()
            if accepted:
                backoff.reset_failures()
                short = pause_s <= MOST_S
                # A round trip to a far broker is longer than a short pause.
                if pause_s and not (short and self._client.far):
                    # Answers of other sessions must not wait for the pause of this session.
                    rests = short and len(self._polls) == 1
                    await (self._loop.rest if rests else self._loop.sleep)(pause_s)
                elif received and ahead is None:
                    # The records leave before the next fetch, which takes some 50 us to encode and to send.
                    await self._loop.sleep(0)
            else:
                self.refresh()
                await self._loop.sleep(backoff.count_failure())

    async def _wait_refused(self) -> None:
        """Wait before a broker is asked again that refused the login; a reader that is stopped waits no longer."""
        for _ in range(REFUSED_S):
            if self._stopped:
                return
            await self._loop.sleep(1.0)

    def _most_bytes(self, poll: BrokerPoll) -> int:
        most = max(MAX_FETCH_BYTES, poll.size.bytes)
        # Only sessions with a wanted partition need a share.
        asked = sum(1 for one in self._polls.values() if one.wanted)
        return min(most, self._settings.fetch_max_bytes, self._memory.share_bytes(asked))

    async def _ask(self, session: FetchSession, poll: BrokerPoll, most_bytes: int, wait_ms: int) -> list[Fetched]:
        session.add_readers(poll.added)
        poll.added.clear()
        try:
            return await session.fetch(
                poll.wanted,
                max_wait_ms=wait_ms,
                # With 0 the broker would answer at once, and the reader would fetch in a loop.
                min_bytes=max(1, self._settings.fetch_min_bytes),
                max_bytes=most_bytes,
                rack=self._nearest.rack,
            )
        finally:
            self._memory.release(poll.place)

    def _ask_ahead(
        self, session: FetchSession, poll: BrokerPoll, answers: list[Fetched], most_ms: int
    ) -> _FetchAhead | None:
        """Ask for the records after large answers before these are taken, and for all other wanted partitions.

        None if the broker might wait for records, or if the answers need the memory.
        """
        if self._client.far or self._stopped or poll.rebuild or self._client.throttled_s(poll.node):
            return None
        # Most answers are small, and end here at no cost.
        if all(len(fetched.answer.records) < BACKLOG_BYTES for fetched in answers):
            return None
        next_positions: dict[TopicPartition, FetchPosition] = {}
        backlog, read_ahead = False, self._read_ahead(poll)
        for fetched in answers:
            position = poll.position_after(fetched, read_ahead) if fetched.answer.records else None
            if position is not None:
                next_positions[fetched.partition] = position
                backlog |= _has_backlog(fetched.answer, position.offset, read_committed=session.read_committed)
        if not backlog:
            return None
        # Answer after answer may be large, and the other partitions of the broker must not wait for the last of them.
        for moved in poll.choose(read_ahead, later={fetched.partition for fetched in answers}):
            self.resume(moved)
        # Prepared batches take as much memory again as their answers, until all answers are taken.
        received = sum(len(fetched.answer.records) for fetched in answers)
        most_bytes = min(self._most_bytes(poll), self._memory.room_bytes - received)
        most_bytes = self._memory.reserve(poll.place, most_bytes) if most_bytes >= BACKLOG_BYTES else 0
        if not most_bytes:
            return None
        for fetched in answers:
            if _moves(fetched.answer):
                poll.wanted.pop(fetched.partition, None)
        poll.wanted.update(next_positions)
        wait_ms = poll.patience_ms(self._now(), most_ms)
        asking = self._loop.spawn(self._ask, session, poll, most_bytes, wait_ms)
        return _FetchAhead(most_bytes, wait_ms, self._now(), asking)

    async def _take_all(
        self, node: int, poll: BrokerPoll, asked_for: Mapping[TopicPartition, FetchPosition], answers: list[Fetched]
    ) -> bool:
        """Take a broker's answers; False when the next answer may fail in the same way."""
        accepted, begun = True, self._now()
        for fetched in answers:
            if self._now() - begun > LONG_S:
                # Each partition may take its time, as with a transform, and other coroutines wait.
                await self._loop.sleep(0)
                begun = self._now()
            asked = asked_for.get(fetched.partition)
            if asked is not None and not self._stopped:
                poll.changed[fetched.partition] = None
                if fetched.answer.records and fetched.partition in poll.wanted:
                    # Ask for this partition after all other partitions. A broker that lacks room for another fetch
                    # session fills its answers in the order of the request. A long backlog would keep the other
                    # partitions from being read (KIP-74).
                    poll.wanted[fetched.partition] = poll.wanted.pop(fetched.partition)
                accepted = self._take(node, asked, fetched) and accepted
        return accepted

    def _take(self, node: int, asked: FetchPosition, fetched: Fetched) -> bool:
        """Deliver an answer, or choose another broker; False when the next answer may fail in the same way."""
        nearest, partition, answer = self._nearest, fetched.partition, fetched.answer
        accepted = True
        if not nearest.leads(partition, node):
            if answer.error or answer.diverging_epoch >= 0:
                # Only the leader's log shows a gap: a follower's log may just be shorter.
                nearest.leave_replica(partition, node)
                self.resume(partition)
                return False
            nearest.record_answer(partition, node, answer)
        elif answer.preferred_replica >= 0 and not answer.error:
            accepted = nearest.set_replica(partition, answer)
            self.resume(partition)
        self._deliver(asked, fetched)
        return accepted

    def _read_ahead(self, poll: BrokerPoll) -> int:
        """The bytes of a partition that may wait for the target while the partition is read."""
        # A partition whose appends are acknowledged is read even when all memory is in use: reserving memory frees
        # some.
        return max(1, min(max(READ_AHEAD_BYTES, poll.size.bytes), self._memory.room_bytes))


def _are_full(answers: Sequence[Fetched], received: int, most_bytes: int, partition_bytes: int) -> bool:
    """Whether answers reach some limit in bytes: the next answers would have the same size after a pause."""
    full = any(len(one.answer.records) >= FULL * partition_bytes for one in answers)
    return full or received >= FULL * most_bytes


def _has_backlog(answer: PartitionResponse, position: int, *, read_committed: bool) -> bool:
    """Whether an answer is large, and its broker has more records from `position` on."""
    readable = answer.last_stable_offset if read_committed else answer.high_watermark
    return len(answer.records) >= BACKLOG_BYTES and position < readable


def _moves(answer: PartitionResponse) -> bool:
    """Whether the next fetch of the partition differs from the fetch that was answered."""
    return bool(answer.records or answer.error) or answer.diverging_epoch >= 0 or answer.preferred_replica >= 0


class _FetchAhead(NamedTuple):
    """A fetch under way: its limits in bytes and in ms, its begin in monotonic seconds, and the awaitable answers."""

    most_bytes: int
    wait_ms: int
    asked_at: float
    answers: Any
