"""The settings of a process: the listeners of its metrics and of its copiers, and those of a Connect worker.

A worker has a group with topics, REST listeners, and rights of its connectors. `twinlog.config.worker` reads the
settings from a file. All `_ms` are milliseconds.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from twinlog.settings.client import ClientSettings
from twinlog.settings.flow import ExactlyOnce
from twinlog.settings.open_id import OpenIdSettings
from twinlog.settings.tls import ClientAuth, TlsSettings
from twinlog.settings.written import WrittenAs, out_of


@dataclass(frozen=True, slots=True)
class DriverListener:
    """The lease server's address on a cluster, like Spark's own `spark.driver.host`, `.bindAddress` and `.port`.

    An empty `host` or `bind_address` follows Spark's setting; port 0 is any free port.
    """

    host: Annotated[str, WrittenAs("twinlog.driver.host")] = ""
    bind_address: Annotated[str, WrittenAs("twinlog.driver.bind.address")] = ""
    port: Annotated[int, WrittenAs("twinlog.driver.port")] = 0


REBALANCED_S = 3.0
"""The seconds for a rebalance without a silent member."""

Scheme = Literal["http", "https"]


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """An address to listen at; an empty `host` means every address, port 0 any free port."""

    scheme: Scheme
    host: str
    port: int

    @property
    def tls(self) -> bool:
        return self.scheme == "https"

    def __str__(self) -> str:
        """The address as a URL; an address of IPv6 is in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether a name or an address is of this machine only."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        found = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return found.is_loopback or (mapped is not None and mapped.is_loopback)


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The settings of metrics; empty `listeners` turn the metrics server off.

    `https` are the TLS settings of https listeners. With `partitions` every partition and group has its own metrics.
    """

    listeners: Annotated[tuple[ListenerAddress, ...], out_of("twinlog.metrics.listeners")] = ()
    partitions: Annotated[bool, WrittenAs("twinlog.metrics.partitions.enabled")] = True
    names: Annotated[Literal["exporter", "reporter"], WrittenAs("twinlog.metrics.names")] = "exporter"
    https: TlsSettings | None = None
    client_auth: ClientAuth = "none"


@dataclass(frozen=True, slots=True)
class ServedConsole:
    """The console of a process that runs flows, at `/ui` of its listeners.

    With `actions` False its pages only show. With `records` False it leaves out keys and values of records. Users log
    in by the issuer of `open_id`, if it is set.
    """

    enabled: Annotated[bool, WrittenAs("twinlog.console.enabled")] = True
    actions: Annotated[bool, WrittenAs("twinlog.console.actions.enabled")] = True
    records: Annotated[bool, WrittenAs("twinlog.console.records.enabled")] = True
    open_id: OpenIdSettings | None = None


HeaderAction = Literal["set", "add", "setDate", "addDate"]
ConnectProtocol = Literal["eager", "compatible", "sessioned"]
OverridePolicy = Literal["All", "None", "Principal", "Allowlist"]


@dataclass(frozen=True, slots=True)
class HeaderSettings:
    """A header of every REST answer; the value of a `Date` action is milliseconds from the answer on."""

    action: HeaderAction
    name: str
    value: str

    @property
    def adds(self) -> bool:
        """Whether the header stays beside earlier headers of its name; it replaces them otherwise."""
        return self.action in ("add", "addDate")

    @property
    def dates(self) -> bool:
        """Whether the value is a number of milliseconds from the answer on."""
        return self.action in ("setDate", "addDate")


@dataclass(frozen=True, slots=True)
class StorageTopic:
    """A topic for the state of a group of workers, with its settings at its creation.

    -1 partitions or replicas mean the broker's default. `settings` are further settings of the topic; it is always
    compacted.
    """

    name: str
    partitions: int
    replication_factor: int
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RestSettings:
    """The REST API of a worker.

    With `admin_listeners` None every listener serves the levels of loggers, with an empty tuple no listener serves
    them. `https` are the TLS settings of https listeners, None if there are none.
    """

    listeners: Annotated[tuple[ListenerAddress, ...], out_of("listeners")] = (ListenerAddress("http", "", 8083),)
    admin_listeners: Annotated[tuple[ListenerAddress, ...] | None, out_of("admin.listeners")] = None
    advertised_host: Annotated[str | None, WrittenAs("rest.advertised.host.name")] = None
    advertised_port: Annotated[int | None, WrittenAs("rest.advertised.port")] = None
    advertised_listener: Annotated[Scheme | None, WrittenAs("rest.advertised.listener")] = None
    extension_classes: Annotated[tuple[str, ...], WrittenAs("rest.extension.classes")] = ()
    allow_origin: Annotated[str, WrittenAs("access.control.allow.origin")] = ""
    allow_methods: Annotated[str, WrittenAs("access.control.allow.methods")] = ""
    response_headers: Annotated[tuple[HeaderSettings, ...], out_of("response.http.headers.config")] = ()
    https: TlsSettings | None = field(default=None, repr=False)
    https_client_auth: Annotated[ClientAuth, out_of("ssl.client.auth")] = "none"
    admin_https: TlsSettings | None = field(default=None, repr=False)
    admin_https_client_auth: Annotated[ClientAuth, out_of("ssl.client.auth")] = "none"

    def find_advertised(self, bound: Sequence[ListenerAddress], own_host: str) -> ListenerAddress:
        """The address of this worker for other workers and clients.

        The address is a listener of `bound`, with the parts of `rest.advertised.*` in place of its own. If
        `rest.advertised.listener` is unset, an http listener goes before an https listener. `own_host` is the address
        of this machine, for a listener on every interface.
        """
        tls = self.advertised_listener == "https" if self.advertised_listener else all(one.tls for one in bound)
        found = next((listener for listener in bound if listener.tls == tls), None)
        host = self.advertised_host or (found.host if found else "") or own_host
        port = self.advertised_port if self.advertised_port is not None else (found or bound[0]).port
        return ListenerAddress("https" if tls else "http", host, port)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The group of workers, and the signatures of their requests to each other (KIP-415, KIP-507)."""

    group_id: Annotated[str, out_of("group.id")]
    config_storage: Annotated[StorageTopic, out_of("config.storage.topic")]
    offset_storage: Annotated[StorageTopic, out_of("offset.storage.topic")]
    status_storage: Annotated[StorageTopic, out_of("status.storage.topic")]
    protocol: Annotated[ConnectProtocol, WrittenAs("connect.protocol")] = "sessioned"
    session_timeout_ms: Annotated[int, WrittenAs("session.timeout.ms")] = 6_000
    rebalance_timeout_ms: Annotated[int, WrittenAs("rebalance.timeout.ms")] = 60_000
    key_algorithm: Annotated[str, WrittenAs("inter.worker.key.generation.algorithm")] = "HmacSHA256"
    key_size: Annotated[int | None, WrittenAs("inter.worker.key.size")] = None
    key_ttl_ms: Annotated[int, WrittenAs("inter.worker.key.ttl.ms")] = 3_600_000
    signature_algorithm: Annotated[str, WrittenAs("inter.worker.signature.algorithm")] = "HmacSHA256"
    verification_algorithms: Annotated[tuple[str, ...], WrittenAs("inter.worker.verification.algorithms")] = (
        "HmacSHA256",
    )

    @property
    def takeover_s(self) -> float:
        """The seconds after which another worker has replaced a killed worker.

        A worker that is killed during a rebalance belongs to the next generation, too: its session begins twice.
        """
        return 2 * self.session_timeout_ms / 1000 + REBALANCED_S


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """All settings of a worker, after defaults.

    A distributed worker has a `group`, a standalone worker has the file `offset_file` instead. `client` is the
    connection to the worker's own cluster, for its topics and its group. `override_allowlist` counts with the policy of
    that name. Connectors may name the Python classes, or classes of the modules, in `connector_classes`.
    """

    client: ClientSettings
    group: GroupSettings | None = None
    offset_file: Annotated[str | None, out_of("offset.storage.file.filename")] = None
    rest: RestSettings = RestSettings()
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    driver: DriverListener = field(default_factory=DriverListener)
    console: ServedConsole = field(default_factory=ServedConsole)
    override_policy: Annotated[OverridePolicy, out_of("connector.client.config.override.policy")] = "All"
    override_allowlist: Annotated[tuple[str, ...], WrittenAs("connector.client.config.override.allowlist")] = ()
    exactly_once: Annotated[ExactlyOnce, WrittenAs("exactly.once.source.support")] = "disabled"
    offset_flush_interval_ms: Annotated[int, WrittenAs("offset.flush.interval.ms")] = 60_000
    bridge: Annotated[bool, WrittenAs("twinlog.bridge")] = True
    connector_classes: Annotated[tuple[str, ...], WrittenAs("twinlog.connector.classes")] = ()
    healthy_before_group: Annotated[bool, WrittenAs("twinlog.healthy.before.group")] = False
    topic_tracking: Annotated[bool, WrittenAs("topic.tracking.enable")] = True
    topic_tracking_reset: Annotated[bool, WrittenAs("topic.tracking.allow.reset")] = True

    @property
    def signatures(self) -> tuple[str, ...] | None:
        """The algorithms by which requests of other workers are signed (KIP-507); None for unsigned requests."""
        if self.group is None or self.group.protocol != "sessioned":
            return None
        return self.group.verification_algorithms

    @property
    def distributed(self) -> bool:
        """Whether it keeps its state in topics, and may share it with other workers."""
        return self.group is not None
