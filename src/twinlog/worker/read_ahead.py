"""Reads positions and maps ahead in a process that stands by, so that it copies at once when it takes the flow over."""

from __future__ import annotations

import logging
import threading

from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

EVERY_S = 5.0
END_S = 5.0
"""How long to wait for the reading thread once its connections are closed."""


class StoredOffsets:
    """Positions and maps of a flow, kept up to date while another process writes them, once `follow` was called.

    Raises RuntimeError or OSError where there can be no more threads or connections; so does `follow`.
    """

    def __init__(self, settings: FlowSettings, connect: Connect = ClusterAdmin) -> None:
        # A connection of its own, which may hang with the broker that the other process has died with.
        self._admin = connect(settings.target, settings.target_admin.client)
        self.positions = PositionStore(settings, self._admin)
        self.maps = MapStore(settings, self._admin, self.positions)
        self.looked = False
        """Whether all was read once."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"stand by {settings.name}", daemon=True)
        self._flow = settings.name

    def follow(self) -> None:
        """Read what is stored every few seconds, on a thread of its own."""
        self._thread.start()

    def hand_over(self, target: ClusterAdmin) -> None:
        """End `follow`; from now on positions and maps are read over `target`, from where that stopped."""
        self.close()
        if self._thread.ident is not None:
            self._thread.join(END_S)
        self.positions.use(target)
        self.maps.use(target)
        self.positions.look_again()

    def close(self) -> None:
        """End `follow` and its connections, whatever they wait for."""
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
                log.debug("%s: not read while standing by: %r", self._flow, error)
            self._admin.clock.wait(self._ended, EVERY_S)
