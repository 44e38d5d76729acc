"""Checks the clusters and internal topics of a flow before the flow makes its first change."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin, ClusterIdentity, Connect
from twinlog.kafka.admin.partition_states import supports_producer_states
from twinlog.kafka.admin.topics import alter_command, describe_configs
from twinlog.kafka.coordinator.transactions import supports_transaction_lists
from twinlog.kafka.protocol import error_codes
from twinlog.mirror.topics.internal_topics import internal_topics
from twinlog.mirror.topology.topology import Topology, obstacle
from twinlog.model.topic_names import HEARTBEATS
from twinlog.model.topics import ConfigEntry, listed, value_of
from twinlog.model.types import Alias, TopicName
from twinlog.settings.client import ClientSettings
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of

log = logging.getLogger(__name__)


def check_internal_topics(flow: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
    """Check the cleanup policy of the existing internal topics; the check only reads.

    As in Connect, uncompacted positions stop the flow with RefusedError; further topics get a warning. Raises
    ClusterError when a cluster is silent.
    """
    compacted = [topic for topic in internal_topics(flow) if topic.loss is not None]
    for admin in (source, target):
        here = [topic for topic in compacted if topic.cluster == admin.alias]
        if not here:
            continue
        found, unread = admin.call(describe_configs, admin.client, [topic.name for topic in here])
        hidden = [name for name, code in unread.items() if error_codes.refused(code)]
        if hidden:
            error = admin.client.lacks("DESCRIBE_CONFIGS", f"topic {listed(hidden)}", "checking that it is compacted")
            log.info("%s: not checked: %s", flow.name, error)
        for topic in here:
            policy = _cleanup_policy(found.get(topic.name, ()))
            if policy in (None, "compact"):
                continue
            text = (
                f"cluster {admin.alias}: topic {topic.name} has cleanup.policy={policy} and must have compact, or "
                f"{topic.loss}; the topic stays as it is until you repair it with: "
                + alter_command(admin.client, topic.name, {"cleanup.policy": "compact"})
            )
            if topic.fatal:
                raise RefusedError(text, message_id="TW-INTERNAL-01")
            log.warning("TW-INTERNAL-01: %s: %s", flow.name, text)


def check_proof(flow: FlowSettings, target: ClusterAdmin) -> None:
    """Warn of a proof that misses foreign transactions, because brokers tell too little about them (KIP-664).

    Copiers that use transactions need the transactional ids of producers, which Kafka lists since 3.0.
    """
    if flow.transform is not None or not any(flow.proof.values):
        return
    enough, release = supports_producer_states, "2.8"
    if flow.exactly_once == "enabled":
        enough, release = supports_transaction_lists, "3.0"
    if not enough(target.client):
        log.warning(
            "TW-PROOF-03: %s: brokers of %s are older than Kafka %s, so the proof misses transactions of other "
            "programs that are open when it begins and are committed later",
            *(flow.name, target.alias, release),
        )


def common_broker(source: ClusterAdmin, target: ClusterAdmin) -> str | None:
    """A common broker, if source and target are the same cluster under two aliases; otherwise None.

    Raises ClusterError.

    Clusters that were set up with the same id by mistake differ by their addresses.
    """
    here, there = source.identity(), target.identity()
    return min(here.brokers & there.brokers, default=None) if _have_one_id(here, there) else None


def _have_one_id(here: ClusterIdentity, there: ClusterIdentity) -> bool:
    return here.cluster_id is not None and here.cluster_id == there.cluster_id


def check_two_clusters(flow: FlowSettings, topology: Topology, source: ClusterAdmin, target: ClusterAdmin) -> bool:
    """Whether source and target of a flow are the same cluster, under whatever addresses; logs the result.

    Raises RefusedError when the flow would copy its own copies there, and ClusterError.
    """
    here, there = source.identity(), target.identity()
    if not _have_one_id(here, there):
        return False
    against = obstacle(flow, topology)
    if broker := min(here.brokers & there.brokers, default=None):
        same = f"{flow.source} and {flow.target} are the same cluster (id {here.cluster_id}, broker {broker})"
        servers = key_of(ClientSettings, "bootstrap_servers")
        if against is not None:
            raise RefusedError(
                f"{same}, which this flow cannot mirror to itself: {against}; or correct {servers} of {flow.source} or "
                f"of {flow.target}",
                message_id="TW-CLUSTER-01",
            )
        log.warning(
            "TW-CLUSTER-02: %s: %s: copies are made beside their topics, as %s; if the aliases should mean two "
            "clusters, correct %s of either alias",
            *(flow.name, same, topology.remote_name(TopicName("orders")), servers),
        )
        return True
    if against is not None:
        log.warning(
            "TW-CLUSTER-04: %s: both clusters have the id %s; if both aliases mean the same cluster, it would mirror "
            "itself, and otherwise each cluster should be formatted with an id of its own",
            *(flow.name, here.cluster_id),
        )
    return False


def check_one_cluster(
    flow: FlowSettings, source: ClusterAdmin, target: ClusterAdmin, connect: Connect = ClusterAdmin
) -> None:
    """Raise RefusedError if the clients of records reach another cluster than the admin clients.

    In MirrorMaker 2 records go to a cluster that lacks the created remote topics. Positions would be stored there, too,
    out of sight of the next start, which would copy all records again. Clients with a common address are skipped. A
    client that fails to connect raises its own error at its first use. Raises ClusterError.
    """
    for admin, client, what in (
        (source, flow.consumer.client, "read from"),
        (target, flow.producer.client, "written to"),
    ):
        here = admin.client.settings
        if client.shares_servers(here):
            continue
        known = admin.identity().cluster_id
        other = connect(admin.alias, client)
        try:
            other.connect()
            found = other.identity().cluster_id
        except ClusterError as error:
            log.debug("%s: the check that its clients connect to the same cluster failed: %s", flow.name, error)
            continue
        finally:
            other.close()
        if None not in (found, known) and found != known:
            raise RefusedError(
                f"records would be {what} {','.join(client.bootstrap_servers)} (cluster id {found}), but "
                f"{admin.alias} is {','.join(here.bootstrap_servers)} (cluster id {known}), where topics and "
                "positions are looked for; name the same cluster in both bootstrap.servers",
                message_id="TW-CLUSTER-05",
            )


def misread_topics(
    topology: Topology,
    aliases: Iterable[Alias],
    source: Iterable[TopicName],
    target: Iterable[TopicName],
    *,
    one_cluster: bool = False,
) -> tuple[list[TopicName], list[TopicName]]:
    """Topics of the source whose names look like the names of copies, although a user made the topics.

    The first list has the topics that are left out: they seem to come from the target or from the source itself, and
    the cluster in their name lacks a matching topic. The second list has mirrored topics that clients misread, if the
    clients read origins from names (`upstream_clusters`, `remote_topics`). `aliases` are all aliases of the file.
    Within `one_cluster` a copy rightly outlives its original.
    """
    known, there, here = set(aliases), set(target), set(source)
    left_out, mirrored = [], []
    if topology.policy.reads_letters:
        # Every name looks like the name of a copy: an alias and the name of a topic.
        policy = topology.policy
        accepted = (topic for topic in sorted(here) if topology.topics.accepts(topic) and not policy.is_internal(topic))
        seem = (topic for topic in accepted if topology.came_from_target(topic))
        return [topic for topic in seem if policy.source_topic(topology.target_name, topic) not in there], []
    for topic in sorted(here):
        alias, upstream = topology.policy.source_alias(topic), topology.policy.upstream_name(topic)
        if alias is None or upstream in (None, topic) or topology.policy.is_internal(topic):
            continue
        if topology.mirrors(topic):
            if alias not in known and not topology.is_heartbeats(topic):
                mirrored.append(topic)
        elif (
            not one_cluster
            and topology.topics.accepts(topic)
            and (
                (alias == topology.target_name and upstream not in there)
                or (alias == topology.source_name and upstream not in here)
            )
        ):
            left_out.append(topic)
    return left_out, mirrored


def warn_of_misread_topics(flow: FlowSettings, left_out: Sequence[TopicName], mirrored: Sequence[TopicName]) -> None:
    """Log the topics that `misread_topics` returned."""
    if left_out and not flow.separator:
        log.warning(
            "TW-TOPIC-06: %s: not mirrored, because without a separator each letter of a name counts for an alias, and "
            "%r is that of the target: %s; MirrorMaker 2 leaves them out, too; write a longer alias, or none, in %s",
            *(flow.name, str(flow.target_name), listed(left_out), key_of(FlowSettings, "target_cluster_alias")),
        )
    elif left_out:
        log.warning(
            "TW-TOPIC-07: %s: not mirrored, because by their names they are copies, though their originals are "
            "missing: %s; if they are topics of their own, choose another %s",
            flow.name,
            listed(left_out),
            key_of(FlowSettings, "separator"),
        )
    if mirrored:
        log.info(
            "%s: mirrored, though their names look like those of copies from other clusters: %s; clients that look "
            "for upstream clusters take the text before the first %r for an alias",
            flow.name,
            listed(mirrored),
            flow.separator,
        )


def past_filter(flow: FlowSettings, topics: Sequence[TopicName]) -> str:
    """A warning about topics of a user that are mirrored for the end of their names, with effect and way out."""
    topics_key, switch = (key_of(FlowSettings, name) for name in ("topics", "heartbeats_replication_enabled"))
    return (
        f"mirrored in spite of `{topics_key}`: {listed(topics)}; MirrorMaker 2 takes every topic whose name ends in "
        f"{flow.separator}{HEARTBEATS} for a topic of heartbeats. The aliases at the begin of these names are "
        f"unknown, so that twinlog treats their records as those of all other topics; {switch} = false leaves these "
        f"topics out, and heartbeats, too, unless `{topics_key}` names them"
    )


def _cleanup_policy(entries: Sequence[ConfigEntry]) -> str | None:
    value = value_of(entries, "cleanup.policy")
    return None if value is None else ",".join(sorted(item.strip() for item in value.split(",")))
