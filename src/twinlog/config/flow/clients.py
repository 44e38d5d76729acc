"""Settings of the consumer, the producer and the admin clients of a flow."""

from __future__ import annotations

from typing import cast

from twinlog.config.flow.connection import read_connection
from twinlog.config.keys.table import ADMIN, CONSUMER, PRODUCER
from twinlog.config.security.client_security import Called
from twinlog.config.starts import read_reset
from twinlog.config.text.reading import ConfigReader, Problems, read_fields
from twinlog.config.text.resolve import FlowLayers
from twinlog.settings.flow import (
    AdminSettings,
    ClientSettings,
    Codec,
    ConsumerSettings,
    ProducerSettings,
)


class Clients:
    """Builds the clients of a flow; a problem with a missing key names `file`.

    With `source` false the flow never connects to the source, and problems with the source's settings are dropped.
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
        self._names = layers.names
        self._name = f"{layers.source_name}->{layers.target_name}|{layers.connector_name}"

    def consumer(self) -> ConsumerSettings:
        """Reads the source."""
        reading = ConfigReader(self._layers.consumer, CONSUMER, self._source_problems)
        client_id = self._client_id(reading, "replication-consumer")
        return ConsumerSettings(
            **read_fields(ConsumerSettings, reading),
            client=self._connection(reading, self._names.source_cluster, client_id),
            auto_offset_reset=read_reset(reading.text("auto.offset.reset")),
        )

    def producer(self) -> ProducerSettings:
        """Appends to the target."""
        reading = ConfigReader(self._layers.producer, PRODUCER, self._problems)
        for name in ("acks", "enable.idempotence"):
            # Read only to report dangling references; the value is fixed.
            reading.value(name)
        codec = reading.text("compression.type")
        return ProducerSettings(
            **read_fields(ProducerSettings, reading),
            client=self._connection(
                reading,
                self._names.target_cluster,
                reading.text("client.id") or f"connector-producer-{self._layers.connector_name}",
            ),
            compression_type=None if codec == "producer" else cast(Codec, codec),
            compression_level=compression_level(reading, codec),
            delivery_timeout_ms=self._delivery_timeout(reading),
        )

    def source_admin(self) -> AdminSettings:
        """Lists the topics of the source."""
        reading = ConfigReader(self._layers.source_admin, ADMIN, self._source_problems)
        client_id = self._client_id(reading, "replication-source-admin")
        return AdminSettings(self._connection(reading, self._names.source_cluster, client_id))

    def target_admin(self) -> AdminSettings:
        """Creates remote topics on the target."""
        reading = ConfigReader(self._layers.target_admin, ADMIN, self._problems)
        client_id = self._client_id(reading, "replication-target-admin")
        return AdminSettings(self._connection(reading, self._names.target_cluster, client_id))

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)

    def _connection(self, reading: ConfigReader, called: Called, client_id: str) -> ClientSettings:
        return read_connection(reading, called, self._file, self._warnings, client_id, self._why)

    def _client_id(self, reading: ConfigReader, role: str) -> str:
        """The user's part of the client id, followed by the fixed part (MirrorConnectorConfig.addClientId)."""
        chosen, fixed = reading.text("client.id"), f"{self._name}|{role}"
        return f"{chosen}|{fixed}" if chosen else fixed

    def _delivery_timeout(self, reading: ConfigReader) -> int:
        """Kafka's producer refuses a timeout that a single request may outlast
        (KafkaProducer.configureDeliveryTimeout)."""
        timeout_ms = reading.number("delivery.timeout.ms")
        entry = reading.layer.get("delivery.timeout.ms")
        least = reading.number("request.timeout.ms")
        if entry is not None and timeout_ms < least:
            reading.problems.refuse(entry, str(timeout_ms), f"at least request.timeout.ms, which is {least} here")
        return timeout_ms


def compression_level(reading: ConfigReader, codec: str) -> int | None:
    """The level that is written for a codec; None for its own default."""
    name = f"compression.{codec}.level"
    if name not in reading.layer:
        return None
    level = reading.number(name)
    return None if codec == "gzip" and level == -1 else level
