"""A connector that one worker has: what it is to be, what runs of it, and the states that this makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from twinlog.config.connector import ConnectorFlow
from twinlog.connect.parts import ConnectorInstance, Work
from twinlog.connectors.model import Config, ConnectorName, ConnectorState, RestartRequest, Status, TargetState
from twinlog.connectors.task_configs import task_configs

TROUBLE_S = 5.0
"""How long a trouble lasts before it is shown, and how long it is shown before another one is."""


@dataclass(slots=True)
class WorkerConnector:
    """A connector that this worker has: what it was asked to be, and what runs of it."""

    name: ConnectorName
    flow: ConnectorFlow | None
    """None where its configuration cannot be used."""
    target: TargetState
    refused: str | None = None
    """Why its configuration cannot be used."""
    failure: str | None = None
    """Why it could not begin; it is tried again when somebody restarts it, or changes its configuration."""
    part: ConnectorInstance | None = None
    term: int = 0
    """The term of the worker's membership in which that began."""
    ending: bool = False
    again: bool = False
    """Whether it is begun again once it has ended."""
    tasks: int = 0
    restarts: bool = False
    """Whether the connector is being restarted, and this has not been shown yet."""
    remark: str | None = None
    """What will not work of it beside the other connectors; it runs all the same."""
    trouble: str | None = None
    """What its tasks cannot do at the moment, as it is shown."""
    troubled_at: float | None = None
    """Since when it has had a trouble, or when the one that is shown came."""
    waits: str | None = None
    """Why it could not begin yet, though that is tried again."""
    restarting_tasks: frozenset[int] = frozenset()
    """Those that are being restarted, until that was shown and they have begun."""
    _written: set[str] = field(default_factory=set)
    """Topics that a part wrote to which has ended."""
    _made: tuple[Config, Work, Sequence[Config]] | None = None
    """Configurations of tasks, and what they were made of."""

    @property
    def trace(self) -> str | None:
        """Why it failed before anything ran; None where it did not."""
        return self.refused or self.failure

    def task_configs(self, config: Config) -> Sequence[Config] | None:
        """The configurations of its tasks while it runs, made of its own, `config`; None before its tasks are known."""
        part, flow = self.part, self.flow
        if flow is None or part is None or self.ending or self.again or part.failure is not None:
            return None
        work = part.work
        if work is None:
            return None
        if self._made is None or self._made[0] is not config or self._made[1] is not work:
            self._made = config, work, task_configs(flow, config, work)
        return self._made[2]

    @property
    def stopped(self) -> bool:
        """Whether it is to be stopped, and nothing of it runs any more: from here on its offsets may be changed."""
        return self.target is TargetState.STOPPED and self.part is None

    def connector_state(self, worker_id: str, generation: int) -> Status:
        """The state of the connector itself; its tasks have theirs."""
        if self.restarts and self.target is not TargetState.STOPPED:
            return Status(ConnectorState.RESTARTING, worker_id, generation)
        if self.trace is not None and self.target is not TargetState.STOPPED:
            return Status(ConnectorState.FAILED, worker_id, generation, self.trace)
        state = self._state
        return Status(
            state, worker_id, generation, (self.waits or self.remark) if state is ConnectorState.RUNNING else None
        )

    def task_states(self, worker_id: str, generation: int) -> dict[int, Status]:
        """The states of its tasks by their numbers."""
        state = self._state
        if state is ConnectorState.STOPPED or self.trace is not None:
            return {}
        # Held partitions are tried again, also where the tasks are FAILED as nothing is copied.
        failure = None if self.part is None else self.part.failure or self.part.nothing_copied
        status = Status(state, worker_id, generation, self.trouble if state is ConnectorState.RUNNING else None)
        if failure is not None:
            status = Status(ConnectorState.FAILED, worker_id, generation, failure)
        states = dict.fromkeys(range(self.tasks), status)
        restarting = Status(ConnectorState.RESTARTING, worker_id, generation)
        return states | {number: restarting for number in self.restarting_tasks if number in states}

    @property
    def _state(self) -> ConnectorState:
        """What it is where nothing failed. Until what runs of it has ended it is not paused, nor stopped."""
        if self.stopped:
            return ConnectorState.STOPPED
        if self.target is TargetState.PAUSED and (self.part is None or self.part.failure is not None):
            return ConnectorState.PAUSED
        return ConnectorState.RUNNING

    def update_trouble(self, now: float) -> None:
        """See what its tasks cannot do; a trouble that comes and goes is not shown."""
        trouble = None if self.part is None else self.part.trouble
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
        """Part with what ran of it, and keep what that wrote to."""
        part, self.part, self.again = self.part, None, False
        if part is not None:
            self._written |= part.take_written()
        return part

    def take_written(self, *, running: bool) -> set[str]:
        """The topics that it has written to since the last call: by what has ended, and if wanted by what runs."""
        written, self._written = self._written, set()
        return written | self.part.take_written() if running and self.part is not None else written

    def mark_reported(self) -> None:
        """Its states were written."""
        self.restarts = False
        if not self.again:
            self.restarting_tasks = frozenset()
