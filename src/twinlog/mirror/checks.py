"""Checks the clusters and internal topics of a flow before it changes anything."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from twinlog.errors import ClusterError, RefusedError
from twinlog.flows.topology import Topology
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.admin.configs import describe_configs
from twinlog.kafka.protocol import error_codes
from twinlog.mirror.internal_topics import internal_topics
from twinlog.model.topics import ConfigEntry, listed, value_of
from twinlog.model.types import Alias, TopicName
from twinlog.settings.flow import ClientSettings, FlowSettings
from twinlog.settings.written import key_of

log = logging.getLogger(__name__)


def check_internal_topics(flow: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
    """Look at the cleanup policy of the internal topics that exist; changes none.

    As in Connect, positions that are not compacted stop the flow with RefusedError; the others get a warning.
    Raises ClusterError when a cluster does not answer.
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
                f"{topic.loss}; nothing was changed, repair it with: kafka-configs.sh --bootstrap-server "
                f"{','.join(admin.client.settings.bootstrap_servers)} --alter --entity-type topics --entity-name "
                f"{topic.name} --add-config cleanup.policy=compact"
            )
            if topic.fatal:
                raise RefusedError(text)
            log.warning("%s: %s", flow.name, text)


def check_two_clusters(flow: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
    """Raise RefusedError when source and target of a flow are one cluster, under whatever addresses.

    Clusters that were set up with one id by mistake differ by their addresses.
    """
    here, there = source.identity(), target.identity()
    if here.cluster_id is None or here.cluster_id != there.cluster_id:
        return
    if here.brokers & there.brokers:
        servers = key_of(ClientSettings, "bootstrap_servers")
        raise RefusedError(
            f"{flow.source} and {flow.target} are the same cluster (id {here.cluster_id}, broker "
            f"{min(here.brokers & there.brokers)}), which a flow cannot mirror to itself; correct {servers} of "
            f"{flow.source} or of {flow.target}"
        )
    log.warning(
        "%s: both clusters have the id %s; if they are one cluster, it would mirror itself, and if they are two, each "
        "should be formatted with an id of its own",
        flow.name,
        here.cluster_id,
    )


def check_one_cluster(
    flow: FlowSettings, source: ClusterAdmin, target: ClusterAdmin, connect: Connect = ClusterAdmin
) -> None:
    """Raise RefusedError when records go to, or come from, another cluster than the one whose topics are looked at.

    In MirrorMaker 2 records go where no remote topic was created. Positions would be stored beside them, too, and never
    found: with each start everything would be copied again. Clients with a common address are not asked, and one that
    cannot connect has its own error when it is used. Raises ClusterError.
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
            log.debug("%s: could not check whether its clients connect to one cluster: %s", flow.name, error)
            continue
        finally:
            other.close()
        if None not in (found, known) and found != known:
            raise RefusedError(
                f"records would be {what} {','.join(client.bootstrap_servers)} (cluster id {found}), but "
                f"{admin.alias} is {','.join(here.bootstrap_servers)} (cluster id {known}), where topics and positions "
                "are looked for; name one cluster in the bootstrap.servers of both"
            )


def misread_topics(
    topology: Topology, aliases: Iterable[Alias], source: Iterable[TopicName], target: Iterable[TopicName]
) -> tuple[list[TopicName], list[TopicName]]:
    """Topics of the source whose names only look as if they had come over a flow.

    First those that are left out for it: they seem to come from the target or from the source itself, and the cluster
    they are named after has no such topic. Then those that are mirrored all the same, and that clients which read
    origins from names (`upstream_clusters`, `remote_topics`) misread. `aliases` are all that the file names.
    """
    known, there, here = set(aliases), set(target), set(source)
    left_out, mirrored = [], []
    for topic in sorted(here):
        alias, upstream = topology.policy.source_alias(topic), topology.policy.upstream_name(topic)
        if alias is None or upstream in (None, topic) or topology.policy.is_internal(topic):
            continue
        if topology.mirrors(topic):
            if alias not in known and not topology.policy.is_heartbeats(topic):
                mirrored.append(topic)
        elif topology.topics.accepts(topic) and (
            (alias == topology.target and upstream not in there) or (alias == topology.source and upstream not in here)
        ):
            left_out.append(topic)
    return left_out, mirrored


def warn_of_misread_topics(flow: FlowSettings, left_out: Sequence[TopicName], mirrored: Sequence[TopicName]) -> None:
    """Warn of what `misread_topics` found."""
    if left_out:
        log.warning(
            "%s: not mirrored, because by their names they are copies, though what they would be copies of does "
            "not exist: %s; if they are topics of their own, choose another %s",
            flow.name,
            listed(left_out),
            key_of(FlowSettings, "separator"),
        )
    if mirrored:
        log.info(
            "%s: mirrored, though their names look like those of copies from other clusters: %s; clients that look for "
            "upstream clusters take what stands before the first %r for one",
            flow.name,
            listed(mirrored),
            flow.separator,
        )


def _cleanup_policy(entries: Sequence[ConfigEntry]) -> str | None:
    value = value_of(entries, "cleanup.policy")
    return None if value is None else ",".join(sorted(item.strip() for item in value.split(",")))
