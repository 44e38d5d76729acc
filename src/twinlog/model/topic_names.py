"""Names of heartbeats topics and internal topics, and names that are forbidden as a transform's topic.

MirrorMaker 2 takes each topic for a heartbeats topic whose name ends in the separator and `heartbeats`, as
`device.heartbeats` (Kafka interface ReplicationPolicy, isHeartbeatsTopic), and copies it past the filter. twinlog
exempts heartbeats from transforms and from the check for gaps, and must treat records of a user in full. So a
heartbeats topic here begins with aliases of known clusters. Names are read as by Kafka 4.3's class
DefaultReplicationPolicy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from twinlog.errors import TransformError
from twinlog.model.topics import is_legal_topic
from twinlog.model.types import Alias, TopicName


def source_alias(topic: TopicName, separator: str) -> Alias | None:
    """The cluster that `topic` came from; None for a name that lacks an alias."""
    # Trailing empty pieces are dropped, as in Java's String.split: `a.` lacks an alias, `.x` has the alias "". An empty
    # separator separates every two characters.
    pieces = topic.split(separator) if separator else list(topic)
    while pieces and not pieces[-1]:
        pieces.pop()
    return Alias(pieces[0]) if len(pieces) >= 2 else None


def upstream_name(topic: TopicName, separator: str) -> TopicName | None:
    """The name of `topic` on its cluster of origin; None for a name that lacks an alias."""
    alias = source_alias(topic, separator)
    return None if alias is None else TopicName(topic[len(alias) + len(separator) :])


def passes_as_heartbeats(topic: TopicName, separator: str) -> bool:
    """Whether MirrorMaker 2 takes `topic` for a heartbeats topic and copies it past the filter.

    The rule is from Kafka interface ReplicationPolicy (isHeartbeatsTopic). `HeartbeatNames` tells whether the topic
    holds heartbeats.
    """
    if not topic.endswith(HEARTBEATS):
        # Each refresh asks about all topics; every upstream name is an end of the name.
        return False
    found: TopicName | None = topic
    while found is not None:
        topic, found = found, upstream_name(found, separator)
    return topic == HEARTBEATS


HEARTBEATS = TopicName("heartbeats")
"""The topic for the heartbeats of all flows to a cluster (KIP-382)."""


def progress_topic(source: Alias) -> str:
    """The topic of reports about flows from `source`, on their target.

    The name begins with `mm2` and ends with `internal`, so twinlog and MirrorMaker 2 both leave it out.
    """
    return f"mm2-twinlog-progress.{source}.internal"


SWITCHOVERS = TopicName("mm2-twinlog-switchover.internal")
"""The topic of the journals of switchovers; twinlog and MirrorMaker 2 leave its name out."""

RELOADS = TopicName("mm2-twinlog-reload.internal")
"""The topic for requests of `twinlog reload` to read files again, and for the answers of the cluster's flows."""


def control_topic(source: Alias) -> str:
    """The topic for requests of operators about single topics of flows from `source`, on their target.

    By its name, twinlog and MirrorMaker 2 leave it out, too.
    """
    return f"mm2-twinlog-control.{source}.internal"


def is_control_topic(topic: str) -> bool:
    """Whether a topic has the name of a `control_topic` for flows from any cluster."""
    return topic.startswith("mm2-twinlog-control.") and topic.endswith(".internal")


_INTERNAL = re.compile(r"__.*|.*[.-]internal|heartbeats")


def check_name(name: str) -> None:
    """Raise TransformError if records of any topic must stay out of topic `name`."""
    if not is_legal_topic(name):
        raise TransformError(f"it routes records to {name!r}, which is an illegal topic name")
    if _INTERNAL.fullmatch(name):
        raise TransformError(f"it routes records to {name}, which is an internal topic")


@dataclass(frozen=True, slots=True)
class HeartbeatNames:
    """The names of heartbeats topics, by known aliases of clusters and the separator of the flows."""

    separator: str
    aliases: frozenset[Alias]

    def is_heartbeats(self, topic: TopicName) -> bool:
        """Whether `topic` is `heartbeats`, or `heartbeats` after known aliases, each with a separator."""
        if not topic.endswith(HEARTBEATS):
            return False
        return topic == HEARTBEATS or (
            bool(self.separator)
            and any(
                topic.startswith(prefix) and self.is_heartbeats(TopicName(topic[len(prefix) :]))
                for prefix in (f"{alias}{self.separator}" for alias in self.aliases)
            )
        )

    def knowing(self, aliases: Iterable[Alias]) -> HeartbeatNames:
        """The same names with more aliases."""
        return replace(self, aliases=self.aliases.union(aliases))
