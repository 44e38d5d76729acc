"""The rehearsal of a switchover as a reading: the same as `twinlog switchover --dry-run`, again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.ops.status.readers import ClustersReader
from twinlog.ops.switchover.clusters import LiveClusters
from twinlog.ops.switchover.model import SwitchoverKind, SwitchoverOptions
from twinlog.ops.switchover.rehearsal import rehearsal_json, rehearse
from twinlog.ops.switchover.report import report
from twinlog.ops.switchover.stage import read_with_its_end, stands_before

REHEARSE_EVERY_S = 15.0
"""The pre-flight measures the speed of copying for two seconds, and reads all groups."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The rehearsal as values of JSON, and the report of the last switchover, {} before the first."""

    data: dict[str, Any]
    last: dict[str, Any]

    @property
    def stands(self) -> str:
        """The state of the last switchover in words, those of `twinlog switchover --dry-run`."""
        return str(self.data["stands"])

    @property
    def ready(self) -> bool:
        """Whether the pre-flight is free of obstacles."""
        return not self.data["problems"]


class RehearsalReader(ClustersReader):
    """Rehearses a planned switchover from the source of a flow to its target; both clusters stay as they are."""

    def __init__(self, open_clusters: Callable[[], LiveClusters]) -> None:
        self._open = open_clusters
        self._world: LiveClusters | None = None
        super().__init__([])

    def close(self) -> None:
        if self._world is not None:
            self._world.close()
            self._world = None

    def read(self) -> Rehearsal:
        """Rehearse once. Raises ClusterError, and RefusedError if a right is missing; the next read connects again."""
        try:
            return self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> Rehearsal:
        world = self._world
        if world is None:
            world = self._world = self._open()
            world.connect(LOOK_CONNECT_S)
        entries = read_with_its_end(world, world.journal)
        world.forget_groups()
        options = SwitchoverOptions(SwitchoverKind.PLANNED)
        preflight, steps = rehearse(world, options, entries)
        state = stands_before(world, entries, options.kind)
        return Rehearsal(rehearsal_json(world, preflight, steps, state), report(entries))
