"""Settings of clients: the connection to a cluster, and the consumer, the producer and the admin clients of a flow.

The connection may also come from a client's properties file, as Kafka's own tools take it.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from twinlog.config.file_kind import FileKind, require_kind
from twinlog.config.keys.table import ADMIN, CONSUMER, PRODUCER
from twinlog.config.properties import PropertyEntry, read_properties
from twinlog.config.security.client_security import Called, read_security
from twinlog.config.text.config_reader import ConfigReader, Problems, read_fields
from twinlog.config.text.entries import check_value, read_providers, refuse_useless, resolve_entry, without_duplicates
from twinlog.config.text.precedence import FlowLayers
from twinlog.config.text.values import read_reset
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import MISSING, ConfigProblem, ConfigWarning, MistakeKind
from twinlog.settings.client import AdminSettings, ClientSettings, Codec, ConsumerSettings, ProducerSettings

_WITHOUT_END = 2**31 - 1


def read_connection(
    reading: ConfigReader, called: Called, file: str, warnings: list[ConfigWarning], client_id: str, why: str = ""
) -> ClientSettings:
    """How the client whose settings `reading` reads connects; `called` is how the keys of its cluster are written.

    A problem with a missing key names `file`, and `why` brokers are needed.
    """
    security = read_security(reading, called, file, warnings)
    if "bootstrap.servers" not in reading.layer:
        name = called("bootstrap.servers")
        expected = f"the brokers of this cluster, for example {name} = broker-1.example.com:9092{why}"
        reading.problems.add(ConfigProblem(file, None, name, MISSING, expected))
    return ClientSettings(
        **read_fields(ClientSettings, reading),
        # A listener name in front, as in PLAINTEXT://host:port, is allowed; clients ignore it.
        bootstrap_servers=tuple(server.rsplit("://", 1)[-1] for server in reading.items("bootstrap.servers")),
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
        # A consumer repeats its calls any number of times; a producer's batches have limits of their own.
        default_api_timeout_ms=reading.number("default.api.timeout.ms")
        if reading.has_key("default.api.timeout.ms")
        else _WITHOUT_END,
        retries=reading.number("retries")
        if reading.has_key("retries") and not reading.has_key("delivery.timeout.ms")
        else _WITHOUT_END,
    )


def _most_backoff(reading: ConfigReader) -> int:
    """If only the first pause is set and the longest is missing, every pause is the first (CommonClientConfigs)."""
    first, most = "reconnect.backoff.ms", "reconnect.backoff.max.ms"
    return reading.number(first if first in reading.layer and most not in reading.layer else most)


class Clients:
    """Builds the clients of a flow; a problem with a missing key names `file`.

    With `source` false the flow leaves the source alone, and problems with the source's settings are dropped.
    """

    def __init__(
        self, layers: FlowLayers, file: str, problems: Problems, warnings: list[ConfigWarning], *, source: bool = True
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
            found = f"{timeout_ms} is less than request.timeout.ms"
            reading.problems.refuse(entry, found, f"milliseconds as a whole number of {least} or more")
        return timeout_ms


def compression_level(reading: ConfigReader, codec: str) -> int | None:
    """The level that is written for a codec; None for its own default."""
    name = f"compression.{codec}.level"
    if name not in reading.layer:
        return None
    level = reading.number(name)
    return None if codec == "gzip" and level == -1 else level


def load_client(path: str | Path) -> tuple[ClientSettings, list[ConfigWarning]]:
    """The connection of a file as `--command-config` takes it, with `bootstrap.servers` in it; and warnings.

    Keys unknown to an admin client are warnings, as in Kafka. Raises ConfigError with every problem found. Reads only
    this file, the targets of its `${...}` references, and its key stores, before any contact with a cluster.
    """
    file, warnings, found = str(path), list[ConfigWarning](), list[ConfigProblem]()
    require_kind(path, FileKind.CLIENT)
    last = without_duplicates(read_properties(Path(path)), warnings)
    providers = read_providers(last, file, found, warnings)
    problems = Problems(found)
    layer: dict[str, PropertyEntry] = {}
    for name, entry in last.items():
        if name.startswith("config.providers"):
            continue
        key = ADMIN.find_key(name)
        layer[name] = resolve_entry(entry, key, providers, warnings)
        if key is None:
            warnings.append(entry.warning("unknown key, ignored", MistakeKind.UNKNOWN_KEY))
        else:
            problems.add_new(filter(None, [check_value(layer[name], key, warnings)]))
    refused: list[ConfigProblem] = []
    refuse_useless(refused, warnings)
    problems.add_new(refused)
    settings = read_connection(ConfigReader(layer, ADMIN, problems), str, file, warnings, "twinlog")
    if problems.all():
        in_order = sorted(problems.all(), key=lambda problem: (problem.line is None, problem.line or 0))
        raise ConfigError(in_order, warnings)
    return settings, warnings
