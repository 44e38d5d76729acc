"""A worker that notes what is asked of it, and the follower of a file beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from twinlog.config.strimzi.load import load_resource
from twinlog.connect.herder import Herder
from twinlog.connect.strimzi.follower import ResourceFollower
from twinlog.errors import NotOwnerError, RequestError
from twinlog.worker.connectors.model import (
    ConnectorInfo,
    ConnectorName,
    ConnectorState,
    ConnectorStatus,
    Created,
    RestartRequest,
    Status,
    StoredOffset,
    TargetState,
    TaskId,
)

PLACE = {"cluster": "east", "topic": "t", "partition": 0}

NAME = ConnectorName("east->west.MirrorSourceConnector")

TEXT = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata:
  name: mirror
  annotations: {}
spec:
  replicas: 1
  target:
    alias: west
    bootstrapServers: west:9092
    groupId: mirrors
    configStorageTopic: mirrors-configs
    statusStorageTopic: mirrors-states
    offsetStorageTopic: mirrors-positions
  mirrors:
    - source:
        alias: east
        bootstrapServers: east:9092
        authentication:
          type: plain
          username: u
          passwordSecret: {secretName: east, password: password}
      sourceConnector:
        state: running
        autoRestart: {maxRestarts: 3}
"""


class OneWorker(Herder):
    """Has connectors, and notes what it is asked for."""

    leads: bool = True

    def __init__(self) -> None:
        self.state = ConnectorState.RUNNING
        self.has: dict[ConnectorName, tuple[dict[str, str], TargetState]] = {}
        self.done: list[str] = []
        self.offsets_of: list[StoredOffset] = [StoredOffset(PLACE, {"offset": 5})]
        self.unheard_of: set[str] = set()
        """Connectors of which no worker has said anything yet."""
        self.refusal: RequestError | None = None
        """What the next change is refused with."""

    def _refuse(self) -> None:
        refusal, self.refusal = self.refusal, None
        if refusal is not None:
            raise refusal

    def connectors(self) -> Sequence[ConnectorName]:
        return list(self.has)

    def info(self, name: ConnectorName) -> ConnectorInfo:
        return ConnectorInfo(name, self.has[name][0], (), "source")

    def status(self, name: ConnectorName) -> ConnectorStatus:
        if name in self.unheard_of:
            raise RequestError(404, f"No status found for connector {name}")
        return ConnectorStatus(name, Status(ConnectorState.RUNNING, "w", 1), {0: Status(self.state, "w", 1)})

    def target_state(self, name: ConnectorName) -> TargetState:
        return self.has[name][1]

    def put(
        self,
        name: ConnectorName,
        config: Mapping[str, str | None],
        *,
        initial: TargetState | None = None,
        replace: bool = True,
    ) -> Created:
        self._refuse()
        self.done.append(f"put {config.get('topics')}")
        before = self.has.get(name, ({}, TargetState.STARTED))[1]
        self.has[name] = {key: str(value) for key, value in config.items()}, initial or before
        return Created(initial is not None, self.info(name))

    def delete(self, name: ConnectorName) -> None:
        self.done.append("delete")
        del self.has[name]

    def set_target_state(self, name: ConnectorName, state: TargetState) -> None:
        self.done.append(state.value)
        self.has[name] = self.has[name][0], state

    def restart(self, restart: RestartRequest) -> ConnectorStatus:
        self._refuse()
        self.done.append(f"restart{' tasks' * restart.include_tasks}{' failed' * restart.only_failed}")
        return self.status(restart.connector)

    def restart_task(self, task: TaskId) -> None:
        self._refuse()
        self.done.append(f"restart {task.task}")
        if task.task:
            raise NotOwnerError("another worker has it", "")

    def offsets(self, name: ConnectorName) -> Sequence[StoredOffset]:
        self._refuse()
        return self.offsets_of

    def alter_offsets(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> str:
        self._refuse()
        self.done.append(f"alter {[one.offset for one in offsets]}")
        return "altered"

    def reset_offsets(self, name: ConnectorName) -> str:
        self._refuse()
        self.done.append("reset")
        return "reset"


class Clock:
    """Stands until it is set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.monotonic = lambda: self.now
        self.wall = lambda: self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, *_: object) -> bool:
        return True

    wait_for = wait


class Following:
    """A follower that looks when it is told to, each time once a second."""

    def __init__(self, folder: Path) -> None:
        self.file, self.secret = folder / "mirror.yaml", folder / "secrets" / "east" / "password"
        self.secret.parent.mkdir(parents=True)
        self.secret.write_text("one")
        self.file.write_text(TEXT)
        self.worker, self.clock = OneWorker(), Clock()
        self.levels: list[tuple[str, str]] = []
        load = partial(load_resource, self.file, folder / "secrets")
        self.follower = ResourceFollower(
            self.file, load, load(), self.worker, lambda *level: self.levels.append(level), self.clock
        )

    def look(self, *changes: tuple[str, str]) -> list[str]:
        """What is done once the file says something else."""
        text = self.file.read_text() if changes else ""
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        if changes:
            self.file.write_text(text)
        for _ in range(3):
            self.clock.now += 1
            self.follower.reconcile_resource()
        done, self.worker.done = self.worker.done, []
        return done
