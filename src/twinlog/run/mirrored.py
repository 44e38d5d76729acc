"""What one flow mirrors at present: finds source topics, makes and grows their remote topics, says what is left out."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence

from twinlog.errors import RefusedError
from twinlog.flows.topology import topology_of
from twinlog.kafka.admin import ClusterAdmin
from twinlog.mirror.checks import misread_topics, say_misread_topics
from twinlog.mirror.topics import TopicMirror
from twinlog.offsets.store import PositionStore
from twinlog.plan.changes import Changes, Pair, compare, copyable
from twinlog.run.rivals import Rivals
from twinlog.settings import FlowSettings
from twinlog.topics import Topic, listed
from twinlog.types import TopicName, TopicPartition

log = logging.getLogger(__name__)

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588


class MirroredTopics:
    """The topics of one flow; `refresh` looks for what is new. `flows` are all flows of the file.

    `partitions` are the source partitions that can be copied, with their remote partitions.
    """

    def __init__(
        self,
        settings: FlowSettings,
        flows: Sequence[FlowSettings],
        source: ClusterAdmin,
        target: ClusterAdmin,
        positions: PositionStore,
    ) -> None:
        self.partitions: dict[TopicPartition, TopicPartition] = {}
        self.pairs: tuple[Pair, ...] = ()
        """Mirrored topics whose remote topic exists."""
        self._settings = settings
        self._source = source
        self._target = target
        self._topology = topology_of(settings)
        self._mirror = TopicMirror(settings, source, target)
        self._rivals = Rivals(settings, flows, target, positions)
        self._aliases = {alias for flow in flows for alias in (flow.source, flow.target)}
        self._topic_ids: dict[TopicName, str | None] = {}
        self._limits: dict[TopicName, int] = {}
        self._refused: set[TopicName] = set()
        self._left_out: dict[TopicName, str] = {}
        self._looked = False
        self._said_idle = False

    def create_own(self) -> None:
        """Create the topics that the flow keeps for itself. Raises RefusedError or ClusterError."""
        self._mirror.create_own()

    def refresh(self) -> None:
        """Bring the remote topics up to date. Raises ClusterError or RefusedError."""
        source, target = self._source.topics(), self._target.topics()
        changes = self._without_left_out(compare(self._topology, source, target))
        create = [pair for pair in changes.create if pair.remote not in self._refused]
        refused = {}
        if create:
            refused.update(self._mirror.create(create))
        if changes.grow:
            refused.update(self._mirror.grow(changes.grow))
        for name, refusal in refused.items():
            if name not in self._refused:
                log.error("%s: remote topic %s: %s", self._settings.name, name, refusal.text)
                self._refused.add(name)
        self._say_what_is_missing(changes, source, target)
        if create or changes.grow:
            target = self._target.topics()
        remote = copyable(changes, target)
        fresh = {part.topic for part in remote.values()} - set(self._limits)
        self._limits.update(self._read_limits(sorted(fresh)))
        self._topic_ids = {
            pair.source.name: None if pair.source.topic_id is None else str(pair.source.topic_id)
            for pair in changes.pairs
        }
        self.pairs = tuple(pair for pair in changes.pairs if pair.remote in target)
        self.partitions = remote

    def topic_id(self, topic: TopicName) -> str | None:
        """The id of a source topic; None before Kafka 2.8."""
        return self._topic_ids.get(topic)

    def limit(self, remote: TopicName) -> int:
        """The largest batch that a remote topic takes, in bytes."""
        return self._limits.get(remote, DEFAULT_MAX_MESSAGE_BYTES)

    def require_all(self) -> None:
        """Raise RefusedError when a topic that should be mirrored is not."""
        if self._refused:
            raise RefusedError(f"these remote topics cannot be created: {', '.join(sorted(self._refused))}")
        if self._left_out:
            raise RefusedError("; ".join(f"{topic}: {reason}" for topic, reason in sorted(self._left_out.items())))

    def close(self) -> None:
        self._rivals.close()

    def _read_limits(self, remotes: Sequence[TopicName]) -> dict[TopicName, int]:
        found = {}
        for name, entries in self._target.configs(remotes).items():
            limit = next((entry.value for entry in entries if entry.name == "max.message.bytes"), None)
            found[name] = int(limit) if limit else DEFAULT_MAX_MESSAGE_BYTES
        return found

    def _without_left_out(self, changes: Changes) -> Changes:
        left_out = self._rivals.refusals(changes.pairs)
        reasons: dict[str, list[TopicName]] = defaultdict(list)
        for topic, reason in left_out.items():
            if self._left_out.get(topic) != reason:
                reasons[reason].append(topic)
        for reason, topics in reasons.items():
            log.error("%s: not mirrored: %s: %s", self._settings.name, listed(topics), reason)
        self._left_out = left_out
        return changes.without(left_out)

    def _say_what_is_missing(
        self, changes: Changes, source: Mapping[TopicName, Topic], target: Mapping[TopicName, Topic]
    ) -> None:
        """A flow that copies nothing, or not everything, must not look like one that has nothing to do."""
        settings = self._settings
        if not self._looked:
            self._looked = True
            say_misread_topics(settings, *misread_topics(self._topology, self._aliases, source, target))
        if not changes.pairs and not self._said_idle:
            self._said_idle = True
            reasons = [
                f"{name}: {self._left_out.get(name) or self._topology.refusal(name)}" for name in sorted(source)[:3]
            ]
            log.warning(
                "%s: none of the %d topics that can be seen on %s is mirrored%s",
                settings.name,
                len(source),
                settings.source,
                f" ({'; '.join(reasons)})" if reasons else "; does the login have DESCRIBE on them?",
            )
