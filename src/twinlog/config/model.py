"""What a configuration file comes to."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.model.types import Alias
from twinlog.settings.flow import FlowSettings


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """The flows to run, all aliases of the file, and what its author should know though nothing is wrong.

    The enabled flows stand first. Behind them is a flow with `enabled=False` for each other pair of clusters that has
    heartbeats: it writes heartbeats to its target and reads nothing. `all_enabled` are the enabled flows of the file in
    its order, also those that `--clusters` leaves to other processes; of these only names, topics and policy can be
    relied on. `warm_up` says whether the process may prepare later starts of Spark.
    """

    flows: tuple[FlowSettings, ...]
    clusters: tuple[Alias, ...]
    warnings: tuple[str, ...]
    all_enabled: tuple[FlowSettings, ...] = ()
    warm_up: bool = True
