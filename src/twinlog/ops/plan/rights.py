"""Missing permissions of a flow: by the answers of each cluster about the login (KIP-430), or by its ACLs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.described import describe_topics
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.protocol import error_codes
from twinlog.mirror.topics.changes import TopicChanges
from twinlog.mirror.topics.internal_topics import exact_maps, internal_topics, offset_syncs, positions
from twinlog.model.acls import EVERY_TOPIC, Acl, AclOperation, AclPermissionType, PatternType, ResourceType
from twinlog.model.groups import GROUPS_TOPIC
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, TopicName
from twinlog.ops.inventory.contents import Inventory
from twinlog.ops.plan.flow_plan import Problem
from twinlog.settings.flow import ClientSettings, FlowSettings


def hidden_topics(target: ClusterAdmin, names: Sequence[TopicName]) -> list[Problem]:
    """A problem if the login lacks the right to see new topics: a broker then refuses to confirm their absence.

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
    """A problem if the login of the producer lacks the right to write to topics, by the target's ACLs."""
    # A super user has every right independent of ACLs. Brokers give names of their own to certificates and tokens.
    if not there.acls or there.may(AclOperation.CLUSTER_ACTION) is not False or producer.sasl_username is None:
        return []
    login = f"User:{producer.sasl_username}"
    lacking = [name for name in names if forbidden(there.acls, login, name, AclOperation.WRITE)]
    if not lacking:
        return []
    text = (
        f"cluster {target.alias}: {login} lacks WRITE on topic {listed(lacking)}, needed for copying to remote topics"
    )
    return [Problem("permission", text)]


def unreadable_groups(target: ClusterAdmin, groups: Sequence[GroupId], there: Inventory, purpose: str) -> list[Problem]:
    """A problem if the login lacks the right to take part in groups, or to commit for them. Raises ClusterError."""
    # To ask for the coordinator of a group makes a broker create this topic.
    if not groups or GROUPS_TOPIC not in there.topics:
        return []
    known = target.call(GroupAdmin(target.client).operations, groups)
    lacking = [name for name, may in known.items() if may is not None and AclOperation.READ not in may]
    return _lacks(target, "READ", "group", lacking, purpose)


def _lacks(target: ClusterAdmin, operation: str, kind: str, names: Sequence[str], purpose: str) -> list[Problem]:
    if not names:
        return []
    return [Problem("permission", str(target.client.lacks(operation, f"{kind} {listed(names)}", purpose)))]


EVERYBODY = "User:*"


def forbidden(acls: Iterable[Acl], principal: str, topic: TopicName, operation: AclOperation) -> bool:
    """Whether ACLs keep `principal` from an operation on `topic` (rules of Kafka class StandardAuthorizerData).

    If a topic lacks ACLs, the brokers' `allow.everyone.if.no.acl.found` decides; it is unreadable, so the result is
    False. A right for a single host counts as a right for every host.
    """
    here = [acl for acl in acls if acl.resource == ResourceType.TOPIC and _covers(acl, topic)]
    mine = [
        acl
        for acl in here
        if acl.principal in (principal, EVERYBODY) and acl.operation in (operation, AclOperation.ALL)
    ]
    if any(acl.permission == AclPermissionType.DENY and acl.host == "*" for acl in mine):
        return True
    return bool(here) and not any(acl.permission == AclPermissionType.ALLOW for acl in mine)


def _covers(acl: Acl, topic: TopicName) -> bool:
    if acl.pattern == PatternType.PREFIXED:
        return topic.startswith(acl.name)
    return acl.name in (topic, EVERY_TOPIC)


Lacks = Callable[[str, str, str], RefusedError]
"""`ClusterClient.lacks`: operation, resource and purpose to the sentence that a run would log."""


@dataclass(frozen=True, slots=True)
class ClusterRights:
    """The rights on a cluster of a flow: its inventory, and the wording of a missing permission."""

    inventory: Inventory
    lacks: Lacks

    def topics(self, operation: AclOperation, names: Iterable[TopicName], purpose: str) -> list[Problem]:
        """A problem if the login lacks the right to this operation on some of the topics that it sees."""
        lacking = [name for name in names if self.inventory.may(operation, name) is False]
        return [self._problem(operation, f"topic {listed(lacking)}", purpose)] if lacking else []

    def cluster(self, operation: AclOperation, purpose: str) -> list[Problem]:
        """A problem if the login lacks the right to this operation on the cluster."""
        if self.inventory.may(operation) is not False:
            return []
        return [self._problem(operation, "the cluster", purpose)]

    def _problem(self, operation: AclOperation, resource: str, purpose: str) -> Problem:
        return Problem("permission", str(self.lacks(operation.name, resource, purpose)))


def missing_rights(
    flow: FlowSettings,
    source: ClusterRights,
    target: ClusterRights,
    changes: TopicChanges,
    acls: Sequence[object] | None,
) -> list[Problem]:
    """Return the permissions that a run would lack for existing topics; clusters check new topics when these are
    validated. `acls` are the ACLs to create, None if the flow leaves rights alone."""
    mirrored = [pair.source.name for pair in changes.pairs]
    remotes = [pair.remote for pair in changes.pairs]
    own = [topic.name for topic in internal_topics(flow) if topic.cluster == flow.target]
    read_back = {positions(flow).name, exact_maps(flow).name} if flow.copies else set()
    found = [
        *source.topics(AclOperation.READ, mirrored, "copying them"),
        *source.topics(AclOperation.DESCRIBE_CONFIGS, mirrored, "reading its settings"),
        *target.topics(AclOperation.WRITE, remotes, "copying to remote topics"),
        *target.topics(AclOperation.DESCRIBE_CONFIGS, remotes, "knowing the largest batch it takes"),
        *target.topics(AclOperation.WRITE, own, "storing what the flow knows"),
        *target.topics(AclOperation.READ, read_back, "going on where the flow stood"),
        *target.topics(AclOperation.DESCRIBE_CONFIGS, own, "checking that it is compacted"),
    ]
    if flow.copies and flow.emit_offset_syncs:
        holder = source if flow.offset_syncs_location == "source" else target
        found += holder.topics(AclOperation.WRITE, [offset_syncs(flow).name], "writing offset syncs")
    if acls is not None:
        found += source.cluster(AclOperation.DESCRIBE, "reading its ACLs")
        found += target.cluster(AclOperation.DESCRIBE, "reading its ACLs")
    if acls:
        found += target.cluster(AclOperation.ALTER, "creating ACLs")
    return found
