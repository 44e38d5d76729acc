"""Reads source partitions: one long poll per broker, so that a new record travels on within a millisecond."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.fetch import Fetched, FetchPosition, FetchSession
from twinlog.kafka.loop import Loop, Signal
from twinlog.settings import ConsumerSettings
from twinlog.types import TopicName, TopicPartition

SHORT_WAIT_MS = 10
"""Long-poll limit while a partition is held back because its appends are not acknowledged: it must not wait long."""

MAX_FETCH_BYTES = 16 << 20
"""Upper limit of one answer: two of them and what is in flight bound a task's memory."""


class Cursor(Protocol):
    """A partition that wants to be read."""

    held_back: bool
    """Whether it only waits for its appends to be acknowledged; set by `fetch_position`."""

    def fetch_position(self) -> FetchPosition | None:
        """Where to read next; None while it has enough to append, or is not to be read."""


class SourceReader:
    """Reads every partition in `cursors` and hands each answer to `deliver(asked position, fetched)`.

    `lost(error)` is called when the cluster refuses for good; anything else is tried again for ever.
    """

    def __init__(
        self,
        loop: Loop,
        client: ClusterClient,
        settings: ConsumerSettings,
        cursors: dict[TopicPartition, Cursor],
        deliver: Callable[[FetchPosition, Fetched], None],
        lost: Callable[[TwinlogError], None],
    ) -> None:
        self._loop = loop
        self._client = client
        self._settings = settings
        self._cursors = cursors
        self._deliver = deliver
        self._lost = lost
        self._polls: dict[int, _Poll] = {}
        self._stale = loop.signal()
        self._stopped = False
        self.trouble: str | None = None
        """Why the last fetch failed; None after one that worked."""

    def start(self) -> None:
        self._loop.start(self._keep_leaders)

    def wake(self) -> None:
        """Cursors were added or taken away, or leaders moved: look at all of them."""
        for cursor in self._cursors:
            leader = self._client.leader(cursor)
            if leader is None:
                self._stale.set()
            elif leader.node not in self._polls:
                self._polls[leader.node] = poll = _Poll(self._loop)
                self._loop.start(self._run, leader.node, poll)
        for poll in self._polls.values():
            poll.rebuild = True
            poll.wake.set()

    def resume(self, partition: TopicPartition) -> None:
        """One partition that was held back wants more."""
        leader = self._client.leader(partition)
        if leader is not None and leader.node in self._polls:
            poll = self._polls[leader.node]
            poll.changed.add(partition)
            poll.wake.set()

    def refresh(self) -> None:
        """Ask for leaders again, soon."""
        self._stale.set()

    def stop(self) -> None:
        self._stopped = True
        self._stale.set()
        for poll in self._polls.values():
            poll.wake.set()

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

    async def _run(self, node: int, poll: _Poll) -> None:
        settings = self._settings
        session = FetchSession(self._client, node, read_committed=settings.isolation_level == "read_committed")
        while not self._stopped:
            self._choose(node, poll)
            wanted = poll.wanted
            if not wanted:
                await poll.wake.wait()
                continue
            wait_ms = settings.fetch_max_wait_ms
            try:
                answers = await session.fetch(
                    wanted,
                    max_wait_ms=min(SHORT_WAIT_MS, wait_ms) if poll.held_back else wait_ms,
                    min_bytes=settings.fetch_min_bytes,
                    max_bytes=min(MAX_FETCH_BYTES, settings.fetch_max_bytes),
                )
            except RefusedError as error:
                self._lost(error)
                return
            except TwinlogError as error:
                self.trouble = str(error)
                self.refresh()
                await self._loop.sleep(settings.client.retry_backoff_ms / 1000)
                continue
            self.trouble = None
            for fetched in answers:
                asked = wanted.get(fetched.partition)
                if asked is not None and not self._stopped:
                    self._deliver(asked, fetched)
                    poll.changed.add(fetched.partition)

    def _choose(self, node: int, poll: _Poll) -> None:
        """Bring the poll's wishes up to date; with thousands of idle partitions only those that changed are asked."""
        changed, poll.changed = poll.changed, set()
        if poll.rebuild:
            poll.rebuild = False
            poll.wanted.clear()
            poll.held_back.clear()
            changed = set(self._cursors)
        for partition in changed:
            cursor = self._cursors.get(partition)
            leader = self._client.leader(partition)
            position = None if cursor is None or leader is None or leader.node != node else cursor.fetch_position()
            if position is None:
                poll.wanted.pop(partition, None)
            else:
                poll.wanted[partition] = position
            if position is None and cursor is not None and cursor.held_back:
                poll.held_back.add(partition)
            else:
                poll.held_back.discard(partition)


class _Poll:
    """What one broker is asked for: `wanted` positions, `held_back` partitions that will want more any moment."""

    __slots__ = ("changed", "held_back", "rebuild", "wake", "wanted")

    def __init__(self, loop: Loop) -> None:
        self.wake: Signal = loop.signal()
        self.rebuild = True
        self.changed: set[TopicPartition] = set()
        self.wanted: dict[TopicPartition, FetchPosition] = {}
        self.held_back: set[TopicPartition] = set()
