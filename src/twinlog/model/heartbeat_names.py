"""Which topics hold MirrorMaker 2's heartbeats; every other topic is a user's, whatever its name looks like.

MirrorMaker 2 takes each topic for one of heartbeats whose name ends in the separator and `heartbeats`, as
`device.heartbeats` (Kafka interface ReplicationPolicy, isHeartbeatsTopic), and copies it past the filter. What twinlog
spares heartbeats, such as transforms and the check for gaps, it must not spare records of a user: here a name has to
begin with aliases of clusters that are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from twinlog.model.internal_topics import HEARTBEATS
from twinlog.model.types import Alias, TopicName


@dataclass(frozen=True, slots=True)
class HeartbeatNames:
    """The names of heartbeats topics where these aliases of clusters are known, and flows have this separator."""

    separator: str
    aliases: frozenset[Alias]

    def hold(self, topic: TopicName) -> bool:
        """Whether `topic` holds heartbeats: it is `heartbeats`, or that after known aliases, each with a separator."""
        if not topic.endswith(HEARTBEATS):
            return False
        return topic == HEARTBEATS or (
            bool(self.separator)
            and any(
                topic.startswith(prefix) and self.hold(TopicName(topic[len(prefix) :]))
                for prefix in (f"{alias}{self.separator}" for alias in self.aliases)
            )
        )

    def knowing(self, aliases: Iterable[Alias]) -> HeartbeatNames:
        """The same with more aliases."""
        return replace(self, aliases=self.aliases.union(aliases))
