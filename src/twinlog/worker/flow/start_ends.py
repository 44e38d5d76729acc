"""A run `--until-caught-up`: the ends that partitions had at its start, and its outcome once they are reached."""

from __future__ import annotations

import logging
from collections.abc import Collection, Set
from math import inf

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.unlisted_topics import find_hidden
from twinlog.model.topics import Topic, listed
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.held_and_paused import FlowHeldPartitions, summed_up
from twinlog.worker.status.report import FlowState
from twinlog.worker.topics.topic_refresh import TopicRefresh

log = logging.getLogger(__name__)

LOOK_S = 5.0
"""Seconds between two requests for ends that are unknown, or may have changed."""


class StartEnds:
    """Makes `status` wait for the ends of some source partitions. Raises ClusterError.

    The end of a leaderless partition is read once a leader is elected. Otherwise the partition would be left out like
    an empty partition.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterAdmin,
        status: FlowStatus,
        partitions: Collection[TopicPartition],
        late: Collection[TopicName] = (),
    ) -> None:
        """`late` are topics for which the target refuses remote partitions now."""
        self._name = settings.name
        self._committed = settings.consumer.isolation_level == "read_committed"
        self._source = source
        self._status = status
        self._look_at = source.clock.monotonic() + LOOK_S
        self._late = late
        self._noted = set(partitions)
        self._unknown = set(partitions)
        self._note(self._unknown, {})

    @property
    def reached(self) -> bool:
        """Whether all partitions have been copied up to their ends."""
        return self._status.paused.are_paused(self._unknown) and self._status.reached

    def reached_but(self, held: Set[TopicPartition]) -> bool:
        """Whether all partitions have been copied up to their ends, except some held partitions.

        False if `held` is empty.
        """
        waited_for = self._status.paused.without(self._unknown) | self._status.awaited()
        return bool(held) and waited_for <= held

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Wait for late topics, too, once their partitions are copied: up to their ends at that time.

        Raises ClusterError; `refresh_ends` asks for their ends again.
        """
        came = {part for part in partitions if part.topic in self._late} - self._noted
        if came:
            self._noted |= came
            self._unknown |= came
            self._note(came, {})

    def refresh_ends(self) -> None:
        """Ask again for ends that are unknown, or may be out of reach. Raises RefusedError.

        The topic may be deleted or recreated, or its log may have lost records.
        """
        now = self._source.clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        before = self._status.doubtful_ends()
        asked = before.keys() | self._unknown
        if not asked:
            return
        try:
            counts = {name: topic.partitions for name, topic in self._source.topics().items()}
            gone = {part for part in asked if part.partition >= counts.get(part.topic, 0)}
            # A topic that is hidden from the login is missing in the list as well.
            missing = {part.topic for part in gone} - counts.keys()
            hidden = find_hidden(self._source, [Topic(name, 0) for name in missing])
            gone = {part for part in gone if part.topic not in hidden}
            self._note(asked - gone, before)
        except RefusedError:
            raise
        except ClusterError as error:
            log.debug("%s: where partitions end is asked for again: %s", self._name, error)
            return
        if gone:
            log.warning(
                "TW-START-06: %s: not waited for any more, as they are gone: %s", self._name, listed(map(str, gone))
            )
            self._status.wait_for(dict.fromkeys(gone))
            self._unknown -= gone

    def _note(self, partitions: Collection[TopicPartition], before: dict[TopicPartition, SourceOffset]) -> None:
        ends = self._source.offsets(partitions, latest=True, read_committed=self._committed)
        self._status.wait_for({part: SourceOffset(min(end, before.get(part, end))) for part, end in ends.items()})
        self._unknown -= ends.keys()


class CaughtUpRun:
    """A run `--until-caught-up` of a flow. Its methods run on the flow's thread."""

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterAdmin,
        status: FlowStatus,
        topics: TopicRefresh,
        held: FlowHeldPartitions,
    ) -> None:
        self._settings = settings
        self._source = source
        self._status = status
        self._topics = topics
        self._held = held
        self._ends: StartEnds | None = None
        """Set by `note_ends`."""
        self._nothing = False
        """Whether the flow had no topic to copy at the start of the run."""

    def note_ends(self, partitions: Collection[TopicPartition]) -> None:
        """Note the ends of the first planned partitions. Raises ClusterError."""
        self._topics.require_all()
        # The passive side of two clusters has only records of the other side; its filters are correct.
        self._nothing = self._topics.nothing is not None and not self._topics.only_copies
        late = self._topics.refused_topics
        self._ends = StartEnds(self._settings, self._source, self._status, partitions, late)

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """As `StartEnds.add_partitions`; without effect before `note_ends`."""
        if self._ends is not None:
            self._ends.add_partitions(partitions)

    def poll_outcome(self, *, may_refresh: bool) -> tuple[FlowState, str | None] | None:
        """The last state of the flow and its reason, once all partitions have reached their ends; else None.

        Held partitions may be left. With `may_refresh` unknown ends are read. Raises RefusedError.
        """
        ends, name = self._ends, self._settings.name
        if ends is None:
            return None
        if may_refresh:
            ends.refresh_ends()
        # Topics that the target creates a moment later are copied, too.
        if self._topics.due_at != inf:
            return None
        if ends.reached:
            return self._caught_up()
        if ends.reached_but(self._held.settled()):
            text = summed_up(self._held.all())
            log.error("TW-HELD-03: %s: caught up, but for held partitions: %s", name, text)
            return FlowState.HELD, text
        return None

    def _caught_up(self) -> tuple[FlowState, str | None]:
        name = self._settings.name
        # A run with topics to copy may end after their deletion.
        nothing = self._topics.nothing if self._nothing else None
        refused = self._topics.refused
        if refused is not None:
            text = f"remote topics are missing: {refused}"
            log.error("TW-TOPIC-24: %s: caught up, but %s", name, text)
            return FlowState.HELD, text
        if nothing is None:
            log.info("%s: caught up%s", name, self._status.paused)
            return FlowState.DONE, None
        log.error("TW-FLOW-06: %s: nothing to copy: %s", name, nothing)
        return FlowState.NOTHING, nothing
