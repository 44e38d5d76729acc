"""The ends of a run `--until-caught-up`: the ends that partitions had at its start."""

from __future__ import annotations

import logging
from collections.abc import Collection, Set

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.unlisted_topics import find_hidden
from twinlog.model.topics import Topic, listed
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.worker.status.flow_status import FlowStatus

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
