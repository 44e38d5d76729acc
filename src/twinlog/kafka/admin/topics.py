"""Describes and creates topics, describes and alters their settings, and deletes the first records of a partition.

The functions are coroutines on the loop of a client.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafka.protocol.admin import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import ConfigChange, ConfigEntry, DescribedTopic, NewTopic, Refusal, Topic
from twinlog.model.types import TargetOffset, TopicName, TopicPartition

_WITH_RIGHTS = 8
_BY_ID = 12
_UNKNOWN = 31
"""The bit that a broker sets in place of an answer (Kafka's Integer.MIN_VALUE)."""

_TOPIC, _BROKER = 2, 4

_SET, _DELETE = 0, 1

CHUNK = 100
"""Topics per request."""

_NAMES = 1000
"""Topics per request for metadata."""

log = logging.getLogger(__name__)

CREATE_MS = 30_000
"""The milliseconds that the controller may take for a change of topics."""

TIMEOUT_S = 40.0

_WITH_DEFAULTS = 4

_REPLICAS = "default.replication.factor"

_REPLICAS_UNKNOWN = 3


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


async def find_unlisted_topics(
    client: ClusterClient, missing: Mapping[TopicName, Topic]
) -> tuple[dict[TopicName, Topic], frozenset[TopicName]]:
    """Ask by name for topics that the list of all topics lacks; returns the found topics, and the hidden names.

    Brokers hide a topic that lacks DESCRIBE from the list, and refuse its name even after its deletion (Kafka class
    KafkaApis). From Kafka 2.8 on the id of a deleted topic is unknown in either case. Raises ClusterError.
    """
    found: dict[TopicName, Topic] = {}
    hidden: set[TopicName] = set()
    names = sorted(missing)
    for start in range(0, len(names), _NAMES):
        described, wrong = await describe_topics(client, names[start : start + _NAMES])
        found.update((name, one.topic) for name, one in described.items())
        hidden.update(name for name, code in wrong.items() if error_codes.refused(code))
    return found, frozenset(hidden - await _deleted(client, [missing[name] for name in sorted(hidden)]))


async def _deleted(client: ClusterClient, topics: Sequence[Topic]) -> set[TopicName]:
    """The topics whose ids are unknown to the cluster."""
    names = {topic.topic_id: topic.name for topic in topics if topic.topic_id is not None}
    ids = list(names) if client.supports(MetadataRequest.API_KEY, _BY_ID) else []
    deleted: set[TopicName] = set()
    for start in range(0, len(ids), _NAMES):
        request = MetadataRequest(
            topics=[
                MetadataRequest.MetadataRequestTopic(topic_id=one, name=None) for one in ids[start : start + _NAMES]
            ],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
            min_version=_BY_ID,
        )
        for topic in (await client.send_request(request)).topics:
            if topic.error_code == Code.UNKNOWN_TOPIC_ID:
                deleted.add(names[topic.topic_id])
    return deleted


def operations_of(bits: Iterable[int] | None) -> frozenset[int] | None:
    """The operations that a broker reports as allowed; None when the answer lacks operations."""
    known = None if bits is None else frozenset(bits)
    return None if known is None or _UNKNOWN in known else known


async def describe_configs(
    client: ClusterClient, topics: Sequence[TopicName]
) -> tuple[dict[TopicName, list[ConfigEntry]], dict[TopicName, int]]:
    """All settings of topics, each with its source, and the error codes of topics whose description failed.

    A vanished topic has the error code UNKNOWN_TOPIC_OR_PARTITION.
    """
    found: dict[TopicName, list[ConfigEntry]] = {}
    refused: dict[TopicName, int] = {}
    resource = DescribeConfigsRequest.DescribeConfigsResource
    for start in range(0, len(topics), CHUNK):
        request = DescribeConfigsRequest(
            resources=[
                resource(resource_type=_TOPIC, resource_name=name, configuration_keys=None)
                for name in topics[start : start + CHUNK]
            ],
            include_synonyms=False,
            include_documentation=False,
            min_version=1,
        )
        for result in (await client.send_request(request)).results:
            name = TopicName(result.resource_name)
            if result.error_code != Code.NONE:
                refused[name] = result.error_code
                continue
            found[name] = [read_entry(entry) for entry in result.configs]
    return found, refused


async def read_broker_setting(client: ClusterClient, key: str) -> str | None:
    """The value of a setting of the broker with the lowest id; None if brokers of this release lack the setting.

    Raises as `read_broker_entry`.
    """
    entry = await read_broker_entry(client, key)
    return None if entry is None else entry.value


async def read_broker_entry(client: ClusterClient, key: str) -> ConfigEntry | None:
    """A setting of the broker with the lowest id; None if the broker has no such setting.

    Raises RefusedError if the principal lacks DESCRIBE_CONFIGS on the cluster, ClusterError when the setting is
    unreadable.
    """
    node = (await client.nodes())[0]
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(node), configuration_keys=[key]
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=False, include_documentation=False, min_version=1
    )
    for result in (await client.send_request(request, node)).results:
        if error_codes.refused(result.error_code):
            raise client.lacks("DESCRIBE_CONFIGS", "the cluster", f"reading {key} of its brokers")
        if result.error_code:
            raise ClusterError(
                f"cluster {client.alias}: settings of broker {node}: {error_codes.explain(result.error_code)}"
            )
        return next((read_entry(entry) for entry in result.configs if entry.name == key), None)
    raise ClusterError(f"cluster {client.alias}: broker {node} returned no settings")


