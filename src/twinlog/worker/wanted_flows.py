"""The flows that a file asks for, in this process: those that copy, and those that only write heartbeats.

The file may change while they run: flows that are not wanted any more end, new flows begin, and the rest continues with
the settings that the file has now.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from twinlog.settings.flow import FlowSettings
from twinlog.worker.elected_flow import ElectedFlow
from twinlog.worker.idle_flow import ElectedIdleFlow

log = logging.getLogger(__name__)


class WantedFlows:
    """Kept as `want` has it by one thread, which calls `attend` every moment; read by others.

    `elected` and `idle` make a flow that copies, and one that writes heartbeats; `all_enabled` are the enabled flows of
    the file, which other processes may run. Of these lists there is another one whenever one of their flows comes or
    goes.
    """

    def __init__(
        self,
        flows: Sequence[FlowSettings],
        all_enabled: Sequence[FlowSettings],
        elected: Callable[[FlowSettings], ElectedFlow],
        idle: Callable[[FlowSettings], ElectedIdleFlow],
    ) -> None:
        self.all_enabled = list(all_enabled)
        self._make_elected, self._make_idle = elected, idle
        self._wanted = {flow.name: flow for flow in flows}
        self.copying: list[ElectedFlow] = []
        self.idle: list[ElectedIdleFlow] = []
        self._ending: list[ElectedFlow | ElectedIdleFlow] = []

    @property
    def hosted(self) -> list[ElectedFlow]:
        """Those that copy, and those that are just being ended."""
        return [*self.copying, *(one for one in self._ending if isinstance(one, ElectedFlow))]

    @property
    def copies(self) -> bool:
        """Whether a flow is to copy."""
        return any(flow.enabled for flow in self._wanted.values())

    def want(self, flows: Sequence[FlowSettings], all_enabled: Sequence[FlowSettings]) -> None:
        """Another version of the file asks for these."""
        self._wanted = {flow.name: flow for flow in flows}
        self.all_enabled = list(all_enabled)
        for copying in list(self.copying):
            wanted = self._wanted.get(copying.settings.name)
            failed = copying.failure is not None
            if wanted is None or not wanted.enabled or (failed and wanted != copying.settings):
                self._end(copying)
            elif not failed:
                copying.change(wanted, self.all_enabled)
        for idle in list(self.idle):
            wanted = self._wanted.get(idle.settings.name)
            if wanted is None or wanted.enabled:
                self._end(idle)
            else:
                idle.change(wanted)
        self.attend()

    def attend(self) -> None:
        """Begin each wanted flow that is not there, once an earlier flow of the same name has ended."""
        for ended in [one for one in self._ending if one.gone]:
            self._ending.remove(ended)
            if isinstance(ended, ElectedFlow):
                ended.close()
        there = {one.settings.name for one in (*self.copying, *self.idle, *self._ending)}
        for name, flow in self._wanted.items():
            if name not in there:
                self._begin(flow)

    def _begin(self, flow: FlowSettings) -> None:
        if flow.enabled:
            elected = self._make_elected(flow)
            self.copying = [*self.copying, elected]
            elected.start()
        else:
            idle = self._make_idle(flow)
            self.idle = [*self.idle, idle]
            idle.start()

    def _end(self, one: ElectedFlow | ElectedIdleFlow) -> None:
        self.copying = [other for other in self.copying if other is not one]
        self.idle = [other for other in self.idle if other is not one]
        self._ending.append(one)
        one.end()
