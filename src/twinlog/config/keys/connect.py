"""Connector keys that Connect itself reads, and keys that may be written for a single flow only.

Names, types and defaults are Kafka 4.3's (Connect's classes ConnectorConfig and SourceConnectorConfig).
"""

from __future__ import annotations

from functools import partial

from twinlog.config.keys.client import JAVA_METRICS
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

_PLUGIN = "Version of a Java plugin."

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
        "Name of a connector; a file's connectors have the names of their classes.",
        effect=JVM,
        shown=Shown(Importance.HIGH, "Common", Width.MEDIUM, "Connector name", required=True),
    ),
    _flow(
        "connector.class",
        STRING,
        None,
        "Class of a connector; a file's flows have MirrorMaker 2's connectors.",
        effect=JVM,
        shown=Shown(Importance.HIGH, "Common", Width.LONG, "Connector class", required=True),
    ),
    _flow(
        "connector.plugin.version",
        STRING,
        None,
        _PLUGIN,
        effect=JVM,
        shown=Shown(Importance.MEDIUM, "Common", Width.MEDIUM, "Connector version", since=(4, 1)),
    ),
    _flow(
        "source.cluster.alias",
        STRING,
        None,
        "Alias of the source in topic names and positions, in place of the file's alias; may be "
        "[empty](#names-that-are-kept).",
        form=ValueForm.TOPIC_PART_OR_NOTHING,
        update=RESTART,
        shown=Shown(Importance.HIGH, required=True),
    ),
    _flow(
        "target.cluster.alias",
        STRING,
        None,
        "Alias of the target in names of internal topics and in heartbeats, in place of the file's alias; may be "
        "empty.",
        form=ValueForm.TOPIC_PART_OR_NOTHING,
        update=RESTART,
        shown=Shown(Importance.HIGH, default="target"),
    ),
    _flow(
        "tasks.max.enforce",
        BOOL,
        "true",
        "Connect refuses more tasks than `tasks.max`.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Enforce tasks max"),
    ),
    _flow(
        "admin.timeout.ms", LONG, "60000", "The steps of a start are tried until they succeed.", effect=JVM, shown=LOW
    ),
    _flow(
        "forwarding.admin.class",
        CLASS,
        "org.apache.kafka.clients.admin.ForwardingAdmin",
        "Class that creates and changes topics.",
        accepted_classes=("org.apache.kafka.clients.admin.ForwardingAdmin",),
        update=RESTART,
        shown=LOW,
    ),
    _flow("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", JAVA_METRICS, effect=JVM, shown=LOW),
    _flow(
        "auto.include.jmx.reporter",
        BOOL,
        "true",
        JAVA_METRICS,
        effect=JVM,
        shown=Shown(Importance.LOW, until=(4, 0)),
    ),
    _flow_setting(
        "metric.names.formats",
        LIST,
        "Names of metrics: `legacy` as in MirrorMaker 2, `new` as Kafka 4.3 has for plugins, or both.",
        choices=("legacy", "new"),
        update=RESTART,
        shown=Shown(Importance.LOW, since=(4, 3)),
    ),
    _flow(
        "config.action.reload",
        ENUM,
        "restart",
        "Connect's reaction to a changed secret.",
        effect=JVM,
        choices=("none", "restart"),
        shown=Shown(Importance.LOW, "Common", Width.MEDIUM, "Reload Action"),
    ),
    _flow(
        "errors.retry.timeout",
        LONG,
        "0",
        "Milliseconds for which Connect repeats a failed operation.",
        effect=JVM,
        shown=Shown(Importance.MEDIUM, "Error Handling", Width.MEDIUM, "Retry Timeout for Errors"),
    ),
    _flow(
        "errors.retry.delay.max.ms",
        LONG,
        "60000",
        "Longest pause between Connect's tries, in milliseconds.",
        effect=JVM,
        shown=Shown(Importance.MEDIUM, "Error Handling", Width.MEDIUM, "Maximum Delay Between Retries for Errors"),
    ),
    _errors_setting(
        "errors.tolerance",
        ENUM,
        "A record that the transform fails on, or that the target refuses, holds its partition (`none`) or is "
        "skipped (`all`).",
        choices=("none", "all"),
        update=PAUSE,
        shown=Shown(Importance.MEDIUM, "Error Handling", Width.SHORT, "Error Tolerance"),
    ),
    _errors_setting(
        "errors.log.enable",
        BOOL,
        "Reports each skipped record, with its offset and the error.",
        update=PAUSE,
        shown=Shown(Importance.MEDIUM, "Error Handling", Width.SHORT, "Log Errors"),
    ),
    _errors_setting(
        "errors.log.include.messages",
        BOOL,
        "Adds key and value to the report of a failed record.",
        update=PAUSE,
        shown=Shown(Importance.MEDIUM, "Error Handling", Width.SHORT, "Log Error Details"),
    ),
    _flow(
        "errors.deadletterqueue.topic.name",
        STRING,
        None,
        "Topic on the target for skipped records, as they were; off if empty.",
        form=ValueForm.TOPIC,
        update=PAUSE,
    ),
    _errors_setting(
        "errors.deadletterqueue.topic.replication.factor",
        SHORT,
        "Replicas of a new dead-letter topic; -1 takes the broker's default.",
        minimum=-1,
        nonzero=True,
        update=PAUSE,
    ),
    _errors_setting(
        "errors.deadletterqueue.context.headers.enable",
        BOOL,
        "Adds headers with origin and reason to records in the dead-letter topic.",
        update=PAUSE,
    ),
    _flow(
        "key.converter",
        CLASS,
        None,
        "Reads keys for [transforms of fields](transforms.md#connects-transforms); copying keeps the bytes.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Key converter class"),
    ),
    _flow(
        "value.converter",
        CLASS,
        None,
        "Reads values for [transforms of fields](transforms.md#connects-transforms); copying keeps the bytes.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Value converter class"),
    ),
    _flow(
        "header.converter",
        CLASS,
        None,
        "Copying keeps the bytes of headers.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Header converter class"),
    ),
    _flow(
        "key.converter.plugin.version",
        STRING,
        None,
        _PLUGIN,
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Key converter version", since=(4, 1)),
    ),
    _flow(
        "value.converter.plugin.version",
        STRING,
        None,
        _PLUGIN,
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Value converter version", since=(4, 1)),
    ),
    _flow(
        "header.converter.plugin.version",
        STRING,
        None,
        _PLUGIN,
        effect=JVM,
        shown=Shown(Importance.LOW, "Common", Width.SHORT, "Header converter version", since=(4, 1)),
    ),
    _flow("key.converter.*", STRING, None, "Settings of a converter.", effect=JVM),
    _flow("value.converter.*", STRING, None, "Settings of a converter.", effect=JVM),
    _flow("header.converter.*", STRING, None, "Settings of a converter.", effect=JVM),
    _flow(
        "transforms",
        LIST,
        "",
        "Names of [Connect's transforms](transforms.md#connects-transforms), in their order.",
        update=RESTART,
        shown=Shown(Importance.LOW, "Transforms", Width.LONG, "Transforms"),
    ),
    _flow(
        "predicates",
        LIST,
        "",
        "Names of [conditions](transforms.md#connects-transforms) of transforms.",
        update=RESTART,
        shown=Shown(Importance.LOW, "Predicates", Width.LONG, "Predicates"),
    ),
    _flow(OWNER, STRING, None, "Strimzi's resource of a connector; `twinlog run` writes it.", update=RESTART),
)

