"""Opens, keeps and closes the connections to a cluster, by the settings of its client.

The module adds abilities that kafka-python lacks beside `frames` and `bootstrap`. kafka-python gives up on brokers that
moved while all connections were closed. kafka-python asks a hanging broker although another broker has just answered,
and counts a connection with a failed login as good.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaError

from twinlog.clock import Clock
from twinlog.kafka.auth.oauth import token_source
from twinlog.kafka.net.bootstrap import Bootstrap
from twinlog.kafka.net.frames import FrameManager, socket_options
from twinlog.kafka.net.loop import run_in_thread
from twinlog.kafka.net.wire import Wire, canonical
from twinlog.settings.client import ClientSettings
from twinlog.settings.tls import TlsSettings, tls_context

IDLE_LOOK_S = 0.1
"""Shortest pause in seconds between two searches for idle connections."""

LOGIN_AGAIN_S = 5.0
"""Pause in seconds before the next login at a broker that refused a login."""

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Connections(FrameManager):
    """Connections to the brokers of a cluster. Two objects may share the cluster's metadata (`share_metadata`)."""

    cluster: Any
    config: dict[str, Any]
    closed: bool
    _conns: dict[Any, Any]
    _backoff: dict[Any, Any]
    _net: Any

    def __init__(self, net: Any, wire: Wire, settings: ClientSettings, **options: Any) -> None:
        self._settings = settings
        self._addresses: dict[Any, tuple[str, int]] = {}
        self._asked_since: float | None = None
        self._bootstrapping = False
        self._refused_at: dict[Any, float] = {}
        self._answers_at: tuple[str, int] | None = None
        """The bootstrap server that answered last."""
        super().__init__(net, wire, **options)
        self.cluster.config["retry_backoff_ms"] = settings.retry_backoff_ms
        # Topics are described elsewhere, by name; a metadata request must never create a topic.
        self.cluster.config["allow_auto_create_topics"] = False
        self.cluster.add_listener(self._look_at_brokers)

    def share_metadata(self, other: Connections) -> None:
        """Use the brokers of `other`, now and later."""
        self.cluster.close()
        self.cluster = other.cluster
        self.cluster.add_listener(self._look_at_brokers)

    # Reaching brokers that moved.

    @property
    def cut_off(self) -> bool:
        """Whether the last try to connect to each known broker failed."""
        return all(self.unreachable(broker.node_id) for broker in self.cluster.brokers())

    def unreachable(self, node: int) -> bool:
        """Whether the last try to connect to a broker failed."""
        return node in self._backoff

    def throttled_s(self, node: int) -> float:
        """The seconds for which requests to a broker must wait, by the throttle time of its last answer (KIP-219)."""
        connection = self._conns.get(node)
        if connection is None or not connection._throttle_time:
            return 0.0
        return max(0.0, float(connection._throttle_time - self._net.now()))

    def metadata_wanted(self) -> None:
        """Note that metadata is requested; bootstraps again if the last answer is long ago (KIP-1102)."""
        now = self._net.now()
        if self._asked_since is None:
            self._asked_since = now
        elif now - self._asked_since > self._settings.rebootstrap_trigger_ms / 1000:
            self._asked_since = now
            self.rebootstrap()

    def rebootstrap(self) -> None:
        """Read the brokers from the bootstrap servers again (KIP-899), unless that is under way or turned off."""
        if self._settings.rebootstrap and not self._bootstrapping and not self.closed:
            self._bootstrapping = True
            self._net.begin(self._rebootstrap)

    async def _rebootstrap(self) -> None:
        try:
            # The caller has its error already, and will ask again.
            with suppress(KafkaError):
                await self._ask_servers(None, once=True)
        finally:
            self._bootstrapping = False

    async def _do_bootstrap(self, deadline: float | None) -> Any:
        await self._ask_servers(deadline)
        self.cluster.start_refresh_loop()
        return True

    async def _ask_servers(self, deadline: float | None, *, once: bool = False) -> None:
        await self._resolve()
        server = await Bootstrap(self, deadline, once=once).run(self.cluster.bootstrap_brokers())
        self._answers_at = server.host, server.port

    def least_loaded_node(self) -> Any:
        node = super().least_loaded_node()
        if node in self._conns and self._conns[node].connected:
            return node
        # If all connections are closed, the library picks a random broker; the broker that has just answered is better.
        at = self._answers_at
        answers = (broker.node_id for broker in self.cluster.brokers() if (broker.host, broker.port) == at)
        return next((one for one in answers if not self.unreachable(one)), node)

    async def _resolve(self) -> None:
        if self._settings.canonical_bootstrap:
            names = await run_in_thread(self._net, lambda: canonical(self._settings.bootstrap_servers))
            self.cluster.config["bootstrap_servers"] = names
            self.cluster._bootstrap_brokers = self.cluster._generate_bootstrap_brokers()

    async def _note_refresh(self, node_id: Any = None) -> Any:
        self.metadata_wanted()
        try:
            return await super()._note_refresh(node_id)
        except KafkaError:
            if self.cut_off:
                self.rebootstrap()
            raise

    def _look_at_brokers(self, _cluster: Any) -> None:
        """After new metadata, close connections to old addresses of a broker."""
        self._asked_since = None
        before = self._addresses
        self._addresses = {broker.node_id: (broker.host, broker.port) for broker in self.cluster.brokers()}
        for node, address in self._addresses.items():
            if before.get(node, address) != address:
                self.reset_backoff(node)
                connection = self._conns.get(node)
                if connection is not None:
                    connection.close(KafkaConnectionError(f"broker {node} is at {address[0]}:{address[1]} now"))

    # Opening and closing.

    def send(self, request: Any, node_id: Any = None, request_timeout_ms: float | None = None) -> Any:
        connection = self._conns.get(node_id)
        if connection is not None and connection.connected:
            # Refused logins and pauses after failures concern new connections.
            return connection.send_request(request, request_timeout_ms=request_timeout_ms)
        return super().send(request, node_id, request_timeout_ms)

    def get_connection(self, node_id: Any, timeout_ms: float | None = None, **options: Any) -> Any:
        # A bootstrap gives each server all of its time.
        most_ms = self.socket_connection_setup_timeout_ms(node_id)
        return super().get_connection(
            node_id, timeout_ms=most_ms if timeout_ms is None else min(timeout_ms, most_ms), **options
        )

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        # The library remembers a refused login for ever, but a token or a password may be right by now.
        refused_at = self._refused_at.get(node_id)
        if refused_at is not None and self._net.now() - refused_at > LOGIN_AGAIN_S:
            del self._refused_at[node_id]
            self._auth_failures.pop(node_id, None)
        super().maybe_raise_auth_failure(node_id)

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        before = self._backoff.get(node.node_id)
        await super()._connect(node, conn, **options)
        if node.node_id in self._auth_failures:
            self._refused_at[node.node_id] = self._net.now()
        failed = conn.init_future.exception is not None
        if failed and node.node_id not in self._backoff and options.get("reset_backoff_on_connect", True):
            # The library counts a connection as made even when its first requests failed.
            if before is not None:
                self._backoff[node.node_id] = before
            self.update_backoff(node.node_id)

    def close_idle_connections(self) -> None:
        """Close connections that were idle for `connections.max.idle.ms`, now and at each later deadline."""
        most_s = self._settings.connections_max_idle_ms / 1000
        if most_s < 0 or getattr(self, "closed", False):
            return
        now = self._net.now()
        next_look = now + most_s
        for connection in list(self._conns.values()):
            # A connection with a request in flight is in use, however long the answer takes.
            if connection.connected and not connection.in_flight_requests:
                idle_at = connection.transport.last_activity + most_s
                if idle_at <= now:
                    connection.close()
                else:
                    next_look = min(next_look, idle_at)
        again: Callable[[], None] = self.close_idle_connections
        self._net.call_at(max(next_look, now + IDLE_LOOK_S), again)


