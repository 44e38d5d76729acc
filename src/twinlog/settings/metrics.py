"""The listeners of the metrics of a process, and the number of metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from twinlog.settings.tls import ClientAuth, TlsSettings
from twinlog.settings.written import WrittenAs, out_of

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


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The settings of metrics; empty `listeners` turn the metrics server off.

    `https` are the TLS settings of https listeners. With `partitions` every partition and group has its own metrics.
    """

    listeners: Annotated[tuple[ListenerAddress, ...], out_of("twinlog.metrics.listeners")] = ()
    partitions: Annotated[bool, WrittenAs("twinlog.metrics.partitions.enabled")] = True
    https: TlsSettings | None = None
    client_auth: ClientAuth = "none"
