"""Access control lists of a test cluster (made with `acls=True`), written and read with librdkafka."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from harness.cluster import KafkaCluster
from harness.wait import wait_for

DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """Who may do what; words as in Kafka, such as `READ` and `ALLOW`."""

    name: str
    principal: str
    operation: str
    permission: Literal["ALLOW", "DENY"] = "ALLOW"
    resource: Literal["TOPIC", "GROUP", "BROKER", "TRANSACTIONAL_ID"] = "TOPIC"
    pattern: Literal["LITERAL", "PREFIXED"] = "LITERAL"
    host: str = "*"

    def __str__(self) -> str:
        where = f"{self.resource} {self.pattern} {self.name}"
        return f"{where}: {self.permission} {self.operation} {self.principal} from {self.host}"


def create_acls(cluster: KafkaCluster, wanted: Iterable[Acl]) -> None:
    """Create them, and wait until brokers have heard of them from their controller. Raises KafkaException."""
    rights = set(wanted)
    admin = cluster.clients.admin()
    bindings = [
        AclBinding(
            ResourceType[acl.resource],
            acl.name,
            ResourcePatternType[acl.pattern],
            acl.principal,
            acl.host,
            AclOperation[acl.operation],
            AclPermissionType[acl.permission],
        )
        for acl in rights
    ]
    for future in admin.create_acls(bindings, request_timeout=DEADLINE_S).values():
        future.result(DEADLINE_S)
    wait_for(lambda: rights <= acls(cluster), DEADLINE_S, f"{cluster.name} has the ACLs")


def acls(cluster: KafkaCluster) -> set[Acl]:
    """All of them; none on a cluster without an authorizer."""
    admin = cluster.clients.admin()
    anything: Any = None
    everything = AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        anything,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    try:
        found = admin.describe_acls(everything, request_timeout=DEADLINE_S).result(DEADLINE_S)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.SECURITY_DISABLED:
            return set()
        raise
    return {
        Acl(
            one.name,
            one.principal,
            one.operation.name,
            one.permission_type.name,
            one.restype.name,
            one.resource_pattern_type.name,
            one.host,
        )
        for one in found
    }
