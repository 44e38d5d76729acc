"""Settings of the consumer, the producer and the admin clients of one flow."""

from __future__ import annotations

from typing import cast

from twinlog.config.keys import ADMIN, CONSUMER, PRODUCER
from twinlog.config.reading import Problems, Reading, plain_fields
from twinlog.config.resolve import FlowLayers
from twinlog.config.security import read_security
from twinlog.errors import ConfigProblem
from twinlog.model.types import Alias
from twinlog.settings.flow import (
    SOURCE_CONNECTOR,
    AdminSettings,
    ClientSettings,
    Codec,
    ConsumerSettings,
    ProducerSettings,
)

_WITHOUT_END = 2**31 - 1


class Clients:
    """Builds the clients of one flow; a problem with a missing key names `file`.

    Without `source` the flow never connects to the source, and problems with its settings are not reported.
    """

    def __init__(
        self, layers: FlowLayers, file: str, problems: Problems, warnings: list[str], *, source: bool = True
    ) -> None:
        self._layers = layers
        self._file = file
        self._problems = problems
        self._source_problems = problems if source else Problems([])
        self._warnings = warnings
        self._why = "" if source else "; heartbeats are written there unless emit.heartbeats.enabled = false"
        self._name = f"{layers.source}->{layers.target}|{SOURCE_CONNECTOR}"

    def consumer(self) -> ConsumerSettings:
        """Reads the source."""
        reading = Reading(self._layers.consumer, CONSUMER, self._source_problems)
        return ConsumerSettings(
            **plain_fields(ConsumerSettings, reading),
            client=self._client(reading, self._layers.source, f"{self._name}|replication-consumer"),
        )

    def producer(self) -> ProducerSettings:
        """Appends to the target."""
        reading = Reading(self._layers.producer, PRODUCER, self._problems)
        reading.text("acks")
        idempotence = reading.written("enable.idempotence")
        if idempotence is not None and not reading.flag("enable.idempotence"):
            self._warn(
                f"{idempotence.place}: {idempotence.key}: copies are always written idempotently, "
                "so that a request sent again never writes a record twice"
            )
        codec = reading.text("compression.type")
        return ProducerSettings(
            **plain_fields(ProducerSettings, reading),
            client=self._client(reading, self._layers.target, None),
            compression_type=None if codec == "producer" else cast(Codec, codec),
            compression_level=_level(reading, codec),
            delivery_timeout_ms=self._delivery_timeout(reading),
        )

    def source_admin(self) -> AdminSettings:
        """Lists the topics of the source."""
        reading = Reading(self._layers.source_admin, ADMIN, self._source_problems)
        return AdminSettings(self._client(reading, self._layers.source, f"{self._name}|replication-source-admin"))

    def target_admin(self) -> AdminSettings:
        """Creates remote topics on the target."""
        reading = Reading(self._layers.target_admin, ADMIN, self._problems)
        return AdminSettings(self._client(reading, self._layers.target, f"{self._name}|replication-target-admin"))

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)

    def _client(self, reading: Reading, alias: Alias, role: str | None) -> ClientSettings:
        """`role` is the fixed part of the client id (MirrorConnectorConfig.addClientId); None for the producer."""
        given = reading.text("client.id")
        if role is None:
            client_id = given or f"connector-producer-{SOURCE_CONNECTOR}"
        else:
            client_id = f"{given}|{role}" if given else role
        security = read_security(reading, alias, self._file, self._warnings)
        return ClientSettings(
            **plain_fields(ClientSettings, reading),
            bootstrap_servers=self._servers(reading, alias),
            security_protocol=security.protocol,
            sasl_mechanism=security.mechanism,
            sasl_username=security.username,
            sasl_password=security.password,
            tls=security.tls,
            tokens=security.tokens,
            client_id=client_id,
            reconnect_backoff_max_ms=_most_backoff(reading),
            canonical_bootstrap=reading.text("client.dns.lookup") == "resolve_canonical_bootstrap_servers_only",
            rebootstrap=reading.text("metadata.recovery.strategy") == "rebootstrap",
            # A consumer's calls are repeated without a count; a producer's batches have limits of their own.
            default_api_timeout_ms=_WITHOUT_END if role is None else reading.number("default.api.timeout.ms"),
            retries=reading.number("retries") if role is not None and reading.knows("retries") else _WITHOUT_END,
        )

    def _delivery_timeout(self, reading: Reading) -> int:
        """Kafka's producer refuses one that a single request may outlast (KafkaProducer.configureDeliveryTimeout)."""
        timeout_ms = reading.number("delivery.timeout.ms")
        entry = reading.layer.get("delivery.timeout.ms")
        least = reading.number("request.timeout.ms")
        if entry is not None and timeout_ms < least:
            reading.problems.refuse(entry, str(timeout_ms), f"at least request.timeout.ms, which is {least} here")
        return timeout_ms

    def _servers(self, reading: Reading, alias: Alias) -> tuple[str, ...]:
        if "bootstrap.servers" not in reading.layer:
            self._missing(reading, f"{alias}.bootstrap.servers", f"brokers of this cluster, as host:port{self._why}")
        # A listener name in front, as in PLAINTEXT://host:port, is allowed and means nothing to a client.
        return tuple(server.rsplit("://", 1)[-1] for server in reading.items("bootstrap.servers"))

    def _missing(self, reading: Reading, key: str, expected: str) -> None:
        reading.problems.add(ConfigProblem(self._file, None, key, "missing", expected))


def _level(reading: Reading, codec: str) -> int | None:
    name = f"compression.{codec}.level"
    if name not in reading.layer:
        return None
    level = reading.number(name)
    return None if codec == "gzip" and level == -1 else level


def _most_backoff(reading: Reading) -> int:
    """With a first pause of its own and no longest one, every pause is the first (CommonClientConfigs)."""
    first, most = "reconnect.backoff.ms", "reconnect.backoff.max.ms"
    return reading.number(first if first in reading.layer and most not in reading.layer else most)
