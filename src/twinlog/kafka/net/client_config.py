"""Client settings in kafka-python's words."""

from __future__ import annotations

from typing import Any

from twinlog.clock import Clock
from twinlog.kafka.auth.oauth import token_source
from twinlog.kafka.auth.scram import SCRAM, sasl_name
from twinlog.kafka.net.frames import socket_options
from twinlog.settings.flow import ClientSettings
from twinlog.settings.tls import TlsSettings, tls_context


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
