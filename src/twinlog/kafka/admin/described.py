"""Reads a principal's rights on a cluster and its topics, and the spread of topics; coroutines on a client's loop."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest

from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import DescribedTopic, Topic
from twinlog.model.types import TopicName

_WITH_RIGHTS = 8
_UNKNOWN = 31
"""The bit that a broker sets in place of an answer (Kafka's Integer.MIN_VALUE)."""


@dataclass(frozen=True, slots=True)
class DescribedCluster:
    """The brokers of a cluster by node id, and the operations allowed to the principal, None when these are unknown."""

    brokers: tuple[int, ...]
    operations: frozenset[int] | None


async def describe_cluster(client: ClusterClient) -> DescribedCluster:
    """The brokers, and the principal's rights on the cluster (KIP-700). Raises ClusterError."""
    if not client.supports(DescribeClusterRequest.API_KEY):
        return DescribedCluster(tuple(await client.nodes()), None)
    answer = await client.send_request(
        DescribeClusterRequest(include_cluster_authorized_operations=True, max_version=1)
    )
    nodes = tuple(sorted(broker.broker_id for broker in answer.brokers))
    return DescribedCluster(nodes, operations_of(answer.authorized_operations))


async def describe_topics(
    client: ClusterClient, names: Collection[TopicName] | None = None
) -> tuple[dict[TopicName, DescribedTopic], dict[TopicName, int]]:
    """Topics with the principal's rights on each (KIP-430), and the error codes of topics whose description failed.

    The rights are None before Kafka 2.3. `names` None means every topic that the principal may describe. A missing
    topic has the error code UNKNOWN_TOPIC_OR_PARTITION. Raises ClusterError.
    """
    with_rights = client.supports(MetadataRequest.API_KEY, _WITH_RIGHTS)
    request = MetadataRequest(
        topics=None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=with_rights,
    )
    found: dict[TopicName, DescribedTopic] = {}
    wrong: dict[TopicName, int] = {}
    for topic in (await client.send_request(request)).topics:
        name = TopicName(topic.name)
        if topic.error_code not in (Code.NONE, Code.LEADER_NOT_AVAILABLE):
            wrong[name] = topic.error_code
            continue
        found[name] = DescribedTopic(
            Topic(name, len(topic.partitions), topic.topic_id or None, bool(topic.is_internal)),
            max((len(part.replica_nodes) for part in topic.partitions), default=0),
            sum(part.leader_id < 0 for part in topic.partitions),
            operations_of(topic.authorized_operations) if with_rights else None,
        )
    return found, wrong


def operations_of(bits: Iterable[int] | None) -> frozenset[int] | None:
    """The operations that a broker reports as allowed; None when the answer lacks operations."""
    known = None if bits is None else frozenset(bits)
    return None if known is None or _UNKNOWN in known else known