def read_entry(entry: Any) -> ConfigEntry:
    """A setting out of the response to DescribeConfigs, or to CreateTopics from version 5 on."""
    return ConfigEntry(entry.name, entry.value, entry.config_source, bool(entry.read_only), bool(entry.is_sensitive))


async def alter_configs(
    client: ClusterClient, changes: Mapping[TopicName, Sequence[ConfigChange]], *, validate_only: bool = False
) -> dict[TopicName, Refusal]:
    """Change single settings of topics and keep their other settings (KIP-339); returns the refused topics.

    The cluster makes all changes of a topic or none. With `validate_only` the cluster only checks the changes.
    """
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    resources = [
        kind(
            resource_type=_TOPIC,
            resource_name=name,
            configs=[
                kind.AlterableConfig(
                    name=change.name,
                    config_operation=_DELETE if change.value is None else _SET,
                    value=change.value,
                )
                for change in wanted
            ],
        )
        for name, wanted in changes.items()
    ]
    return await _alter(client, IncrementalAlterConfigsRequest, resources, validate_only)


async def replace_configs(
    client: ClusterClient, configs: Mapping[TopicName, Mapping[str, str | None]], *, validate_only: bool = False
) -> dict[TopicName, Refusal]:
    """Replace all settings of topics, for clusters that lack KIP-339: an omitted setting falls back to its default."""
    kind = AlterConfigsRequest.AlterConfigsResource
    resources = [
        kind(
            resource_type=_TOPIC,
            resource_name=name,
            configs=[kind.AlterableConfig(name=key, value=value) for key, value in wanted.items()],
        )
        for name, wanted in configs.items()
    ]
    return await _alter(client, AlterConfigsRequest, resources, validate_only)


def alter_command(client: ClusterClient, topic: TopicName, settings: Mapping[str, str]) -> str:
    """The command of Kafka's own tools by which an operator changes settings of a topic of a cluster.

    Tools of Kafka 2.5 and newer change single settings, which needs brokers of 2.3 or newer (KIP-339). For older
    brokers the tools of the brokers' own release write to ZooKeeper.
    """
    changes = ",".join(f"{name}={value}" for name, value in settings.items())
    servers = ",".join(client.settings.bootstrap_servers)
    where = f"--bootstrap-server {servers}"
    if not supports_incremental_alter(client):
        where = "(that of the brokers' own release) --zookeeper HOST:2181"
    return f"kafka-configs.sh {where} --alter --entity-type topics --entity-name {topic} --add-config {changes}"


def supports_incremental_alter(client: ClusterClient) -> bool:
    """Whether a cluster takes `alter_configs`."""
    return client.supports(IncrementalAlterConfigsRequest.API_KEY)


async def _alter(
    client: ClusterClient, kind: Any, resources: Sequence[Any], validate_only: bool
) -> dict[TopicName, Refusal]:
    refused: dict[TopicName, Refusal] = {}
    for start in range(0, len(resources), CHUNK):
        request = kind(resources=resources[start : start + CHUNK], validate_only=validate_only)
        for result in (await client.send_request(request, None, TIMEOUT_S)).responses:
            if result.error_code != Code.NONE:
                refused[TopicName(result.resource_name)] = Refusal(
                    result.error_code, result.error_message or error_codes.explain(result.error_code)
                )
    return refused


