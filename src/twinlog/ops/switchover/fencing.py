"""Decides which ACLs or quotas keep producers from a cluster, and which settings are restored afterwards.

An ACL that denies refuses an append at once, and the producer gets the reason. It denies WRITE alone, so consumers and
copiers read on, offset syncs and heartbeats have topics of their own, and a transaction can still be ended. A super
user passes it.

Copying flows carry literal ACLs over to remote topics, denials too (Kafka class MirrorSourceConnector, syncTopicAcls).
There they would refuse the flow itself. Flows leave out ACLs for prefixes. So a topic is denied as a prefix while the
flow keeps ACLs in step.

Brokers refuse a quota of zero (Kafka class ClientQuotaControlManager), and compare a quota only with appended bytes:
requests in flight still arrive, and so does the first request of a later producer. A broker prescribes an unbounded
wait of (observed - quota) / quota * window, which turns negative above 2^31 ms (Kafka class ClientQuotaManager). So
fast producers meet `FIRST_RATE` first, and `RATE` once they are silent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from twinlog.model.acls import EVERY_TOPIC, AclOperation, AclPermissionType, PatternType, TopicAcl
from twinlog.model.quotas import EVERY_USER, Quota, QuotaEntity
from twinlog.model.topic_names import HeartbeatNames
from twinlog.model.types import TopicName
from twinlog.ops.switchover.model import Data

EVERYONE, ANYWHERE = "User:*", "*"
FIRST_RATE, RATE, UNLIMITED = 1000.0, 10.0, 1e15
"""Bytes per second; a broker treats `UNLIMITED` as no limit."""


def fenced_too(
    topics: Collection[TopicName], others: Iterable[TopicName], heartbeats: HeartbeatNames
) -> list[TopicName]:
    """Topics that are denied although they stay, because their names begin with the name of a moving topic."""
    prefixes = tuple(topics)
    return sorted(
        name for name in set(others) - set(topics) if name.startswith(prefixes) and not _of_flows(name, heartbeats)
    )


def _of_flows(topic: TopicName, heartbeats: HeartbeatNames) -> bool:
    """Whether flows write to it: offset syncs, positions, checkpoints, heartbeats."""
    return topic.endswith("internal") or topic.startswith("__") or heartbeats.is_heartbeats(topic)


def denials(
    topics: Iterable[TopicName],
    others: Collection[TopicName],
    present: Sequence[TopicAcl],
    heartbeats: HeartbeatNames,
    *,
    carried: bool,
    open_without_acls: bool,
    passing: Collection[TopicAcl] = (),
) -> tuple[list[TopicAcl], list[TopicAcl]]:
    """Return the rights to add so that topics refuse writes, and those of them to remove later.

    `others` are all topics of the cluster; the flow's own topics are never denied. With `carried` the flow keeps ACLs
    in step. `passing` are the rights of the fences of other moves: on a prefix they may concern these topics, too, for
    a time. With `open_without_acls`, a topic that lacks ACLs is open to all, and its first right would close it to
    readers. So it also gets a right for all operations, which the denial overrules.
    """
    there = set(present)
    lasting = lasting_acls(present, passing)
    wanted = []
    for topic in sorted(topics):
        own = any(_of_flows(other, heartbeats) and other.startswith(topic) for other in others)
        pattern = PatternType.PREFIXED if carried and not own else PatternType.LITERAL
        deny = TopicAcl(topic, EVERYONE, ANYWHERE, AclOperation.WRITE, AclPermissionType.DENY, pattern)
        if open_without_acls and not any(_concerns(acl, topic) for acl in lasting):
            wanted.append(replace(deny, operation=AclOperation.ALL, permission=AclPermissionType.ALLOW))
        wanted.append(deny)
    return wanted, [acl for acl in wanted if acl not in there]


def lasting_acls(present: Iterable[TopicAcl], passing: Collection[TopicAcl]) -> list[TopicAcl]:
    """The present rights except for the passing rights."""
    gone = set(passing)
    return [acl for acl in present if acl not in gone]


def opened_too(rights: Iterable[TopicAcl], others: Iterable[TopicName], present: Sequence[TopicAcl]) -> list[TopicName]:
    """Topics with rights of their own that a right for everyone on a prefix would open to everyone."""
    wide = [acl for acl in rights if acl.permission == AclPermissionType.ALLOW and acl.pattern == PatternType.PREFIXED]
    return sorted(
        name
        for name in others
        if any(_concerns(acl, name) for acl in wide) and any(_concerns(acl, name) for acl in present)
    )


def _concerns(acl: TopicAcl, topic: TopicName) -> bool:
    if acl.pattern == PatternType.PREFIXED:
        return topic.startswith(acl.topic)
    return acl.topic in (topic, EVERY_TOPIC)


def throttles(
    present: Collection[Quota], exempt_users: Collection[str], exempt_clients: Collection[str]
) -> tuple[list[Quota], list[Quota]]:
    """Return the quotas to set so that only exempt clients append, and the quotas to set afterwards.

    Every entity with a quota gets the lowest rate, as its quota precedes the quota of all users. An exempt user is
    exempt with any client id, an exempt client id with any user: of a login by certificate or OAuth only brokers know
    the user.
    """
    before = {quota.entity: quota.rate for quota in present}
    wanted = {EVERY_USER: RATE}
    for entity in before:
        if entity.user is not None and entity.user not in exempt_users and entity.client_id not in exempt_clients:
            wanted[entity] = RATE
    wanted |= dict.fromkeys((QuotaEntity(user=user) for user in exempt_users), UNLIMITED)
    named = {"", *(entity.user for entity in before if entity.user is not None)} - set(exempt_users)
    wanted |= {QuotaEntity(user, client): UNLIMITED for user in named for client in exempt_clients}
    order = sorted(wanted, key=lambda entity: (wanted[entity] != UNLIMITED, str(entity)))
    return [Quota(one, wanted[one]) for one in order], [Quota(one, before.get(one)) for one in order]


def still_ours(present: Collection[Quota], wanted: Iterable[Quota], restore: Iterable[Quota]) -> list[Quota]:
    """Return the quotas to restore.

    A quota is left out if its rate differs from both the fence's and the former rate, as it was changed since.

    A broker that is behind may still report the former rate.
    """
    now = {quota.entity: quota.rate for quota in present}
    fenced = {quota.entity: quota.rate for quota in wanted}
    return [
        one
        for one in restore
        if (rate := now.get(one.entity)) in (one.rate, fenced.get(one.entity))
        or (rate == FIRST_RATE and fenced.get(one.entity) == RATE)
    ]


def kept(plan: Data) -> list[TopicName]:
    """Topics that stay denied when a fence is taken away, for they were before."""
    ours = set(acls_of(plan.get("remove", [])))
    return sorted(
        acl.topic
        for acl in acls_of(plan.get("add", []))
        if acl.permission == AclPermissionType.DENY and acl not in ours
    )


def shared(plan: Data, other: Data) -> list[TopicName]:
    """Topics that a fence would deny and that another fence denies already: lifting either would lift both."""
    theirs = set(acls_of(other.get("remove", [])))
    return sorted(
        acl.topic for acl in acls_of(plan.get("add", [])) if acl.permission == AclPermissionType.DENY and acl in theirs
    )


def acls_before(present: Sequence[TopicAcl], left: Data) -> list[TopicAcl]:
    """The rights as they were before a fence that is still there."""
    return lasting_acls(present, acls_of(left.get("remove", [])))


def quotas_before(present: Collection[Quota], left: Data) -> list[Quota]:
    """The quotas before a fence that is still present, with the changes made since."""
    ours = still_ours(present, quotas_of(left.get("set", [])), quotas_of(left.get("restore", [])))
    rates = {one.entity: one.rate for one in present} | {one.entity: one.rate for one in ours}
    return [Quota(entity, rate) for entity, rate in rates.items() if rate is not None]


def with_left(plan: Data, left: Data) -> Data:
    """Return a plan that also lifts a present fence together with its own."""
    found = dict(plan)
    if left.get("remove"):
        own = plan.get("remove", [])
        found["remove"] = own + [one for one in left["remove"] if one not in own]
    if left.get("restore"):
        known = {(one["user"], one["client"]) for one in plan.get("restore", [])}
        for part in ("set", "restore"):
            more = [one for one in left[part] if (one["user"], one["client"]) not in known]
            found[part] = plan.get(part, []) + more
    return found


def acls_data(acls: Iterable[TopicAcl]) -> list[Data]:
    """Rights as values of JSON."""
    return [
        {
            "topic": acl.topic,
            "principal": acl.principal,
            "host": acl.host,
            "operation": int(acl.operation),
            "permission": int(acl.permission),
            "pattern": int(acl.pattern),
        }
        for acl in acls
    ]


def acls_of(data: Iterable[Data]) -> list[TopicAcl]:
    """The rights that `acls_data` made."""
    return [
        TopicAcl(
            TopicName(one["topic"]),
            one["principal"],
            one["host"],
            one["operation"],
            one["permission"],
            one["pattern"],
        )
        for one in data
    ]


def quotas_data(quotas: Iterable[Quota]) -> list[Data]:
    """Quotas as values of JSON."""
    return [{"user": one.entity.user, "client": one.entity.client_id, "rate": one.rate} for one in quotas]


def quotas_of(data: Iterable[Data]) -> list[Quota]:
    """The quotas that `quotas_data` made."""
    return [Quota(QuotaEntity(one["user"], one["client"]), one["rate"]) for one in data]
