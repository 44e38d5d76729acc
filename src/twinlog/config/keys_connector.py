"""Keys of the file itself, of the three connectors of a flow, and twinlog's own.

Names, types and defaults are those of Kafka 4.3 (classes MirrorMakerConfig, MirrorConnectorConfig, MirrorSourceConfig,
MirrorCheckpointConfig, MirrorHeartbeatConfig and Connect's ConnectorConfig), plus the names they had before.
"""

from __future__ import annotations

from functools import partial

from twinlog.config.key import Effect, Form, Key, KeyType, Level
from twinlog.settings import CONFIG_PROPERTIES_EXCLUDE, GROUPS_EXCLUDE, TOPICS_EXCLUDE

_MIRROR = "org.apache.kafka.connect.mirror."
DEFAULT_POLICY = _MIRROR + "DefaultReplicationPolicy"
IDENTITY_POLICIES = (
    _MIRROR + "IdentityReplicationPolicy",
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
)

CLASS_KEYS = (
    "replication.policy.class",
    "topic.filter.class",
    "group.filter.class",
    "config.property.filter.class",
)
"""Keys that may name a Python class."""

OLD_NAMES = {
    "topics.exclude": "topics.blacklist",
    "groups.exclude": "groups.blacklist",
    "config.properties.exclude": "config.properties.blacklist",
}
"""Keys with the name they had before Kafka 2.7; it counts where the new name is not written."""

_process = partial(Key, level=Level.PROCESS)
_flow = partial(Key, level=Level.FLOW)
_one_flow = partial(Key, level=Level.ONE_FLOW)

BOOL, INT, LONG, SHORT = KeyType.BOOL, KeyType.INT, KeyType.LONG, KeyType.SHORT
LIST, STRING, CLASS, ENUM = KeyType.LIST, KeyType.STRING, KeyType.CLASS, KeyType.ENUM
LATER, JVM = Effect.LATER, Effect.JVM

_LONGEST_S = 2**31 - 1


def _interval(name: str, default: int, doc: str, theirs: int | None = None, *, zero: bool = False) -> Key:
    """`theirs` is MirrorMaker 2's default where it differs; `zero` says that 0 is a value and not a wrong one."""
    kafka = "" if theirs is None else f" ({theirs} in MirrorMaker 2)"
    often = "0 is ten times a second, " if zero else ""
    doc = f"Seconds between two {doc}{kafka}; {often}negative turns them off."
    return _flow(name, LONG, str(default), doc, maximum=_LONGEST_S, nonzero=not zero)


def _replicas(name: str, topic: str) -> Key:
    doc = f"Replicas of the {topic} topic when it is created; -1 is the broker's default."
    return _flow(name, SHORT, "3", doc, minimum=-1, nonzero=True)


PROCESS_KEYS = (
    _process("clusters", LIST, None, "The aliases of all clusters the file speaks of.", form=Form.ALIASES),
    _process("config.providers", LIST, "", "Names of the sources of ${name:path:key} references in values."),
    _process(
        "config.providers.*",
        STRING,
        None,
        "Per provider: `.class` (FileConfigProvider, EnvVarConfigProvider or DirectoryConfigProvider) and `.param.*`.",
    ),
    _process(
        "twinlog.unknown.keys",
        ENUM,
        "fail",
        "Whether a key nobody knows stops the start or is only reported.",
        choices=("fail", "warn"),
    ),
    _process(
        "twinlog.warm.up.enabled",
        BOOL,
        "true",
        "Prepare later starts of Spark in the background, as `twinlog warm-up` does, where that was never done.",
    ),
    _process(
        "dedicated.mode.enable.internal.rest",
        BOOL,
        "false",
        "Processes that share a flow meet on its target and need no listener.",
        effect=JVM,
    ),
    _process("listeners", LIST, "http://:8083", "Addresses the REST listener binds to.", effect=LATER),
    _process("admin.listeners", LIST, None, "Addresses of the REST listener for log levels.", effect=LATER),
    _process("rest.advertised.host.name", STRING, None, "Host name other nodes call this one by.", effect=LATER),
    _process("rest.advertised.port", INT, None, "Port other nodes call this one at.", effect=LATER),
    _process("rest.advertised.listener", STRING, None, "Which listener other nodes call, http or https.", effect=LATER),
    _process(
        "rest.extension.classes",
        LIST,
        "",
        "Classes that extend the REST listener, such as basic authentication.",
        effect=LATER,
    ),
    _process(
        "access.control.allow.origin",
        STRING,
        "",
        "Origin allowed to call the REST listener from a browser.",
        effect=LATER,
    ),
    _process("access.control.allow.methods", STRING, "", "Methods allowed from a browser.", effect=LATER),
    _process("response.http.headers.config", STRING, "", "Headers added to every REST answer.", effect=LATER),
    _process("listeners.https.*", STRING, None, "TLS settings of the REST listener.", effect=LATER),
    _process("admin.listeners.https.*", STRING, None, "TLS settings of the listener for log levels.", effect=LATER),
)

