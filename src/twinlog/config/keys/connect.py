"""Connector keys that Connect itself reads, and keys that may be written for a single flow only.

Names, types and defaults are Kafka 4.3's (Connect's classes ConnectorConfig and SourceConnectorConfig).
"""

from __future__ import annotations

from functools import partial

from twinlog.config.keys.key import (
    AT_ONCE,
    LOW,
    PAUSE,
    RESTART,
    Effect,
    Importance,
    Key,
    KeyType,
    Level,
    Shown,
    ValueForm,
    Width,
    setting,
)
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import FailedRecordSettings

BOOL, LONG, SHORT = KeyType.BOOL, KeyType.LONG, KeyType.SHORT
LIST, STRING, CLASS, ENUM = KeyType.LIST, KeyType.STRING, KeyType.CLASS, KeyType.ENUM
JVM = Effect.JVM

OWNER = "twinlog.resource"
"""The key by which connectors name the Strimzi resource that they belong to."""

_flow = partial(Key, level=Level.FLOW)
_flow_setting = partial(setting, FlowSettings, level=Level.FLOW)
_errors_setting = partial(setting, FailedRecordSettings, level=Level.FLOW)
_one_flow = partial(Key, level=Level.ONE_FLOW)
_one_flow_setting = partial(setting, FlowSettings, level=Level.ONE_FLOW)

CONNECT_KEYS = (
    _flow(
        "name",
        STRING,
        None,
        "Name of a connector; in a file the three of a flow have those of their classes.",
        effect=JVM,
        shown=Shown(Importance.HIGH, "Common", Width.MEDIUM, "Connector name", required=True),
    ),
    _flow(
        "connector.class",
        STRING,
        None,
        "Java class of a connector.",
        effect=JVM,
        shown=Shown(Importance.HIGH, "Common", Width.LONG, "Connector class", required=True),
    ),
    _flow(
        "connector.plugin.version",
        STRING,
        None,
        "Version of the connector's Java plugin.",
        effect=JVM,
        shown=Shown(Importance.MEDIUM, "Common", Width.MEDIUM, "Connector version", since=(4, 1)),
    ),
    _flow(
        "source.cluster.alias",
        STRING,
        None,
        "The source's alias in names of topics and in positions, in place of a file's alias; may be "
        "[empty](#names-that-are-kept).",
        form=ValueForm.TOPIC_PART_OR_NOTHING,
        update=RESTART,
        shown=Shown(Importance.HIGH, required=True),
    ),
    _flow(
        "target.cluster.alias",
        STRING,
        None,
        "The target's alias in names of internal topics and in heartbeats, in place of a file's alias; may be empty.",
        form=ValueForm.TOPIC_PART_OR_NOTHING,
        update=RESTART,
        shown=Shown(Importance.HIGH, default="target"),
    ),
    _flow(
        "tasks.max.enforce",
        BOOL,
        "true",
        "Whether Connect refuses more tasks than `tasks.max`.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Enforce tasks max"),
    ),
    _flow("admin.timeout.ms", LONG, "60000", "Steps of the start are tried until they succeed.", effect=JVM, shown=LOW),
    _flow(
        "forwarding.admin.class",
        CLASS,
        "org.apache.kafka.clients.admin.ForwardingAdmin",
        "How topics are created and changed.",
        accepted_classes=("org.apache.kafka.clients.admin.ForwardingAdmin",),
        update=RESTART,
        shown=LOW,
    ),
    _flow(
        "metric.reporters",
        LIST,
        "org.apache.kafka.common.metrics.JmxReporter",
        "Java classes that report metrics.",
        effect=JVM,
        shown=LOW,
    ),
    _flow(
        "auto.include.jmx.reporter",
        BOOL,
        "true",
        "Whether metrics appear in JMX; gone since 4.0.",
        effect=JVM,
        shown=Shown(Importance.LOW, until=(4, 0)),
    ),
    _flow_setting(
        "metric.names.formats",
        LIST,
        "Names of metrics: `legacy` those of MirrorMaker 2, `new` those that Kafka 4.3 has for plugins, or both.",
        choices=("legacy", "new"),
        update=RESTART,
        shown=Shown(Importance.LOW, since=(4, 3)),
    ),
    _flow(
        "config.action.reload",
        ENUM,
        "restart",
        "The effect of a changed secret.",
        effect=JVM,
        choices=("none", "restart"),
        shown=Shown(Importance.LOW, "Common", Width.MEDIUM, "Reload Action"),
    ),
    _flow(
        "errors.retry.timeout",
        LONG,
        "0",
        "Milliseconds a failed Connect operation is tried again.",
        effect=JVM,
        shown=Shown(Importance.MEDIUM, "Error Handling", Width.MEDIUM, "Retry Timeout for Errors"),
    ),
    _flow(
        "errors.retry.delay.max.ms",
        LONG,
        "60000",
        "Longest pause between tries of a failed Connect operation, in milliseconds.",
        effect=JVM,
        shown=Shown(Importance.MEDIUM, "Error Handling", Width.MEDIUM, "Maximum Delay Between Retries for Errors"),
    ),
    _errors_setting(
        "errors.tolerance",
        ENUM,
        "A record that the transform fails on, or that the target refuses, holds its partition (`none`), or is skipped "
        "(`all`).",
        choices=("none", "all"),
        update=PAUSE,
        shown=Shown(Importance.MEDIUM, "Error Handling", Width.SHORT, "Error Tolerance"),
    ),
    _errors_setting(
        "errors.log.enable",
        BOOL,
        "Whether each record that is skipped is reported, with its offset and the error.",
        update=PAUSE,
        shown=Shown(Importance.MEDIUM, "Error Handling", Width.SHORT, "Log Errors"),
    ),
    _errors_setting(
        "errors.log.include.messages",
        BOOL,
        "Whether the report of a record that failed shows its key and value.",
        update=PAUSE,
        shown=Shown(Importance.MEDIUM, "Error Handling", Width.SHORT, "Log Error Details"),
    ),
    _flow(
        "errors.deadletterqueue.topic.name",
        STRING,
        None,
        "Topic of the target that skipped records are written to, as they were; off if empty.",
        form=ValueForm.TOPIC,
        update=PAUSE,
    ),
    _errors_setting(
        "errors.deadletterqueue.topic.replication.factor",
        SHORT,
        "Replicas of the dead-letter topic when it is created; -1 is the broker's default.",
        minimum=-1,
        nonzero=True,
        update=PAUSE,
    ),
    _errors_setting(
        "errors.deadletterqueue.context.headers.enable",
        BOOL,
        "Whether records in the dead-letter topic have headers with their origin and the reason why the "
        "record was skipped.",
        update=PAUSE,
    ),
    _flow(
        "key.converter",
        CLASS,
        None,
        "Reads keys for [transforms of fields](smt.md); copying leaves them as they are.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Key converter class"),
    ),
    _flow(
        "value.converter",
        CLASS,
        None,
        "Reads values for [transforms of fields](smt.md); copying leaves them as they are.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Value converter class"),
    ),
    _flow(
        "header.converter",
        CLASS,
        None,
        "Records are copied as bytes; their headers stay as they are.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Header converter class"),
    ),
    _flow(
        "key.converter.plugin.version",
        STRING,
        None,
        "Version of the key converter's Java plugin.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Key converter version", since=(4, 1)),
    ),
    _flow(
        "value.converter.plugin.version",
        STRING,
        None,
        "Version of the value converter's Java plugin.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Value converter version", since=(4, 1)),
    ),
    _flow(
        "header.converter.plugin.version",
        STRING,
        None,
        "Version of the header converter's plugin.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Header converter version", since=(4, 1)),
    ),
    _flow("key.converter.*", STRING, None, "Settings of the key converter.", effect=JVM),
    _flow("value.converter.*", STRING, None, "Settings of the value converter.", effect=JVM),
    _flow("header.converter.*", STRING, None, "Settings of the header converter.", effect=JVM),
    _flow(
        "transforms",
        LIST,
        "",
        "Names of [Connect's transforms](smt.md) of each record, in their order.",
        update=RESTART,
        shown=Shown(Importance.LOW, "Transforms", Width.LONG, "Transforms"),
    ),
    _flow(
        "predicates",
        LIST,
        "",
        "Names of [conditions](smt.md) of transforms.",
        update=RESTART,
        shown=Shown(Importance.LOW, "Predicates", Width.LONG, "Predicates"),
    ),
    _flow(OWNER, STRING, None, "Strimzi's resource that a connector is of; `twinlog run` writes it.", update=RESTART),
)

