"""Finds the rights that a cluster lacks, by its ACLs, or by the rights that it reports to the login."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from twinlog.errors import RefusedError
from twinlog.kafka.admin.acls import describe_acls
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.admin.topics import describe_cluster, describe_topics
from twinlog.kafka.net.connections import principal as principal_of
from twinlog.mirror.topics.fence_notes import fences_on
from twinlog.mirror.topics.left_fences import LeftFence
from twinlog.mirror.unlisted_topics import find_hidden
from twinlog.model.acls import (
    ANYWHERE,
    EVERYBODY,
    Acl,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    TopicAcl,
    includes,
    passes_acls,
)
from twinlog.model.groups import GROUPS_TOPIC
from twinlog.model.topics import DescribedTopic, Topic
from twinlog.model.types import Alias, GroupId, TopicName
from twinlog.ops.acls.needs import DenialLine, NeededRight, denial_of
from twinlog.ops.acls.resources import Resource


class ClusterJudge:
    """A cluster's answers about rights, read once. Raises ClusterError when the cluster fails to answer.

    If ACLs are readable, the ACLs decide. Otherwise brokers report the operations that the login may use (KIP-430), on
    the cluster, and on existing topics and groups; all other rights stay unknown.
    """

    def __init__(self, admin: ClusterAdmin) -> None:
        self._admin = admin
        self.login = principal_of(admin.client.settings)
        """The principal that asks."""
        self.acls: Sequence[Acl] | None = None
        """The ACLs, None if they are unreadable or the cluster lacks an authorizer."""
        self.unguarded = False
        """Whether the cluster lacks an authorizer, so that every right is given."""
        self._operations = admin.call(describe_cluster, admin.client).operations
        self._fences: set[TopicAcl] | None = None
        self._topics: dict[TopicName, DescribedTopic] = {}
        try:
            self.acls = admin.call(describe_acls, admin.client)
            self.unguarded = self.acls is None
        except RefusedError:
            self._topics, _ = admin.call(describe_topics, admin.client)
        self._is_super_user = passes_acls(self.acls or (), self.login, self._operations)

    def gives(self, right: NeededRight) -> bool | None:
        """Whether the cluster gives a right; None if the login that asks lacks the right to know."""
        if self.unguarded:
            return True
        if self.acls is not None:
            return (right.principal == self.login and self._is_super_user) or allowed(self.acls, right)
        return self._reported(right) if right.principal == self.login else None

    @property
    def is_blind(self) -> bool:
        """Whether ACLs are hidden from the login that asks, and with them denials and rights on later names."""
        return self.acls is None and not self.unguarded

    def denials(self, right: NeededRight) -> list[Acl]:
        """The ACLs that take a right away, whatever an ALLOW gives."""
        if self.acls is None or self.gives(right):
            return []
        return [acl for acl in self.acls if takes_away(acl, right)]

    def lacks(self, right: NeededRight) -> bool:
        """Whether a missing right lacks an ALLOW, too; otherwise a denial takes it away."""
        return self.acls is None or not granted(self.acls, right)

    def raised(self, acl: Acl) -> bool:
        """Whether an ACL is of a fence, which twinlog removes; False if the notes of fences are hidden."""
        if self._fences is None:
            try:
                self._fences = fences_on(self._admin)
            except RefusedError:
                self._fences = set()
        return acl.resource == ResourceType.TOPIC and acl.of_topic in self._fences

    def _reported(self, right: NeededRight) -> bool | None:
        known: list[frozenset[int] | None]
        if right.resource.kind == ResourceType.CLUSTER:
            known = [self._operations]
        elif right.resource.kind == ResourceType.TOPIC:
            known = [
                topic.operations
                for name, topic in self._topics.items()
                if right.resource.covers(Resource(ResourceType.TOPIC, name))
            ] or self._hidden(right.resource)
        elif right.resource.kind == ResourceType.GROUP and GROUPS_TOPIC in self._topics:
            known = self._groups(right.resource)
        else:
            return None
        answers = [right.operation in may for may in known if may is not None]
        if not answers or len(answers) < len(known):
            return None
        return all(answers)

    def _hidden(self, resource: Resource) -> list[frozenset[int] | None]:
        """No operation for a topic that the list of all topics lacks, if brokers refuse it by its name."""
        if resource.pattern != PatternType.LITERAL or resource.name == "*":
            return []
        hidden = find_hidden(self._admin, [Topic(TopicName(resource.name), 0)])
        return [frozenset()] if hidden else []

    def _groups(self, resource: Resource) -> list[frozenset[int] | None]:
        admin = GroupAdmin(self._admin.client)
        names = [
            name for name in self._admin.call(admin.listed) if resource.covers(Resource(ResourceType.GROUP, name))
        ] or ([GroupId(resource.name)] if resource.pattern == PatternType.LITERAL and resource.name != "*" else [])
        return list(self._admin.call(admin.operations, names).values()) if names else []


def allowed(acls: Iterable[Acl], right: NeededRight) -> bool:
    """Whether ACLs give a right, for all its resources (rules of Kafka class StandardAuthorizerData).

    A right for a single host counts for every host. A denial of a part of the resources takes the right away.
    """
    known = list(acls)
    return granted(known, right) and not any(takes_away(acl, right) for acl in known)


def granted(acls: Iterable[Acl], right: NeededRight) -> bool:
    """Whether an ACL allows a right for all its resources, whatever other ACLs deny."""
    wanted = right.as_acl
    return any(includes(replace(acl, host=ANYWHERE), wanted) for acl in acls)


def takes_away(acl: Acl, right: NeededRight) -> bool:
    """Whether an ACL denies a right, or a part of its resources. A denial for a single host counts, too."""
    return (
        acl.permission == AclPermissionType.DENY
        and acl.principal in (right.principal, EVERYBODY)
        and acl.operation in (right.operation, AclOperation.ALL)
        and _meets(acl, right.resource)
    )


def _place(acl: Acl) -> Resource:
    pattern = PatternType.PREFIXED if acl.pattern == PatternType.PREFIXED else PatternType.LITERAL
    return Resource(ResourceType(acl.resource), acl.name, pattern)


def _meets(acl: Acl, resource: Resource) -> bool:
    """Whether an ACL and a needed right have a resource in common."""
    if acl.resource != resource.kind:
        return False
    place = _place(acl)
    return place.covers(resource) or resource.covers(place)


@dataclass(frozen=True, slots=True)
class RightsLack:
    """The missing rights of clusters, the rights that stay unknown, and the denials that take rights away.

    `blind` are clusters that hide their ACLs from the login.
    """

    missing: tuple[NeededRight, ...] = ()
    unknown: tuple[NeededRight, ...] = ()
    denials: tuple[DenialLine, ...] = ()
    blind: tuple[Alias, ...] = ()

    def __add__(self, other: RightsLack) -> RightsLack:
        return RightsLack(
            self.missing + other.missing,
            self.unknown + other.unknown,
            self.denials + other.denials,
            self.blind + other.blind,
        )


def with_left_fences(lack: RightsLack, cluster: Alias, fences: Iterable[LeftFence]) -> RightsLack:
    """`lack` with the denials that flows have left on a cluster: a run removes them no more."""
    topic = ResourceType.TOPIC
    left = {
        Acl(topic, acl.topic, acl.principal, acl.host, acl.operation, acl.permission, acl.pattern): one.owner.flow
        for one in fences
        for acl in one.acls
    }
    lines = [
        DenialLine(cluster, acl, f"{AclOperation(acl.operation).name} from {acl.principal}", left_by=flow)
        for acl, flow in sorted(left.items())
    ]
    return replace(lack, denials=(*(one for one in lack.denials if one.acl not in left), *lines))


def missing_rights(rights: Collection[NeededRight], judge: ClusterJudge) -> RightsLack:
    """The rights that a cluster keeps from principals, and the reasons. `rights` are of this cluster."""
    missing: list[NeededRight] = []
    unknown: list[NeededRight] = []
    denied: dict[Acl, list[NeededRight]] = {}
    for right in rights:
        gives = judge.gives(right)
        if gives is None:
            unknown.append(right)
        elif not gives:
            for acl in judge.denials(right):
                denied.setdefault(acl, []).append(right)
            if judge.lacks(right):
                missing.append(right)
    denials = [denial_of(acl, some, fence=judge.raised(acl)) for acl, some in sorted(denied.items())]
    blind = {right.cluster for right in rights} if judge.is_blind else ()
    return RightsLack(tuple(missing), tuple(unknown), tuple(denials), tuple(blind))
