"""What a Python class must offer to be named in a configuration file, as `package.module:Class`.

| key | protocol |
|---|---|
| `replication.policy.class` | ReplicationPolicy |
| `topic.filter.class` | TopicFilter |
| `group.filter.class` | GroupFilter |
| `config.property.filter.class` | ConfigPropertyFilter |

A class is found on Python's path (install its package, or set PYTHONPATH) and instantiated without arguments, once for
each flow and on the driver only. If it has a method `configure`, that gets a mapping of the flow's settings as they
stand in the file, by their names without `A->B.`: those at top level that MirrorMaker 2 knows or that begin
`replication.policy.`, and all of the flow, keys of your own included; the settings of clients are left out.
`source.cluster.alias` and `target.cluster.alias` are always there.

Answers must depend on the arguments and these settings alone: the same topic is asked about again at each refresh, by
every process that shares the flow. Methods are called from several threads.
"""

from __future__ import annotations

from typing import Protocol


class ReplicationPolicy(Protocol):
    """How remote topics are called (Kafka interface ReplicationPolicy, without the names of internal topics).

    Heartbeats topics, names that end in `heartbeats`, are called as by the default policy and never asked about.
    """

    def remote_name(self, alias: str, topic: str, /) -> str:
        """What `topic` of cluster `alias` is called on another cluster (Java: formatRemoteTopic)."""

    def source_alias(self, topic: str, /) -> str | None:
        """The cluster that `topic` is a copy from, None if its name names none (Java: topicSource).

        A flow leaves out a topic that came from its target; without the alias records can go in cycles.
        """

    def upstream_name(self, topic: str, /) -> str | None:
        """What `topic` is called on that cluster, None if it is no copy (Java: upstreamTopic)."""


class TopicFilter(Protocol):
    """Which topics are mirrored; takes the place of `topics` and `topics.exclude` (Kafka interface TopicFilter).

    Internal topics and topics that would go in a cycle are left out even if it accepts them.
    """

    def accepts(self, topic: str, /) -> bool:
        """Whether `topic` of the source is mirrored (Java: shouldReplicateTopic)."""


class GroupFilter(Protocol):
    """Which groups have their offsets translated; takes the place of `groups` and `groups.exclude`."""

    def accepts(self, group: str, /) -> bool:
        """Whether offsets of `group` are translated (Java: shouldReplicateGroup)."""


class ConfigPropertyFilter(Protocol):
    """Which settings of a topic are carried over; takes the place of `config.properties.exclude`.

    May also have `accepts_default(setting) -> bool`: whether a setting that the source topic leaves at its default is
    carried over too (Java: shouldReplicateSourceDefault); without it none is.
    """

    def accepts(self, setting: str, /) -> bool:
        """Whether `setting`, made on a source topic, is carried over (Java: shouldReplicateConfigProperty)."""
