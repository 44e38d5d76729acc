"""Keys of a Connect worker: in the worker's own file, and below the alias of a target in MirrorMaker 2's file.

Names, types and defaults are Kafka 4.3's (Connect class DistributedConfig). Few of these keys act outside of a worker.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from twinlog.config.keys.client import JAVA_METRICS
from twinlog.config.keys.key import Effect, InWorkerFile, Key, KeyType, Level, ValueForm, default_of, setting
from twinlog.config.keys.process import REST_KEYS
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import GroupSettings, RestSettings, WorkerSettings

_PLUGINS = "Java plugins; see [classes of your own](transforms.md#classes)."
_NO_CONVERSION = "Required, as in Connect; copying keeps the bytes of {}."
_HERE = InWorkerFile()
_TOPIC = InWorkerFile("Settings of the new topic.")

BOOL, INT, LONG, SHORT = KeyType.BOOL, KeyType.INT, KeyType.LONG, KeyType.SHORT
LIST, STRING, CLASS, ENUM = KeyType.LIST, KeyType.STRING, KeyType.CLASS, KeyType.ENUM

_works = partial(Key, level=Level.CLUSTER)
_works_setting = partial(setting, level=Level.CLUSTER)
_jvm = partial(Key, level=Level.CLUSTER, effect=Effect.JVM)
_jvm_setting = partial(setting, level=Level.CLUSTER, effect=Effect.JVM, in_worker_file=_HERE)

TOP_LEVEL_PREFIXES = (
    "offset.storage",
    "config.storage",
    "status.storage",
    "key.converter",
    "value.converter",
    "header.converter",
    "task",
    "worker",
)
"""Worker keys that also count at top level; there they even precede the target's (class MirrorMakerConfig)."""

_POLICY = "org.apache.kafka.connect.connector.policy.{}ConnectorClientConfigOverridePolicy"
OVERRIDE_POLICY_CLASSES = {name: _POLICY.format(name) for name in ("All", "None", "Principal", "Allowlist")}
"""Kafka's classes that decide which settings connectors may override, by their short names."""

OVERRIDE_POLICIES = (*OVERRIDE_POLICY_CLASSES, *OVERRIDE_POLICY_CLASSES.values())

MAC_ALGORITHMS = ("HmacMD5", "HmacSHA1", "HmacSHA224", "HmacSHA256", "HmacSHA384", "HmacSHA512")
"""Java's names of the algorithms that sign requests between workers."""

