"""Decides whether a process may get a flow back that it gave up because the source was out of reach."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

CONNECT_S = 5.0
REACH_S = 10.0
"""Seconds between two tries to reach the source, for a process that gave a flow up because of the source."""


class SourceProbe:
    """The probe of this process for a flow, on the election's loop; `begin` starts a coroutine there.

    `regained()` is called when the source has been reached from here.
    """

    def __init__(
        self,
        loop: Loop,
        settings: FlowSettings,
        begin: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        regained: Callable[[], None],
    ) -> None:
        self.unfit = False
        """Whether this process gave the flow up because the source was out of reach, and is still out of reach."""
        self._loop = loop
        self._settings = settings
        self._begin = begin
        self._regained = regained
        self._stopped = False

    def mark_unreachable(self, at_least_s: float) -> None:
        """Be unfit for this number of seconds, and until the source is reached."""
        if not self.unfit:
            self.unfit = True
            self._begin(lambda: self._regain(at_least_s))

    def stop(self) -> None:
        """Stop the tries."""
        self._stopped = True

    async def _regain(self, wait_s: float) -> None:
        while not self._stopped:
            await self._loop.sleep(wait_s)
            wait_s = REACH_S
            source = ClusterClient(self._loop, self._settings.source, self._settings.source_admin.client)
            try:
                await source.connect(CONNECT_S)
            except Exception as error:
                # Any error is possible here, and the election must be independent of it.
                log.debug("%s: still not ready: %r", self._settings.name, error)
            else:
                self.unfit = False
                self._regained()
                break
            finally:
                source.close()
