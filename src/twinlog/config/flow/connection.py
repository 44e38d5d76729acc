"""Settings of a connection to a cluster, which are the same for every client."""

from __future__ import annotations

from twinlog.config.security.client_security import Called, read_security
from twinlog.config.text.reading import ConfigReader, read_fields
from twinlog.errors import ConfigProblem
from twinlog.settings.flow import ClientSettings

_WITHOUT_END = 2**31 - 1


def read_connection(
    reading: ConfigReader, called: Called, file: str, warnings: list[str], client_id: str, why: str = ""
) -> ClientSettings:
    """How the client whose settings `reading` reads connects; `called` is how the keys of its cluster are written.

    A problem with a missing key names `file`, and `why` brokers are needed.
    """
    security = read_security(reading, called, file, warnings)
    if "bootstrap.servers" not in reading.layer:
        expected = f"brokers of this cluster, as host:port{why}"
        reading.problems.add(ConfigProblem(file, None, called("bootstrap.servers"), "missing", expected))
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
