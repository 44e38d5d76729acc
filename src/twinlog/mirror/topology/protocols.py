"""The methods of a Python class that a configuration file names, as `package.module:Class`.

| key | protocol |
|---|---|
| `replication.policy.class` | ReplicationPolicy |
| `topic.filter.class` | TopicFilter |
| `group.filter.class` | GroupFilter |
| `config.property.filter.class` | ConfigPropertyFilter |

A class is found on Python's path (install its package, or set PYTHONPATH). The driver alone makes an instance for each
flow, by a call with no arguments. An optional method `configure` gets a mapping of the flow's settings as written in
the file, by their names without `A->B.`. The mapping has the settings at top level that MirrorMaker 2 knows or that
begin with `replication.policy.`, and all settings of the flow, including the user's own keys. The settings of clients
are left out. `source.cluster.alias` and `target.cluster.alias` are always in the mapping.

Answers must depend on the arguments and these settings alone: each refresh asks about the same topic again, in every
process that shares the flow. Methods are called from several threads.
"""

from __future__ import annotations

from typing import Protocol


class ReplicationPolicy(Protocol):
    """The names of remote topics (Kafka interface ReplicationPolicy, apart from the names of internal topics).

    Heartbeats topics, names that end in `heartbeats`, always have the names of the default policy.
    """

    def remote_name(self, alias: str, topic: str, /) -> str:
        """The name of `topic` of cluster `alias` on another cluster (Java: formatRemoteTopic)."""

    def source_alias(self, topic: str, /) -> str | None:
        """The cluster of the original of `topic`; None for a name that lacks an alias (Java: topicSource).

        A flow leaves out a topic that came from its target; with a missing alias records can go in cycles.
        """

    def upstream_name(self, topic: str, /) -> str | None:
        """The name of `topic` on that cluster; None for a topic that is an original (Java: upstreamTopic)."""


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

    A class may also have `accepts_default(setting) -> bool`: whether a setting that the source topic leaves at its
    default is carried over too (Java: shouldReplicateSourceDefault). In a class that lacks the method, defaults are
    left out.
    """

    def accepts(self, setting: str, /) -> bool:
        """Whether `setting`, made on a source topic, is carried over (Java: shouldReplicateConfigProperty)."""