def sasl_name(username: str) -> str:
    """`username` with escaped `=` and `,`, which delimit the fields of a message; a broker reverts the escapes."""
    return username.replace("=", "=3D").replace(",", "=2C")


def connection_options(settings: ClientSettings, clock: Clock) -> dict[str, Any]:
    """Options of a connection manager: addresses, time-outs in ms, login."""
    options: dict[str, Any] = {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "client_id": settings.client_id,
        "request_timeout_ms": settings.request_timeout_ms,
        "reconnect_backoff_ms": settings.reconnect_backoff_ms,
        "reconnect_backoff_max_ms": settings.reconnect_backoff_max_ms,
        "metadata_max_age_ms": settings.metadata_max_age_ms,
        "connections_max_idle_ms": settings.connections_max_idle_ms,
        "socket_connection_setup_timeout_ms": settings.connection_setup_timeout_ms,
        "socket_connection_setup_timeout_max_ms": settings.connection_setup_timeout_max_ms,
        "security_protocol": settings.security_protocol,
        "socket_options": socket_options(settings.receive_buffer_bytes, settings.send_buffer_bytes),
    }
    if settings.security_protocol.endswith("SSL"):
        options["ssl_context"] = tls_context(settings.tls or TlsSettings())
    if settings.sasl_mechanism is not None:
        options["sasl_mechanism"] = settings.sasl_mechanism
    if settings.tokens is not None:
        options["sasl_oauth_token_provider"] = token_source(settings.tokens, clock)
    elif settings.sasl_mechanism is not None:
        user = settings.sasl_username
        # kafka-python sends the name unescaped.
        options["sasl_plain_username"] = sasl_name(user) if user and settings.sasl_mechanism in SCRAM else user
        options["sasl_plain_password"] = settings.sasl_password
    return options


def principal(settings: ClientSettings) -> str:
    """The principal of this client, as ACLs name it; with certificates and tokens only the brokers know it."""
    if settings.sasl_username is not None:
        return f"User:{settings.sasl_username}"
    if settings.security_protocol.startswith("SASL_"):
        subject = settings.tokens.subject if settings.tokens else None
        return f"User:{subject}" if subject else "the principal of this client's token"
    # With TLS but no certificate a client is anonymous, too.
    return f"User:{settings.tls.subject}" if settings.tls and settings.tls.subject else "User:ANONYMOUS"
