"""Topics whose remote topic has a new name: the naming was changed between two runs.

MirrorMaker 2 continues at the stored position into the new topic. This topic lacks all earlier records, and MirrorMaker
2 is silent about that. Here the position has the name of the remote topic. If names are kept and only the alias of the
source was changed, MirrorMaker 2 finds no position, and copies everything again behind its own copy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.offsets.position_store import StoredPositions
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topics.changes import TopicPair
from twinlog.model.topics import Topic, listed
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of

log = logging.getLogger(__name__)


class RenamedTopics:
    """Finds renamed topics of a flow, and decides the offsets at which their partitions continue.

    The rule is `twinlog.renamed.topic.policy`.
    """

    def __init__(self, settings: FlowSettings, positions: StoredPositions, target: ClusterAdmin) -> None:
        self._settings = settings
        self._positions = positions
        self._target = target
        self._looked_at: set[tuple[TopicName, TopicName]] = set()
        self._heartbeats: set[TopicName] = set()
        """Source topics that hold heartbeats."""
        self._earlier: dict[TopicPartition, TopicName] = {}
        self._strayed: dict[TopicPartition, Position] = {}
        """Positions under another alias of the source, at which partitions continue."""

    def find_renamed_topics(self, pairs: Sequence[TopicPair], target: Mapping[TopicName, Topic]) -> None:
        """Look at the positions of topics that are new to this process, before their remote topics are created.

        Topics that left `pairs` are forgotten. Raises RefusedError with both names if the policy is `stop`, and
        ClusterError.
        """
        self._looked_at &= {(pair.source.name, pair.remote) for pair in pairs}
        self._heartbeats = {pair.source.name for pair in pairs if pair.heartbeats}
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
        self._find_strayed(remotes)
        # A position without a topic name has the id of the topic.
        names = {str(topic.topic_id): name for name, topic in target.items() if topic.topic_id is not None}
        found = {
            part: TopicName(earlier)
            for part, position in self._positions.read(remotes).items()
            if (earlier := position.remote_topic or names.get(position.remote_topic_id or ""))
            not in (None, remotes[part])
        }
        # Old heartbeats are unneeded.
        missed = {part: earlier for part, earlier in found.items() if part.topic not in self._heartbeats}
        if missed:
            moved = {(part.topic, earlier, remotes[part]) for part, earlier in missed.items()}
            self._report(
                moved, self._filled({TopicPartition(remotes[part], part.partition) for part in missed}, target)
            )
        self._earlier.update(found)
        self._looked_at.update((pair.source.name, pair.remote) for pair in fresh)

    def position(self, partition: TopicPartition, remote: TopicName, stored: Position | None) -> Position | None:
        """The position at which a partition continues into its remote topic; None to begin like a new partition."""
        if stored is None and partition in self._strayed:
            return self._strayed[partition]
        earlier = self._earlier.get(partition)
        if stored is None or earlier is None or stored.remote_topic == remote:
            return stored
        if self._settings.renamed_topic_policy == "restart" and partition.topic not in self._heartbeats:
            return None
        # The stored target offsets are offsets of the earlier remote topic.
        return replace(stored, next_target=None, remote_topic_id=None, remote_topic=None, writer=None)

    def _find_strayed(self, partitions: Iterable[TopicPartition]) -> None:
        """Look for positions under another alias of the source, for topics that keep their names."""
        settings = self._settings
        if not settings.keeps_names:
            return
        found = self._positions.under_other_alias(part for part in partitions if part.topic not in self._heartbeats)
        if not found:
            return
        topics = listed({part.topic for part in found})
        aliases = sorted({alias for alias, _ in found.values()})
        shown = " and ".join(map(repr, map(str, aliases)))
        stray = (
            f"the positions of {topics} are stored under the alias {shown} of the source, and are looked for under "
            f"{str(settings.source_name)!r}"
        )
        policy, own = settings.renamed_topic_policy, key_of(FlowSettings, "renamed_topic_policy")
        if policy == "stop":
            key, renamed = settings.key("source_cluster_alias"), settings.key("renamed_topic_policy")
            raise RefusedError(
                f"{stray}: as topics keep their names, everything would be copied again behind its own copy. Either "
                f"write {key} = {aliases[0] or '(nothing behind it)'}, or run once with {renamed} = continue, which "
                "continues from these positions, or = restart, which copies everything again",
                message_id="TW-NAME-01",
            )
        if policy == "continue":
            self._strayed.update({part: position for part, (_, position) in found.items()})
        what = "copying continues from there" if policy == "continue" else "everything is copied again"
        log.warning("TW-NAME-01: %s: %s; by %s = %s %s", settings.name, stray, own, policy, what)

    def _filled(self, remotes: set[TopicPartition], target: Mapping[TopicName, Topic]) -> list[TopicName]:
        """The topics of these remote partitions, all under new names, that already have records.

        This happens when naming returns to an earlier form. The result is a hint only; an error gives an empty list.
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
                f"the new names. Either go back to the earlier {class_key} and separator, or run once with {key} = "
                "restart, which copies everything again to the new names, or = continue, which copies only what "
                "follows; the topics of earlier names stay"
                + (f". There are records already in {listed(filled)}: restart would repeat them" if filled else ""),
                message_id="TW-NAME-02",
            )
        other = next((topic for topic, *_ in sorted(moved) if settings.start_of(topic).kind != "earliest"), None)
        if policy == "restart" and other is not None:
            own = key_of(FlowSettings, "renamed_topic_policy")
            raise RefusedError(
                f"{own} = restart copies everything again, and {other} has {settings.start_key(other)}; set earliest "
                f"for that run ({moves})",
                message_id="TW-NAME-02",
            )
        kept = "everything is copied again" if policy == "restart" else "only what follows is copied"
        log.warning("TW-NAME-02: %s: naming was changed, and %s: %s", settings.name, kept, moves)
        if filled:
            become = (
                "stand there a second time once everything is copied again; delete these topics before a restart to "
                "have everything once"
                if policy == "restart"
                else "are followed by the new records; the records that were copied to the other names meanwhile are "
                "missing there"
            )
            log.warning("TW-NAME-03: %s: %s had records already, which %s", settings.name, listed(filled), become)
