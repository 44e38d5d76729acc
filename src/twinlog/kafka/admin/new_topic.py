"""Creates one topic, over the connections that a client has already."""

from __future__ import annotations

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.metadata import MetadataRequest

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import NewTopic, Refusal

TIMEOUT_S = 40.0


async def create_topic(client: ClusterClient, topic: NewTopic, purpose: str) -> Refusal | None:
    """Create a topic; why the cluster did not, None where it did or has one of that name. It may lack leaders yet.

    Raises RefusedError without the right to, ClusterError when the cluster does not answer.
    """
    found = await client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False))
    kind = CreateTopicsRequest.CreatableTopic
    wanted = kind(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[],
        configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000, validate_only=False)
    controller = found.controller_id if found.controller_id >= 0 else None
    (answer,) = (await client.ask(request, controller, TIMEOUT_S)).topics
    if answer.error_code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
        return None
    if error_codes.refused(answer.error_code):
        raise client.lacks("CREATE", f"topic {topic.name}", purpose)
    if answer.error_code in error_codes.RETRIABLE:
        raise ClusterError(f"cluster {client.alias}: topic {topic.name} is not created yet: {answer.error_message}")
    return Refusal(answer.error_code, str(answer.error_message or error_codes.explain(answer.error_code)))
