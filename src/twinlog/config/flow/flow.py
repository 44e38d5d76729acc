"""Reads the settings of a flow from its entries: classes, error rules, transforms, contradictions.

MirrorMaker 2 checks contradictions per connector (classes MirrorSourceConnector, MirrorCheckpointConfig,
DistributedHerder); its process then logs the refusal of that connector and continues with the remaining connectors.
Here a refused source connector is an error, because the flow would be useless; a refused checkpoint connector is a
warning, and the flow skips checkpoints.
"""

from __future__ import annotations

from typing import cast

from twinlog.config.flow.clients import Clients
from twinlog.config.flow.identical_offsets import check_identical_offsets
from twinlog.config.flow.warnings import follows_settings, warn_of_naming
from twinlog.config.keys.connector import CLASS_KEYS, IDENTITY_POLICIES
from twinlog.config.keys.scope import KeyNames
from twinlog.config.keys.table import CONNECTOR, SECURITY, WORKER
from twinlog.config.text.config_reader import ConfigReader, Problems, read_fields
from twinlog.config.text.precedence import FlowLayers
from twinlog.config.text.values import read_start
from twinlog.errors import ConfigError, TransformError
from twinlog.errors.mistakes import ConfigWarning, MistakeKind
from twinlog.mirror.topology.plugins import config_filter_of, group_filter_of, policy_of, topic_filter_of
from twinlog.model.topic_names import HeartbeatNames, check_name
from twinlog.model.types import TopicName
from twinlog.settings.flow import CustomClass, FlowSettings, PolicyName, RecordPolicy
from twinlog.settings.per_topic import PerTopic
from twinlog.settings.transform import FailedRecordSettings, SmtChain, TransformSettings
from twinlog.settings.written import key_of

_CLIENTS_OWN = ("source.", "target.", "consumer.", "producer.", "admin.", "config.providers")
_SAMPLE = TopicName("orders")


def custom_class(connector: ConfigReader, name: str) -> CustomClass | None:
    """The Python class of a key, if the value has the form of a Python class."""
    path = connector.text(name)
    entry = connector.layer.get(name)
    return None if entry is None or ":" not in path else CustomClass(path, entry.key, entry.file, entry.line)


def class_settings(layers: FlowLayers) -> tuple[tuple[str, str], ...]:
    """The configuration of a class of the user's; passwords are left out, because they belong to clients."""
    own = {
        name: entry.value
        for name, entry in layers.connector.items()
        if not name.startswith(_CLIENTS_OWN) and name not in SECURITY.exact and entry.unresolved is None
    }
    aliases = {"source.cluster.alias": layers.source_name, "target.cluster.alias": layers.target_name}
    return tuple(sorted({**own, **aliases}.items()))


def try_classes(flow: FlowSettings, problems: Problems) -> None:
    """Loads the user's classes and calls each once, so that a malformed class is found before a start."""

    def policy() -> None:
        naming = policy_of(flow)
        remote = naming.remote_name(flow.source_name, _SAMPLE)
        naming.source_alias(remote)
        naming.upstream_name(remote)

    def settings() -> None:
        filter_ = config_filter_of(flow)
        filter_.accepts("retention.ms")
        filter_.accepts_default("retention.ms")

    trials = (
        policy,
        settings,
        lambda: topic_filter_of(flow).accepts(_SAMPLE),
        lambda: group_filter_of(flow).accepts("g"),
    )
    for trial in trials:
        try:
            trial()
        except ConfigError as error:
            for problem in error.problems:
                problems.add(problem)


_SYNCS = "emit.offset-syncs.enabled"


def check_offset_syncs(connector: ConfigReader) -> None:
    """Refuses settings of offset syncs if offset syncs are turned off."""
    off = connector.get_entry(_SYNCS)
    if off is None or connector.flag(_SYNCS):
        return
    beside = next((entry for name, entry in connector.layer.items() if name.startswith("offset-syncs.topic.")), None)
    if beside is not None:
        found = f"{off.value.strip()!r} together with {beside.named}"
        connector.problems.refuse(off, found, "either of the two; MirrorMaker 2 refuses to copy with both")


def translates_offsets(connector: ConfigReader, flow: str, warnings: list[ConfigWarning]) -> tuple[bool, bool]:
    """Whether the flow writes checkpoints, and whether it commits offsets of groups, which needs checkpoints.

    Adds a warning for each feature that the file turns on and the flow is unable to provide.
    """
    checkpoints = (
        connector.flag("emit.checkpoints.enabled") and connector.number("emit.checkpoints.interval.seconds") >= 0
    )
    commits = connector.flag("sync.group.offsets.enabled")
    if checkpoints and not connector.flag(_SYNCS):
        off = connector.layer[_SYNCS]
        text = (
            f"with offset syncs off, checkpoints and offsets of groups are off in the flow {flow}, as in MirrorMaker "
            "2; to silence this warning add emit.checkpoints.enabled = false"
        )
        warnings.append(off.warning(text, MistakeKind.SWITCHED_OFF))
        return False, False
    if commits and not checkpoints:
        asked = connector.layer["sync.group.offsets.enabled"]
        text = (
            f"offsets of groups are committed from checkpoints, which are off in the flow {flow}; set "
            "emit.checkpoints.enabled = true"
        )
        warnings.append(asked.warning(text, MistakeKind.SWITCHED_OFF))
    return checkpoints, checkpoints and commits


