"""The rights that a login lacks on the journal of switchovers: found by a rehearsal, without a change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.unit.ops.switchover.test_preflight import GOOD, problems
from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import DescribedCluster
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.acls import Acl, AclOperation, AclPermissionType, PatternType, ResourceType
from twinlog.model.topics import DescribedTopic, NewTopic, Refusal, Topic
from twinlog.model.types import Alias, TopicName
from twinlog.ops.switchover.journal import TOPIC, TopicJournal
from twinlog.ops.switchover.model import FenceMethod, SwitchoverDirection, SwitchoverKind
from twinlog.settings.client import ClientSettings

MIRROR = "User:mirror"
ID = "mm2-twinlog-switchover-east->west"
ON_TOPIC, ON_ID = f"topic {TOPIC}", f"transactional id {ID}"
EVERY = frozenset({AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE})


class GuardedClient:
    settings = ClientSettings(("nowhere:9092",), security_protocol="SASL_PLAINTEXT", sasl_username="mirror")

    def lacks(self, operation: str, resource: str, purpose: str) -> RefusedError:
        return RefusedError(f"{MIRROR} lacks {operation} on {resource}, needed for {purpose}", resource=resource)


class GuardedCluster:
    """The answers of a cluster about the rights of `User:mirror`; `operations` None: the journal is absent."""

    def __init__(self) -> None:
        self.alias = "west"
        self.client = GuardedClient()
        self.operations: frozenset[int] | None = EVERY
        self.creates = True
        self.hides_id = False
        self.acls: Sequence[Acl] | None = None
        """None: the login may not read ACLs."""
        self.on_cluster: frozenset[int] = frozenset()

    def call(self, step: Callable[..., Any], *args: Any) -> Any:
        return getattr(self, f"_{step.__name__}")(*args)

    def _describe_topics(self, _client: object, names: Sequence[TopicName]) -> Any:
        if self.operations is None:
            return {}, dict.fromkeys(names, Code.UNKNOWN_TOPIC_OR_PARTITION)
        return {TOPIC: DescribedTopic(Topic(TOPIC, 1), 1, 0, self.operations)}, {}

    def _describe_acls(self, _client: object) -> Sequence[Acl]:
        if self.acls is None:
            raise RefusedError("no DESCRIBE on the cluster")
        return self.acls

    def _describe_cluster(self, _client: object) -> DescribedCluster:
        return DescribedCluster((1,), self.on_cluster)

    def _hides_transactional_id(self, _client: object, name: str) -> bool:
        assert name == ID
        return self.hides_id

    def validate_topics(self, topics: Sequence[NewTopic]) -> Any:
        code = Code.NONE if self.creates else Code.TOPIC_AUTHORIZATION_FAILED
        return {one.name: Refusal(code, "") for one in topics if code}, {}


def lacking(cluster: GuardedCluster) -> list[str]:
    """The missing rights, as operation and resource."""
    ends = SwitchoverDirection(Alias("east"), Alias("west"))
    found = TopicJournal(ends, cast("ClusterAdmin", cluster), 1).find_missing_rights()
    assert all("`twinlog acls FILE --for switchover --missing` prints the command" in line for line in found)
    return [line.split(" lacks ")[1].split(", needed")[0] for line in found]


def allow(operation: AclOperation, kind: ResourceType, name: str) -> Acl:
    return Acl(kind, name, MIRROR, "*", operation, AclPermissionType.ALLOW, PatternType.PREFIXED)


def test_rights_on_an_existing_journal() -> None:
    cluster = GuardedCluster()
    assert lacking(cluster) == []
    cluster.operations = EVERY - {AclOperation.WRITE}
    assert lacking(cluster) == [f"WRITE on {ON_TOPIC}"]
    cluster.hides_id = True
    assert lacking(cluster) == [f"WRITE on {ON_TOPIC}", f"WRITE on {ON_ID}"]


def test_rights_on_a_journal_that_is_yet_to_be_created() -> None:
    cluster = GuardedCluster()
    cluster.operations = None
    assert lacking(cluster) == []
    cluster.creates = False
    assert lacking(cluster) == [f"CREATE on {ON_TOPIC}"]
    cluster.acls = [allow(AclOperation.READ, ResourceType.TOPIC, "mm2-")]
    assert lacking(cluster) == [f"CREATE on {ON_TOPIC}", f"WRITE on {ON_TOPIC}"]


@pytest.mark.parametrize("operation", [AclOperation.DESCRIBE, AclOperation.WRITE])
def test_acls_tell_the_right_on_the_id(operation: AclOperation) -> None:
    cluster = GuardedCluster()
    cluster.acls = [allow(operation, ResourceType.TRANSACTIONAL_ID, "mm2-twinlog-switchover-")]
    assert lacking(cluster) == ([] if operation is AclOperation.WRITE else [f"WRITE on {ON_ID}"])
    # ACLs do not limit a super user.
    cluster.on_cluster = frozenset({AclOperation.CLUSTER_ACTION})
    assert lacking(cluster) == []
    cluster.acls.append(allow(AclOperation.ALL, ResourceType.CLUSTER, "kafka-cluster"))
    assert lacking(cluster) == ([] if operation is AclOperation.WRITE else [f"WRITE on {ON_ID}"])
    # Without an ACL on the id, allow.everyone.if.no.acl.found decides.
    cluster.on_cluster, cluster.acls = frozenset(), [allow(AclOperation.WRITE, ResourceType.TOPIC, "mm2-")]
    assert lacking(cluster) == []


def test_the_journal_of_the_source_counts_if_the_switchover_writes_to_it() -> None:
    journal, note = "lacks WRITE on the journal", "lacks WRITE on the note"
    facts = replace(GOOD, journal_rights=(journal,), fence_note_rights=(note,))
    assert problems(facts) == [journal, note]
    assert problems(facts, FenceMethod.NONE) == [journal]
    assert problems(replace(facts, closes_earlier=True), FenceMethod.NONE) == [journal, note]
    assert problems(replace(facts, kind=SwitchoverKind.EMERGENCY)) == [journal]
