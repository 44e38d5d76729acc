"""One flow's settings out of the entries that count for it."""

from __future__ import annotations

from twinlog.config.flow.classes import class_settings, custom_class, try_classes
from twinlog.config.flow.clients import Clients
from twinlog.config.flow.contradictions import check_exactly_once, check_offset_syncs, translates_offsets
from twinlog.config.flow.failed_records import failed_record_settings, record_policy
from twinlog.config.flow.naming import follows_settings, warn_of_naming
from twinlog.config.flow.transform import transform_settings
from twinlog.config.keys.connector import CLASS_KEYS, IDENTITY_POLICIES, OLD_NAMES
from twinlog.config.keys.table import CONNECTOR, WORKER
from twinlog.config.starts import read_start
from twinlog.config.text.reading import Problems, Reading, plain_fields
from twinlog.config.text.resolve import FlowLayers
from twinlog.settings.flow import FlowSettings, PolicyName
from twinlog.settings.written import written

SHORTEST_S = 0.1
"""Stands for an interval of 0, with which MirrorMaker 2 would never pause."""


def build_flow(
    layers: FlowLayers, file: str, problems: Problems, warnings: list[str], *, enabled: bool
) -> FlowSettings:
    """The settings of `layers`; what is wrong is added to `problems`, and the default goes on in its place.

    Without `enabled` the flow only writes heartbeats to its target, so its source may be wrong or missing. Layers
    of one connector make a flow that does the work of that connector and no other.
    """
    connector = Reading(layers.connector, CONNECTOR, problems)
    worker = Reading(layers.worker, WORKER, problems)
    clients = Clients(layers, file, problems, warnings, source=enabled)
    copies = enabled and layers.kind in {None, "source"}
    keeps_topics, beats = layers.kind in {None, "source"}, layers.kind in {None, "heartbeat"}
    # Read for what is wrong with them; the layers have what they say.
    for name in ("source.cluster.alias", "target.cluster.alias"):
        connector.text(name)
    # Read for its references only: its value was checked with the file.
    connector.written("forwarding.admin.class")
    consumer = clients.consumer()
    checkpoints = commits = False
    if copies:
        check_offset_syncs(connector)
        check_exactly_once(connector, worker, consumer.isolation_level, layers.names, warnings)
    if enabled and layers.kind in {None, "checkpoint"}:
        checkpoints, commits = translates_offsets(connector, f"{layers.source}->{layers.target}", warnings)
    # As Connect's ConnectorOffsetBackingStore: the flow's own topic first, then the one that all flows share.
    own_positions, shared_positions = connector.text("offsets.storage.topic"), worker.text("offset.storage.topic")
    custom = {name: custom_class(connector, name) if enabled else None for name in CLASS_KEYS}
    policy: PolicyName = "custom" if custom["replication.policy.class"] else _policy(connector)
    failed_records = failed_record_settings(connector, layers, warnings if copies else [])
    follows = follows_settings(layers, connector.text("replication.policy.separator"), policy)
    flow = FlowSettings(
        **plain_fields(FlowSettings, connector, worker),
        source=layers.source,
        target=layers.target,
        consumer=consumer,
        producer=clients.producer(),
        source_admin=clients.source_admin(),
        target_admin=clients.target_admin(),
        failed_records=failed_records,
        oversized_record_policy=record_policy(connector, "oversized_record_policy", failed_records),
        refused_record_policy=record_policy(connector, "refused_record_policy", failed_records),
        topics_exclude=_exclude(connector, "topics.exclude"),
        policy=policy,
        refresh_topics_interval_s=_interval(connector, "refresh_topics_interval_s"),
        config_properties_exclude=_exclude(connector, "config.properties.exclude"),
        offset_storage_topic=own_positions or shared_positions or None,
        earlier_positions_topic=(shared_positions or f"mm2-offsets.{layers.source}.internal")
        if own_positions
        else None,
        connector_name=layers.connector_name,
        kind=layers.kind,
        enabled=enabled,
        start=connector.per_topic("twinlog.start").map(lambda text: read_start(str(text)) if text else None),
        offset_lag_max=max(0, connector.number("offset.lag.max")),
        groups_exclude=_exclude(connector, "groups.exclude"),
        refresh_groups_interval_s=_interval(connector, "refresh_groups_interval_s"),
        emit_checkpoints_interval_s=_interval(connector, "emit_checkpoints_interval_s") if checkpoints else None,
        sync_group_offsets_interval_s=_interval(connector, "sync_group_offsets_interval_s") if commits else None,
        sync_topic_configs_interval_s=(
            _interval(connector, "sync_topic_configs_interval_s") if keeps_topics and follows else None
        ),
        sync_topic_acls_interval_s=_interval(connector, "sync_topic_acls_interval_s") if keeps_topics else None,
        emit_heartbeats_interval_s=_interval(connector, "emit_heartbeats_interval_s") if beats else None,
        transaction_boundary="interval" if connector.text("transaction.boundary") == "interval" else "poll",
        worker_group_id=worker.text("group.id") or None,
        policy_class=custom["replication.policy.class"],
        topic_filter_class=custom["topic.filter.class"],
        group_filter_class=custom["group.filter.class"],
        config_property_filter_class=custom["config.property.filter.class"],
        transform=transform_settings(connector, layers, file, warnings) if copies else None,
        metrics_have_source="add.source.alias.to.metrics" not in connector.layer
        or connector.flag("add.source.alias.to.metrics"),
        class_settings=class_settings(layers) if any(custom.values()) else (),
        source_cluster_alias=None if layers.source_name == layers.source else layers.source_name,
        target_cluster_alias=None if layers.target_name == layers.target else layers.target_name,
        aliases=tuple(alias for alias in layers.aliases if alias not in (layers.source, layers.target)),
    )
    if copies:
        warn_of_naming(layers, connector, flow, warnings)
    if layers.kind in {"checkpoint", "heartbeat"} and "transforms" in layers.connector:
        entry = layers.connector["transforms"]
        warnings.append(f"{entry.place}: {entry.key} has no effect; only records that a flow copies are transformed")
    if any(custom.values()):
        try_classes(flow, problems)
    return flow


def _policy(connector: Reading) -> PolicyName:
    return "identity" if connector.text("replication.policy.class") in IDENTITY_POLICIES else "default"


def _interval(connector: Reading, field: str) -> float | None:
    """Seconds between two rounds of some work; None where it is switched off or its interval is negative."""
    how = written(FlowSettings)[field]
    seconds = connector.number(how.key)
    return max(float(seconds), SHORTEST_S) if connector.flag(how.switch) and seconds >= 0 else None


def _exclude(connector: Reading, name: str) -> tuple[str, ...]:
    """The list under its name, or else under the name it had before."""
    old = OLD_NAMES[name]
    return connector.items(old if name not in connector.layer and old in connector.layer else name)