SOURCE_KEYS = (
    _flow("topics", LIST, ".*", "Topics to mirror; whole names must match one of the expressions.", form=Form.PATTERNS),
    _flow(
        "topics.exclude",
        LIST,
        ", ".join(TOPICS_EXCLUDE),
        "Topics never mirrored; wins over `topics`.",
        form=Form.PATTERNS,
    ),
    _flow(
        "topics.blacklist",
        LIST,
        None,
        "Old name of `topics.exclude`, which wins when both are written.",
        form=Form.PATTERNS,
    ),
    _flow(
        "topic.filter.class",
        CLASS,
        _MIRROR + "DefaultTopicFilter",
        "How topics are chosen.",
        accepted_classes=(_MIRROR + "DefaultTopicFilter",),
        custom=True,
    ),
    _flow("tasks.max", INT, "1", "Most Spark tasks the flow may use.", minimum=1),
    _flow(
        "replication.factor",
        INT,
        "2",
        "Replicas of each new remote topic; -1 is the target broker's default.",
        minimum=-1,
        nonzero=True,
    ),
    _flow(
        "replication.policy.class",
        CLASS,
        DEFAULT_POLICY,
        "How remote topics are called: with the source alias in front, unchanged, or by a class of your own.",
        accepted_classes=(DEFAULT_POLICY, *IDENTITY_POLICIES),
        custom=True,
    ),
    _flow(
        "replication.policy.separator",
        STRING,
        ".",
        "Stands between the alias and the topic in remote names.",
        form=Form.TOPIC_PART,
    ),
    _flow(
        "replication.policy.internal.topic.separator.enabled",
        BOOL,
        "true",
        "Whether internal topic names use the separator too; false keeps their dots.",
    ),
    _flow("refresh.topics.enabled", BOOL, "true", "Whether to look for new topics and partitions."),
    _flow(
        "refresh.topics.interval.seconds",
        LONG,
        "5",
        "Seconds between two looks for new topics and partitions (600 in MirrorMaker 2); negative turns them off.",
        maximum=_LONGEST_S,
        nonzero=True,
    ),
    _flow(
        "config.properties.exclude",
        LIST,
        ", ".join(CONFIG_PROPERTIES_EXCLUDE),
        "Topic settings that are not carried over to the remote topic.",
        form=Form.PATTERNS,
    ),
    _flow(
        "config.properties.blacklist",
        LIST,
        None,
        "Old name of `config.properties.exclude`, which wins when both are written.",
        form=Form.PATTERNS,
    ),
    _flow(
        "config.property.filter.class",
        CLASS,
        _MIRROR + "DefaultConfigPropertyFilter",
        "How topic settings are chosen.",
        accepted_classes=(_MIRROR + "DefaultConfigPropertyFilter",),
        custom=True,
    ),
    _flow("heartbeats.replication.enabled", BOOL, "true", "Whether heartbeats topics are mirrored past the filter."),
    _flow("sync.topic.configs.enabled", BOOL, "true", "Keeps settings of remote topics equal to the source's."),
    _interval("sync.topic.configs.interval.seconds", 30, "syncs of topic settings", 600),
    _flow("sync.topic.acls.enabled", BOOL, "true", "Carries topic ACLs over to remote topics."),
    _interval("sync.topic.acls.interval.seconds", 30, "syncs of ACLs", 600),
    _flow("emit.offset-syncs.enabled", BOOL, "true", "Writes pairs of source and target offsets."),
    _flow(
        "offset-syncs.topic.location",
        ENUM,
        "source",
        "Cluster that holds the offset-syncs topic.",
        choices=("source", "target"),
    ),
    _replicas("offset-syncs.topic.replication.factor", "offset-syncs"),
    _flow("offset.lag.max", LONG, "100", "Records that may pass before the next offset sync; 0 syncs each append."),
    _flow(
        "use.incremental.alter.configs",
        ENUM,
        "requested",
        "How settings of remote topics are changed (Kafka 3.5 to 3.9): one by one where the target can, `required` or "
        "not at all, `never` sends all of a topic.",
        choices=("requested", "required", "never"),
    ),
    _flow(
        "add.source.alias.to.metrics",
        BOOL,
        "false",
        "Adds the source alias to metric names; always so since 4.0.",
        effect=JVM,
    ),
    _flow("consumer.poll.timeout.ms", LONG, "1000", "Milliseconds the Java task waits in one poll.", effect=JVM),
)