WORKER_KEYS = (
    _works(
        "offset.storage.topic",
        STRING,
        None,
        "Topic of positions on the target.",
        form=ValueForm.TOPIC,
        in_worker_file=InWorkerFile("Topic of the connectors' offsets, on the cluster to which the connectors write."),
    ),
    _works_setting(
        FlowSettings,
        "offset.storage.partitions",
        INT,
        "Partitions of a new positions topic; -1 takes the broker's default.",
        minimum=-1,
        nonzero=True,
    ),
    _works_setting(
        FlowSettings,
        "offset.storage.replication.factor",
        SHORT,
        "Replicas of a new positions topic; -1 takes the broker's default.",
        minimum=-1,
        nonzero=True,
    ),
    _works_setting(
        WorkerSettings,
        "offset.flush.interval.ms",
        LONG,
        "Accepted; positions are written at least once a second.",
        minimum=0,
        in_worker_file=InWorkerFile(
            "Milliseconds between two writes of a standalone worker's offset file. A position in the topic is at "
            "most two seconds old."
        ),
    ),
    _works_setting(
        FlowSettings,
        "exactly.once.source.support",
        ENUM,
        "Writes records and positions in the same transaction; set `preparing` everywhere first, then `enabled`.",
        choices=("disabled", "preparing", "enabled"),
        any_case=True,
    ),
    _works(
        "group.id",
        STRING,
        None,
        "Name of the processes that share a flow to this target; `source-mm2` if missing.",
        in_worker_file=InWorkerFile("Name of the workers that share the connectors; differs from all consumer groups."),
    ),
    _jvm(
        "client.id",
        STRING,
        "",
        "Name of the worker's own clients.",
        in_worker_file=InWorkerFile(
            "Name of the worker's own clients; `connect-` and the group's name if it is missing."
        ),
    ),
    _jvm(
        "task.shutdown.graceful.timeout.ms",
        LONG,
        "5000",
        "A stop takes at most five seconds, on a Spark cluster thirty.",
    ),
    *(replace(key, level=Level.CLUSTER) for key in REST_KEYS),
    _jvm_setting(
        RestSettings,
        "ssl.client.auth",
        ENUM,
        "Certificate of callers of the REST API.",
        choices=("required", "requested", "none"),
    ),
    _jvm(
        "offset.storage.file.filename",
        STRING,
        None,
        "Offset file of a standalone worker.",
        in_worker_file=InWorkerFile("Offset file of a standalone worker, in Connect's form."),
    ),
    _jvm("offset.storage.*", STRING, None, "Settings of the positions topic.", in_worker_file=_TOPIC),
    _jvm("offset.flush.timeout.ms", LONG, "5000", "Milliseconds the worker waits for positions to be written."),
    _jvm(
        "config.storage.topic",
        STRING,
        None,
        "Config topic: the worker's connectors and their settings.",
        form=ValueForm.TOPIC,
        in_worker_file=InWorkerFile("Topic of the connectors' configurations, with a single partition."),
    ),
    _jvm(
        "config.storage.replication.factor",
        SHORT,
        "3",
        "Replicas of the config topic.",
        minimum=-1,
        nonzero=True,
        in_worker_file=_HERE,
    ),
    _jvm("config.storage.*", STRING, None, "Settings of the config topic.", in_worker_file=_TOPIC),
    _jvm(
        "status.storage.topic",
        STRING,
        None,
        "Status topic: the states of connectors and tasks.",
        form=ValueForm.TOPIC,
        in_worker_file=InWorkerFile("Topic of the states of connectors and tasks."),
    ),
    _jvm(
        "status.storage.partitions",
        INT,
        "5",
        "Partitions of the status topic.",
        minimum=-1,
        nonzero=True,
        in_worker_file=_HERE,
    ),
    _jvm(
        "status.storage.replication.factor",
        SHORT,
        "3",
        "Replicas of the status topic.",
        minimum=-1,
        nonzero=True,
        in_worker_file=_HERE,
    ),
    _jvm("status.storage.*", STRING, None, "Settings of the status topic.", in_worker_file=_TOPIC),
    _jvm(
        "key.converter",
        CLASS,
        None,
        "Copying keeps the bytes of keys.",
        in_worker_file=InWorkerFile(_NO_CONVERSION.format("keys")),
    ),
    _jvm(
        "value.converter",
        CLASS,
        None,
        "Copying keeps the bytes of values.",
        in_worker_file=InWorkerFile(_NO_CONVERSION.format("values")),
    ),
    _jvm(
        "header.converter",
        CLASS,
        None,
        "Copying keeps the bytes of headers.",
        in_worker_file=InWorkerFile("Copying keeps the bytes of headers.", works=False),
    ),
    _jvm("key.converter.*", STRING, None, "Settings of a converter."),
    _jvm("value.converter.*", STRING, None, "Settings of a converter."),
    _jvm("header.converter.*", STRING, None, "Settings of a converter."),
    _jvm("internal.key.converter", CLASS, None, "Converter inside old workers."),
    _jvm("internal.value.converter", CLASS, None, "Converter inside old workers."),
    _jvm(
        "client.dns.lookup",
        ENUM,
        "use_all_dns_ips",
        "`use_all_dns_ips` tries each address of a host; `resolve_canonical_bootstrap_servers_only` first looks up "
        "canonical names of the bootstrap servers.",
        choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    _jvm_setting(
        GroupSettings,
        "connect.protocol",
        ENUM,
        "Protocol by which workers share connectors.",
        choices=("eager", "compatible", "sessioned"),
        in_worker_file=InWorkerFile(
            "With `sessioned` requests between workers are signed; `compatible` also accepts unsigned requests."
        ),
    ),
    _jvm("connections.max.idle.ms", LONG, "540000", "Milliseconds until the worker's idle connections close."),
    _jvm_setting(
        WorkerSettings,
        "connector.client.config.override.policy",
        CLASS,
        "Client settings that a connector may override: All, None, Principal, or the settings of the allowlist.",
        accepted_classes=OVERRIDE_POLICIES,
    ),
    _jvm_setting(
        WorkerSettings,
        "connector.client.config.override.allowlist",
        LIST,
        "Client settings that connectors may override with the policy Allowlist.",
    ),
    _jvm(
        "config.providers",
        LIST,
        "",
        "Write this key at top level.",
        in_worker_file=InWorkerFile(
            "Names of the providers of `${name:path:key}` references, in this file and in connectors."
        ),
    ),
    _jvm(
        "config.providers.*",
        STRING,
        None,
        "Write this key at top level.",
        in_worker_file=InWorkerFile(
            "Per provider `.class` (FileConfigProvider, EnvVarConfigProvider or DirectoryConfigProvider) and "
            "`.param.*`; see [other classes](security.md#secrets)."
        ),
    ),
    _jvm(
        "heartbeat.interval.ms",
        INT,
        "3000",
        "Milliseconds between two heartbeats of a worker to its group.",
        in_worker_file=InWorkerFile("A worker sends a heartbeat twice a second.", works=False),
    ),
    _jvm(
        "session.timeout.ms",
        INT,
        "10000",
        "Milliseconds of silence after which a worker is lost.",
        in_worker_file=InWorkerFile(
            "Milliseconds of silence after which a worker is lost (10000 in Connect), and its connectors run "
            "elsewhere; a worker sends a heartbeat twice a second.",
            default=default_of(GroupSettings, "session.timeout.ms"),
        ),
    ),
    _jvm_setting(GroupSettings, "rebalance.timeout.ms", INT, "Milliseconds for workers to join again in a rebalance."),
    _jvm(
        "scheduled.rebalance.max.delay.ms",
        INT,
        "300000",
        "Milliseconds before the tasks of a lost worker run elsewhere.",
        minimum=0,
        in_worker_file=InWorkerFile("Connectors of a lost worker run elsewhere at once.", works=False),
    ),
    _jvm_setting(
        GroupSettings,
        "inter.worker.key.generation.algorithm",
        ENUM,
        "Algorithm of the session key, with which requests between workers are signed.",
        choices=MAC_ALGORITHMS,
        any_case=True,
    ),
    _jvm("inter.worker.key.size", INT, None, "Bits of the session key.", minimum=40, in_worker_file=_HERE),
    _jvm_setting(GroupSettings, "inter.worker.key.ttl.ms", INT, "Milliseconds until a new session key.", minimum=0),
    _jvm_setting(
        GroupSettings,
        "inter.worker.signature.algorithm",
        ENUM,
        "Algorithm that signs requests between workers.",
        choices=MAC_ALGORITHMS,
        any_case=True,
    ),
    _jvm_setting(
        GroupSettings,
        "inter.worker.verification.algorithms",
        LIST,
        "Algorithms of accepted signatures.",
        choices=MAC_ALGORITHMS,
    ),
    _jvm("metadata.max.age.ms", LONG, "300000", "Milliseconds until the worker reads metadata again.", minimum=0),
    _jvm(
        "metadata.recovery.strategy",
        ENUM,
        "rebootstrap",
        "When all known brokers are unreachable, `rebootstrap` asks the bootstrap servers again, and `none` keeps "
        "trying.",
        choices=("rebootstrap", "none"),
        any_case=True,
    ),
    _jvm(
        "metadata.recovery.rebootstrap.trigger.ms",
        LONG,
        "300000",
        "Milliseconds without metadata until the worker asks the bootstrap servers again.",
        minimum=0,
    ),
    _jvm("metric.reporters", LIST, None, JAVA_METRICS),
    _jvm("auto.include.jmx.reporter", BOOL, "true", JAVA_METRICS),
    _jvm("metrics.num.samples", INT, "2", JAVA_METRICS, minimum=1),
    _jvm("metrics.recording.level", ENUM, "INFO", JAVA_METRICS, choices=("INFO", "DEBUG", "TRACE")),
    _jvm("metrics.sample.window.ms", LONG, "30000", JAVA_METRICS, minimum=0),
    _jvm("metrics.context.*", STRING, None, JAVA_METRICS),
    _jvm(
        "plugin.discovery",
        ENUM,
        "hybrid_warn",
        _PLUGINS,
        choices=("only_scan", "service_load", "hybrid_warn", "hybrid_fail"),
        any_case=True,
    ),
    _jvm("plugin.path", LIST, None, _PLUGINS),
    _jvm("receive.buffer.bytes", INT, "32768", "TCP receive buffer of the worker.", minimum=-1),
    _jvm("send.buffer.bytes", INT, "131072", "TCP send buffer of the worker.", minimum=-1),
    _jvm("reconnect.backoff.ms", LONG, "50", "Pause before the worker connects again.", minimum=0),
    _jvm("reconnect.backoff.max.ms", LONG, "1000", "Longest pause before the worker connects again.", minimum=0),
    _jvm("request.timeout.ms", INT, "40000", "Milliseconds the worker waits for a response.", minimum=0),
    _jvm("retry.backoff.ms", LONG, "100", "Pause before the worker's request is sent again.", minimum=0),
    _jvm("retry.backoff.max.ms", LONG, "1000", "Longest pause before its request is sent again.", minimum=0),
    _jvm(
        "socket.connection.setup.timeout.ms",
        LONG,
        "10000",
        "Milliseconds a new connection may take; doubles with each failure.",
        minimum=0,
    ),
    _jvm(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        "30000",
        "Longest `socket.connection.setup.timeout.ms` after doubling.",
        minimum=0,
    ),
    _jvm(
        "topic.creation.enable",
        BOOL,
        "true",
        "Connect's creation of topics; a flow creates remote topics itself.",
        in_worker_file=InWorkerFile("Connectors create remote topics themselves.", works=False),
    ),
    _jvm_setting(WorkerSettings, "topic.tracking.enable", BOOL, "Records the topics of each connector."),
    _jvm_setting(
        WorkerSettings, "topic.tracking.allow.reset", BOOL, "Allows to clear the record of a connector's topics."
    ),
    _jvm(
        "worker.sync.timeout.ms",
        INT,
        "3000",
        "Milliseconds a worker has to catch up with all other workers.",
        in_worker_file=InWorkerFile("A worker reads until it has all records of the group's leader.", works=False),
    ),
    _jvm(
        "worker.unsync.backoff.ms",
        INT,
        "300000",
        "Milliseconds that a worker stays out of the group after it failed to catch up in `worker.sync.timeout.ms`.",
        in_worker_file=InWorkerFile("A worker that lags behind keeps trying.", works=False),
    ),
)
