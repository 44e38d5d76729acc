"""How tests of one cluster's connections make a client."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.kafka.client import ClusterClient
from twinlog.settings.flow import ClientSettings

Connect = Callable[[ClientSettings], ClusterClient]
