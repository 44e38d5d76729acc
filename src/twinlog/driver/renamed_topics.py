"""Topics that were copied to one name until now, and would be copied to another: naming was changed between two runs.

MirrorMaker 2 goes on from the stored position into the new topic, which lacks all that was copied before, without a
warning. Here the position has the name of the remote topic.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.default_names import is_heartbeats
from twinlog.model.topics import Topic, listed
from twinlog.model.types import TopicName, TopicPartition
from twinlog.offsets.positions import Position
from twinlog.offsets.store import StoredPositions
from twinlog.plan.changes import TopicPair
from twinlog.settings.flow import ConsumerSettings, FlowSettings
from twinlog.settings.written import key_of

log = logging.getLogger(__name__)


class RenamedTopics:
    """Finds them for one flow, and decides by `twinlog.renamed.topic.policy` where their partitions go on."""

    def __init__(self, settings: FlowSettings, positions: StoredPositions, target: ClusterAdmin) -> None:
        self._settings = settings
        self._positions = positions
        self._target = target
        self._looked_at: set[tuple[TopicName, TopicName]] = set()
        self._earlier: dict[TopicPartition, TopicName] = {}

    def look(self, pairs: Sequence[TopicPair], target: Mapping[TopicName, Topic]) -> None:
        """Look at the positions of topics that are new to this process, before their remote topics are created.

        Topics that are not among `pairs` any more are forgotten. Raises RefusedError with both names when the policy is
        `stop`, and ClusterError.
        """
        self._looked_at &= {(pair.source.name, pair.remote) for pair in pairs}
        if self._earlier:
            mirrored = {pair.source.name for pair in pairs}
            self._earlier = {part: earlier for part, earlier in self._earlier.items() if part.topic in mirrored}
        fresh = [pair for pair in pairs if (pair.source.name, pair.remote) not in self._looked_at]
        if not fresh:
            return
        remotes = {
            TopicPartition(pair.source.name, number): pair.remote
            for pair in fresh
            for number in range(pair.source.partitions)
        }
        # A position that has no name yet knows the id of the topic.
        names = {str(topic.topic_id): name for name, topic in target.items() if topic.topic_id is not None}
        found = {
            part: TopicName(earlier)
            for part, position in self._positions.read(remotes).items()
            if (earlier := position.remote_topic or names.get(position.remote_topic_id or ""))
            not in (None, remotes[part])
        }
        # Old heartbeats are not needed.
        missed = {part: earlier for part, earlier in found.items() if not self._is_heartbeats(part.topic)}
        if missed:
            moved = {(part.topic, earlier, remotes[part]) for part, earlier in missed.items()}
            self._report(
                moved, self._filled({TopicPartition(remotes[part], part.partition) for part in missed}, target)
            )
        self._earlier.update(found)
        self._looked_at.update((pair.source.name, pair.remote) for pair in fresh)

    def position(self, partition: TopicPartition, remote: TopicName, stored: Position | None) -> Position | None:
        """The position from which a partition goes on into its remote topic; None to begin as one never copied."""
        earlier = self._earlier.get(partition)
        if stored is None or earlier is None or stored.remote_topic == remote:
            return stored
        if self._settings.renamed_topic_policy == "restart" and not self._is_heartbeats(partition.topic):
            return None
        # Its target offsets are those of the other topic.
        return replace(stored, next_target=None, remote_topic_id=None, remote_topic=None, writer=None)

    def _is_heartbeats(self, topic: TopicName) -> bool:
        return is_heartbeats(topic, self._settings.separator)

    def _filled(self, remotes: set[TopicPartition], target: Mapping[TopicName, Topic]) -> list[TopicName]:
        """The topics of remote partitions, of the new names, that have records already.

        That happens when naming goes back to an earlier one. It is a hint; nothing else waits for it.
        """
        parts = [part for part in remotes if part.topic in target and part.partition < target[part.topic].partitions]
        try:
            first, following = (self._target.offsets(parts, latest=latest) for latest in (False, True))
        except ClusterError as error:
            log.debug("%s: whether new names have records already: %s", self._settings.name, error)
            return []
        return sorted({part.topic for part in parts if following.get(part, 0) > first.get(part, 0)})

    def _report(self, moved: set[tuple[TopicName, TopicName, TopicName]], filled: Sequence[TopicName]) -> None:
        settings = self._settings
        policy = settings.renamed_topic_policy
        moves = listed(f"{topic} (to {earlier} until now, to {remote} from now on)" for topic, earlier, remote in moved)
        if policy == "stop":
            key, class_key = settings.key("renamed_topic_policy"), key_of(FlowSettings, "policy")
            raise RefusedError(
                f"naming was changed since these topics were copied: {moves}. What was copied would be missing under "
                f"the new names. Either go back to the earlier {class_key} and separator, or go on for one run with "
                f"{key} = restart, which copies everything again to the new names, or = continue, which copies only "
                "what follows; the topics of earlier names stay"
                + (f". There are records already in {listed(filled)}: restart would repeat them" if filled else "")
            )
        reset = settings.consumer.auto_offset_reset
        if policy == "restart" and reset != "earliest":
            own, theirs = key_of(FlowSettings, "renamed_topic_policy"), key_of(ConsumerSettings, "auto_offset_reset")
            raise RefusedError(
                f"{own} = restart copies nothing again while {settings.source}.consumer.{theirs} = {reset}; set "
                f"earliest for that run ({moves})"
            )
        kept = "everything is copied again" if policy == "restart" else "only what follows is copied"
        log.warning("%s: naming was changed, and %s: %s", settings.name, kept, moves)
        if filled:
            become = (
                "stand there a second time once everything is copied again; delete these topics before a restart to "
                "have everything once"
                if policy == "restart"
                else "are followed by what comes now, without what was copied to the other names meanwhile"
            )
            log.warning("%s: %s had records already, which %s", settings.name, listed(filled), become)
