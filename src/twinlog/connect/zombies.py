"""Fences producers that tasks of a connector may still have; the leader of a group does it on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinlog.config.connector import connector_kind
from twinlog.connect.connector_flows import ConnectorFlows
from twinlog.connect.group.state import GroupState
from twinlog.connectors.model import ConnectorName, ConnectorState
from twinlog.errors import RequestError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.lease.fencing import TransactionalIds
from twinlog.settings.flow import FlowSettings


class Zombies:
    """Producers of ended tasks, of the connectors of a group.

    `asked` turns the answer of a cluster into the answer to a request.
    """

    def __init__(
        self, state: GroupState, flows: ConnectorFlows, asked: Callable[[Callable[[], Any]], Any], connect: Connect
    ) -> None:
        self._state = state
        self._flows = flows
        self._asked = asked
        self._connect = connect

    def fence(self, name: ConnectorName) -> None:
        """Fence producers of earlier tasks, and note that all are fenced (Kafka class DistributedHerder).

        Running tasks have fenced the tasks before them when they began, and are outside this fencing.
        """
        config, pending, noted, tasks, runs = self._state.query_state(
            lambda cluster, statuses: (
                cluster.connectors[name].config,
                cluster.awaits_fencing(name),
                cluster.fenced_tasks(name),
                len(cluster.tasks(name)),
                any(one.state is ConnectorState.RUNNING for one in statuses.tasks(name).values()),
            )
        )
        if connector_kind(config.get("connector.class", "")) is None:
            raise RequestError(400, f"Connector {name} is not a source connector")
        if not pending or runs:
            return
        flow, why = self._flows.build(name)
        if flow is None:
            raise RequestError(500, f"Failed to perform zombie fencing: {why}")
        if noted is not None and (noted, tasks) != (1, 1):
            self._asked(lambda: fence_zombies(flow.settings, noted, self._connect))
        self._asked(lambda: self._state.note_fenced(name, tasks))


def fence_zombies(settings: FlowSettings, producers: int, connect: Connect = ClusterAdmin) -> None:
    """Abort open transactions of earlier tasks' producers on the target, and fence the producers.

    This follows Kafka class Worker. The ids of the first `producers` producers count in any case. Raises ClusterError,
    RefusedError.
    """
    target = connect(settings.target, settings.target_admin.client)
    try:
        target.connect()
        TransactionalIds(settings, target, lambda step, what: True).take_over(producers)
    finally:
        target.close()
