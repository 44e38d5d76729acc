"""The metrics of a process: the addresses that serve them."""

from __future__ import annotations

from twinlog.config.keys.process import HTTPS, LISTENERS
from twinlog.config.keys.table import KeyTable
from twinlog.config.text.reading import ConfigReader, Problems, read_fields
from twinlog.config.text.resolve import Layer
from twinlog.config.worker_rest import read_https, read_listeners
from twinlog.settings.metrics import MetricsSettings


def read_metrics(layer: Layer, table: KeyTable, file: str, problems: Problems, warnings: list[str]) -> MetricsSettings:
    """The settings of a file whose keys outside of flows are in `table`; a wrong value becomes a problem."""
    reading = ConfigReader(layer, table, problems)
    listeners = read_listeners(reading, LISTENERS)
    https = read_https(layer, HTTPS, listeners, file, problems, warnings)
    return MetricsSettings(
        **read_fields(MetricsSettings, reading),
        listeners=listeners,
        https=None if https is None else https[0],
        client_auth="none" if https is None else https[1],
    )
