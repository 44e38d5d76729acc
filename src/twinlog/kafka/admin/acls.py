"""Reads a cluster's ACLs of topics and adds some; coroutines on a client's loop."""

from __future__ import annotations

from collections.abc import Sequence

from kafka.protocol.admin import CreateAclsRequest, DescribeAclsRequest

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.acls import TopicAcl
from twinlog.model.topics import Refusal
from twinlog.model.types import TopicName

_ANY = 1
_TOPIC = 2
CHUNK = 500
"""Rights per create request."""


async def describe_topic_acls(client: ClusterClient) -> list[TopicAcl] | None:
    """All rights on topics, with names of any pattern; None when the cluster has no authorizer.

    Raises RefusedError without DESCRIBE on the cluster, ClusterError when the cluster does not answer.
    """
    response = await client.ask(
        DescribeAclsRequest(
            resource_type_filter=_TOPIC,
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
        TopicAcl(
            TopicName(resource.resource_name),
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
            resource.pattern_type,
        )
        for resource in response.resources
        for acl in resource.acls
    ]


async def create_topic_acls(client: ClusterClient, acls: Sequence[TopicAcl]) -> dict[TopicAcl, Refusal]:
    """Add rights; returns those that were refused, with the reason. One that exists already counts as added.

    Raises RefusedError without ALTER on the cluster.
    """
    refused: dict[TopicAcl, Refusal] = {}
    creation = CreateAclsRequest.AclCreation
    for start in range(0, len(acls), CHUNK):
        chunk = acls[start : start + CHUNK]
        request = CreateAclsRequest(
            creations=[
                creation(
                    resource_type=_TOPIC,
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
        response = await client.ask(request, None, 40.0)
        for acl, result in zip(chunk, response.results, strict=True):
            if error_codes.refused(result.error_code):
                raise client.lacks("ALTER", "the cluster", "creating ACLs")
            if result.error_code:
                refused[acl] = Refusal(
                    result.error_code, result.error_message or error_codes.explain(result.error_code)
                )
    return refused
