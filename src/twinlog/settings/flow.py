"""The settings of a flow, in the form that travels to the tasks: plain values after parsing, apart from files.

`twinlog.config` builds these on the driver; Spark pickles them into tasks, so this module imports only types. All `_ms`
are milliseconds, all `_s` seconds, all `_bytes` bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from twinlog.model.held import HeldReason
from twinlog.model.topic_names import HeartbeatNames
from twinlog.model.types import Alias, TopicName
from twinlog.settings.client import AdminSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.per_topic import PerTopic
from twinlog.settings.start import Start
from twinlog.settings.transform import FailedRecordSettings, TransformSettings
from twinlog.settings.written import WrittenAs, every, key_of, out_of, switch_of

PolicyName = Literal["default", "identity", "custom"]
GapPolicy = Literal["hold", "skip", "continue", "stop"]
"""`continue` is an older word for `skip`."""

RenamedTopicPolicy = Literal["stop", "continue", "restart"]
RecordPolicy = Literal["hold", "skip", "dead-letter", "stop"]
"""The treatment of a record that the target refuses."""

DifferencePolicy = Literal["hold", "report", "stop"]
"""The consequence of a difference that the proof of equality finds."""

OffsetsMode = Literal["translated", "identical"]
"""Whether a copy gets the next offset of its remote topic, or the offset of its source."""

ExactlyOnce = Literal["disabled", "preparing", "enabled"]
TransactionBoundary = Literal["poll", "interval"]
SyncsLocation = Literal["source", "target"]
MetricNames = Literal["legacy", "new"]
AlterConfigs = Literal["requested", "required", "never"]

ConnectorKind = Literal["source", "checkpoint", "heartbeat"]
"""A connector of MirrorMaker 2: copies records, follows groups, or writes heartbeats."""

SOURCE_CONNECTOR = "MirrorSourceConnector"

TOPICS_EXCLUDE = (r"mm2.*\.internal", r".*\.replica", "__.*")
"""The default of `topics.exclude` (Kafka 4.0 and newer)."""

GROUPS_EXCLUDE = ("console-consumer-.*", "connect-.*", "__.*")

CONFIG_PROPERTIES_EXCLUDE = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
)
"""The default of `config.properties.exclude` (Kafka 4.3)."""

_HOLD: PerTopic[Any] = PerTopic("hold")
_TRANSLATED: PerTopic[Any] = PerTopic("translated")
_UNPROVEN: PerTopic[bool] = PerTopic(default=False)

BY_RESET: PerTopic[Start | None] = PerTopic(None)
"""The default of `twinlog.start`: every topic begins by `auto.offset.reset`."""

COPIER_MEMORY_BYTES = 134_217_728
"""The default of `twinlog.copier.memory.bytes`."""

LEAST_COPIER_MEMORY_BYTES = 16_000_000
"""The least value of `twinlog.copier.memory.bytes`."""


@dataclass(frozen=True, slots=True)
class CustomClass:
    """A Python class in a file: `path` is `package.module:Class`, written at `line` of `file` as `key`.

    Only its path travels; the driver alone loads the class (`twinlog.mirror.topology.plugins`).
    """

    path: str
    key: str
    file: str
    line: int | None


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """All settings of a flow, after precedence and defaults.

    `topics`, `topics_exclude` and `config_properties_exclude` are Java regular expressions for whole names, and so are
    `groups` and `groups_exclude`. `replication_factor` and `offset_storage_replication_factor` of -1 mean the target
    broker's default. `refresh_topics_interval_s` is None when the look for new topics is turned off; so are the other
    `_interval_s` of work that is turned off. `offset_storage_topic` is None unless the user named a topic for stored
    positions. With `enabled` False a flow only writes heartbeats.

    With `exactly_once` enabled a transaction ends after `transaction_interval_ms`. With the boundary `poll` it ends
    already when all read records are appended. `group_id` names the processes that share the flow (Connect's worker
    group on the target).

    `alter_configs` is `use.incremental.alter.configs` of Kafka 3.5 to 3.9. With `requested` single settings are changed
    if the target supports it; with `required` the target must support it; `never` sends all settings of a topic.

    `policy_class` is set when `policy` is custom; each `_filter_class` takes the place of the expressions of its kind.
    `class_settings` configure these classes: the flow's settings as written, apart from its clients' settings.

    Positions are first looked for in `positions_topic`, then in `earlier_positions_topic`, if there is this topic. A
    flow of a dedicated MirrorMaker 2 has the `kind` None and does the work of all three connectors. A flow of a Connect
    worker does the work of its own connector alone. With `transform` None records are copied unchanged.

    `metric_names` are the forms of the names that its metrics have, with the tag `source` if `metrics_have_source`.
    `source_cluster_alias` and `target_cluster_alias` are None unless the keys of these names say another alias than
    `source` and `target` are. `aliases` are the other clusters that the file names; a connector knows only its own two.
    `start` is None for topics that begin by the consumer's `auto_offset_reset`.
    """

    source: Alias
    target: Alias
    consumer: ConsumerSettings
    producer: ProducerSettings
    source_admin: AdminSettings
    target_admin: AdminSettings
    tasks_max: Annotated[int, WrittenAs("tasks.max")] = 1
    replication_factor: Annotated[int, WrittenAs("replication.factor")] = 2
    topics: Annotated[tuple[str, ...], WrittenAs("topics")] = (".*",)
    topics_exclude: Annotated[tuple[str, ...], WrittenAs("topics.exclude")] = TOPICS_EXCLUDE
    separator: Annotated[str, WrittenAs("replication.policy.separator")] = "."
    internal_separator_follows: Annotated[bool, WrittenAs("replication.policy.internal.topic.separator.enabled")] = True
    policy: Annotated[PolicyName, out_of("replication.policy.class")] = "default"
    heartbeats_replication_enabled: Annotated[bool, WrittenAs("heartbeats.replication.enabled")] = True
    refresh_topics_interval_s: Annotated[float | None, every("refresh.topics")] = 5.0
    config_properties_exclude: Annotated[tuple[str, ...], WrittenAs("config.properties.exclude")] = (
        CONFIG_PROPERTIES_EXCLUDE
    )
    use_defaults_from: Annotated[Literal["source", "target"], WrittenAs("use.defaults.from")] = "target"
    start: Annotated[PerTopic[Start | None], out_of("twinlog.start")] = BY_RESET
    offsets: Annotated[PerTopic[OffsetsMode], WrittenAs("twinlog.offsets")] = _TRANSLATED
    fence_writers: Annotated[bool, WrittenAs("twinlog.fence.writers")] = False
    gap_policy: Annotated[PerTopic[GapPolicy], WrittenAs("twinlog.gap.policy")] = _HOLD
    renamed_topic_policy: Annotated[RenamedTopicPolicy, WrittenAs("twinlog.renamed.topic.policy")] = "stop"
    oversized_record_policy: Annotated[PerTopic[RecordPolicy], out_of("twinlog.oversized.record.policy")] = _HOLD
    refused_record_policy: Annotated[PerTopic[RecordPolicy], out_of("twinlog.refused.record.policy")] = _HOLD
    proof: Annotated[PerTopic[bool], WrittenAs("twinlog.proof")] = _UNPROVEN
    difference_policy: Annotated[PerTopic[DifferencePolicy], WrittenAs("twinlog.difference.policy")] = _HOLD
    failed_records: FailedRecordSettings = field(default_factory=FailedRecordSettings)
    lease_seconds: Annotated[int, WrittenAs("twinlog.lease.seconds")] = 300
    position_interval_ms: Annotated[int, WrittenAs("twinlog.position.interval.ms")] = 500
    copier_memory_bytes: Annotated[int, WrittenAs("twinlog.copier.memory.bytes")] = COPIER_MEMORY_BYTES
    offset_storage_topic: Annotated[str | None, out_of("offset.storage.topic")] = None
    offset_storage_partitions: Annotated[int, WrittenAs("offset.storage.partitions")] = 25
    offset_storage_replication_factor: Annotated[int, WrittenAs("offset.storage.replication.factor")] = 3
    connector_name: str = SOURCE_CONNECTOR
    kind: ConnectorKind | None = None
    enabled: Annotated[bool, out_of("enabled")] = True
    emit_offset_syncs: Annotated[bool, WrittenAs("emit.offset-syncs.enabled")] = True
    offset_syncs_location: Annotated[SyncsLocation, WrittenAs("offset-syncs.topic.location")] = "source"
    offset_syncs_replication_factor: Annotated[int, WrittenAs("offset-syncs.topic.replication.factor")] = 3
    offset_lag_max: Annotated[int, out_of("offset.lag.max")] = 100
    groups: Annotated[tuple[str, ...], WrittenAs("groups")] = (".*",)
    groups_exclude: Annotated[tuple[str, ...], WrittenAs("groups.exclude")] = GROUPS_EXCLUDE
    refresh_groups_interval_s: Annotated[float | None, every("refresh.groups")] = 2.0
    emit_checkpoints_interval_s: Annotated[float | None, every("emit.checkpoints")] = 1.0
    checkpoints_replication_factor: Annotated[int, WrittenAs("checkpoints.topic.replication.factor")] = 3
    sync_group_offsets_interval_s: Annotated[float | None, every("sync.group.offsets")] = None
    sync_topic_configs_interval_s: Annotated[float | None, every("sync.topic.configs")] = 30.0
    alter_configs: Annotated[AlterConfigs, WrittenAs("use.incremental.alter.configs")] = "requested"
    sync_topic_acls_interval_s: Annotated[float | None, every("sync.topic.acls")] = 30.0
    emit_heartbeats_interval_s: Annotated[float | None, every("emit.heartbeats")] = 1.0
    heartbeats_replication_factor: Annotated[int, WrittenAs("heartbeats.topic.replication.factor")] = 3
    exactly_once: Annotated[ExactlyOnce, WrittenAs("exactly.once.source.support")] = "disabled"
    transaction_interval_ms: Annotated[int, WrittenAs("transaction.boundary.interval.ms")] = 100
    transaction_boundary: Annotated[TransactionBoundary, out_of("transaction.boundary")] = "poll"
    worker_group_id: Annotated[str | None, WrittenAs("group.id")] = None
    earlier_positions_topic: Annotated[str | None, out_of("offset.storage.topic")] = None
    policy_class: Annotated[CustomClass | None, out_of("replication.policy.class")] = None
    topic_filter_class: Annotated[CustomClass | None, out_of("topic.filter.class")] = None
    group_filter_class: Annotated[CustomClass | None, out_of("group.filter.class")] = None
    config_property_filter_class: Annotated[CustomClass | None, out_of("config.property.filter.class")] = None
    class_settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    transform: Annotated[TransformSettings | None, out_of("transform")] = None
    metric_names: Annotated[tuple[MetricNames, ...], WrittenAs("metric.names.formats")] = ("legacy",)
    metrics_have_source: Annotated[bool, out_of("add.source.alias.to.metrics")] = True
    aliases: tuple[Alias, ...] = ()
    source_cluster_alias: Annotated[Alias | None, out_of("source.cluster.alias")] = None
    target_cluster_alias: Annotated[Alias | None, out_of("target.cluster.alias")] = None

    @property
    def source_name(self) -> Alias:
        """The source in names of topics and in stored records; it may be empty.

        `source.cluster.alias` of a file counts for these names. The names of the worker's topics and group have the
        alias that `clusters` lists (Kafka class MirrorMakerConfig).
        """
        return self.source if self.source_cluster_alias is None else self.source_cluster_alias

    @property
    def target_name(self) -> Alias:
        """The target in names of topics and in stored records; it may be empty."""
        return self.target if self.target_cluster_alias is None else self.target_cluster_alias

    @property
    def keeps_names(self) -> bool:
        """Whether remote topics have the names of their sources.

        The default policy keeps names if both the alias and the separator before them are empty.
        """
        return self.policy == "identity" or (self.policy == "default" and not self.separator and not self.source_name)

    @property
    def group_id(self) -> str:
        """The name the processes of this flow share on the target, `S-mm2` unless the user chose another."""
        return self.worker_group_id or self.mirror_maker_group_id

    @property
    def mirror_maker_group_id(self) -> str:
        """The name of the group of MirrorMaker 2's processes, unless its file names another."""
        return f"{self.source}-mm2"

    @property
    def has_own_group(self) -> bool:
        """Whether the flow runs beside MirrorMaker 2's group, so that the group keeps no other process away."""
        return self.kind is None and self.group_id != self.mirror_maker_group_id

    @property
    def may_keep_offsets(self) -> bool:
        """Whether the copies of some topics have the offsets of their sources."""
        return "identical" in self.offsets.values

    @property
    def fences_writers(self) -> bool:
        """Whether other logins are kept from the remote topics with the offsets of their sources."""
        return self.copies and self.fence_writers and self.may_keep_offsets

    def keeps_offsets(self, topic: TopicName) -> bool:
        """Whether the copies of a source topic have the offsets of their sources; heartbeats never have them."""
        return self.offsets.for_topic(topic) == "identical" and not self.heartbeat_names.is_heartbeats(topic)

    def proves(self, topic: TopicName) -> bool:
        """Whether the copies of a source topic are proven equal; heartbeats and transformed records never are."""
        if self.transform is not None or self.heartbeat_names.is_heartbeats(topic):
            return False
        return self.proof.for_topic(topic)

    def held_policy(self, reason: HeldReason, topic: TopicName) -> str:
        """The rule for a partition of source topic `topic` that is held; `hold` for a reason that lacks a setting."""
        match reason:
            case "gap":
                policy = self.gap_policy.for_topic(topic)
                return "hold" if policy != "stop" and self.keeps_offsets(topic) else policy
            case "oversized record":
                return self.record_policy(self.oversized_record_policy, topic)
            case "refused record":
                return self.record_policy(self.refused_record_policy, topic)
            case "difference":
                return self.difference_policy.for_topic(topic)
            case _:
                return "hold"

    def record_policy(self, policies: PerTopic[RecordPolicy], topic: TopicName) -> RecordPolicy:
        """The rule of `policies` for records of a source topic: where offsets are kept, no record is left out."""
        policy = policies.for_topic(topic)
        return "hold" if policy in ("skip", "dead-letter") and self.keeps_offsets(topic) else policy

    @property
    def copies(self) -> bool:
        """Whether records are copied here; a checkpoint connector translates the copies of a source connector."""
        return self.enabled and self.kind in {None, "source"}

    @property
    def only_copies(self) -> bool:
        """Whether the flow leaves group offsets, ACLs and heartbeats alone, and the source unwritten, as a canary does;
        a flow of MirrorMaker 2 rarely has these settings together."""
        intervals = (
            self.sync_group_offsets_interval_s,
            self.sync_topic_acls_interval_s,
            self.emit_heartbeats_interval_s,
        )
        at_target = self.offset_syncs_location == "target"
        return at_target and not self.heartbeats_replication_enabled and not any(one is not None for one in intervals)

    @property
    def heartbeat_names(self) -> HeartbeatNames:
        """The names of heartbeats topics, by the aliases of the file alone."""
        return HeartbeatNames(self.separator, frozenset((self.source, self.target, *self.aliases)))

    def start_of(self, topic: str) -> Start:
        """The start of a source topic of this name when the flow first starts with it."""
        return self.start.for_topic(topic) or self.consumer.auto_offset_reset

    def start_key(self, topic: str) -> str:
        """The key and the value of the topic's start, for messages."""
        own = self.start.for_topic(topic)
        name = key_of(ConsumerSettings, "auto_offset_reset") if own is None else key_of(FlowSettings, "start")
        return f"{name} = {own or self.consumer.auto_offset_reset}"

    def key(self, field: str) -> str:
        """The key of a field of these settings, as it is written for this flow alone."""
        return self.written_as(key_of(FlowSettings, field))

    def switch(self, field: str) -> str:
        """The key that turns off the work of a field, as it is written for this flow alone."""
        return self.written_as(switch_of(FlowSettings, field))

    def written_as(self, key: str) -> str:
        """A key as it is written for this flow alone."""
        return f"{self.name}.{key}" if self.kind is None else key

    def transactional_id(self, index: int) -> str:
        """The transactional id of a task, e.g. `east-mm2-MirrorSourceConnector-0` (Kafka class Worker)."""
        return f"{self.group_id}-{self.connector_name}-{index}"

    @property
    def name(self) -> str:
        """The flow as users write it, `source->target`, or the connector that asks for it."""
        return f"{self.source}->{self.target}" if self.kind is None else self.connector_name

    @property
    def as_option(self) -> str:
        """The name as a value of `--flow`, without the `>` that a shell takes for a redirection.

        The connectors of Strimzi's operator have names as `east->west.MirrorSourceConnector`.
        """
        name = f"{self.source}->{self.target}" if self.kind is None else self.connector_name
        return name.replace("->", ":", 1)

    @property
    def positions_topic(self) -> str:
        """The topic on the target that stores positions, in Connect's format.

        The name always has dots, whatever the separator is (Kafka class MirrorMakerConfig).
        """
        return self.offset_storage_topic or f"mm2-offsets.{self.source}.internal"

    @property
    def offset_syncs_topic(self) -> str:
        """The topic of offset syncs; its name has the alias of the cluster on the other side (KIP-716)."""
        separator = self.separator if self.internal_separator_follows else "."
        other = self.target_name if self.offset_syncs_location == "source" else self.source_name
        return f"mm2-offset-syncs{separator}{other}{separator}internal"

    def for_task(self, index: int) -> FlowSettings:
        """The same flow with the task's number in the client ids of its data clients, as MirrorMaker 2 writes them.

        `east->west|MirrorSourceConnector|replication-consumer` becomes
        `east->west|MirrorSourceConnector-3|replication-consumer`, and `connector-producer-MirrorSourceConnector`
        becomes `connector-producer-MirrorSourceConnector-3`. A producer id chosen by the user stays.
        """
        consumer, producer = self.consumer, self.producer
        read_id = consumer.client.client_id.replace(f"|{self.connector_name}|", f"|{self.connector_name}-{index}|")
        write_id = producer.client.client_id
        if write_id == f"connector-producer-{self.connector_name}":
            write_id = f"{write_id}-{index}"
        return replace(
            self,
            consumer=replace(consumer, client=replace(consumer.client, client_id=read_id)),
            producer=replace(producer, client=replace(producer.client, client_id=write_id)),
        )