def check_exactly_once(
    connector: ConfigReader, worker: ConfigReader, isolation: str, names: KeyNames, warnings: list[ConfigWarning]
) -> None:
    """Refuses a demand for exactly-once copying that the remaining settings fail to fulfil; `isolation` is the source
    consumer's."""
    mode = worker.text("exactly.once.source.support")
    committed = isolation == "read_committed"
    boundary = connector.get_entry("transaction.boundary")
    if boundary is not None and connector.text("transaction.boundary") == "connector":
        connector.problems.refuse(
            boundary, repr(boundary.value), "poll or interval; MirrorMaker 2 lacks boundaries of its own"
        )
    demand = connector.get_entry("exactly.once.support")
    if demand is not None and connector.text("exactly.once.support") == "required":
        missing = [
            f"{names.worker('exactly.once.source.support')} = enabled" if mode != "enabled" else "",
            f"{names.source_consumer('isolation.level')} = read_committed" if not committed else "",
        ]
        needed = " and ".join(text for text in missing if text)
        if needed:
            connector.problems.refuse(demand, repr(demand.value), needed)
    elif mode == "enabled" and not committed:
        switch = worker.layer["exactly.once.source.support"]
        text = (
            f"{names.source}->{names.target} also copies records of open and aborted transactions; write "
            f"{names.source_consumer('isolation.level')} = read_committed"
        )
        warnings.append(switch.warning(text, MistakeKind.CONTRADICTION))


TOPIC = key_of(FailedRecordSettings, "dead_letter_topic")


def failed_record_settings(
    connector: ConfigReader, layers: FlowLayers, warnings: list[ConfigWarning]
) -> FailedRecordSettings:
    """Connect's `errors.*` of a flow; a dead-letter topic that would stay empty is a warning."""
    settings = FailedRecordSettings(**read_fields(FailedRecordSettings, connector))
    dead = connector.get_entry(TOPIC)
    if dead is None or not settings.dead_letter_topic:
        return settings
    aliases = frozenset((layers.source, layers.target, *layers.aliases))
    heartbeats = HeartbeatNames(connector.text("replication.policy.separator"), aliases)
    internal = heartbeats.is_heartbeats(TopicName(settings.dead_letter_topic))
    try:
        check_name(settings.dead_letter_topic)
    except TransformError:
        internal = True
    if internal:
        connector.problems.refuse(dead, repr(dead.value), "a topic other than an internal topic")
    used = any("dead-letter" in record_policy(connector, field, settings).values for field in _POLICIES)
    if settings.tolerance == "none" and not used:
        text = (
            "this topic stays empty, because a record that fails holds its partition; write "
            f"{key_of(FailedRecordSettings, 'tolerance')} = all"
        )
        warnings.append(dead.warning(text, MistakeKind.SWITCHED_OFF))
    return settings


def _check_proof(connector: ConfigReader, flow: FlowSettings) -> None:
    """Add a problem for each line that asks for a proof in a flow with a transform: its records differ on purpose."""
    if flow.transform is None or not any(flow.proof.values):
        return
    key = key_of(FlowSettings, "proof")
    for name, entry in connector.layer.items():
        if (name == key or name.startswith(f"{key}.")) and entry.value.strip().lower() == "true":
            connector.problems.refuse(
                entry,
                f"{entry.value.strip()!r} together with a transform",
                "false, or leave out the transform",
                MistakeKind.CONTRADICTION,
            )


_POLICIES = ("oversized_record_policy", "refused_record_policy")


def record_policy(connector: ConfigReader, field: str, failed: FailedRecordSettings) -> PerTopic[RecordPolicy]:
    """A policy for records by its field of `FlowSettings`. If the file lacks the key, `errors.tolerance = all` leaves
    the record out, as Connect does since KIP-779."""
    key = key_of(FlowSettings, field)
    policy = cast("PerTopic[RecordPolicy]", connector.per_topic(key))
    if connector.get_entry(key) is None and failed.tolerance == "all":
        policy = PerTopic("dead-letter" if failed.dead_letter_topic else "skip", policy.rules)
    if not failed.dead_letter_topic:
        for name, entry in connector.layer.items():
            if (name == key or name.startswith(f"{key}.")) and entry.value.strip().lower() == "dead-letter":
                connector.problems.refuse(entry, repr(entry.value.strip()), f"a topic in {TOPIC} for these records")
    return policy


_EXPECTED = "package.module:function, which takes and returns a pyarrow.RecordBatch"


def transform_settings(
    connector: ConfigReader, layers: FlowLayers, file: str, warnings: list[ConfigWarning]
) -> TransformSettings | None:
    """The settings of a flow's transforms, None if it lacks them; a function is imported, and tried on an empty
    batch."""
    smts = _connects_own(connector, layers, file, warnings)
    settings = TransformSettings(**read_fields(TransformSettings, connector), smts=smts)
    if not settings.function and not settings.sql and smts is None:
        return None
    _try(connector, settings)
    return settings


