"""The connectors that run in this process: begun, ended and begun anew, on one thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from twinlog.clock import SYSTEM, Clock
from twinlog.config.connector import ConnectorFlow
from twinlog.connect.model import ConnectorName, State, Status, TargetState
from twinlog.driver.assigned_flow import AssignedFlow
from twinlog.driver.flow import FlowRunner
from twinlog.driver.flow_place import Builder
from twinlog.driver.groups_flow import GroupsFlow
from twinlog.driver.idle_flow import IdleFlow
from twinlog.driver.read_ahead import StoredOffsets
from twinlog.driver.spark_flows import SparkFlows, SparkOptions
from twinlog.errors import EngineError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.model.types import Alias
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

HEARTBEATS_STOP_S = 0.5
STOP_S = 5.0


class Part(Protocol):
    """What a connector does while it runs."""

    @property
    def tasks(self) -> int | None:
        """How many tasks it has; None before that is known."""

    @property
    def failure(self) -> str | None:
        """Why it ended by itself."""

    def attend(self) -> None: ...

    def begin_end(self) -> None: ...

    @property
    def ended(self) -> bool: ...


@dataclass(slots=True)
class Running:
    """A connector that this worker has: what it was asked to be, and what runs of it."""

    name: ConnectorName
    flow: ConnectorFlow | None
    """None where its configuration cannot be used."""
    target: TargetState
    refused: str | None = None
    """Why its configuration cannot be used."""
    failure: str | None = None
    """Why it could not begin; it is tried again when somebody restarts it, or changes its configuration."""
    part: Part | None = None
    ending: bool = False
    again: bool = False
    """Whether it is begun again once it has ended."""
    tasks: int = 0

    @property
    def trace(self) -> str | None:
        """Why it failed before anything ran; None where it did not."""
        return self.refused or self.failure

    @property
    def stopped(self) -> bool:
        """Whether it is to be stopped, and nothing of it runs any more: from here on its offsets may be changed."""
        return self.target is TargetState.STOPPED and self.part is None

    def connector_state(self, worker_id: str, generation: int) -> Status:
        """The state of the connector itself; its tasks have theirs."""
        if self.stopped:
            return Status(State.STOPPED, worker_id, generation)
        if self.trace is not None:
            return Status(State.FAILED, worker_id, generation, self.trace)
        state = State.PAUSED if self.target is TargetState.PAUSED else State.RUNNING
        return Status(state, worker_id, generation)

    def task_states(self, worker_id: str, generation: int) -> dict[int, Status]:
        """The states of its tasks by their numbers."""
        if self.stopped or self.trace is not None:
            return {}
        failure = None if self.part is None else self.part.failure
        if failure is not None:
            status = Status(State.FAILED, worker_id, generation, failure)
        else:
            paused = self.target is TargetState.PAUSED
            status = Status(State.PAUSED if paused else State.RUNNING, worker_id, generation)
        return dict.fromkeys(range(self.tasks), status)


@dataclass(slots=True)
class _Copying:
    """A source connector."""

    place: AssignedFlow
    settings: FlowSettings
    trouble: str | None = None

    @property
    def tasks(self) -> int | None:
        partitions = self.place.partitions
        if self.place.failure is not None and partitions is None:
            return 1
        return None if partitions is None else min(self.settings.tasks_max, partitions)

    @property
    def failure(self) -> str | None:
        return self.place.failure

    @property
    def ended(self) -> bool:
        return self.place.ended

    def attend(self) -> None:
        pass

    def begin_end(self) -> None:
        self.place.end()


@dataclass(slots=True)
class _Following:
    """A checkpoint connector, and the flows there and back whose maps it reads, None where nobody here copies them."""

    flow: GroupsFlow
    pair: tuple[FlowSettings | None, FlowSettings | None]
    ending: threading.Thread | None = None

    @property
    def tasks(self) -> int | None:
        return 1

    @property
    def failure(self) -> str | None:
        return self.flow.failure

    @property
    def ended(self) -> bool:
        return self.ending is not None and not self.ending.is_alive()

    def attend(self) -> None:
        self.flow.attend()

    def begin_end(self) -> None:
        if self.ending is None:
            self.ending = _in_thread(self._end, self.flow.settings.name)

    def _end(self) -> None:
        self.flow.stop()
        self.flow.close()


@dataclass(slots=True)
class _Beating:
    """A heartbeat connector."""

    flow: IdleFlow
    ending: threading.Thread | None = None
    failure: str | None = None

    @property
    def tasks(self) -> int | None:
        return 1

    @property
    def ended(self) -> bool:
        return self.ending is not None and not self.ending.is_alive()

    def attend(self) -> None:
        self.flow.attend()

    def begin_end(self) -> None:
        if self.ending is None:
            self.ending = _in_thread(self._end, self.flow.settings.name)

    def _end(self) -> None:
        self.flow.stop(HEARTBEATS_STOP_S)
        self.flow.close()


def _in_thread(step: Callable[[], None], name: str) -> threading.Thread:
    """Begin a step that takes seconds: other connectors must not wait for it."""
    thread = threading.Thread(target=step, name=f"ending {name}", daemon=True)
    thread.start()
    return thread


@dataclass(slots=True)
class _Nothing:
    """A connector that is switched off."""

    tasks: int | None = 0
    failure: str | None = None
    ended: bool = False

    def attend(self) -> None:
        pass

    def begin_end(self) -> None:
        self.ended = True


class RunningConnectors:
    """What runs here; used by one thread, which calls `attend` every moment.

    `allowed_s()` is for how many seconds this worker may append. `siblings()` are the settings of all connectors of the
    group, of which some may conflict, or copy what a checkpoint connector translates. `may_begin(flow)` is false as
    long as a connector has to wait, and raises TwinlogError where it never can begin.
    """

    def __init__(
        self,
        options: SparkOptions,
        allowed_s: Callable[[], float],
        siblings: Callable[[], Sequence[FlowSettings]],
        clock: Clock = SYSTEM,
        connect: Connect = ClusterAdmin,
        may_begin: Callable[[ConnectorFlow], bool] = lambda flow: True,
    ) -> None:
        self._options = options
        self._may_begin = may_begin
        self._allowed_s = allowed_s
        self._siblings = siblings
        self._clock = clock
        self._connect = connect
        self._spark = SparkFlows(options, clock)
        self.wake = self._spark.wake
        self._spark_runs = False
        self._spark_error: str | None = None
        self._running: dict[ConnectorName, Running] = {}
        self._copying: Mapping[tuple[Alias, Alias], FlowSettings] = {}
        """The flows of the group that copy, by the clusters from and to which they do."""

    @property
    def connectors(self) -> Mapping[ConnectorName, Running]:
        """What this worker has, also what is just being ended."""
        return self._running

    def set(self, name: ConnectorName, flow: ConnectorFlow | None, target: TargetState, refused: str | None) -> None:
        """Have a connector run, or be what it is to be: begun anew when its settings are others than before."""
        found = self._running.get(name)
        if found is None:
            self._running[name] = Running(name, flow, target, refused)
            return
        same = found.flow == flow and found.refused == refused
        found.flow, found.target, found.refused = flow, target, refused
        if not same:
            found.failure = None
        if found.stopped:
            found.tasks = 0
        if not same or (target is not TargetState.STARTED and found.part is not None):
            self._end(found)

    def restart(self, name: ConnectorName) -> None:
        """End a connector and begin it anew."""
        found = self._running.get(name)
        if found is not None:
            found.failure = None
            self._end(found)

    def remove(self, name: ConnectorName) -> None:
        """End a connector; it is among `connectors` until it has ended."""
        found = self._running.get(name)
        if found is not None:
            found.ending = True
            self._end(found)

    def attend(self) -> None:
        """Begin what is to run, and go on ending what is not."""
        copying = [one for one in self._siblings() if one.copies]
        self._copying = {(one.source, one.target): one for one in copying}
        for name, running in list(self._running.items()):
            try:
                self._attend(running)
            except Exception as error:
                # The others go on.
                log.exception("connector %s", name)
                running.failure = f"internal error: {type(error).__name__}"
                self._end(running)
            if running.ending and running.part is None:
                del self._running[name]
        if self._spark_runs and self._spark_error is None:
            try:
                self._spark.attend()
            except EngineError as error:
                self._spark_error = str(error)
                log.error("Spark ends, and with it all that copies here: %s", error)

    def stop(self) -> None:
        """End everything in order."""
        parts = [running.part for running in self._running.values() if running.part is not None]
        for part in parts:
            part.begin_end()
        if self._spark_runs:
            self._spark.shut_down()
        for part in parts:
            if isinstance(part, _Following | _Beating) and part.ending is not None:
                part.ending.join(STOP_S)
        self._running.clear()

    def _attend(self, running: Running) -> None:
        part = running.part
        if part is not None:
            part.attend()
            if isinstance(part, _Following) and part.pair != self._pair(part.flow.settings):
                # Who copies has come or gone since.
                self._end(running)
            tasks = part.tasks
            if tasks is not None:
                running.tasks = tasks
            # What was cut off begins anew; what failed waits until somebody restarts it.
            if part.ended and (running.again or part.failure is None):
                self._forget(running)
        if running.part is None and not running.ending and running.target is TargetState.STARTED:
            self._begin(running)

    def _end(self, running: Running) -> None:
        if running.part is None:
            return
        running.again = True
        running.part.begin_end()
        if running.part.ended:
            self._forget(running)

    def _forget(self, running: Running) -> None:
        part, running.part, running.again = running.part, None, False
        if running.target is TargetState.STOPPED:
            running.tasks = 0
        if isinstance(part, _Copying) and part.place in self._spark.places:
            self._spark.places.remove(part.place)

    def _begin(self, running: Running) -> None:
        flow = running.flow
        if flow is None or running.trace is not None or self._allowed_s() <= 0:
            return
        try:
            if self._may_begin(flow):
                running.part = self._part(flow)
        except (RuntimeError, OSError) as error:
            log.debug("%s: begins later: %s", running.name, error)
        except TwinlogError as error:
            running.failure = str(error)

    def _part(self, flow: ConnectorFlow) -> Part:
        settings = flow.settings
        if flow.idle:
            return _Nothing()
        if flow.kind == "heartbeat":
            beating = IdleFlow(settings, lambda: self._allowed_s() > 0, self._connect)
            beating.start()
            return _Beating(beating)
        if flow.kind == "checkpoint":
            pair = self._pair(settings)
            following = GroupsFlow(settings, lambda: self._allowed_s() > 0, *pair, connect=self._connect)
            following.start()
            return _Following(following, pair)
        if self._spark_error is not None:
            raise EngineError(self._spark_error)
        place = AssignedFlow(
            settings, self._builder(settings), self._spark.queries.take_out, self._allowed_s, self._clock
        )
        self._spark.places.append(place)
        if not self._spark_runs:
            self._spark_runs = True
            self._spark.start()
        return _Copying(place, settings)

    def _pair(self, settings: FlowSettings) -> tuple[FlowSettings | None, FlowSettings | None]:
        """The flows that copy from the source of a flow to its target, and back."""
        there, back = (settings.source, settings.target), (settings.target, settings.source)
        return self._copying.get(there), self._copying.get(back)

    def _builder(self, settings: FlowSettings) -> Builder:
        def build(leads_for_s: Callable[[], float], stored: StoredOffsets | None) -> FlowRunner:
            flows = [one for one in self._siblings() if one.copies and one.name != settings.name]
            return FlowRunner(
                settings,
                slots=settings.tasks_max,
                tasks=1 if self._options.local else None,
                until_caught_up=False,
                wake=self.wake.set,
                flows=[settings, *flows],
                leads_for_s=leads_for_s,
                stored=stored,
                clock=self._clock,
                connect=self._connect,
            )

        return build
