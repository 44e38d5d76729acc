"""Names of heartbeats topics and internal topics, and names that no record is routed to.

MirrorMaker 2 takes each topic for a heartbeats topic whose name ends in the separator and `heartbeats`, as
`device.heartbeats` (Kafka interface ReplicationPolicy, isHeartbeatsTopic), and copies it past the filter. twinlog
spares heartbeats transforms and the check for gaps, and must not spare records of a user: a heartbeats topic here
begins with aliases of known clusters. Names are read as by Kafka 4.3's class DefaultReplicationPolicy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from twinlog.errors import TransformError
from twinlog.model.topics import is_legal_topic
from twinlog.model.types import Alias, TopicName


def source_alias(topic: TopicName, separator: str) -> Alias | None:
    """The cluster `topic` came from, None if its name names none."""
    # Trailing empty pieces do not count, as in Java's String.split: `a.` comes from nowhere, `.x` from "".
    # Nothing separates every two characters there.
    pieces = topic.split(separator) if separator else list(topic)
    while pieces and not pieces[-1]:
        pieces.pop()
    return Alias(pieces[0]) if len(pieces) >= 2 else None


def upstream_name(topic: TopicName, separator: str) -> TopicName | None:
    """What `topic` is called on the cluster it came from, None if its name names none."""
    alias = source_alias(topic, separator)
    return None if alias is None else TopicName(topic[len(alias) + len(separator) :])


def passes_as_heartbeats(topic: TopicName, separator: str) -> bool:
    """Whether MirrorMaker 2 takes `topic` for one of heartbeats and copies it past the filter (Kafka interface
    ReplicationPolicy, isHeartbeatsTopic). Whether it holds any is another question, see `heartbeat_names`."""
    if not topic.endswith(HEARTBEATS):
        # Asked of all topics at each refresh; what a name is cut down to is an end of it.
        return False
    found: TopicName | None = topic
    while found is not None:
        topic, found = found, upstream_name(found, separator)
    return topic == HEARTBEATS


HEARTBEATS = TopicName("heartbeats")
"""Where all flows to a cluster write their heartbeats (KIP-382)."""


def progress_topic(source: Alias) -> str:
    """The topic of reports about flows from `source`, on their target.

    It begins with `mm2` and ends with `internal`, so that neither twinlog nor MirrorMaker 2 mirrors it.
    """
    return f"mm2-twinlog-progress.{source}.internal"


RELOADS = TopicName("mm2-twinlog-reload.internal")
"""Where `twinlog reload` asks processes that run flows to a cluster to read their files again; they answer there."""


def control_topic(source: Alias) -> str:
    """The topic of what operators ask of single topics of flows from `source`, on their target; named so that nobody
    mirrors it, either."""
    return f"mm2-twinlog-control.{source}.internal"


_INTERNAL = re.compile(r"__.*|.*[.-]internal|heartbeats")


def check_name(name: str) -> None:
    """Raise TransformError where records cannot be routed to topic `name`, whatever topic they come from."""
    if not is_legal_topic(name):
        raise TransformError(f"it routes records to {name!r}, which is no legal topic name")
    if _INTERNAL.fullmatch(name):
        raise TransformError(f"it routes records to {name}, which is an internal topic")


@dataclass(frozen=True, slots=True)
class HeartbeatNames:
    """The names of heartbeats topics where these aliases of clusters are known, and flows have this separator."""

    separator: str
    aliases: frozenset[Alias]

    def is_heartbeats(self, topic: TopicName) -> bool:
        """Whether `topic` holds heartbeats: it is `heartbeats`, or that after known aliases, each with a separator."""
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
        """The same with more aliases."""
        return replace(self, aliases=self.aliases.union(aliases))
