"""Client settings in kafka-python's words."""

from __future__ import annotations

from typing import Any

from twinlog.kafka.wire import socket_options
from twinlog.settings import ClientSettings


def connection_options(settings: ClientSettings) -> dict[str, Any]:
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
    if settings.sasl_mechanism is not None:
        options["sasl_mechanism"] = settings.sasl_mechanism
        options["sasl_plain_username"] = settings.sasl_username
        options["sasl_plain_password"] = settings.sasl_password
    return options


def principal(settings: ClientSettings) -> str:
    """Whom the brokers take this client for, as rights name it; with certificates and tokens only they know."""
    if settings.sasl_username is not None:
        return f"User:{settings.sasl_username}"
    if settings.security_protocol == "PLAINTEXT":
        return "User:ANONYMOUS"
    return "the principal of this client's certificate or token"
