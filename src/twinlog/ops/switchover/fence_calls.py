"""Raises a fence on a cluster and takes it away, by the decisions of `fencing`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twinlog.errors import ClusterError
from twinlog.kafka.admin.acls import (
    create_topic_acls,
    delete_topic_acls,
    describe_topic_acls,
    everyone_allowed_without_acls,
    known_everywhere,
)
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.quotas import alter_producer_quotas, describe_producer_quotas
from twinlog.model.acls import AclPermissionType
from twinlog.model.quotas import EVERY_USER, Quota
from twinlog.model.topic_names import HeartbeatNames
from twinlog.model.topics import listed
from twinlog.model.types import TopicName
from twinlog.ops.switchover.fencing import (
    FIRST_RATE,
    RATE,
    acls_before,
    acls_data,
    acls_of,
    denials,
    lasting_acls,
    opened_too,
    quotas_before,
    quotas_data,
    quotas_of,
    still_ours,
    throttles,
    with_left,
)
from twinlog.ops.switchover.model import Data, FenceMethod, NotReadyError
from twinlog.settings.flow import ClientSettings, FlowSettings

SILENT_S = 2.0
"""Fast producers have met their first quota by then."""

ANSWER_S = 1.0
"""The seconds for which brokers are asked whether they know the fence; after them the caller waits for a fixed time."""


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
        there = cluster.topics()
        add, remove = denials(
            *(topics, there, before, heartbeats), carried=carried, open_without_acls=open_topics, passing=passing
        )
        opened = opened_too(remove, there, lasting_acls(before, passing))
        if opened:
            why = f"ACLs would open {listed(opened)} to everyone, which have rights of their own; use --fence quota"
            raise NotReadyError((why,))
        return with_left({"add": acls_data(add), "remove": acls_data(remove)}, left)
    if fence is FenceMethod.QUOTA:
        users, clients = exempt(flow, back)
        quotas = quotas_before(cluster.call(describe_producer_quotas, cluster.client), left)
        if Quota(EVERY_USER, RATE) in quotas:
            why = f"cluster {cluster.alias} has {Quota(EVERY_USER, RATE)} already, from another wave or move"
            raise NotReadyError((f"{why}: lift that first with --release, for a quota is the whole cluster's",))
        wanted, restore = throttles(quotas, users, clients)
        return with_left({"set": quotas_data(wanted), "restore": quotas_data(restore)}, left)
    return with_left({}, left)


def raise_fence(cluster: ClusterAdmin, plan: Data) -> None:
    """Do it. Raises RefusedError, ClusterError."""
    if plan.get("add"):
        for acl, refusal in cluster.call(create_topic_acls, cluster.client, acls_of(plan["add"])).items():
            raise ClusterError(f"cluster {cluster.alias} refuses the ACL {acl}: {refusal.text}")
    wanted = quotas_of(plan.get("set", []))
    if wanted:
        first = [Quota(one.entity, FIRST_RATE if one.rate == RATE else one.rate) for one in wanted]
        cluster.call(alter_producer_quotas, cluster.client, first)
        cluster.clock.sleep(SILENT_S)
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
    """Restore the state before the fence, except for settings that were changed since. Raises RefusedError,
    ClusterError."""
    if plan.get("remove"):
        # Denials come first: a denial that loses its accompanying right would close its topic to readers, too.
        denials_first = sorted(acls_of(plan["remove"]), key=lambda acl: acl.permission)
        cluster.call(delete_topic_acls, cluster.client, denials_first)
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