ONE_FLOW_KEYS = (
    _one_flow(
        "enabled", BOOL, "false", "Whether the flow runs.", update=AT_ONCE, shown=Shown(Importance.LOW, default="true")
    ),
    _one_flow_setting(
        "use.defaults.from",
        ENUM,
        "Whose default counts for topic settings that the source leaves at its default.",
        choices=("target", "source"),
        update=RESTART,
    ),
    _one_flow(
        "offsets.storage.topic",
        STRING,
        None,
        "Topic for this flow's positions; those it lacks are taken from `offset.storage.topic` of the target.",
        form=ValueForm.TOPIC,
        update=RESTART,
        shown=Shown(Importance.LOW, "offsets.topic", Width.LONG, "Offsets topic"),
    ),
    _one_flow(
        "exactly.once.support",
        ENUM,
        "requested",
        "`required` refuses a flow unless `exactly.once.source.support` and `isolation.level` make it exactly-once.",
        choices=("requested", "required"),
        any_case=True,
        update=RESTART,
        shown=Shown(Importance.MEDIUM, "Exactly Once Support", Width.SHORT, "Exactly once support"),
    ),
    _one_flow_setting(
        "transaction.boundary",
        ENUM,
        "The records of a transaction: a single read, or all records of an interval.",
        choices=("poll", "interval", "connector"),
        any_case=True,
        update=RESTART,
        shown=Shown(Importance.MEDIUM, "Exactly Once Support", Width.SHORT, "Transaction Boundary"),
    ),
    _one_flow_setting(
        "transaction.boundary.interval.ms",
        LONG,
        "Milliseconds that a transaction lasts (`offset.flush.interval.ms` in Connect).",
        minimum=1,
        maximum=2**31 - 1,
        update=RESTART,
        shown=Shown(Importance.LOW, "Exactly Once Support", Width.SHORT, "Transaction boundary interval"),
    ),
    _one_flow(
        "topic.creation.groups",
        LIST,
        "",
        "Groups of topics that Connect itself creates.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Topic Creation", Width.LONG, "Topic Creation Groups"),
    ),
    _one_flow(
        "topic.creation.*",
        STRING,
        None,
        "Connect's own topic creation; remote topics are created by the flow.",
        effect=JVM,
    ),
    _one_flow(
        "transforms.*", STRING, None, "Settings of a transform, below its name: `type` is its class.", update=RESTART
    ),
    _one_flow(
        "predicates.*", STRING, None, "Settings of a predicate, below its name: `type` is its class.", update=RESTART
    ),
)
