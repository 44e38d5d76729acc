"""Duties of the leader of a group: the session key, a deleted config topic, and producers of earlier tasks to fence."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from typing import Any

from twinlog.clock import Clock, wall_ms
from twinlog.config.connector import connector_kind
from twinlog.connect.connector_flows import ConnectorFlows
from twinlog.connect.group.earlier_workers import EarlierLeaders
from twinlog.connect.group.group import ConnectGroup
from twinlog.connect.group.member import Assignment
from twinlog.connect.group.state import GroupState
from twinlog.connect.storage.cluster_state import ClusterState
from twinlog.connect.storage.config_records import SessionKey
from twinlog.connect.storage.status_records import Statuses
from twinlog.errors import RequestError, TopicGoneError
from twinlog.errors.message_ids import id_first
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.lease.fencing import TransactionalIds
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import GroupSettings
from twinlog.worker.connectors.model import ConnectorName, ConnectorState

log = logging.getLogger(__name__)

KEY_BITS = 256
COPIERS_A_TASK = 2
"""How many transactional ids the copiers of a task have at a time: the ending copier's and the following copier's."""


class LeaderDuties:
    """Duties that the worker's thread calls, each time with the present assignment; idle while another worker leads.

    `changing` is held while the leader changes something. `settings` is None for a standalone worker.
    """

    def __init__(
        self,
        state: GroupState,
        flows: ConnectorFlows,
        group: ConnectGroup,
        settings: GroupSettings | None,
        changing: threading.Lock,
        clock: Clock,
    ) -> None:
        self._state = state
        self._flows = flows
        self._group = group
        self._settings = settings
        self._changing = changing
        self._clock = clock
        self._leaders = EarlierLeaders(state, changing, clock)

    def fence_earlier_leaders(self, assignment: Assignment) -> None:
        """Fence earlier leaders before the leader changes something, with `changing` held. Raises ClusterError."""
        self._leaders.fence_leaders(assignment)

    def read_state(self) -> None:
        """Read the new records of other workers; the leader recreates a deleted config topic, all of which it knows."""
        gone: TopicGoneError | None = None
        try:
            self._state.read()
        except TopicGoneError as error:
            gone = error
        assignment = self._group.assignment
        if (gone is not None or self._state.lacking) and assignment is not None and assignment.leads:
            self._restore(assignment)
        elif gone is not None:
            raise gone

    def _restore(self, assignment: Assignment) -> None:
        with self._changing:
            term = self._group.term
            self._leaders.fence_leaders(assignment)
            restored = self._state.recreate_config_topic() if self._group.leads_for_s(term) > 0 else ()
        if restored:
            log.error(
                "TW-WORKER-08: the config topic (config.storage.topic) was deleted, or recreated without its "
                "connectors: this worker has written those that it knows again: %s",
                ", ".join(sorted(restored)),
            )

    def look_at_earlier_leaders(self) -> None:
        """Fence earlier leaders that may still write."""
        if self._group.leads_for_s() > 0:
            self._leaders.fence_when_due(self._group.assignment)

    def keep_session_key(self) -> None:
        """Write a new key, with which workers sign requests to each other, when the key is missing or too old."""
        settings, assignment = self._settings, self._group.assignment
        if settings is None or assignment is None or not assignment.leads or settings.protocol != "sessioned":
            return
        key = self._state.query_state(lambda cluster, _: cluster.session_key)
        now_ms = wall_ms(self._clock)
        if key is None or now_ms - key.created_ms >= settings.key_ttl_ms:
            key_bytes = secrets.token_bytes((settings.key_size or KEY_BITS) // 8)
            with self._changing:
                self._state.put_session_key(SessionKey(key_bytes, settings.key_algorithm, now_ms))

    def have_fenced(self, name: ConnectorName) -> None:
        """Have a Kafka worker that takes over fence the producers of a connector (KIP-618).

        Kafka's tasks by themselves fence only producers with their own numbers. A copier may have a higher number: a
        copier lives for a moment beside the copier that took over its lease.
        """
        flow = self._flows.build(name)[0]
        if flow is None or flow.settings.kind != "source" or flow.settings.exactly_once == "disabled":
            return
        producers = COPIERS_A_TASK * flow.settings.tasks_max

        def is_noted(cluster: ClusterState, _: Statuses) -> bool:
            noted = cluster.fenced_tasks(name)
            return not cluster.tasks(name) or (
                noted is not None and noted >= producers and cluster.awaits_fencing(name)
            )

        if not self._state.query_state(is_noted):
            with self._changing:
                if not self._state.query_state(is_noted):
                    self._state.await_fencing(name, producers)


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
            raise RequestError(500, id_first(f"Failed to perform zombie fencing: {why}"))
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
