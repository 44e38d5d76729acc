"""Describes and alters the settings of topics, many topics at a time; coroutines on a client's loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka.protocol.admin import AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import ConfigChange, ConfigEntry, Refusal
from twinlog.model.types import TopicName

_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_TIMEOUT_S = 40.0
CHUNK = 100
"""Topics per request."""


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
    """A setting of the broker with the lowest id; None if brokers of this release lack the setting.

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
        return next((entry.value for entry in result.configs if entry.name == key), None)
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
        for result in (await client.send_request(request, None, _TIMEOUT_S)).responses:
            if result.error_code != Code.NONE:
                refused[TopicName(result.resource_name)] = Refusal(
                    result.error_code, result.error_message or error_codes.explain(result.error_code)
                )
    return refused
