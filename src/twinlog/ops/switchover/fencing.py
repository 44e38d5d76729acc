"""Keeps producers from a cluster: decides which ACLs or quotas change and which settings are restored afterwards, and
makes these changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.acls import (
    create_topic_acls,
    delete_everywhere,
    describe_acls,
    describe_topic_acls,
    everyone_allowed_without_acls,
    known_everywhere,
)
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.users import alter_producer_quotas, describe_producer_quotas
from twinlog.model.acls import (
    ANYWHERE,
    EVERYBODY,
    Acl,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    TopicAcl,
    acls_data,
    acls_of,
    allowed_writers,
    covers,
)
from twinlog.model.quotas import EVERY_USER, Quota, QuotaEntity
from twinlog.model.topic_names import HeartbeatNames
from twinlog.model.topics import listed
from twinlog.model.types import TopicName
from twinlog.ops.switchover.login_acls import GRANTED_BY
from twinlog.ops.switchover.model import Data, FenceMethod, MovedTopic, NotReadyError
from twinlog.settings.client import ClientSettings
from twinlog.settings.flow import FlowSettings

FIRST_RATE, RATE, UNLIMITED = 1000.0, 10.0, 1e15
"""Bytes per second; a broker treats `UNLIMITED` as no limit."""

SILENT_S = 2.0
"""Fast producers have met their first quota by then."""

ANSWER_S = 1.0
"""The seconds for which brokers are asked whether they know the fence; after them the caller waits for a fixed time."""


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

    `others` are all topics of the cluster; the flow's own topics stay open. With `carried` the flow keeps ACLs in step.
    `passing` are the rights of the fences of other moves: on a prefix they may concern these topics, too, for a time.
    With `open_without_acls`, a topic that lacks ACLs is open to all, and its first right would close it to readers. So
    it also gets a right for all operations, which the denial overrules.
    """
    there = set(present)
    lasting = lasting_acls(present, passing)
    wanted = []
    for topic in sorted(topics):
        own = any(_of_flows(other, heartbeats) and other.startswith(topic) for other in others)
        pattern = PatternType.PREFIXED if carried and not own else PatternType.LITERAL
        deny = TopicAcl(topic, EVERYBODY, ANYWHERE, AclOperation.WRITE, AclPermissionType.DENY, pattern)
        if open_without_acls and not any(covers(acl.pattern, acl.topic, topic) for acl in lasting):
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
        if all(any(covers(acl.pattern, acl.topic, name) for acl in some) for some in (wide, present))
    )


def refused_producers(
    topics: Iterable[MovedTopic], here: Iterable[Acl], there: Iterable[Acl], own: str = ""
) -> dict[str, list[TopicName]]:
    """The principals that may write to topics on the source and lack this right on the target, with the topics there.

    `here` and `there` are the rights of both clusters, `own` is the principal of the flow, which stays away. Denials
    are ignored, because fences are denials.
    """
    found: dict[str, list[TopicName]] = {}
    here, there = ([acl for acl in acls if acl.permission == AclPermissionType.ALLOW] for acls in (here, there))
    for topic in topics:
        if not topic.producers:
            continue
        free = allowed_writers(there, topic.producers)
        for principal in sorted(allowed_writers(here, topic.name) - free - {own}):
            if EVERYBODY not in free:
                found.setdefault(principal, []).append(topic.producers)
    return found


def read_refused_producers(
    target: ClusterAdmin, topics: Iterable[MovedTopic], here: Iterable[Acl], own: str, unread: list[str]
) -> dict[str, list[TopicName]]:
    """`refused_producers` by the rights of a target; empty if the target has no authorizer, or hides its rights.

    `unread` gets a line about hidden rights. Raises ClusterError when the target fails to answer.
    """
    try:
        there = target.call(describe_acls, target.client, ResourceType.TOPIC)
        if there is None or target.call(everyone_allowed_without_acls, target.client):
            return {}
    except RefusedError as error:
        # Only this check needs the ACLs of the target.
        unread.append(f"WRITE of producers on {target.alias} is unchecked: {error}; {GRANTED_BY}")
        return {}
    return refused_producers(topics, here, there, own)


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


def quotas_data(quotas: Iterable[Quota]) -> list[Data]:
    """Quotas as values of JSON."""
    return [{"user": one.entity.user, "client": one.entity.client_id, "rate": one.rate} for one in quotas]


def quotas_of(data: Iterable[Data]) -> list[Quota]:
    """The quotas that `quotas_data` made."""
    return [Quota(QuotaEntity(one["user"], one["client"]), one["rate"]) for one in data]


