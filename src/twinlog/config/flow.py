"""One flow's settings out of the entries that count for it."""

from __future__ import annotations

from typing import Literal, cast

from twinlog.config.classes import class_settings, custom_class, try_classes
from twinlog.config.clients import Clients
from twinlog.config.contradictions import check_exactly_once, check_offset_syncs, translates_offsets
from twinlog.config.keys import CONNECTOR, WORKER
from twinlog.config.keys_connector import CLASS_KEYS, IDENTITY_POLICIES, OLD_NAMES
from twinlog.config.reading import Problems, Reading
from twinlog.config.resolve import FlowLayers
from twinlog.settings.flow import (
    AlterConfigs,
    ExactlyOnce,
    FlowSettings,
    GapPolicy,
    OversizedRecordPolicy,
    PolicyName,
    RenamedTopicPolicy,
    SyncsLocation,
)

SHORTEST_S = 0.1
"""Stands for an interval of 0, with which MirrorMaker 2 would never pause."""


def build_flow(
    layers: FlowLayers, file: str, problems: Problems, warnings: list[str], *, enabled: bool
) -> FlowSettings:
    """The settings of `layers`; what is wrong is added to `problems`, and the default goes on in its place.

    Without `enabled` the flow only writes heartbeats to its target, so its source may be wrong or missing.
    """
    connector = Reading(layers.connector, CONNECTOR, problems)
    worker = Reading(layers.worker, WORKER, problems)
    clients = Clients(layers, file, problems, warnings, source=enabled)
    _check_aliases(layers, connector, problems)
    # Read for their references only: their values were checked with the file.
    for name in ("forwarding.admin.class", "transforms", "predicates"):
        connector.written(name)
    consumer = clients.consumer()
    checkpoints = commits = False
    if enabled:
        check_offset_syncs(connector)
        check_exactly_once(connector, worker, consumer.isolation_level, layers.source, layers.target, warnings)
        checkpoints, commits = translates_offsets(connector, f"{layers.source}->{layers.target}", warnings)
    # As Connect's ConnectorOffsetBackingStore: the flow's own topic first, then the one that all flows share.
    own_positions, shared_positions = connector.text("offsets.storage.topic"), worker.text("offset.storage.topic")
    custom = {name: custom_class(connector, name) if enabled else None for name in CLASS_KEYS}
    flow = FlowSettings(
        source=layers.source,
        target=layers.target,
        consumer=consumer,
        producer=clients.producer(),
        source_admin=clients.source_admin(),
        target_admin=clients.target_admin(),
        tasks_max=connector.number("tasks.max"),
        replication_factor=connector.number("replication.factor"),
        topics=connector.items("topics"),
        topics_exclude=_exclude(connector, "topics.exclude"),
        separator=connector.text("replication.policy.separator"),
        internal_separator_follows=connector.flag("replication.policy.internal.topic.separator.enabled"),
        policy="custom" if custom["replication.policy.class"] else _policy(connector),
        heartbeats_replication_enabled=connector.flag("heartbeats.replication.enabled"),
        refresh_topics_interval_s=_interval(connector, "refresh.topics"),
        config_properties_exclude=_exclude(connector, "config.properties.exclude"),
        use_defaults_from=cast(Literal["source", "target"], connector.text("use.defaults.from")),
        gap_policy=cast(GapPolicy, connector.text("twinlog.gap.policy")),
        renamed_topic_policy=cast(RenamedTopicPolicy, connector.text("twinlog.renamed.topic.policy")),
        oversized_record_policy=cast(OversizedRecordPolicy, connector.text("twinlog.oversized.record.policy")),
        lease_seconds=connector.number("twinlog.lease.seconds"),
        position_interval_ms=connector.number("twinlog.position.interval.ms"),
        copier_memory_bytes=connector.number("twinlog.copier.memory.bytes"),
        offset_storage_topic=own_positions or shared_positions or None,
        earlier_positions_topic=(shared_positions or f"mm2-offsets.{layers.source}.internal")
        if own_positions
        else None,
        offset_storage_partitions=worker.number("offset.storage.partitions"),
        offset_storage_replication_factor=worker.number("offset.storage.replication.factor"),
        enabled=enabled,
        emit_offset_syncs=connector.flag("emit.offset-syncs.enabled"),
        offset_syncs_location=cast(SyncsLocation, connector.text("offset-syncs.topic.location")),
        offset_syncs_replication_factor=connector.number("offset-syncs.topic.replication.factor"),
        offset_lag_max=max(0, connector.number("offset.lag.max")),
        groups=connector.items("groups"),
        groups_exclude=_exclude(connector, "groups.exclude"),
        refresh_groups_interval_s=_interval(connector, "refresh.groups"),
        emit_checkpoints_interval_s=_interval(connector, "emit.checkpoints") if checkpoints else None,
        checkpoints_replication_factor=connector.number("checkpoints.topic.replication.factor"),
        sync_group_offsets_interval_s=_interval(connector, "sync.group.offsets") if commits else None,
        sync_topic_configs_interval_s=_interval(connector, "sync.topic.configs"),
        alter_configs=cast(AlterConfigs, connector.text("use.incremental.alter.configs")),
        sync_topic_acls_interval_s=_interval(connector, "sync.topic.acls"),
        emit_heartbeats_interval_s=_interval(connector, "emit.heartbeats"),
        heartbeats_replication_factor=connector.number("heartbeats.topic.replication.factor"),
        exactly_once=cast(ExactlyOnce, worker.text("exactly.once.source.support")),
        transaction_interval_ms=connector.number("transaction.boundary.interval.ms"),
        transaction_boundary="interval" if connector.text("transaction.boundary") == "interval" else "poll",
        worker_group_id=worker.text("group.id") or None,
        policy_class=custom["replication.policy.class"],
        topic_filter_class=custom["topic.filter.class"],
        group_filter_class=custom["group.filter.class"],
        config_property_filter_class=custom["config.property.filter.class"],
        class_settings=class_settings(layers) if any(custom.values()) else (),
    )
    if any(custom.values()):
        try_classes(flow, problems)
    return flow


def _policy(connector: Reading) -> PolicyName:
    return "identity" if connector.text("replication.policy.class") in IDENTITY_POLICIES else "default"


def _interval(connector: Reading, work: str) -> float | None:
    """Seconds between two rounds of `work`; None where it is switched off or its interval is negative."""
    seconds = connector.number(f"{work}.interval.seconds")
    return max(float(seconds), SHORTEST_S) if connector.flag(f"{work}.enabled") and seconds >= 0 else None


def _exclude(connector: Reading, name: str) -> tuple[str, ...]:
    """The list under its name, or else under the name it had before."""
    old = OLD_NAMES[name]
    return connector.items(old if name not in connector.layer and old in connector.layer else name)


def _check_aliases(layers: FlowLayers, connector: Reading, problems: Problems) -> None:
    for name, alias in (("source.cluster.alias", layers.source), ("target.cluster.alias", layers.target)):
        entry = connector.written(name)
        if entry is not None and entry.value.strip() != alias:
            problems.refuse(
                entry, repr(entry.value), f"no such key, or {alias!r} as in {layers.source}->{layers.target}"
            )
