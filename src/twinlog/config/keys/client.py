"""Keys of the consumers, producers and admin clients, besides the keys in `keys.security`.

Names, types and defaults are Kafka 4.3's (classes ConsumerConfig, ProducerConfig, AdminClientConfig), unless the
sentence names another default of twinlog's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from twinlog.config.keys.key import Effect, Key, KeyType, Level, ValueForm, ValueReplacement, setting
from twinlog.settings.client import ClientSettings, ConsumerSettings, ProducerSettings

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

JAVA_METRICS = "Metrics of a Java process; twinlog has [its own](metrics.md)."

SHARED_KEYS = (
    _admin("client.id", STRING, "", "Prefix of this client's name on the brokers."),
    _admin_setting("request.timeout.ms", INT, "Milliseconds to wait for a response.", minimum=0),
    _admin_setting("reconnect.backoff.ms", LONG, "First pause before a new connection, in milliseconds.", minimum=0),
    _admin_setting("reconnect.backoff.max.ms", LONG, "Longest pause before a new connection.", minimum=0),
    _admin_setting(
        "retry.backoff.ms", LONG, "Pause before a failed request is sent again, in milliseconds.", minimum=0
    ),
    _admin_setting(
        "receive.buffer.bytes",
        INT,
        "TCP receive buffer in bytes; -1, twinlog's default, lets the operating system choose.",
        minimum=-1,
    ),
    _admin_setting(
        "send.buffer.bytes",
        INT,
        "TCP send buffer in bytes; -1, twinlog's default, lets the operating system choose.",
        minimum=-1,
    ),
    _admin_setting("metadata.max.age.ms", LONG, "Milliseconds until topic metadata is read again.", minimum=0),
    _admin_setting(
        "retry.backoff.max.ms",
        LONG,
        "Longest pause before a failed request is sent again; pauses double up to this pause.",
        minimum=0,
    ),
    _admin(
        "client.dns.lookup",
        ENUM,
        "use_all_dns_ips",
        "`use_all_dns_ips` tries each address of a host; `resolve_canonical_bootstrap_servers_only` first looks "
        "up canonical names of the bootstrap servers.",
        choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    _admin_setting(
        "connections.max.idle.ms",
        LONG,
        "Milliseconds until an idle connection is closed; a negative value keeps the connection open.",
    ),
    _admin_setting(
        "socket.connection.setup.timeout.ms",
        LONG,
        "Milliseconds for a new connection with its login; doubles with each failure.",
    ),
    _admin_setting(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        "Longest `socket.connection.setup.timeout.ms` after doubling.",
    ),
    _admin(
        "metadata.recovery.strategy",
        ENUM,
        "rebootstrap",
        "When all known brokers are unreachable, `rebootstrap` asks the bootstrap servers again, and `none` "
        "keeps trying.",
        choices=("rebootstrap", "none"),
        any_case=True,
    ),
    _admin_setting(
        "metadata.recovery.rebootstrap.trigger.ms",
        LONG,
        "Milliseconds without metadata until the bootstrap servers are asked again.",
        minimum=0,
    ),
    _admin("config.providers", LIST, "", "Write this key at top level.", effect=JVM),
    _admin("enable.metrics.push", BOOL, "true", JAVA_METRICS, effect=JVM),
    _admin("auto.include.jmx.reporter", BOOL, "true", JAVA_METRICS, effect=JVM),
    _admin("metric.reporters", LIST, None, JAVA_METRICS, effect=JVM),
    _admin("metrics.num.samples", INT, "2", JAVA_METRICS, effect=JVM, minimum=1),
    _admin("metrics.recording.level", STRING, "INFO", JAVA_METRICS, effect=JVM),
    _admin("metrics.sample.window.ms", LONG, "30000", JAVA_METRICS, effect=JVM, minimum=0),
    _admin("security.providers", STRING, None, "Java classes that add security algorithms.", effect=JVM),
)

CONSUMER_KEYS = (
    *(replace(key, level=Level.CONSUMER) for key in SHARED_KEYS),
    _consumer_setting(
        "isolation.level",
        ENUM,
        "`read_committed` leaves out records of open and aborted transactions.",
        choices=("read_uncommitted", "read_committed"),
    ),
    _consumer_setting(
        "auto.offset.reset",
        STRING,
        "Begin of a partition without a stored position when the flow [first "
        "starts](delivery.md#begin-of-a-partition); topics and partitions that appear later begin at their "
        "earliest record. `by_duration:P7D` is the first record of the last seven days (Kafka 4.0).",
        form=ValueForm.RESET,
    ),
    _consumer_setting("fetch.min.bytes", INT, "Bytes that a broker gathers before the answer to a fetch.", minimum=0),
    _consumer_setting("fetch.max.bytes", INT, "Most bytes of a fetch response.", minimum=0),
    _consumer_setting("fetch.max.wait.ms", INT, "Milliseconds that a broker waits for `fetch.min.bytes`.", minimum=0),
    _consumer_setting(
        "max.partition.fetch.bytes",
        INT,
        "Most bytes of a partition in a fetch response (1048576 in Kafka). From a distant source twinlog asks "
        "for more, within `fetch.max.bytes` and memory.",
        minimum=0,
    ),
    _consumer_setting("check.crcs", BOOL, "Checks the checksum of each batch before its copy."),
    _consumer_setting(
        "client.rack",
        STRING,
        "Rack of this client: partitions are read from replicas in the rack, if the brokers' "
        "`replica.selector.class` names these replicas.",
    ),
    setting(
        ClientSettings,
        "default.api.timeout.ms",
        INT,
        "Milliseconds for a request with its retries; fetches are retried for ever.",
        level=Level.CONSUMER,
        minimum=0,
    ),
    _read_jvm("allow.auto.create.topics", BOOL, "true", "A read leaves a missing topic missing."),
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
    _read_jvm("interceptor.classes", LIST, "", "Java classes for each record; use [transforms](transforms.md)."),
    _read_jvm("internal.throw.on.fetch.stable.offset.unsupported", BOOL, "false", "A switch inside the Java client."),
    _read_jvm("key.deserializer", CLASS, None, "Records are copied as bytes."),
    _read_jvm("value.deserializer", CLASS, None, "Records are copied as bytes."),
    _read_jvm("max.poll.interval.ms", INT, "300000", "Partitions are assigned directly, without a group.", minimum=1),
    _read_jvm("max.poll.records", INT, "500", "Whole batches are copied, whatever their count of records.", minimum=1),
    _read_jvm("share.acknowledgement.mode", STRING, "implicit", "Partitions are read outside of share groups."),
    _read_jvm("share.acquire.mode", STRING, "BATCH_OPTIMIZED", "Partitions are read outside of share groups."),
)

PRODUCER_KEYS = (
    *(replace(key, level=Level.PRODUCER) for key in SHARED_KEYS),
    _producer(
        "acks",
        ENUM,
        "all",
        "Always `all`: a position is stored only for records that all in-sync replicas have.",
        choices=("all", "-1"),
        instead=ValueReplacement(
            "all", "a position is only stored for records that all in-sync replicas have", ("0", "1")
        ),
    ),
    _producer(
        "enable.idempotence",
        BOOL,
        "true",
        "Always `true`: a request that is sent again leaves a single copy of a record.",
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
        "Codec of the copies; `producer`, twinlog's default, keeps each batch as on the source.",
        choices=("producer", "none", "gzip", "snappy", "lz4", "zstd"),
    ),
    _producer(
        "compression.gzip.level",
        INT,
        "-1",
        "Level of gzip; -1 is the codec's own level.",
        minimum=-1,
        nonzero=True,
        maximum=9,
    ),
    _producer("compression.lz4.level", INT, "9", "Level of lz4.", minimum=1, maximum=17),
    _producer("compression.zstd.level", INT, "3", "Level of zstd.", minimum=-131_072, maximum=22),
    _producer_setting(
        "batch.size",
        INT,
        "Bytes up to which small neighbouring batches are merged (16384 in Kafka).",
        minimum=0,
    ),
    _producer_setting("max.request.size", INT, "Most bytes of a batch.", minimum=1),
    _producer_setting(
        "max.in.flight.requests.per.connection",
        INT,
        "Requests that may wait for an answer.",
        minimum=1,
        maximum=5,
        instead=ValueReplacement("5", "brokers know only the last five batches of an idempotent producer"),
    ),
    _producer_setting(
        "delivery.timeout.ms",
        INT,
        "Milliseconds until the partition of an unacknowledged batch is [held](messages/held.md#tw-target-01); "
        "the default is Connect's.",
        minimum=0,
    ),
    _producer_setting(
        "retries",
        INT,
        "Number of times a failed batch is sent again before its partition is "
        "[held](messages/held.md#tw-target-01); a wait for a broker leaves the count as it is.",
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
        "Calls return at once, and the log has the reason of a wait.",
        minimum=0,
    ),
    _producer_setting(
        "linger.ms",
        LONG,
        "Single records in quick succession wait for each other for 0.7 of these milliseconds, at most 20 ms, which "
        "saves requests; 0 sends each record at once.",
        minimum=0,
    ),
    _write_jvm("buffer.memory", LONG, "33554432", "Batches go from fetch to produce directly.", minimum=0),
    _write_jvm("interceptor.classes", LIST, "", "Java classes for each record; use [transforms](transforms.md)."),
    _write_jvm("key.serializer", CLASS, None, "Records are copied as bytes."),
    _write_jvm("value.serializer", CLASS, None, "Records are copied as bytes."),
    _write_jvm("metadata.max.idle.ms", LONG, "300000", "Milliseconds for metadata of an idle topic.", minimum=5000),
    _write_jvm("partitioner.class", CLASS, None, "A record keeps its partition number."),
    _write_jvm("partitioner.ignore.keys", BOOL, "false", "A record keeps its partition number."),
    _write_jvm("partitioner.adaptive.partitioning.enable", BOOL, "true", "A record keeps its partition number."),
    _write_jvm("partitioner.availability.timeout.ms", LONG, "0", "A record keeps its partition number.", minimum=0),
)

ADMIN_KEYS = (
    *SHARED_KEYS,
    _admin(
        "bootstrap.controllers",
        LIST,
        "",
        "Must be empty: twinlog asks brokers (`bootstrap.servers`), and Kafka refuses both keys.",
        form=ValueForm.BROKERS,
    ),
    _admin_setting("default.api.timeout.ms", INT, "Milliseconds for a request with its retries.", minimum=0),
    _admin_setting(
        "retries",
        INT,
        "Number of times an unanswered request is sent again while a broker is reachable.",
        minimum=0,
    ),
)
