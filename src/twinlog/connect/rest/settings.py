"""How a worker's REST API is reached and what it accepts: the keys `listeners`, `rest.*` and their like, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinlog.connect.rest.headers import HeaderRule


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to listen at: `https` or not, a host (empty for every interface), and a port, 0 for any free one."""

    tls: bool
    host: str
    port: int

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    def __str__(self) -> str:
        return url(self.scheme, self.host, self.port)


def url(scheme: str, host: str, port: int) -> str:
    """An address as text; an address of IPv6 in brackets."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


@dataclass(frozen=True, slots=True)
class Advertised:
    """What other workers call this one by: `rest.advertised.*`. None stands for the first listener's own."""

    host: str | None = None
    port: int | None = None
    scheme: str | None = None

    def over(self, bound: Sequence[Listener], own_host: str) -> Listener:
        """The listener that others are given, with these parts replaced.

        Without `scheme` an http listener goes before an https one. `own_host` is this machine's address, for a
        listener on every interface.
        """
        tls = self.scheme.lower() == "https" if self.scheme else not any(not listener.tls for listener in bound)
        found = next((listener for listener in bound if listener.tls == tls), None)
        host = self.host or (found.host if found else "") or own_host
        port = self.port if self.port is not None else (found or bound[0]).port
        return Listener(tls, host, port)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may take of this worker: bytes, seconds, connections.

    `idle_s` is how long a connection may be without a whole request, `body_s` how long a body may take to arrive.
    """

    header_bytes: int = 8 * 1024
    body_bytes: int = 8 * 1024 * 1024
    idle_s: float = 30.0
    body_s: float = 30.0
    connections: int = 512


@dataclass(frozen=True, slots=True)
class Signatures:
    """How workers sign what they ask of each other (KIP-507): the algorithms accepted; none when requests are not
    signed.

    Workers sign with `connect.protocol=sessioned`, not with the protocols before it.
    """

    required: bool = True
    algorithms: tuple[str, ...] = ("HmacSHA256",)


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Everything about the REST API that a worker's properties name.

    `admin_listeners` are those of `/admin` alone; None puts it on `listeners`, empty turns it off. `allowed_origins`
    and `allowed_methods` are `access.control.*` as written.
    """

    listeners: tuple[Listener, ...] = (Listener(False, "", 8083),)
    admin_listeners: tuple[Listener, ...] | None = None
    advertised: Advertised = Advertised()
    allowed_origins: str = ""
    allowed_methods: str = ""
    response_headers: tuple[HeaderRule, ...] = ()
    topic_tracking: bool = True
    topic_tracking_reset: bool = True
    signatures: Signatures = Signatures()
    request_timeout_s: float = 90.0
    health_timeout_s: float = 10.0
    limits: Limits = Limits()
