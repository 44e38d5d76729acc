"""The metrics of a worker, and the server of metrics at its own addresses."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.connect.rest.metric_pages import MetricPages
from twinlog.connect.rest.metrics_server import MetricsServer
from twinlog.connectors.model import HealthStatus
from twinlog.settings.metrics import MetricsSettings
from twinlog.settings.tls import server_context


def metrics_server(
    settings: MetricsSettings, pages: MetricPages, health: Callable[[], HealthStatus] | None = None
) -> MetricsServer:
    """Build the server for `twinlog.metrics.listeners`, also of a worker's `health`.

    Raises ssl.SSLError for invalid certificates.
    """
    tls = None if settings.https is None else server_context(settings.https, settings.client_auth)
    return MetricsServer(pages, settings.listeners, tls, health)
