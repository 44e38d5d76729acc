"""Asks the controller of a cluster for new topics."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.configs import read_broker_setting
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import NewTopic, Refusal

log = logging.getLogger(__name__)

CREATE_MS = 30_000
"""The milliseconds that the controller may take for a change of topics."""

TIMEOUT_S = 40.0

_WITH_DEFAULTS = 4
_REPLICAS = "default.replication.factor"
_REPLICAS_UNKNOWN = 3


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
        log.warning("%s; brokers before Kafka 2.4 take no default: new topics get %d replicas", error, factor)
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
