"""Reads a cluster's ACLs, and adds and removes ACLs of topics; coroutines on a client's loop."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from twinlog.errors import ClusterError
from twinlog.kafka.admin.topics import read_broker_entry
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.acls import Acl, ResourceType, TopicAcl
from twinlog.model.topics import Refusal
from twinlog.model.types import TopicName

_ANY = 1
_EVERYONE = "allow.everyone.if.no.acl.found"
CHUNK = 500
"""Rights per request."""

GONE_S, ASK_S, ASK_AGAIN_S = 10.0, 1.0, 0.05
"""How long a removal waits for all brokers, how long for an answer, and the pause between two questions."""


async def describe_topic_acls(client: ClusterClient) -> list[TopicAcl] | None:
    """All rights on topics, with names of any pattern; None when the cluster lacks an authorizer.

    Raises RefusedError if the principal lacks DESCRIBE on the cluster, ClusterError when the cluster fails to answer.
    """
    found = await describe_acls(client, ResourceType.TOPIC)
    return None if found is None else [acl.of_topic for acl in found]


async def describe_acls(client: ClusterClient, resource: int = _ANY) -> list[Acl] | None:
    """All rights on resources of a kind, or of any kind; None when the cluster lacks an authorizer.

    Raises as `describe_topic_acls`.
    """
    response = await client.send_request(
        DescribeAclsRequest(
            resource_type_filter=resource,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
    )
    if response.error_code == Code.SECURITY_DISABLED:
        return None
    if error_codes.refused(response.error_code):
        raise client.lacks("DESCRIBE", "the cluster", "reading its ACLs")
    if response.error_code:
        raise ClusterError(f"cluster {client.alias}: ACLs: {error_codes.explain(response.error_code)}")
    return [
        Acl(
            found.resource_type,
            found.resource_name,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
            found.pattern_type,
        )
        for found in response.resources
        for acl in found.acls
    ]


async def known_everywhere(client: ClusterClient, acls: Collection[TopicAcl], timeout_s: float) -> bool:
    """Whether the authorizer of every broker knows these rights; each broker is asked.

    Rights that differ only in their topics share a request. Raises ClusterError when a broker fails to answer within
    `timeout_s`.
    """
    wanted = set(acls)
    return all(wanted <= known for known in await _known(client, wanted, timeout_s))


async def gone_everywhere(client: ClusterClient, acls: Collection[TopicAcl], timeout_s: float) -> bool:
    """Whether no broker's authorizer knows any of these rights; otherwise as `known_everywhere`."""
    wanted = set(acls)
    return all(wanted.isdisjoint(known) for known in await _known(client, wanted, timeout_s))


async def _known(client: ClusterClient, acls: Collection[TopicAcl], timeout_s: float) -> list[set[TopicAcl]]:
    """For each broker, the rights that its authorizer knows and that differ from these rights only in their topics."""
    nodes = await client.nodes()
    found: dict[int, set[TopicAcl]] = {node: set() for node in nodes}
    for one in {replace(acl, topic=TopicName("")) for acl in acls}:
        request = DescribeAclsRequest(
            resource_type_filter=ResourceType.TOPIC,
            resource_name_filter=None,
            pattern_type_filter=one.pattern,
            principal_filter=one.principal,
            host_filter=one.host,
            operation=one.operation,
            permission_type=one.permission,
        )
        asked = [client.loop.spawn(client.send_request, request, node, timeout_s) for node in nodes]
        for node, answer in zip(nodes, await client.loop.gather(asked), strict=True):
            if answer.error_code:
                raise ClusterError(f"cluster {client.alias}: ACLs: {error_codes.explain(answer.error_code)}")
            found[node] |= {replace(one, topic=TopicName(resource.resource_name)) for resource in answer.resources}
    return list(found.values())


async def create_topic_acls(client: ClusterClient, acls: Sequence[TopicAcl]) -> dict[TopicAcl, Refusal]:
    """Add rights; returns the refused rights, with the reason. An existing right counts as added.

    Raises RefusedError if the principal lacks ALTER on the cluster.
    """
    refused: dict[TopicAcl, Refusal] = {}
    creation = CreateAclsRequest.AclCreation
    for start in range(0, len(acls), CHUNK):
        chunk = acls[start : start + CHUNK]
        request = CreateAclsRequest(
            creations=[
                creation(
                    resource_type=ResourceType.TOPIC,
                    resource_name=acl.topic,
                    resource_pattern_type=acl.pattern,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in chunk
            ]
        )
        response = await client.send_request(request, None, 40.0)
        for acl, result in zip(chunk, response.results, strict=True):
            if error_codes.refused(result.error_code):
                raise client.lacks("ALTER", "the cluster", "creating ACLs")
            if result.error_code:
                refused[acl] = Refusal(
                    result.error_code, result.error_message or error_codes.explain(result.error_code)
                )
    return refused


async def delete_topic_acls(client: ClusterClient, acls: Sequence[TopicAcl]) -> None:
    """Remove exactly these rights; an absent right counts as removed.

    Raises RefusedError if the principal lacks ALTER on the cluster, ClusterError when the cluster keeps a right.
    """
    kind = DeleteAclsRequest.DeleteAclsFilter
    for start in range(0, len(acls), CHUNK):
        chunk = acls[start : start + CHUNK]
        request = DeleteAclsRequest(
            filters=[
                kind(
                    resource_type_filter=ResourceType.TOPIC,
                    resource_name_filter=acl.topic,
                    pattern_type_filter=acl.pattern,
                    principal_filter=acl.principal,
                    host_filter=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in chunk
            ]
        )
        response = await client.send_request(request, None, 40.0)
        for acl, result in zip(chunk, response.filter_results, strict=True):
            codes = [result.error_code, *(one.error_code for one in result.matching_acls)]
            if any(map(error_codes.refused, codes)):
                raise client.lacks("ALTER", "the cluster", "removing ACLs")
            code = next((code for code in codes if code), Code.NONE)
            if code:
                raise ClusterError(
                    f"cluster {client.alias}: the ACL {acl} cannot be removed: {error_codes.explain(code)}"
                )


async def delete_everywhere(client: ClusterClient, acls: Sequence[TopicAcl]) -> bool:
    """`delete_topic_acls`, and wait until no broker knows these rights: brokers learn of it after the controller.

    False if a broker still knows a right, or is silent, after `GONE_S`.
    """
    await delete_topic_acls(client, acls)
    clock = client.loop.clock
    deadline = clock.monotonic() + GONE_S
    while clock.monotonic() < deadline:
        with suppress(ClusterError):
            if await gone_everywhere(client, acls, ASK_S):
                return True
        await client.loop.sleep(ASK_AGAIN_S)
    return False


async def everyone_allowed_without_acls(client: ClusterClient) -> bool | None:
    """Whether a topic that lacks rights is open to everyone, by `allow.everyone.if.no.acl.found` of a broker.

    None if the broker hides the setting: Kafka hides each setting of an authorizer (class KafkaConfig, maybeSensitive).
    Raises RefusedError if the principal lacks DESCRIBE_CONFIGS on the cluster, ClusterError when the setting is
    unreadable.
    """
    entry = await read_broker_entry(client, _EVERYONE)
    if entry is None:
        return False
    return None if entry.value is None else entry.value.lower() == "true"