async def ask_for_topics(client: ClusterClient, topics: Sequence[NewTopic], *, validate_only: bool = False) -> Any:
    """The answer to a single request for all of these topics.

    Brokers before Kafka 2.4 lack -1 for their default (KIP-464), so the request has the value of the broker's own
    setting. If this setting is hidden from the principal, topics get the usual number of replicas, at most the number
    of brokers. Raises ClusterError when the cluster fails to answer.
    """
    defaults = client.supports(CreateTopicsRequest.API_KEY, _WITH_DEFAULTS)
    if not defaults and any(topic.replication_factor == -1 for topic in topics):
        factor = await _default_factor(client)
        topics = [
            replace(topic, replication_factor=factor) if topic.replication_factor == -1 else topic for topic in topics
        ]
    kind = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(
        topics=[
            kind(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                assignments=[],
                configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
            )
            for topic in topics
        ],
        timeout_ms=CREATE_MS,
        validate_only=validate_only,
    )
    return await client.ask_controller(request, TIMEOUT_S)


async def _default_factor(client: ClusterClient) -> int:
    try:
        return int(await read_broker_setting(client, _REPLICAS) or 1)
    except RefusedError as error:
        factor = min(_REPLICAS_UNKNOWN, len(await client.nodes()))
        log.warning(
            "TW-BROKER-02: %s; brokers before Kafka 2.4 take no default: new topics get %d replicas", error, factor
        )
        return factor


async def create_topic(client: ClusterClient, topic: NewTopic, purpose: str) -> Refusal | None:
    """Create a topic; returns the reason of a refusal, None if the topic exists now. Its leaders may still be missing.

    Raises RefusedError if the principal lacks CREATE on the topic, ClusterError when the cluster fails to answer.
    """
    (answer,) = (await ask_for_topics(client, [topic])).topics
    if answer.error_code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
        return None
    if error_codes.refused(answer.error_code):
        raise client.lacks("CREATE", f"topic {topic.name}", purpose)
    if answer.error_code in error_codes.RETRIABLE:
        raise ClusterError(f"cluster {client.alias}: topic {topic.name} is not created yet: {answer.error_message}")
    return Refusal(answer.error_code, str(answer.error_message or error_codes.explain(answer.error_code)))


async def delete_records(client: ClusterClient, partition: TopicPartition, before: TargetOffset) -> Code:
    """Delete the records of a partition before an offset, on all replicas in sync (KIP-107).

    A log that begins at the offset or after it stays unchanged. Returns NONE once they are deleted, POLICY_VIOLATION if
    the topic's `cleanup.policy` forbids it. Raises RefusedError if the principal lacks DELETE on the topic,
    ClusterError for a failure that may pass.
    """
    leader = client.require_leader(partition)
    code = (await request_deletions(client, leader.node, {partition: before}))[partition]
    if error_codes.refused(code):
        raise client.lacks("DELETE", f"topic {partition.topic}", "deleting the records that lead to its first offset")
    if code not in (Code.NONE, Code.POLICY_VIOLATION):
        why = error_codes.explain(code)
        raise ClusterError(f"cluster {client.alias}: records of {partition} are still to be deleted: {why}")
    return Code(code)


async def request_deletions(
    client: ClusterClient, node: int, befores: Mapping[TopicPartition, TargetOffset], timeout_ms: int = CREATE_MS
) -> dict[TopicPartition, int]:
    """Have a broker delete the records of the partitions that it leads, each before an offset, as `delete_records`.

    Returns the error code of each partition: REQUEST_TIMED_OUT if the leader has deleted its records, and another
    replica is late after `timeout_ms`. Raises ClusterError for a missing answer.
    """
    kind = DeleteRecordsRequest.DeleteRecordsTopic
    topics: dict[TopicName, list[Any]] = {}
    for (topic, number), before in befores.items():
        topics.setdefault(topic, []).append(kind.DeleteRecordsPartition(partition_index=number, offset=before))
    request = DeleteRecordsRequest(
        topics=[kind(name=name, partitions=parts) for name, parts in topics.items()],
        timeout_ms=timeout_ms,
        max_version=2,
    )
    response = await client.send_change(request, node, TIMEOUT_S)
    return {
        TopicPartition(TopicName(topic.name), part.partition_index): part.error_code
        for topic in response.topics
        for part in topic.partitions
    }
