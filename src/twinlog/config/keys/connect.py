"""Connector keys that Connect itself reads, and keys that may be written for a single flow only.

Names, types and defaults are Kafka 4.3's (Connect's classes ConnectorConfig and SourceConnectorConfig).
"""

from __future__ import annotations

from functools import partial

from twinlog.config.keys.key import Effect, Key, KeyType, Level, ValueForm

BOOL, LONG, SHORT = KeyType.BOOL, KeyType.LONG, KeyType.SHORT
LIST, STRING, CLASS, ENUM = KeyType.LIST, KeyType.STRING, KeyType.CLASS, KeyType.ENUM
JVM = Effect.JVM

OWNER = "twinlog.resource"
"""The key by which connectors name the Strimzi resource that they belong to."""

_flow = partial(Key, level=Level.FLOW)
_one_flow = partial(Key, level=Level.ONE_FLOW)

CONNECT_KEYS = (
    _flow(
        "name",
        STRING,
        None,
        "Name of a connector; in a file the three of a flow have those of their classes.",
        effect=JVM,
    ),
    _flow("connector.class", STRING, None, "Java class of a connector.", effect=JVM),
    _flow("connector.plugin.version", STRING, None, "Version of the connector's Java plugin.", effect=JVM),
    _flow(
        "source.cluster.alias",
        STRING,
        None,
        "Stands for the source in names of topics and in positions, in place of a file's alias; may be "
        "[nothing](#names-that-are-kept).",
        form=ValueForm.TOPIC_PART_OR_NOTHING,
    ),
    _flow(
        "target.cluster.alias",
        STRING,
        None,
        "Stands for the target in names of internal topics and in heartbeats, in place of a file's alias; may be "
        "nothing.",
        form=ValueForm.TOPIC_PART_OR_NOTHING,
    ),
    _flow("tasks.max.enforce", BOOL, "true", "Whether Connect refuses more tasks than `tasks.max`.", effect=JVM),
    _flow("admin.timeout.ms", LONG, "60000", "Steps of the start are tried until they succeed.", effect=JVM),
    _flow(
        "forwarding.admin.class",
        CLASS,
        "org.apache.kafka.clients.admin.ForwardingAdmin",
        "How topics are created and changed.",
        accepted_classes=("org.apache.kafka.clients.admin.ForwardingAdmin",),
    ),
    _flow(
        "metric.reporters",
        LIST,
        "org.apache.kafka.common.metrics.JmxReporter",
        "Java classes that report metrics.",
        effect=JVM,
    ),
    _flow("auto.include.jmx.reporter", BOOL, "true", "Whether metrics appear in JMX; gone since 4.0.", effect=JVM),
    _flow(
        "metric.names.formats",
        LIST,
        "legacy",
        "Names of metrics: `legacy` those of MirrorMaker 2, `new` those that Kafka 4.3 has for plugins, or both.",
        choices=("legacy", "new"),
    ),
    _flow(
        "config.action.reload", ENUM, "restart", "What a changed secret does.", effect=JVM, choices=("none", "restart")
    ),
    _flow("errors.retry.timeout", LONG, "0", "Milliseconds a failed Connect operation is tried again.", effect=JVM),
    _flow(
        "errors.retry.delay.max.ms",
        LONG,
        "60000",
        "Longest pause between tries of a failed Connect operation, in milliseconds.",
        effect=JVM,
    ),
    _flow(
        "errors.tolerance",
        ENUM,
        "none",
        "A record that the transform fails on, or that the target refuses, holds its partition (`none`), or is skipped "
        "(`all`).",
        choices=("none", "all"),
    ),
    _flow(
        "errors.log.enable",
        BOOL,
        "false",
        "Whether each record that is skipped is reported, with its offset and the error.",
    ),
    _flow(
        "errors.log.include.messages",
        BOOL,
        "false",
        "Whether the report of a record that failed shows its key and value.",
    ),
    _flow(
        "errors.deadletterqueue.topic.name",
        STRING,
        None,
        "Topic of the target that skipped records are written to, as they were; none without a name.",
        form=ValueForm.TOPIC,
    ),
    _flow(
        "errors.deadletterqueue.topic.replication.factor",
        SHORT,
        "3",
        "Replicas of the dead-letter topic when it is created; -1 is the broker's default.",
        minimum=-1,
        nonzero=True,
    ),
    _flow(
        "errors.deadletterqueue.context.headers.enable",
        BOOL,
        "false",
        "Whether records in the dead-letter topic have headers with their origin and the reason why the "
        "record was skipped.",
    ),
    _flow(
        "key.converter",
        CLASS,
        None,
        "Reads keys for [transforms of fields](smt.md); copying converts nothing.",
        effect=JVM,
    ),
    _flow(
        "value.converter",
        CLASS,
        None,
        "Reads values for [transforms of fields](smt.md); copying converts nothing.",
        effect=JVM,
    ),
    _flow("header.converter", CLASS, None, "Records are copied as bytes; nothing converts their headers.", effect=JVM),
    _flow("key.converter.plugin.version", STRING, None, "Version of the key converter's Java plugin.", effect=JVM),
    _flow("value.converter.plugin.version", STRING, None, "Version of the value converter's Java plugin.", effect=JVM),
    _flow("header.converter.plugin.version", STRING, None, "Version of the header converter's plugin.", effect=JVM),
    _flow("key.converter.*", STRING, None, "Settings of the key converter.", effect=JVM),
    _flow("value.converter.*", STRING, None, "Settings of the value converter.", effect=JVM),
    _flow("header.converter.*", STRING, None, "Settings of the header converter.", effect=JVM),
    _flow(
        "transforms",
        LIST,
        "",
        "Names of [Connect's transforms](smt.md) of each record, in their order.",
    ),
    _flow("predicates", LIST, "", "Names of [conditions](smt.md) of transforms."),
    _flow(OWNER, STRING, None, "Strimzi's resource that a connector is of; `twinlog run` writes it."),
)

ONE_FLOW_KEYS = (
    _one_flow("enabled", BOOL, "false", "Whether the flow runs."),
    _one_flow(
        "use.defaults.from",
        ENUM,
        "target",
        "Whose default counts for topic settings the source does not set.",
        choices=("target", "source"),
    ),
    _one_flow(
        "offsets.storage.topic",
        STRING,
        None,
        "Topic for this flow's positions; those it lacks are taken from `offset.storage.topic` of the target.",
        form=ValueForm.TOPIC,
    ),
    _one_flow(
        "exactly.once.support",
        ENUM,
        "requested",
        "`required` refuses a flow that `exactly.once.source.support` and `isolation.level` do not make exactly-once.",
        choices=("requested", "required"),
        any_case=True,
    ),
    _one_flow(
        "transaction.boundary",
        ENUM,
        "poll",
        "What one transaction holds: what was read at once, or all of an interval.",
        choices=("poll", "interval", "connector"),
        any_case=True,
    ),
    _one_flow(
        "transaction.boundary.interval.ms",
        LONG,
        "100",
        "Milliseconds one transaction lasts (`offset.flush.interval.ms` in Connect).",
        minimum=1,
        maximum=2**31 - 1,
    ),
    _one_flow("topic.creation.groups", LIST, "", "Groups of topics that Connect itself creates.", effect=JVM),
    _one_flow(
        "topic.creation.*", STRING, None, "Connect's own topic creation; remote topics never used it.", effect=JVM
    ),
    _one_flow("transforms.*", STRING, None, "Settings of a transform, below its name: `type` is its class."),
    _one_flow("predicates.*", STRING, None, "Settings of a predicate, below its name: `type` is its class."),
)