CHECKPOINT_KEYS = (
    _flow("groups", LIST, ".*", "Consumer groups whose offsets are translated.", form=Form.PATTERNS),
    _flow(
        "groups.exclude",
        LIST,
        ", ".join(GROUPS_EXCLUDE),
        "Consumer groups never translated; wins over `groups`.",
        form=Form.PATTERNS,
    ),
    _flow(
        "groups.blacklist",
        LIST,
        None,
        "Old name of `groups.exclude`, which wins when both are written.",
        form=Form.PATTERNS,
    ),
    _flow(
        "group.filter.class",
        CLASS,
        _MIRROR + "DefaultGroupFilter",
        "How groups are chosen.",
        accepted_classes=(_MIRROR + "DefaultGroupFilter",),
        custom=True,
    ),
    _flow("refresh.groups.enabled", BOOL, "true", "Whether to look for new groups."),
    _interval("refresh.groups.interval.seconds", 2, "looks for new groups", 600),
    _flow("emit.checkpoints.enabled", BOOL, "true", "Writes translated group offsets to the checkpoints topic."),
    _interval("emit.checkpoints.interval.seconds", 1, "rounds of checkpoints", 60, zero=True),
    _flow(
        "sync.group.offsets.enabled",
        BOOL,
        "false",
        "Commits translated offsets for groups idle on the target; needs `emit.checkpoints.enabled`.",
    ),
    _interval("sync.group.offsets.interval.seconds", 1, "commits of group offsets", 60),
    _replicas("checkpoints.topic.replication.factor", "checkpoints"),
    _flow(
        "emit.heartbeats.enabled",
        BOOL,
        "true",
        "Writes heartbeats to the target, for each pair of clusters, whether its flow is enabled or not.",
    ),
    _interval("emit.heartbeats.interval.seconds", 1, "heartbeats", zero=True),
    _replicas("heartbeats.topic.replication.factor", "heartbeats"),
)

