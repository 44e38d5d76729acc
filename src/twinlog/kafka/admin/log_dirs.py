"""Reads the sizes of the logs of partitions and the free space of brokers' disks; coroutines on a client's loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka.protocol.admin import DescribeLogDirsRequest

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import Disk
from twinlog.model.types import TopicName, TopicPartition

_TIMEOUT_S = 40.0


@dataclass(frozen=True, slots=True)
class LogDirs:
    """The bytes of each partition, of its largest replica, and the disks of all brokers that answered."""

    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    disks: list[Disk] = field(default_factory=list)


async def describe_log_dirs(client: ClusterClient) -> LogDirs:
    """Ask each broker once about all of its logs. A directory that failed is left out.

    The space of a disk is known since Kafka 3.3 (KIP-827). Raises RefusedError if the principal lacks DESCRIBE on the
    cluster, ClusterError when a broker fails to answer.
    """
    found = LogDirs()
    nodes = await client.nodes()
    asked = [
        client.loop.spawn(client.send_request, DescribeLogDirsRequest(topics=None), node, _TIMEOUT_S) for node in nodes
    ]
    for node, answer in zip(nodes, await client.loop.gather(asked), strict=True):
        code = answer.error_code if answer.API_VERSION >= 3 else Code.NONE
        # Before version 3 a refusing broker returns an empty list of directories.
        if error_codes.refused(code) or (answer.API_VERSION < 3 and not answer.results):
            raise client.lacks("DESCRIBE", "the cluster", "reading the sizes of its logs")
        if code:
            raise ClusterError(f"cluster {client.alias}: log directories: {error_codes.explain(code)}")
        for directory in answer.results:
            if directory.error_code:
                continue
            known = answer.API_VERSION >= 4 and directory.total_bytes >= 0
            total, usable = (directory.total_bytes, directory.usable_bytes) if known else (None, None)
            found.disks.append(Disk(node, directory.log_dir, total, usable))
            for topic in directory.topics:
                for part in topic.partitions:
                    where = TopicPartition(TopicName(topic.name), part.partition_index)
                    if not part.is_future_key:
                        found.sizes[where] = max(found.sizes.get(where, 0), part.partition_size)
    return found
