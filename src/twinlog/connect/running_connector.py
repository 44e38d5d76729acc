"""A connector on its worker: its target state, its running instance, and the states that follow from both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from twinlog.config.connector import ConnectorFlow
from twinlog.connect.instances import ConnectorInstance, Work
from twinlog.errors.message_ids import with_id
from twinlog.worker.connectors.model import Config, ConnectorName, ConnectorState, RestartRequest, Status, TargetState
from twinlog.worker.connectors.task_configs import task_configs

TROUBLE_S = 5.0
"""How long a trouble lasts before it is shown, and how long it is shown before the next trouble, in seconds."""


@dataclass(slots=True)
class WorkerConnector:
    """A connector that this worker has: its target state, and its running instance."""

    name: ConnectorName
    flow: ConnectorFlow | None
    """None for an unusable configuration."""
    target: TargetState
    refused: str | None = None
    """Why its configuration is unusable."""
    failure: str | None = None
    """Why it failed to begin; a restart or a change of its configuration begins it again."""
    instance: ConnectorInstance | None = None
    term: int = 0
    """The term of the worker's membership in which the instance began."""
    ending: bool = False
    again: bool = False
    """Whether it begins again once it has ended."""
    tasks: int = 0
    restarts: bool = False
    """Whether the connector restarts, and its status has still to show the restart."""
    remark: str | None = None
    """The conflicts of the connector with other connectors; it runs all the same."""
    trouble: str | None = None
    """The trouble of its tasks that its status shows."""
    troubled_at: float | None = None
    """When its trouble began, or when the shown trouble appeared."""
    waits: str | None = None
    """Why the connector waits to begin; it is tried again."""
    restarting_tasks: frozenset[int] = frozenset()
    """The numbers of tasks that restart, until the status has shown it and the tasks have begun."""
    _written: set[str] = field(default_factory=set)
    """Topics that an ended instance wrote to."""
    _made: tuple[Config, Work, Sequence[Config]] | None = None
    """Configurations of tasks, with the configuration and the work that they were made from."""

    @property
    def trace(self) -> str | None:
        """Why it failed before its instance began; None otherwise."""
        return self.refused or self.failure

    def task_configs(self, config: Config) -> Sequence[Config] | None:
        """The configurations of its tasks, made from its own configuration `config`.

        None before its tasks are known, and after the connector has ended or failed.
        """
        instance, flow = self.instance, self.flow
        if flow is None or instance is None or self.ending or self.again or instance.failure is not None:
            return None
        work = instance.work
        if work is None:
            return None
        if self._made is None or self._made[0] is not config or self._made[1] is not work:
            self._made = config, work, task_configs(flow, config, work)
        return self._made[2]

    @property
    def stopped(self) -> bool:
        """Whether its target is to stop and its instance has ended: from here on its offsets may be changed."""
        return self.target is TargetState.STOPPED and self.instance is None

    def connector_state(self, worker_id: str, generation: int) -> Status:
        """The state of the connector itself; its tasks have their own states."""
        if self.restarts and self.target is not TargetState.STOPPED:
            return Status(ConnectorState.RESTARTING, worker_id, generation)
        if self.trace is not None and self.target is not TargetState.STOPPED:
            message_id = "TW-FLOW-01" if self.refused is None else "TW-FILE-22"
            return Status(ConnectorState.FAILED, worker_id, generation, with_id(self.trace, message_id))
        state, trace = self._state, None
        if state is ConnectorState.RUNNING and self.waits is not None:
            trace = with_id(self.waits, "TW-LEADER-06")
        elif state is ConnectorState.RUNNING and self.remark is not None:
            trace = with_id(self.remark, "TW-WORKER-11")
        return Status(state, worker_id, generation, trace)

    def task_states(self, worker_id: str, generation: int) -> dict[int, Status]:
        """The states of its tasks by their numbers."""
        state = self._state
        if state is ConnectorState.STOPPED or self.trace is not None:
            return {}
        # Held partitions are tried again, even while the tasks are FAILED because all their partitions are held.
        failure = None if self.instance is None else self.instance.failure or self.instance.nothing_copied
        status = Status(state, worker_id, generation)
        if failure is not None:
            status = Status(ConnectorState.FAILED, worker_id, generation, with_id(failure, "TW-FLOW-01"))
        elif state is ConnectorState.RUNNING and self.trouble is not None:
            status = Status(state, worker_id, generation, with_id(self.trouble, "TW-WAIT-05"))
        states = dict.fromkeys(range(self.tasks), status)
        restarting = Status(ConnectorState.RESTARTING, worker_id, generation)
        return states | {number: restarting for number in self.restarting_tasks if number in states}

    @property
    def _state(self) -> ConnectorState:
        """The state apart from failures: RUNNING until the instance has ended, then PAUSED or STOPPED."""
        if self.stopped:
            return ConnectorState.STOPPED
        if self.target is TargetState.PAUSED and (self.instance is None or self.instance.failure is not None):
            return ConnectorState.PAUSED
        return ConnectorState.RUNNING

    def update_trouble(self, now: float) -> None:
        """Read the trouble of its tasks; the status shows only a trouble that lasts."""
        trouble = None if self.instance is None else self.instance.trouble
        if trouble is None:
            self.trouble = self.troubled_at = None
        elif self.troubled_at is None:
            self.troubled_at = now
        elif now - self.troubled_at >= TROUBLE_S and trouble != self.trouble:
            self.trouble, self.troubled_at = trouble, now

    def select_tasks(self, restart: RestartRequest) -> frozenset[int]:
        """The tasks that a restart restarts (KIP-745)."""
        if not restart.include_tasks:
            return frozenset()
        states = self.task_states("", 0)
        return frozenset(
            number for number, one in states.items() if not restart.only_failed or one.state is ConnectorState.FAILED
        )

    def release_instance(self) -> ConnectorInstance | None:
        """Remove and return the instance, and keep the topics that it wrote to."""
        instance, self.instance, self.again = self.instance, None, False
        if instance is not None:
            self._written |= instance.take_written()
        return instance

    def take_written(self, *, running: bool) -> set[str]:
        """The topics that ended instances wrote to since the last call; with `running` also the present instance."""
        written, self._written = self._written, set()
        return written | self.instance.take_written() if running and self.instance is not None else written

    def mark_reported(self) -> None:
        """Note that its states were written."""
        self.restarts = False
        if not self.again:
            self.restarting_tasks = frozenset()
