"""How tests of one cluster's connections make a client."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.kafka.client import ClusterClient
from twinlog.settings.client import ClientSettings

Connect = Callable[[ClientSettings], ClusterClient]

ENOUGH_S = 60.0
QUICK = ClientSettings((), reconnect_backoff_ms=10, reconnect_backoff_max_ms=20, retry_backoff_ms=10)
