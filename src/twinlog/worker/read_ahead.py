"""Reads positions and maps ahead in a standby process, and decides whether the process is ready to take over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)


WARM_AFTER_S = 60.0
"""If all flows and warm-ups are missing, a Spark that has run for this time is ready, too."""

READ_AFTER_S = 60.0
"""A warm process is ready after this time even with unread positions, because a cluster may be out of reach."""


class Readiness:
    """The readiness of a process. A ready process stays ready until another Spark replaces its Spark."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._now = clock.monotonic
        self._engine: object = None
        self._warmed_up: object = None
        self._met_at = LONG_AGO
        self._warm_at: float | None = None
        self._ready = False

    def warmed_up(self, engine: object) -> None:
        """Note the end of an engine's warm-up; called by its thread."""
        self._warmed_up = engine

    def check_engine(self, engine: object, *, works: bool, has_read: Callable[[], bool]) -> bool:
        """Whether the process is ready with its present engine, None for no engine.

        `works` is true if the engine copies, or starts warm. `has_read()` is true if the positions of all flows are
        read.
        """
        now = self._now()
        if engine is not self._engine:
            self._engine, self._met_at, self._warm_at, self._ready = engine, now, None, False
        if engine is None:
            return False
        if self._warm_at is None:
            if not (works or self._warmed_up is engine or now - self._met_at > WARM_AFTER_S):
                return False
            self._warm_at = now
        self._ready = self._ready or has_read() or now - self._warm_at > READ_AFTER_S
        return self._ready


EVERY_S = 5.0
END_S = 5.0
"""The wait for the end of the reading thread once its connections are closed."""


class StoredOffsets:
    """Positions and maps of a flow, kept up to date while another process writes them, once `start_reading` was called.

    The constructor and `start_reading` raise RuntimeError or OSError for lack of threads or connections.
    """

    def __init__(self, settings: FlowSettings, connect: Connect = ClusterAdmin) -> None:
        # A separate connection, which may hang together with a broker that died together with the other process.
        self._admin = connect(settings.target, settings.target_admin.client)
        self.positions = PositionStore(settings, self._admin)
        self.maps = MapStore(settings, self._admin, self.positions)
        self.looked = False
        """Whether all positions and maps were read at least once."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"stand by {settings.name}", daemon=True)
        self._flow = settings.name

    def start_reading(self) -> None:
        """Read positions and maps every few seconds, on a thread of its own."""
        self._thread.start()

    def hand_over(self, target: ClusterAdmin) -> None:
        """End `start_reading`; from now on positions and maps are read over `target`, from the last read offset."""
        self.close()
        if self._thread.ident is not None:
            self._thread.join(END_S)
        self.positions.set_cluster(target)
        self.maps.set_cluster(target)
        self.positions.look_again()

    def close(self) -> None:
        """End `start_reading` and its connections at once."""
        if not self._ended.is_set():
            self._ended.set()
            self._admin.close()

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                if not self._admin.client.connected:
                    self._admin.connect()
                self.maps.read()
                self.looked = True
            except Exception as error:
                # The process that runs the flow reports the error.
                log.debug("%s: reading ahead failed: %r", self._flow, error)
            self._admin.clock.wait(self._ended, EVERY_S)
