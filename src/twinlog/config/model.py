"""The checked content of a configuration file."""

from __future__ import annotations

from dataclasses import dataclass, field

from twinlog.model.types import Alias
from twinlog.settings.driver import DriverListener
from twinlog.settings.flow import FlowSettings
from twinlog.settings.metrics import MetricsSettings


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """The flows to run, all aliases of the file, and warnings for its author.

    The enabled flows stand first. After them is a flow with `enabled=False` for every other two clusters that have
    heartbeats: it writes heartbeats to its target and reads nothing. `all_enabled` are the enabled flows of the file in
    its order, also those that `--clusters` leaves to other processes; of these only names, topics and policy can be
    relied on. With `warm_up` the process may prepare later starts of Spark.
    """

    flows: tuple[FlowSettings, ...]
    clusters: tuple[Alias, ...]
    warnings: tuple[str, ...]
    all_enabled: tuple[FlowSettings, ...] = ()
    warm_up: bool = True
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    driver: DriverListener = field(default_factory=DriverListener)