CONNECT_KEYS = (
    _flow("name", STRING, None, "Name of a connector; the three of a flow are named by what they do.", effect=JVM),
    _flow("connector.class", CLASS, None, "Java class of a connector.", effect=JVM),
    _flow("connector.plugin.version", STRING, None, "Version of the connector's Java plugin.", effect=JVM),
    _flow("source.cluster.alias", STRING, None, "The source; must equal the flow's own.", form=Form.TOPIC_PART),
    _flow("target.cluster.alias", STRING, None, "The target; must equal the flow's own.", form=Form.TOPIC_PART),
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
    _flow("metric.names.formats", LIST, "legacy", "Which names metrics have.", effect=LATER, choices=("legacy", "new")),
    _flow(
        "config.action.reload", ENUM, "restart", "What a changed secret does.", effect=JVM, choices=("none", "restart")
    ),
    _flow("errors.retry.timeout", LONG, "0", "Milliseconds a failed Connect operation is tried again.", effect=JVM),
    _flow("errors.retry.delay.max.ms", LONG, "60000", "Longest pause between such tries, in milliseconds.", effect=JVM),
    _flow(
        "errors.tolerance",
        ENUM,
        "none",
        "Whether Connect skips records it cannot send.",
        effect=JVM,
        choices=("none", "all"),
    ),
    _flow("errors.log.enable", BOOL, "false", "Whether Connect logs each such record.", effect=JVM),
    _flow("errors.log.include.messages", BOOL, "false", "Whether that log shows the record.", effect=JVM),
    _flow("key.converter", CLASS, None, "Records are copied as bytes; nothing converts their keys.", effect=JVM),
    _flow("value.converter", CLASS, None, "Records are copied as bytes; nothing converts their values.", effect=JVM),
    _flow("header.converter", CLASS, None, "Records are copied as bytes; nothing converts their headers.", effect=JVM),
    _flow("key.converter.*", STRING, None, "Settings of the key converter.", effect=JVM),
    _flow("value.converter.*", STRING, None, "Settings of the value converter.", effect=JVM),
    _flow("header.converter.*", STRING, None, "Settings of the header converter.", effect=JVM),
    _flow(
        "transforms",
        LIST,
        "",
        "Transforms of each record; must be empty, this version copies records unchanged.",
        form=Form.EMPTY,
    ),
    _flow("predicates", LIST, "", "Conditions of transforms; must be empty.", form=Form.EMPTY),
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
        form=Form.TOPIC,
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
        maximum=_LONGEST_S,
    ),
    _one_flow(
        "topic.creation.*", STRING, None, "Connect's own topic creation; remote topics never used it.", effect=JVM
    ),
    _one_flow("transforms.*", STRING, None, "Settings of a transform.", effect=JVM),
    _one_flow("predicates.*", STRING, None, "Settings of a predicate.", effect=JVM),
)

TWINLOG_KEYS = (
    _flow(
        "twinlog.gap.policy",
        ENUM,
        "stop",
        "What to do when source records were lost by retention, truncation or a recreated topic before their copy.",
        choices=("stop", "continue"),
    ),
    _flow(
        "twinlog.renamed.topic.policy",
        ENUM,
        "stop",
        "What to do when a topic was copied to another remote name before: continue copies only what follows to the "
        "new name, restart everything.",
        choices=("stop", "continue", "restart"),
    ),
    _flow(
        "twinlog.oversized.record.policy",
        ENUM,
        "stop",
        "What to do with one record larger than the remote topic's `max.message.bytes`.",
        choices=("stop", "skip"),
    ),
    _flow(
        "twinlog.lease.seconds",
        INT,
        "300",
        "Seconds one Spark micro-batch copies before the next begins.",
        minimum=5,
        maximum=86_400,
    ),
    _flow(
        "twinlog.position.interval.ms",
        INT,
        "500",
        "Milliseconds until a position is stored; four times that where a partition is copied all the time.",
        minimum=50,
        maximum=1000,
    ),
    _flow(
        "twinlog.copier.memory.bytes",
        LONG,
        "134217728",
        "Bytes of records that one copier holds at a time, read and not appended yet; it has some 100 MB beside them.",
        minimum=16_000_000,
    ),
)

CONNECTOR_KEYS = (*SOURCE_KEYS, *CHECKPOINT_KEYS, *CONNECT_KEYS, *ONE_FLOW_KEYS, *TWINLOG_KEYS)