ONE_FLOW_KEYS = (
    _one_flow("enabled", BOOL, "false", "Runs the flow.", update=AT_ONCE, shown=Shown(Importance.LOW, default="true")),
    _one_flow_setting(
        "use.defaults.from",
        ENUM,
        "Cluster with the default for topic settings that the source leaves at the default.",
        choices=("target", "source"),
        update=RESTART,
    ),
    _one_flow(
        "offsets.storage.topic",
        STRING,
        None,
        "Topic of this flow's positions; missing positions are taken from `offset.storage.topic` of the target.",
        form=ValueForm.TOPIC,
        update=RESTART,
        shown=Shown(Importance.LOW, "offsets.topic", Width.LONG, "Offsets topic"),
    ),
    _one_flow(
        "exactly.once.support",
        ENUM,
        "requested",
        "`required` refuses a flow unless `exactly.once.source.support` and `isolation.level` make the flow "
        "exactly-once.",
        choices=("requested", "required"),
        any_case=True,
        update=RESTART,
        shown=Shown(Importance.MEDIUM, "Exactly Once Support", Width.SHORT, "Exactly once support"),
    ),
    _one_flow_setting(
        "transaction.boundary",
        ENUM,
        "Records of a transaction: a single read (`poll`), or all records of an `interval`.",
        choices=("poll", "interval", "connector"),
        any_case=True,
        update=RESTART,
        shown=Shown(Importance.MEDIUM, "Exactly Once Support", Width.SHORT, "Transaction Boundary"),
    ),
    _one_flow_setting(
        "transaction.boundary.interval.ms",
        LONG,
        "Milliseconds of a transaction (`offset.flush.interval.ms` in Connect).",
        minimum=1,
        maximum=2**31 - 1,
        update=RESTART,
        shown=Shown(Importance.LOW, "Exactly Once Support", Width.SHORT, "Transaction boundary interval"),
    ),
    _one_flow(
        "topic.creation.groups",
        LIST,
        "",
        "Connect's creation of topics; a flow creates remote topics itself.",
        effect=JVM,
        shown=Shown(Importance.LOW, "Topic Creation", Width.LONG, "Topic Creation Groups"),
    ),
    _one_flow(
        "topic.creation.*",
        STRING,
        None,
        "Connect's creation of topics; a flow creates remote topics itself.",
        effect=JVM,
    ),
    _one_flow(
        "transforms.*", STRING, None, "Settings of a transform, below its name; `type` is its class.", update=RESTART
    ),
    _one_flow(
        "predicates.*", STRING, None, "Settings of a predicate, below its name; `type` is its class.", update=RESTART
    ),
)
