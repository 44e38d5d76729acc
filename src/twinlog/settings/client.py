"""The settings of the clients of a cluster: connection, consumer, producer and admin client.

`twinlog.config` builds these on the driver; Spark pickles them into tasks, so this module imports only types. All `_ms`
are milliseconds, all `_bytes` bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from twinlog.settings.oauth import TokenSettings
from twinlog.settings.start import FROM_EARLIEST, Start
from twinlog.settings.tls import TlsSettings
from twinlog.settings.written import WrittenAs, out_of

IsolationLevel = Literal["read_uncommitted", "read_committed"]

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
"""A codec of record batches; `kafka.record.compression.CODECS` has their numbers."""

MERGED_BYTES = 524_288
"""The default of `batch.size`, up to which small batches are merged."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The connection to a cluster.

    `security_protocol` is a name of Kafka's; with SSL and SASL_SSL `tls` None means the operating system's authorities.
    `sasl_mechanism` is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, or OAUTHBEARER, which logs in with `tokens`; None means
    that SASL is off. Buffers of -1 leave the size to the operating system, which then grows them as needed.
    `canonical_bootstrap` looks up the canonical names of the bootstrap servers first. With `rebootstrap` these servers
    are asked again in two cases: all known brokers are unreachable, or none gave metadata for `rebootstrap_trigger_ms`
    (KIP-899, KIP-1102). A question to any broker is repeated up to `retries` times within `default_api_timeout_ms`.
    """

    bootstrap_servers: Annotated[tuple[str, ...], out_of("bootstrap.servers")]
    security_protocol: Annotated[str, out_of("security.protocol")] = "PLAINTEXT"
    sasl_mechanism: Annotated[str | None, out_of("sasl.mechanism")] = None
    sasl_username: str | None = None
    sasl_password: Annotated[str | None, out_of("sasl.jaas.config")] = field(default=None, repr=False)
    tls: TlsSettings | None = field(default=None, repr=False)
    tokens: TokenSettings | None = field(default=None, repr=False)
    client_id: Annotated[str, out_of("client.id")] = "twinlog"
    request_timeout_ms: Annotated[int, WrittenAs("request.timeout.ms")] = 30_000
    reconnect_backoff_ms: Annotated[int, WrittenAs("reconnect.backoff.ms")] = 50
    reconnect_backoff_max_ms: Annotated[int, out_of("reconnect.backoff.max.ms")] = 1_000
    retry_backoff_ms: Annotated[int, WrittenAs("retry.backoff.ms")] = 100
    receive_buffer_bytes: Annotated[int, WrittenAs("receive.buffer.bytes")] = -1
    send_buffer_bytes: Annotated[int, WrittenAs("send.buffer.bytes")] = -1
    metadata_max_age_ms: Annotated[int, WrittenAs("metadata.max.age.ms")] = 300_000
    retry_backoff_max_ms: Annotated[int, WrittenAs("retry.backoff.max.ms")] = 1_000
    connections_max_idle_ms: Annotated[int, WrittenAs("connections.max.idle.ms")] = 540_000
    connection_setup_timeout_ms: Annotated[int, WrittenAs("socket.connection.setup.timeout.ms")] = 10_000
    connection_setup_timeout_max_ms: Annotated[int, WrittenAs("socket.connection.setup.timeout.max.ms")] = 30_000
    canonical_bootstrap: Annotated[bool, out_of("client.dns.lookup")] = False
    rebootstrap: Annotated[bool, out_of("metadata.recovery.strategy")] = True
    rebootstrap_trigger_ms: Annotated[int, WrittenAs("metadata.recovery.rebootstrap.trigger.ms")] = 300_000
    default_api_timeout_ms: Annotated[int, out_of("default.api.timeout.ms")] = 60_000
    retries: Annotated[int, out_of("retries")] = 2_147_483_647

    def shares_servers(self, other: ClientSettings) -> bool:
        """Whether both begin at a common server, and so reach the same cluster."""
        return not set(self.bootstrap_servers).isdisjoint(other.bootstrap_servers)


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The reads from the source.

    `max_partition_fetch_bytes` is larger than a Java consumer's 1 MB, because whole batches are passed on as they are;
    it grows with the distance of the source. With `client_rack` partitions are read from replicas in that rack, if
    brokers support the selection (KIP-392).
    """

    client: ClientSettings
    isolation_level: Annotated[IsolationLevel, WrittenAs("isolation.level")] = "read_uncommitted"
    auto_offset_reset: Annotated[Start, out_of("auto.offset.reset")] = FROM_EARLIEST
    fetch_min_bytes: Annotated[int, WrittenAs("fetch.min.bytes")] = 1
    fetch_max_bytes: Annotated[int, WrittenAs("fetch.max.bytes")] = 52_428_800
    fetch_max_wait_ms: Annotated[int, WrittenAs("fetch.max.wait.ms")] = 500
    max_partition_fetch_bytes: Annotated[int, WrittenAs("max.partition.fetch.bytes")] = 8_388_608
    check_crcs: Annotated[bool, WrittenAs("check.crcs")] = True
    client_rack: Annotated[str, WrittenAs("client.rack")] = ""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The appends to the target; always idempotent and acknowledged by all in-sync replicas.

    `compression_type` None keeps the codec of each source batch; a codec name recompresses every batch to it ("none"
    stores them uncompressed). `compression_level` is None for the codec's own default. Small neighbouring batches of a
    fetch are merged up to `merge_batch_bytes`; in a fast stream of single records, the next fetch waits for less than
    `linger_ms`. The target itself aborts a transaction after `transaction_timeout_ms`.
    """

    client: ClientSettings
    compression_type: Annotated[Codec | None, out_of("compression.type")] = None
    compression_level: Annotated[int | None, out_of("compression.type")] = None
    max_request_size: Annotated[int, WrittenAs("max.request.size")] = 1_048_576
    max_in_flight: Annotated[int, WrittenAs("max.in.flight.requests.per.connection")] = 5
    delivery_timeout_ms: Annotated[int, out_of("delivery.timeout.ms")] = 2_147_483_647
    retries: Annotated[int, WrittenAs("retries")] = 2_147_483_647
    merge_batch_bytes: Annotated[int, WrittenAs("batch.size")] = MERGED_BYTES
    linger_ms: Annotated[int, WrittenAs("linger.ms")] = 5
    transaction_timeout_ms: Annotated[int, WrittenAs("transaction.timeout.ms")] = 60_000


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """The requests to a cluster about its topics and for new topics."""

    client: ClientSettings
