"""Keys of the consumers, producers and admin clients, besides the keys in `keys.security`.

Names, types and defaults are Kafka 4.3's (classes ConsumerConfig, ProducerConfig, AdminClientConfig), unless the
sentence names another default of twinlog's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from twinlog.config.keys.key import Effect, Key, KeyType, Level, ValueForm, ValueReplacement, setting
from twinlog.settings.flow import ClientSettings, ConsumerSettings, ProducerSettings

BOOL, INT, LONG = KeyType.BOOL, KeyType.INT, KeyType.LONG
LIST, STRING, CLASS, ENUM = KeyType.LIST, KeyType.STRING, KeyType.CLASS, KeyType.ENUM
JVM = Effect.JVM

_consumer = partial(Key, level=Level.CONSUMER)
_producer = partial(Key, level=Level.PRODUCER)
_admin = partial(Key, level=Level.ADMIN)
_consumer_setting = partial(setting, ConsumerSettings, level=Level.CONSUMER)
_producer_setting = partial(setting, ProducerSettings, level=Level.PRODUCER)
_admin_setting = partial(setting, ClientSettings, level=Level.ADMIN)
_read_jvm = partial(Key, level=Level.CONSUMER, effect=JVM)
_write_jvm = partial(Key, level=Level.PRODUCER, effect=JVM)

_SHARED = (
    _admin("client.id", STRING, "", "Put in front of the name the brokers see for this client."),
    _admin_setting("request.timeout.ms", INT, "Milliseconds to wait for a response.", minimum=0),
    _admin_setting("reconnect.backoff.ms", LONG, "First pause before connecting again, in milliseconds.", minimum=0),
    _admin_setting("reconnect.backoff.max.ms", LONG, "Longest pause before connecting again.", minimum=0),
    _admin_setting(
        "retry.backoff.ms", LONG, "Pause before a failed request is sent again, in milliseconds.", minimum=0
    ),
    _admin_setting(
        "receive.buffer.bytes",
        INT,
        "TCP receive buffer; -1, our default, lets the operating system choose and grow it.",
        minimum=-1,
    ),
    _admin_setting(
        "send.buffer.bytes",
        INT,
        "TCP send buffer; -1, our default, lets the operating system choose and grow it.",
        minimum=-1,
    ),
    _admin_setting("metadata.max.age.ms", LONG, "Milliseconds until topic metadata is read again.", minimum=0),
    _admin_setting(
        "retry.backoff.max.ms",
        LONG,
        "Longest pause before a failed request is sent again; pauses double up to it.",
        minimum=0,
    ),
    _admin(
        "client.dns.lookup",
        ENUM,
        "use_all_dns_ips",
        "Each address of a host is tried; `resolve_canonical_bootstrap_servers_only` looks up the bootstrap servers' "
        "canonical names first, as Kerberos may need.",
        choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    _admin_setting(
        "connections.max.idle.ms", LONG, "Milliseconds until an idle connection is closed; below 0 it stays open."
    ),
    _admin_setting(
        "socket.connection.setup.timeout.ms",
        LONG,
        "Milliseconds a new connection may take, its login included; doubles with each failure.",
    ),
    _admin_setting(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        "Upper limit of `socket.connection.setup.timeout.ms` as it doubles.",
    ),
    _admin(
        "metadata.recovery.strategy",
        ENUM,
        "rebootstrap",
        "The action when all known brokers are out of reach: ask the bootstrap servers again, or keep trying.",
        choices=("rebootstrap", "none"),
        any_case=True,
    ),
    _admin_setting(
        "metadata.recovery.rebootstrap.trigger.ms",
        LONG,
        "Milliseconds of missing metadata before the bootstrap servers are asked again all the same.",
        minimum=0,
    ),
    _admin("config.providers", LIST, "", "Write it at top level instead.", effect=JVM),
    _admin(
        "enable.metrics.push", BOOL, "true", "Whether the Java client sends its metrics to the brokers.", effect=JVM
    ),
    _admin("auto.include.jmx.reporter", BOOL, "true", "Whether the Java client has MBeans.", effect=JVM),
    _admin("metric.reporters", LIST, None, "Java classes that report metrics.", effect=JVM),
    _admin("metrics.num.samples", INT, "2", "Samples from which a Java metric is computed.", effect=JVM, minimum=1),
    _admin("metrics.recording.level", STRING, "INFO", "Which Java metrics are kept.", effect=JVM),
    _admin(
        "metrics.sample.window.ms", LONG, "30000", "Milliseconds of a sample of a Java metric.", effect=JVM, minimum=0
    ),
    _admin("security.providers", STRING, None, "Java classes that add security algorithms.", effect=JVM),
)

CONSUMER_KEYS = (
    *(replace(key, level=Level.CONSUMER) for key in _SHARED),
    _consumer_setting(
        "isolation.level",
        ENUM,
        "Whether records of open and aborted transactions are copied.",
        choices=("read_uncommitted", "read_committed"),
    ),
    _consumer_setting(
        "auto.offset.reset",
        STRING,
        "The begin of a partition that lacks a stored position when the flow [first "
        "starts](delivery.md#begin-of-a-partition); a topic or partition that appears later begins at its "
        "earliest record. `by_duration:P7D` is the first record of the last seven days (Kafka 4.0).",
        form=ValueForm.RESET,
    ),
    _consumer_setting("fetch.min.bytes", INT, "Bytes a broker gathers before it answers a fetch.", minimum=0),
    _consumer_setting("fetch.max.bytes", INT, "Most bytes of a fetch response.", minimum=0),
    _consumer_setting("fetch.max.wait.ms", INT, "Milliseconds a broker waits for `fetch.min.bytes`.", minimum=0),
    _consumer_setting(
        "max.partition.fetch.bytes",
        INT,
        "Most bytes of a partition in a fetch response; Kafka's own default is 1048576. From a source that is far "
        "away more is asked for, as far as `fetch.max.bytes` and memory allow.",
        minimum=0,
    ),
    _consumer_setting("check.crcs", BOOL, "Whether each batch's checksum is checked before it is copied."),
    _consumer_setting(
        "client.rack",
        STRING,
        "Rack of this client: partitions are read from replicas in it, if the brokers' `replica.selector.class` "
        "names them.",
    ),
    setting(
        ClientSettings,
        "default.api.timeout.ms",
        INT,
        "Milliseconds a request may take, with its retries; fetches are retried for ever.",
        level=Level.CONSUMER,
        minimum=0,
    ),
    _read_jvm("allow.auto.create.topics", BOOL, "true", "Reading leaves a missing topic missing."),
    _read_jvm("auto.commit.interval.ms", INT, "5000", "Positions are stored on the target.", minimum=0),
    _read_jvm("enable.auto.commit", BOOL, "true", "Positions are stored on the target."),
    _read_jvm("exclude.internal.topics", BOOL, "true", "Internal topics are always left out."),
    _read_jvm("group.id", STRING, None, "Partitions are assigned directly, without a group."),
    _read_jvm("group.instance.id", STRING, None, "Partitions are assigned directly, without a group."),
    _read_jvm("group.protocol", STRING, "classic", "Partitions are assigned directly, without a group."),
    _read_jvm("group.remote.assignor", STRING, None, "Partitions are assigned directly, without a group."),
    _read_jvm("heartbeat.interval.ms", INT, "3000", "Partitions are assigned directly, without a group."),
    _read_jvm("session.timeout.ms", INT, "45000", "Partitions are assigned directly, without a group."),
    _read_jvm("partition.assignment.strategy", LIST, None, "Partitions are assigned directly, without a group."),
    _read_jvm("interceptor.classes", LIST, "", "Java classes that see each record."),
    _read_jvm("internal.throw.on.fetch.stable.offset.unsupported", BOOL, "false", "A switch inside the Java client."),
    _read_jvm("key.deserializer", CLASS, None, "Records are copied as bytes."),
    _read_jvm("value.deserializer", CLASS, None, "Records are copied as bytes."),
    _read_jvm("max.poll.interval.ms", INT, "300000", "Partitions are assigned directly, without a group.", minimum=1),
    _read_jvm("max.poll.records", INT, "500", "Whole batches are copied, whatever their count of records.", minimum=1),
    _read_jvm("share.acknowledgement.mode", STRING, "implicit", "Partitions are read outside of share groups."),
    _read_jvm("share.acquire.mode", STRING, "BATCH_OPTIMIZED", "Partitions are read outside of share groups."),
)

PRODUCER_KEYS = (
    *(replace(key, level=Level.PRODUCER) for key in _SHARED),
    _producer(
        "acks",
        ENUM,
        "all",
        "Always all: a position is only stored for records all replicas have.",
        choices=("all", "-1"),
        instead=ValueReplacement(
            "all", "a position is only stored for records that all in-sync replicas have", ("0", "1")
        ),
    ),
    _producer(
        "enable.idempotence",
        BOOL,
        "true",
        "Always on: a request sent again leaves a single copy of a record.",
        instead=ValueReplacement(
            "true",
            "copies are always written idempotently, so that a request sent again leaves a single copy of a record",
            ("false",),
        ),
    ),
    _producer(
        "compression.type",
        ENUM,
        "producer",
        "Codec of the copies; `producer`, our default, keeps each batch as the source has it.",
        choices=("producer", "none", "gzip", "snappy", "lz4", "zstd"),
    ),
    _producer(
        "compression.gzip.level",
        INT,
        "-1",
        "Level when the codec is gzip; -1 is the codec's own.",
        minimum=-1,
        nonzero=True,
        maximum=9,
    ),
    _producer("compression.lz4.level", INT, "9", "Level when the codec is lz4.", minimum=1, maximum=17),
    _producer("compression.zstd.level", INT, "3", "Level when the codec is zstd.", minimum=-131_072, maximum=22),
    _producer_setting(
        "batch.size",
        INT,
        "Bytes up to which small neighbouring batches are merged; Kafka's own default is 16384.",
        minimum=0,
    ),
    _producer_setting("max.request.size", INT, "Most bytes of a batch sent.", minimum=1),
    _producer_setting(
        "max.in.flight.requests.per.connection",
        INT,
        "Requests sent before the first is answered.",
        minimum=1,
        maximum=5,
        instead=ValueReplacement("5", "brokers know only the last five batches of an idempotent producer"),
    ),
    _producer_setting(
        "delivery.timeout.ms",
        INT,
        "Milliseconds a batch is tried before the flow stops on it; Connect's default for its producers.",
        minimum=0,
    ),
    _producer_setting(
        "retries",
        INT,
        "How often a failed batch is sent again before the flow stops on it; waiting for a broker leaves the count "
        "as it is.",
        minimum=0,
    ),
    _producer_setting(
        "transaction.timeout.ms", INT, "Milliseconds after which the target aborts an open transaction.", minimum=1
    ),
    _write_jvm("transactional.id", STRING, None, "A flow's group, connector and task name its transactions."),
    _write_jvm("transaction.two.phase.commit.enable", BOOL, "false", "Lets another system finish transactions."),
    _write_jvm(
        "max.block.ms",
        LONG,
        "9223372036854775807",
        "Calls return at once: a flow logs the reason of a wait, and continues when the wait is over.",
        minimum=0,
    ),
    _producer_setting(
        "linger.ms",
        LONG,
        "Records that come singly and fast wait for each other for a third of these milliseconds, which saves "
        "requests; 0 sends each at once.",
        minimum=0,
    ),
    _write_jvm("buffer.memory", LONG, "33554432", "Batches go from fetch to produce directly.", minimum=0),
    _write_jvm("interceptor.classes", LIST, "", "Java classes that see each record."),
    _write_jvm("key.serializer", CLASS, None, "Records are copied as bytes."),
    _write_jvm("value.serializer", CLASS, None, "Records are copied as bytes."),
    _write_jvm("metadata.max.idle.ms", LONG, "300000", "Milliseconds metadata of an idle topic is kept.", minimum=5000),
    _write_jvm("partitioner.class", CLASS, None, "A record keeps its partition number."),
    _write_jvm("partitioner.ignore.keys", BOOL, "false", "A record keeps its partition number."),
    _write_jvm("partitioner.adaptive.partitioning.enable", BOOL, "true", "A record keeps its partition number."),
    _write_jvm("partitioner.availability.timeout.ms", LONG, "0", "A record keeps its partition number.", minimum=0),
)

ADMIN_KEYS = (
    *_SHARED,
    _admin(
        "bootstrap.controllers",
        LIST,
        "",
        "Must be empty: a cluster has `bootstrap.servers`, and Kafka refuses both.",
        form=ValueForm.BROKERS,
    ),
    _admin_setting("default.api.timeout.ms", INT, "Milliseconds a request may take, with its retries.", minimum=0),
    _admin_setting(
        "retries",
        INT,
        "How often an unanswered request is sent again, as long as a broker is in reach.",
        minimum=0,
    ),
)
