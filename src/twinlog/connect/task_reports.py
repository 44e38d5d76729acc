"""Has a group agree on the tasks of its connectors: a connector's worker knows them, the leader writes them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from twinlog.clock import LONG_AGO, Clock
from twinlog.connect.group.member import Assignment
from twinlog.connect.group.state import GroupState
from twinlog.connect.running import RunningConnectors
from twinlog.connect.storage.cluster_state import ClusterState
from twinlog.connect.storage.statuses import Statuses
from twinlog.connectors.model import Config, ConnectorName, TargetState
from twinlog.errors import RequestError
from twinlog.kafka.retry import TASK_CONFIGS
from twinlog.log_once import AGAIN_S, LogOnce

log = logging.getLogger(__name__)

AskLeader = Callable[[str, ConnectorName, Sequence[Config]], object]
"""Has the leader at an address write the configurations of a connector's tasks, and waits. Raises RequestError."""


class TaskReports:
    """Compares the tasks of the connectors that run here with the config topic; used by a single thread.

    `changing` is held while the leader changes something.
    """

    def __init__(
        self,
        state: GroupState,
        running: RunningConnectors,
        changing: threading.Lock,
        ask_leader: AskLeader,
        clock: Clock,
    ) -> None:
        self._state = state
        self._running = running
        self._changing = changing
        self._ask_leader = ask_leader
        self._clock = clock
        self._asking: threading.Thread | None = None
        self._ask_at = LONG_AGO
        self._logged = LogOnce(clock)

    def write(self, assignment: Assignment) -> None:
        """Have the changed tasks written. Raises ClusterError when this worker leads."""
        changed = self._changed()
        if assignment.leads:
            for name in self._state.query_state(_stopped_with_tasks):
                # The leader ended between the two records that stop a connector.
                with self._changing:
                    if name in self._state.query_state(_stopped_with_tasks):
                        self._state.put_tasks(name, ())
            for name, configs in changed.items():
                with self._changing:
                    if self._wanted(name):
                        self._state.put_tasks(name, configs)
        elif changed and assignment.leader_url and self._may_ask():
            self._ask(assignment.leader_url, changed)

    def _changed(self) -> dict[ConnectorName, Sequence[Config]]:
        changed = {}
        known = self._state.query_state(
            lambda cluster, _: {name: cluster.connectors.get(name) for name in self._names()}
        )
        for name, connector in known.items():
            if connector is None or not self._wanted(name):
                continue
            configs = self._running.connectors[name].task_configs(connector.config)
            same = connector.consistent and connector.applied is not None and list(connector.tasks) == configs
            if configs is not None and not same:
                changed[name] = configs
        return changed

    def _names(self) -> Sequence[ConnectorName]:
        return list(self._running.connectors)

    def _wanted(self, name: ConnectorName) -> bool:
        """Whether a connector's tasks may be written.

        A stopped connector has no tasks, and a paused connector keeps its tasks.
        """
        return self._state.query_state(
            lambda cluster, _: name in cluster.connectors and cluster.target_state(name) is TargetState.STARTED
        )

    def _may_ask(self) -> bool:
        return (self._asking is None or not self._asking.is_alive()) and self._clock.monotonic() >= self._ask_at

    def _ask(self, leader_url: str, changed: dict[ConnectorName, Sequence[Config]]) -> None:
        """Ask the leader on a thread of its own, so that the connectors here continue."""

        def ask() -> None:
            for name, configs in changed.items():
                try:
                    self._ask_leader(leader_url, name, configs)
                except RequestError as error:
                    if self._logged.is_new(str(error), AGAIN_S):
                        log.info("the leader has not written the tasks of connector %s yet: %s", name, error)

        # The configurations that the leader writes arrive by the config topic.
        self._ask_at = self._clock.monotonic() + TASK_CONFIGS.first_s
        self._asking = threading.Thread(target=ask, name="asking the leader", daemon=True)
        self._asking.start()


def _stopped_with_tasks(cluster: ClusterState, _: Statuses) -> list[ConnectorName]:
    return [
        name
        for name, connector in cluster.connectors.items()
        if connector.tasks and cluster.target_state(name) is TargetState.STOPPED
    ]
