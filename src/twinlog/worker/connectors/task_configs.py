"""The configurations of a connector's tasks, as MirrorMaker 2's connectors and Connect write them to the config topic.

twinlog spreads partitions by itself while it runs. Answers show these configurations, and a Kafka worker that takes
over begins with them (classes MirrorSourceConnector, MirrorCheckpointConnector, MirrorHeartbeatConnector and Worker).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import cast

from twinlog.config.connector import PACKAGE, ConnectorFlow
from twinlog.model.types import GroupId, TopicPartition
from twinlog.worker.connectors.model import Config

_TASKS = {"source": "MirrorSourceTask", "checkpoint": "MirrorCheckpointTask", "heartbeat": "MirrorHeartbeatTask"}


def task_configs(
    connector: ConnectorFlow, config: Config, work: Collection[TopicPartition] | Sequence[GroupId]
) -> Sequence[Config]:
    """The tasks of a connector that share this work.

    `config` is the connector's configuration as submitted: the references to secrets in a task's are unresolved, too.
    """
    if connector.kind == "source":
        return source_tasks(connector, config, sorted(cast(Collection[TopicPartition], work)))
    if connector.kind == "checkpoint":
        return checkpoint_tasks(connector, config, cast(Sequence[GroupId], work))
    return heartbeat_tasks(connector, config)


def source_tasks(connector: ConnectorFlow, config: Config, partitions: Iterable[TopicPartition]) -> Sequence[Config]:
    """Tasks of a source connector; the partitions go to the tasks in turn. Empty for an empty set of partitions."""
    every = [f"{partition.topic}-{partition.partition}" for partition in partitions]
    count = min(connector.settings.tasks_max, len(every))
    return _numbered(connector, config, "task.assigned.partitions", [every[index::count] for index in range(count)])


def checkpoint_tasks(connector: ConnectorFlow, config: Config, groups: Sequence[GroupId]) -> Sequence[Config]:
    """Tasks of a checkpoint connector, each with consecutive groups. The list is empty for an empty list of groups."""
    count = min(connector.settings.tasks_max, len(groups))
    shares: list[Sequence[str]] = []
    begin = 0
    for index in range(count):
        end = begin + len(groups) // count + (index < len(groups) % count)
        shares.append(groups[begin:end])
        begin = end
    return _numbered(connector, config, "task.assigned.groups", shares)


def heartbeat_tasks(connector: ConnectorFlow, config: Config) -> Sequence[Config]:
    """The single task of a heartbeat connector; an empty list for a disabled connector."""
    return [] if connector.idle else [{**config, "task.class": _task_class(connector)}]


def _numbered(
    connector: ConnectorFlow, config: Config, assigned: str, shares: Sequence[Sequence[str]]
) -> Sequence[Config]:
    if connector.idle:
        return []
    return [
        {**config, assigned: ",".join(share), "task.index": str(index), "task.class": _task_class(connector)}
        for index, share in enumerate(shares)
    ]


def _task_class(connector: ConnectorFlow) -> str:
    return PACKAGE + _TASKS[connector.kind]
