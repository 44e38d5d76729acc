"""The long polls of a fetch session: the partitions that each of them asks for, and the time that the broker may take.

A poll of thousands of partitions keeps the positions of the idle partitions from one fetch to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

from twinlog.clock import LONG_AGO
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.fetch_pace import FetchSize
from twinlog.kafka.consumer.session_places import SessionPlace, SessionPlaces
from twinlog.kafka.fetch_session import Fetched
from twinlog.kafka.net.loop import Signal
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.model.types import TopicPartition

SHORT_WAIT_MS = 10
"""Long-poll limit in ms while a partition is held back by unacknowledged appends, so that its wait is short.

The limit grows by a millisecond for every `HELD_SHARE` ms since the last acknowledgement. Otherwise an absent target
would cause a hundred fetches a second.
"""

HELD_SHARE = 4


class Cursor(Protocol):
    """A partition to read."""

    @property
    def held_back(self) -> bool:
        """Whether the cursor only waits for acknowledgements; `fetch_position` updates this value."""

    def fetch_position(self, read_ahead: int) -> FetchPosition | None:
        """The next fetch position; its `max_bytes` is ignored.

        None while `read_ahead` bytes of the partition wait to be appended, or while reading of the partition is paused.
        """

    def position_after(self, asked: FetchPosition, answer: PartitionResponse, read_ahead: int) -> FetchPosition | None:
        """The fetch position after an answer that is still to be delivered; its `max_bytes` is ignored.

        None if the cursor may have another position then, or as `fetch_position`.
        """


class BrokerPoll:
    """The fetches of a session: `wanted` positions, and `held_back` partitions that wait for their appends.

    `cursors` has the partitions of all sessions, and `places` tells the session of each.
    """

    __slots__ = (
        "_client",
        "_cursors",
        "_held_since",
        "_known",
        "_now",
        "_places",
        "added",
        "changed",
        "held_back",
        "node",
        "place",
        "rebuild",
        "size",
        "wake",
        "wanted",
    )

    def __init__(
        self,
        client: ClusterClient,
        places: SessionPlaces,
        cursors: Mapping[TopicPartition, Cursor],
        place: SessionPlace,
        partition_bytes: int,
    ) -> None:
        self.place = place
        self.node = place.node
        self.size = FetchSize(partition_bytes)
        self._client = client
        self._places = places
        self._cursors = cursors
        self._now = client.loop.clock.monotonic
        self.wake: Signal = client.loop.signal()
        self.rebuild = True
        # Dicts, because a set would have its own order in each process.
        self.changed: dict[TopicPartition, None] = {}
        self.wanted: dict[TopicPartition, FetchPosition] = {}
        self.held_back: dict[TopicPartition, None] = {}
        self.added: dict[TopicPartition, None] = {}
        """The partitions that got a cursor after the last fetch."""
        self._known: Mapping[TopicPartition, Cursor] = {}
        """The cursors at the last rebuild."""
        self._held_since = LONG_AGO

    def choose(self, read_ahead: int, later: Set[TopicPartition] = frozenset()) -> Sequence[TopicPartition]:
        """Update the positions that the poll fetches; of thousands of idle partitions only the changed partitions.

        Partitions of `later` have an answer that is still to be taken; their turn is the next call. Returns the
        partitions that have another session now: its poll may not know of the move yet.
        """
        changed, self.changed = self.changed | self.held_back, {}
        cursors, place_of, place = self._cursors, self._places.place, self.place
        moved: list[TopicPartition] = []
        rebuild, self.rebuild = self.rebuild, False
        if rebuild:
            self.wanted.clear()
            self.held_back.clear()
            changed = dict.fromkeys(cursors)
            self._add_cursors()
        for partition in changed:
            if partition in later:
                self.changed[partition] = None
                continue
            cursor, where = cursors.get(partition), place_of(partition)
            position = None if cursor is None or where != place else cursor.fetch_position(read_ahead)
            if cursor is not None and where != place and not rebuild:
                # A rebuild concerns all polls.
                moved.append(partition)
            if position is None:
                self.wanted.pop(partition, None)
            else:
                self.wanted[partition] = self._at_leader(partition, position)
            held_back = where == place and position is None and cursor is not None and cursor.held_back
            if held_back != (partition in self.held_back):
                self.hold_back(partition, held_back)
        return moved

    def _add_cursors(self) -> None:
        """Note the partitions with another cursor than before: a partition may be removed and added again."""
        before, self._known = self._known, dict(self._cursors)
        self.added |= {part: None for part, cursor in self._known.items() if before.get(part) is not cursor}

    def position_after(self, fetched: Fetched, read_ahead: int) -> FetchPosition | None:
        """The position after an answer; None if the cursor is unsure, or has another session now."""
        asked, cursor = self.wanted.get(fetched.partition), self._cursors.get(fetched.partition)
        if asked is None or cursor is None or self._places.place(fetched.partition) != self.place:
            return None
        position = cursor.position_after(asked, fetched.answer, read_ahead)
        return None if position is None else self._at_leader(fetched.partition, position)

    def _at_leader(self, partition: TopicPartition, position: FetchPosition) -> FetchPosition:
        """A position with the epoch of the leader, by which a former leader returns an error.

        Without the epoch, a former leader would answer as a follower.
        """
        leader = self._client.leader(partition)
        epoch = -1 if leader is None else leader.epoch
        # `_replace` would take three times as long.
        return FetchPosition(position.offset, self.size.bytes, position.last_epoch, epoch, position.topic_id)

    def hold_back(self, partition: TopicPartition, held_back: bool) -> None:
        """Note whether a partition waits for its appends."""
        if held_back == (partition in self.held_back):
            return
        self._held_since = self._now()
        if held_back:
            self.held_back[partition] = None
        else:
            self.held_back.pop(partition, None)

    def patience_ms(self, now: float, most_ms: int) -> int:
        """The milliseconds for which the broker may wait for records."""
        if not self.held_back:
            return most_ms
        return min(most_ms, max(SHORT_WAIT_MS, int((now - self._held_since) * 1000 / HELD_SHARE)))
