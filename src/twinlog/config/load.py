"""From the path of a MirrorMaker 2 properties file to the flows it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

from twinlog.config.clients import Clients
from twinlog.config.keys import CONNECTOR, WORKER
from twinlog.config.keys_connector import IDENTITY_POLICIES
from twinlog.config.model import MirrorConfig
from twinlog.config.place import Pair
from twinlog.config.properties import read_properties
from twinlog.config.reading import Problems, Reading
from twinlog.config.resolve import FlowLayers, resolve_flow
from twinlog.config.survey import Survey, survey
from twinlog.config.traps import warn_of_circles, warn_of_lost_overrides
from twinlog.errors import ConfigError, ConfigProblem
from twinlog.settings import FlowSettings, GapPolicy, OversizedRecordPolicy, PolicyName


def load(path: str | Path, clusters: Sequence[str] | None = None) -> MirrorConfig:
    """The enabled flows of the file at `path`; with `clusters`, only those whose target is among them.

    Raises ConfigError with every problem found. Reads only this file and what its `${...}` references name; no
    cluster is contacted.
    """
    file = str(path)
    found = survey(read_properties(Path(path)), file)
    problems = Problems(found.problems)
    _check_filter(found, clusters, problems)
    pairs = [pair for pair in _enabled(found, problems) if clusters is None or pair[1] in clusters]
    layers = [resolve_flow(found, *pair) for pair in pairs]
    flows = tuple(_flow(item, file, problems, found.warnings) for item in layers)
    for item in layers:
        warn_of_lost_overrides(item, found)
    warn_of_circles(flows, found.warnings)
    if not flows and not problems.all():
        problems.add(_nothing_to_run(found, clusters))
    if problems.all():
        raise ConfigError(problems.all())
    return MirrorConfig(flows, found.aliases, tuple(found.warnings))


def _check_filter(found: Survey, clusters: Sequence[str] | None, problems: Problems) -> None:
    known = ", ".join(found.aliases)
    for alias in clusters or ():
        if alias not in found.aliases:
            problems.add(
                ConfigProblem(found.file, None, "--clusters", repr(alias), f"aliases that clusters names: {known}")
            )


def _enabled(found: Survey, problems: Problems) -> list[Pair]:
    """Pairs whose `S->T.enabled` is true; only that key counts (MirrorMakerConfig.clusterPairs)."""
    enabled: list[Pair] = []
    for source in found.aliases:
        for target in found.aliases:
            layer = found.flows.get((source, target), {})
            entry = layer.get("enabled")
            if entry is None or not Reading(layer, CONNECTOR, problems).flag("enabled"):
                continue
            if entry.value != entry.value.strip():
                found.warnings.append(
                    f"{entry.place}: {entry.key} is true with a blank behind it; the flow runs here, "
                    "but MirrorMaker 2 would not start it"
                )
            enabled.append((source, target))
    return enabled


def _nothing_to_run(found: Survey, clusters: Sequence[str] | None) -> ConfigProblem:
    if clusters is not None:
        return ConfigProblem(
            found.file, None, "--clusters", ", ".join(clusters), "targets of at least one enabled flow"
        )
    source, target = (*found.aliases, "A", "B")[:2]
    return ConfigProblem(
        found.file, None, "enabled", "no flow is enabled", f"at least one, such as {source}->{target}.enabled = true"
    )


def _flow(layers: FlowLayers, file: str, problems: Problems, warnings: list[str]) -> FlowSettings:
    connector = Reading(layers.connector, CONNECTOR, problems)
    worker = Reading(layers.worker, WORKER, problems)
    clients = Clients(layers, file, problems, warnings)
    _check_aliases(layers, connector, problems)
    # Read for their references only: their values were checked with the file.
    for name in (
        "topic.filter.class",
        "group.filter.class",
        "config.property.filter.class",
        "forwarding.admin.class",
        "transforms",
        "predicates",
    ):
        connector.written(name)
    interval = connector.number("refresh.topics.interval.seconds")
    policy: PolicyName = "identity" if connector.text("replication.policy.class") in IDENTITY_POLICIES else "default"
    return FlowSettings(
        source=layers.source,
        target=layers.target,
        consumer=clients.consumer(),
        producer=clients.producer(),
        source_admin=clients.source_admin(),
        target_admin=clients.target_admin(),
        tasks_max=connector.number("tasks.max"),
        replication_factor=connector.number("replication.factor"),
        topics=connector.items("topics"),
        topics_exclude=_renamed(connector, "topics.exclude", "topics.blacklist"),
        separator=connector.text("replication.policy.separator"),
        internal_separator_follows=connector.flag("replication.policy.internal.topic.separator.enabled"),
        policy=policy,
        heartbeats_replication_enabled=connector.flag("heartbeats.replication.enabled"),
        refresh_topics_interval_s=float(interval)
        if connector.flag("refresh.topics.enabled") and interval > 0
        else None,
        config_properties_exclude=_renamed(connector, "config.properties.exclude", "config.properties.blacklist"),
        use_defaults_from=cast(Literal["source", "target"], connector.text("use.defaults.from")),
        gap_policy=cast(GapPolicy, connector.text("twinlog.gap.policy")),
        oversized_record_policy=cast(OversizedRecordPolicy, connector.text("twinlog.oversized.record.policy")),
        lease_seconds=connector.number("twinlog.lease.seconds"),
        position_interval_ms=connector.number("twinlog.position.interval.ms"),
        offset_storage_topic=worker.text("offset.storage.topic") or None,
        offset_storage_partitions=worker.number("offset.storage.partitions"),
        offset_storage_replication_factor=worker.number("offset.storage.replication.factor"),
    )


def _renamed(connector: Reading, name: str, old: str) -> tuple[str, ...]:
    """The list under its name, or else under the name it had before."""
    return connector.items(old) if name not in connector.layer and old in connector.layer else connector.items(name)


def _check_aliases(layers: FlowLayers, connector: Reading, problems: Problems) -> None:
    for name, alias in (("source.cluster.alias", layers.source), ("target.cluster.alias", layers.target)):
        entry = connector.written(name)
        if entry is not None and entry.value.strip() != alias:
            problems.refuse(
                entry, repr(entry.value), f"no such key, or {alias!r} as in {layers.source}->{layers.target}"
            )
