"""The ACLs that a plan creates, by the ACLs of both clusters."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from tests.unit.mirror.topics.test_acl_rules import FLOW
from twinlog.model.acls import EVERYBODY, Acl, AclOperation, AclPermissionType, ResourceType
from twinlog.model.types import TopicName
from twinlog.ops.inventory import Inventory
from twinlog.ops.plan.deciding import PlannedChanges

READ = Acl(ResourceType.TOPIC, "orders", "User:ann", "*", AclOperation.READ, AclPermissionType.ALLOW)
FENCE = replace(READ, principal=EVERYBODY, operation=AclOperation.WRITE, permission=AclPermissionType.DENY)


def test_a_plan_leaves_fences_on_the_source_as_a_run_does() -> None:
    here, there = Inventory("east", None, (1,), acls=[READ, FENCE]), Inventory("west", None, (1,), acls=[])
    plan = SimpleNamespace(flow=SimpleNamespace(sync_topic_acls_interval_s=30.0), topology=FLOW, here=here, there=there)
    copy = TopicName("east.orders")
    wanted = [replace(READ.of_topic, topic=copy), replace(FENCE.of_topic, topic=copy)]
    assert PlannedChanges.acls(plan, lambda _: False) == wanted  # type: ignore[arg-type]
    plan.here = replace(here, fences=frozenset({FENCE.of_topic}))
    assert PlannedChanges.acls(plan, lambda _: False) == wanted[:1]  # type: ignore[arg-type]
