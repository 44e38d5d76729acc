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

    The enabled flows come first. After them comes a flow with `enabled=False` for each remaining pair of clusters with
    heartbeats: it writes heartbeats to its target and never reads its source. `all_enabled` are the enabled flows of
    the file in its order, including flows that `--clusters` leaves to another process; of these, only names, topics and
    policy are reliable. With `warm_up` the process may prepare later starts of Spark.
    """

    flows: tuple[FlowSettings, ...]
    clusters: tuple[Alias, ...]
    warnings: tuple[str, ...]
    all_enabled: tuple[FlowSettings, ...] = ()
    warm_up: bool = True
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    driver: DriverListener = field(default_factory=DriverListener)
