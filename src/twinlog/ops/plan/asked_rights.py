"""Rights on topics to create and groups to commit for, which need not be there yet: by the target's answers or ACLs."""

from __future__ import annotations

from collections.abc import Sequence

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.described import describe_topics
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.protocol import error_codes
from twinlog.model.acls import Operation
from twinlog.model.groups import GROUPS_TOPIC
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, TopicName
from twinlog.ops.inventory.contents import Inventory
from twinlog.ops.plan.authorizer import forbidden
from twinlog.ops.plan.flow_plan import Problem
from twinlog.settings.flow import ClientSettings


def hidden_topics(target: ClusterAdmin, names: Sequence[TopicName]) -> list[Problem]:
    """A problem where the login could not see topics afterwards: a broker then refuses to answer that there are none.

    Raises ClusterError.
    """
    if not names:
        return []
    _, wrong = target.call(describe_topics, target.client, names)
    hidden = [name for name, code in wrong.items() if error_codes.refused(code)]
    return _lacks(target, "DESCRIBE", "topic", hidden, "finding its leaders")


def unwritable_topics(
    target: ClusterAdmin, producer: ClientSettings, names: Sequence[TopicName], there: Inventory
) -> list[Problem]:
    """A problem where the login of the producer could not write to topics, by the target's ACLs."""
    # A super user has every right without any ACL. Brokers give names of their own to certificates and tokens.
    if not there.acls or there.may(Operation.CLUSTER_ACTION) is not False or producer.sasl_username is None:
        return []
    login = f"User:{producer.sasl_username}"
    lacking = [name for name in names if forbidden(there.acls, login, name, Operation.WRITE)]
    if not lacking:
        return []
    text = (
        f"cluster {target.alias}: {login} lacks WRITE on topic {listed(lacking)}, needed for copying to remote topics"
    )
    return [Problem("permission", text)]


def unreadable_groups(target: ClusterAdmin, groups: Sequence[GroupId], there: Inventory, purpose: str) -> list[Problem]:
    """A problem where the login may not take part in groups, or commit for them. Raises ClusterError."""
    # To ask for the coordinator of a group makes a broker create this topic.
    if not groups or GROUPS_TOPIC not in there.topics:
        return []
    known = target.call(GroupAdmin(target.client).operations, groups)
    lacking = [name for name, may in known.items() if may is not None and Operation.READ not in may]
    return _lacks(target, "READ", "group", lacking, purpose)


def _lacks(target: ClusterAdmin, operation: str, kind: str, names: Sequence[str], purpose: str) -> list[Problem]:
    if not names:
        return []
    return [Problem("permission", str(target.client.lacks(operation, f"{kind} {listed(names)}", purpose)))]
