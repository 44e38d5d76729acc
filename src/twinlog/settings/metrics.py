"""Where a process serves its metrics, and how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from twinlog.settings.listener import Listener
from twinlog.settings.tls import ClientAuth, TlsSettings
from twinlog.settings.written import WrittenAs, out_of


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Without `listeners` nothing is served; `https` is what listeners of that scheme use.

    With `partitions` every partition and group has its own metrics.
    """

    listeners: Annotated[tuple[Listener, ...], out_of("twinlog.metrics.listeners")] = ()
    partitions: Annotated[bool, WrittenAs("twinlog.metrics.partitions.enabled")] = True
    https: TlsSettings | None = None
    client_auth: ClientAuth = "none"