def plan_fence(
    cluster: ClusterAdmin,
    fence: FenceMethod,
    topics: Sequence[TopicName],
    flow: FlowSettings,
    back: FlowSettings,
    left: Data,
    others: Iterable[Data],
    heartbeats: HeartbeatNames,
) -> Data:
    """Return the settings to add so that only the two flows write to topics, and the settings to restore; reads only.

    `left` is the fence of a move whose journal is lost: its restoration becomes part of this plan. `others` are the
    fences of other moves, which are lifted by themselves. Raises RefusedError, ClusterError, and NotReadyError if the
    fence would open a topic or is impossible to restore.
    """
    if fence is FenceMethod.ACL:
        present = cluster.call(describe_topic_acls, cluster.client)
        if present is None:
            raise ClusterError(f"cluster {cluster.alias} has no authorizer; use --fence quota")
        before = acls_before(present, left)
        open_topics = cluster.call(everyone_allowed_without_acls, cluster.client)
        carried = flow.sync_topic_acls_interval_s is not None
        passing = [acl for other in others for acl in acls_of(other.get("remove", []))]
        lasting = lasting_acls(before, passing)
        unlisted = [topic for topic in topics if not any(covers(acl.pattern, acl.topic, topic) for acl in lasting)]
        if open_topics is None and unlisted:
            why = f"{listed(unlisted)}: lacks an ACL, and brokers hide allow.everyone.if.no.acl.found"
            way_out = "a fence by ACLs could close it to readers; create an ACL for them, or use --fence quota"
            raise NotReadyError((f"{why}: {way_out}",))
        there = cluster.topics()
        add, remove = denials(
            *(topics, there, before, heartbeats), carried=carried, open_without_acls=bool(open_topics), passing=passing
        )
        opened = opened_too(remove, there, lasting)
        if opened:
            why = f"ACLs would open {listed(opened)} to everyone, which have rights of their own; use --fence quota"
            raise NotReadyError((why,))
        return with_left({"add": acls_data(add), "remove": acls_data(remove)}, left)
    if fence is FenceMethod.QUOTA:
        users, clients = exempt(flow, back)
        quotas = quotas_before(cluster.call(describe_producer_quotas, cluster.client), left)
        if Quota(EVERY_USER, RATE) in quotas:
            why = f"cluster {cluster.alias} has {Quota(EVERY_USER, RATE)} already, from another wave or move"
            way_out = "lift that first with --release, for a quota is the whole cluster's"
            raise NotReadyError((f"TW-SWITCH-05: {why}: {way_out}",))
        wanted, restore = throttles(quotas, users, clients)
        return with_left({"set": quotas_data(wanted), "restore": quotas_data(restore)}, left)
    return with_left({}, left)


def raise_fence(cluster: ClusterAdmin, plan: Data, confirm: Callable[[], None]) -> None:
    """Keep producers from the cluster by a plan. Raises RefusedError, ClusterError, and the errors of `confirm`.

    `confirm` is called after a pause, before the last change: another process may have undone the switchover meanwhile,
    and a change after that would stay.
    """
    if plan.get("add"):
        for acl, refusal in cluster.call(create_topic_acls, cluster.client, acls_of(plan["add"])).items():
            raise ClusterError(f"cluster {cluster.alias} refuses the ACL {acl}: {refusal.text}")
    wanted = quotas_of(plan.get("set", []))
    if wanted:
        first = [Quota(one.entity, FIRST_RATE if one.rate == RATE else one.rate) for one in wanted]
        cluster.call(alter_producer_quotas, cluster.client, first)
        cluster.clock.sleep(SILENT_S)
        confirm()
        cluster.call(alter_producer_quotas, cluster.client, wanted)


def holds_everywhere(cluster: ClusterAdmin, plan: Data) -> bool:
    """Whether every broker already refuses producers; False while this is unknown."""
    denials = [acl for acl in acls_of(plan.get("add", [])) if acl.permission == AclPermissionType.DENY]
    if not denials:
        return False
    try:
        return cluster.call(known_everywhere, cluster.client, denials, ANSWER_S)
    except ClusterError:
        return False


def lift_fence(cluster: ClusterAdmin, plan: Data) -> None:
    """Restore the state before the fence, except for settings that were changed since.

    All brokers know of it before the end, because producers come next. Raises RefusedError, ClusterError.
    """
    if plan.get("remove"):
        # Denials come first: a denial that loses its accompanying right would close its topic to readers, too.
        denials_first = sorted(acls_of(plan["remove"]), key=lambda acl: acl.permission)
        cluster.call(delete_everywhere, cluster.client, denials_first)
    if plan.get("restore"):
        present = cluster.call(describe_producer_quotas, cluster.client)
        ours = still_ours(present, quotas_of(plan["set"]), quotas_of(plan["restore"]))
        if ours:
            cluster.call(alter_producer_quotas, cluster.client, ours)


def exempt(flow: FlowSettings, back: FlowSettings) -> tuple[set[str], set[str]]:
    """Users and client ids by which both flows, and this command, append to the source of `flow`.

    Offset syncs of the flow, records and positions of the flow back; MirrorMaker 2's own producers included. Clients
    that lack a user name differ only by client ids.
    """
    here = (flow.source_admin.client, flow.consumer.client, back.producer.client, back.target_admin.client)
    users = {one.sasl_username for one in here if one.sasl_username is not None}
    nameless = any(one.sasl_username is None for one in here)
    clients = {_client_id(one) for one in here}
    for index in range(flow.tasks_max):
        task = flow.for_task(index)
        clients |= {
            task.consumer.client.client_id,
            f"{flow.name}|{flow.connector_name}-{index}|offset-syncs-source-producer",
        }
    for index in range(back.tasks_max):
        clients.add(back.for_task(index).producer.client.client_id)
    return users, clients if nameless else set()


def _client_id(client: ClientSettings) -> str:
    return client.client_id
