"""The checkpoints in their topic: the last of each group in each remote partition, and the rule for the next.

A checkpoint is due by the rule of Kafka class MirrorCheckpointTask (`checkpointIsMoreRecent`).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import KeptRecord, LastRecords
from twinlog.kafka.record.records import Record
from twinlog.mirror.records import Checkpoint, decode_checkpoint
from twinlog.mirror.topics.internal_topics import CompactedTopic, checkpoints
from twinlog.model.types import GroupId, TargetOffset, TopicPartition
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

FORGET_S = 3600.0
"""The seconds after which the checkpoints of an absent group are forgotten here; they stay in the topic."""


def is_due(new: Checkpoint, last: Checkpoint | None, *, exact: bool) -> bool:
    """Return whether `new` is written after `last`, the last checkpoint of the same group and remote partition.

    As in MirrorMaker 2, checkpoints move forward on the target, and back only with the group. In two more cases the
    checkpoint is written: only the group's metadata changed, or an `exact` translation lies before the last checkpoint.
    In the second case the remote topic was recreated, and a group that used the old checkpoint would skip records. The
    start of a recreated topic counts as exact here.
    """
    if last is None or new.upstream < last.upstream or new.downstream > last.downstream:
        return True
    if new.downstream < last.downstream:
        return exact
    return new.upstream == last.upstream and new.metadata != last.metadata


class StoredCheckpoints:
    """The topic of checkpoints, which a single thread prepares and writes; any thread may call `last` and `earlier`."""

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        topic = checkpoints(settings)
        self._flow = settings.name
        self._topic = topic.name
        self._clock = target.clock
        self._compacted = CompactedTopic(settings.name, target, topic, "checkpoints")
        self._reader = TopicReader(target, topic.name, optional=True)
        self._last: dict[GroupId, dict[TopicPartition, Checkpoint]] = defaultdict(dict)
        """The last checkpoint of each group and remote partition in the topic."""
        self._earlier: dict[GroupId, dict[TopicPartition, TargetOffset]] = {}
        """The target offsets of the checkpoints that were in the topic at the start."""
        self._gone: dict[GroupId, float] = {}
        """The moment at which the flow stopped following a group with checkpoints."""
        self._found: LastRecords = {}
        """The checkpoints that were read before the first turn, until the reading is complete."""
        self._read = False

    def last(self, group: GroupId) -> Mapping[TopicPartition, Checkpoint]:
        """Return the last checkpoint of a group in each remote partition."""
        return self._last.get(group, {}).copy()

    def earlier(self, group: GroupId) -> Mapping[TopicPartition, TargetOffset]:
        """Return the target offsets of a group's checkpoints in the topic before this process wrote any."""
        return self._earlier.get(group, {})

    def prepare(self, *, look: bool) -> bool:
        """Make the topic ready for checkpoints: the first call reads it, so that a checkpoint moves back for a reason.

        With `look` the topic is created again if it was deleted. Returns whether the topic was created. Raises
        ClusterError.
        """
        created = self._compacted.ensure(look=look)
        if not self._read:
            self._read_last()
        elif created:
            log.warning(
                "TW-GROUP-04: %s: topic %s was gone; its checkpoints are written again", self._flow, self._topic
            )
            self._last.clear()
        return created

    def append(self, due: Sequence[Checkpoint]) -> None:
        """Append checkpoints to the topic. Raises ClusterError."""
        self._compacted.append((checkpoint.key, checkpoint.value) for checkpoint in due)
        for checkpoint in due:
            self._last[checkpoint.group][checkpoint.remote] = checkpoint

    def retain_groups(self, followed: Container[GroupId]) -> None:
        """Forget the groups that have been absent for `FORGET_S`: new groups appear as long as the flow runs."""
        now = self._clock.monotonic()
        self._gone = {group: self._gone.get(group, now) for group in self._last if group not in followed}
        for group in [group for group, since in self._gone.items() if now - since > FORGET_S]:
            del self._last[group], self._gone[group]
            self._earlier.pop(group, None)

    def _read_last(self) -> None:
        try:
            self._reader.read_last(self._found)
        except RefusedError as error:
            log.warning(
                "TW-GROUP-05: %s: earlier checkpoints are unreadable, and every group gets new checkpoints, which may "
                "be older: %s; grant READ on topic %s",
                self._flow,
                error,
                self._topic,
            )
        self._read = True
        self._take(map(KeptRecord.decode, self._found.values()))
        self._found.clear()
        self._earlier = {
            group: {remote: one.downstream for remote, one in found.items()} for group, found in self._last.items()
        }

    def _take(self, records: Iterable[Record]) -> None:
        """Read the last record of each key in the topic."""
        for record in records:
            checkpoint = decode_checkpoint(record.key, record.value)
            if checkpoint is not None:
                self._last[checkpoint.group][checkpoint.remote] = checkpoint