def _connects_own(
    connector: ConfigReader, layers: FlowLayers, file: str, warnings: list[ConfigWarning]
) -> SmtChain | None:
    if not any(name.startswith(("transforms", "predicates")) for name in layers.connector):
        return None
    # If a flow lacks transforms, their modules stay unloaded.
    from twinlog.config.smt.chain import read_chain  # noqa: PLC0415

    return read_chain(connector, layers, file, warnings)


def _try(connector: ConfigReader, settings: TransformSettings) -> None:
    """Runs the user's code; its errors are problems of the line that names it."""
    # A flow that only copies works even if pyarrow is missing.
    from twinlog.transforms.build import build  # noqa: PLC0415
    from twinlog.transforms.contract import try_on_nothing  # noqa: PLC0415

    entry = connector.get_entry("transform") if settings.function else None
    if entry is not None:
        try:
            try_on_nothing(build(settings))
        except TransformError as error:
            connector.problems.refuse(entry, f"{settings.function}: {error}", _EXPECTED, MistakeKind.OWN_CODE)


def build_flow(
    layers: FlowLayers, file: str, problems: Problems, warnings: list[ConfigWarning], *, enabled: bool
) -> FlowSettings:
    """The settings of `layers`; problems are added to `problems`, and the default replaces the wrong value.

    With `enabled` false the flow only writes heartbeats to its target, so its source may be wrong or missing. Layers of
    a single connector make a flow that does only the work of this connector.
    """
    connector = ConfigReader(layers.connector, CONNECTOR, problems)
    worker = ConfigReader(layers.worker, WORKER, problems)
    clients = Clients(layers, file, problems, warnings, source=enabled)
    copies = enabled and layers.kind in {None, "source"}
    keeps_topics = layers.kind in {None, "source"}
    # Read only to report problems; the layers already include the values.
    for name in ("source.cluster.alias", "target.cluster.alias"):
        connector.text(name)
    # Read for its references only: its value was checked with the file.
    connector.get_entry("forwarding.admin.class")
    consumer = clients.consumer()
    checkpoints = commits = False
    if copies:
        check_offset_syncs(connector)
        check_exactly_once(connector, worker, consumer.isolation_level, layers.names, warnings)
    if enabled and layers.kind in {None, "checkpoint"}:
        checkpoints, commits = translates_offsets(connector, f"{layers.source}->{layers.target}", warnings)
    # As Connect's ConnectorOffsetBackingStore: the flow's own topic first, then the topic that all flows share.
    own_positions, shared_positions = connector.text("offsets.storage.topic"), worker.text("offset.storage.topic")
    custom = {name: custom_class(connector, name) if enabled else None for name in CLASS_KEYS}
    policy: PolicyName = "custom" if custom["replication.policy.class"] else _policy(connector)
    failed_records = failed_record_settings(connector, layers, warnings if copies else [])
    follows = follows_settings(layers, connector.text("replication.policy.separator"), policy)
    work = {
        "emit_checkpoints_interval_s": checkpoints,
        "sync_group_offsets_interval_s": commits,
        "sync_topic_configs_interval_s": keeps_topics and follows,
        "sync_topic_acls_interval_s": keeps_topics,
        "emit_heartbeats_interval_s": layers.kind in {None, "heartbeat"},
    }
    flow = FlowSettings(
        **read_fields(FlowSettings, connector, worker) | dict.fromkeys(field for field, on in work.items() if not on),
        source=layers.source,
        target=layers.target,
        consumer=consumer,
        producer=clients.producer(),
        source_admin=clients.source_admin(),
        target_admin=clients.target_admin(),
        failed_records=failed_records,
        oversized_record_policy=record_policy(connector, "oversized_record_policy", failed_records),
        refused_record_policy=record_policy(connector, "refused_record_policy", failed_records),
        policy=policy,
        offset_storage_topic=own_positions or shared_positions or None,
        earlier_positions_topic=(shared_positions or f"mm2-offsets.{layers.source}.internal")
        if own_positions
        else None,
        connector_name=layers.connector_name,
        kind=layers.kind,
        enabled=enabled,
        start=connector.per_topic("twinlog.start").map(lambda text: read_start(str(text)) if text else None),
        offset_lag_max=max(0, connector.number("offset.lag.max")),
        transaction_boundary="interval" if connector.text("transaction.boundary") == "interval" else "poll",
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
        check_identical_offsets(connector, flow)
        _check_proof(connector, flow)
        warn_of_naming(layers, connector, flow, warnings)
    if layers.kind in {"checkpoint", "heartbeat"} and "transforms" in layers.connector:
        entry = layers.connector["transforms"]
        text = "ignored, because only records that a flow copies are transformed"
        warnings.append(entry.warning(text, MistakeKind.IGNORED))
    if any(custom.values()):
        try_classes(flow, problems)
    return flow


def _policy(connector: ConfigReader) -> PolicyName:
    return "identity" if connector.text("replication.policy.class") in IDENTITY_POLICIES else "default"
