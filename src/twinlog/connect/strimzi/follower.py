"""Follows the file of a resource: a valid version changes the connectors, a wrong version changes nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from twinlog.clock import SYSTEM, Clock
from twinlog.config.strimzi.load import ResourceConfig
from twinlog.connect.herder import Herder
from twinlog.connect.log4j_file import logger_levels
from twinlog.connect.strimzi.steps import (
    CONNECTOR,
    OFFSETS,
    PAUSE,
    AutoRestarts,
    ChangeTargetState,
    DeleteConnector,
    ExistingConnector,
    OffsetsAnnotationHandler,
    PutConnector,
    Step,
    asked,
    copies_again,
    is_of_a_resource,
    of_others,
    offsets_asked,
    steps,
)
from twinlog.errors import ConfigError, NotOwnerError, RequestError
from twinlog.errors.message_ids import with_id
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.worker.connectors.model import (
    ConnectorName,
    ConnectorState,
    RestartRequest,
    TargetState,
    TaskId,
)

log = logging.getLogger(__name__)

LOOK_S = 1.0
SECRETS_S = 10.0
"""How often Secrets are read, in seconds: new Secrets reach the file system of a pod after about a minute."""

BAD_REQUEST, NOT_FOUND = 400, 404


class ResourceFollower:
    """A thread that keeps a worker's connectors as the file asks for them.

    `load` reads the file and raises ConfigError; `current` is its result at the start. Every process of a group follows
    its own copy of the file, and the leader of the group acts. `set_level(logger, level)` is called in each process.
    `offsets` is the folder for lists of offsets that annotations ask for; by default the folder of Secrets or of the
    file.
    """

    def __init__(
        self,
        path: Path,
        load: Callable[[], ResourceConfig],
        current: ResourceConfig,
        worker: Herder,
        set_level: Callable[[str, str], object] = lambda logger, level: None,
        clock: Clock = SYSTEM,
        offsets: Path | None = None,
    ) -> None:
        self._path = path
        self._load = load
        self._current = current
        self._worker = worker
        self._set_level = set_level
        self._clock = clock
        self._seen = self._read()
        self._coming: bytes | None = None
        self._secrets_at = clock.monotonic() + SECRETS_S
        self._secrets = current.resource.secrets.version()
        self._annotations = current.resource.annotations
        self._vain: str | None = None
        """Why the annotation about offsets is ineffective, until the resource has the missing part."""
        self._anew: list[RestartRequest] = []
        """The pending restarts because of changed Secrets; the next two fields are for annotations."""
        self._asked: list[RestartRequest] = []
        self._tasks: list[TaskId] = []
        folder = offsets or current.resource.secrets.directory or path.parent
        self._offsets = OffsetsAnnotationHandler(path, folder, worker, clock)
        self._auto = AutoRestarts()
        self._logged = LogOnce(clock)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="resource", daemon=True)

    def start(self) -> None:
        """Begin; the present version of the file is applied first."""
        self._apply_levels()
        self._say_if_paused()
        self._thread.start()

    def stop(self) -> None:
        """End; waits at most two seconds for the present step."""
        self._stopping.set()
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.reconcile_resource()
            except Exception:
                log.exception("TW-FAULT-03: %s", self._path)
            self._clock.wait(self._stopping, LOOK_S)

    def reconcile_resource(self) -> None:
        """Read the file and the connectors, and take the necessary steps; called every second."""
        self._look_at_file()
        self._look_at_secrets()
        if self._is_paused():
            return
        self._look_at_annotations()
        leads = self._worker.leads
        if not leads:
            # The leading process reads the same file; each worker restarts the tasks that it runs.
            self._anew.clear()
            self._asked.clear()
        try:
            if self._is_anothers(leads=leads):
                return
            if leads:
                self._reconcile()
            self._do_asked()
            self._offsets.apply_annotation(self._current.resource.secrets)
            if leads:
                self._auto_restart()
        except RequestError as error:
            if self._logged.is_new(str(error), AGAIN_S):
                log.warning("TW-STRIMZI-12: %s: tried again: %s", self._path, error)

    # -- the file

    def _read(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except OSError as error:
            if self._logged.is_new("file", AGAIN_S) and hasattr(self, "_seen"):
                why = error.strerror or error
                log.warning(
                    "TW-STRIMZI-11: %s cannot be read, what was read before stays in effect: %s", self._path, why
                )
            return None

    def _look_at_file(self) -> None:
        text = self._read()
        if text is None or text == self._seen:
            self._coming = None
            return
        if text != self._coming:
            # The file may still be incomplete.
            self._coming = text
            return
        self._seen, self._coming = text, None
        self._take(self._loaded())

    def _loaded(self) -> ResourceConfig | None:
        try:
            return self._load()
        except ConfigError as error:
            for problem in error.problems:
                log.error("%s", with_id(str(problem), "TW-FILE-22"))
            log.error("TW-RELOAD-01: %s: this version is wrong, the earlier version stays in effect", self._path)
            return None

    def _take(self, new: ResourceConfig | None) -> None:
        if new is None:
            return
        if new.worker.settings != self._current.worker.settings:
            log.error(
                "TW-STRIMZI-01: %s: the target, its login or the worker's own settings have changed: restart this "
                "process; until then the connectors stay as they are",
                self._path,
            )
            return
        for warning in new.warnings:
            if warning not in self._current.warnings:
                log.warning("%s", with_id(str(warning), "TW-FILE-21"))
        log.info("%s has changed", self._path)
        # The comparison precedes the assignment: Kubernetes may bring a changed Secret together with the resource.
        self._begin_anew(new)
        self._current = new
        self._apply_levels()
        self._say_if_paused()

    def _look_at_secrets(self) -> None:
        """Restart a connector whose Secrets changed: its configuration only names the Secrets, and is the same."""
        if self._clock.monotonic() < self._secrets_at or self._coming is not None or self._is_paused():
            return
        self._secrets_at = self._clock.monotonic() + SECRETS_S
        version = self._current.resource.secrets.version()
        if version == self._secrets:
            return
        try:
            new = self._load()
        except ConfigError as error:
            if self._logged.is_new("secrets", AGAIN_S):
                log.warning("%s", with_id(str(error.problems[0]), "TW-FILE-22"))
            return
        if new.resource.connectors != self._current.resource.connectors:
            if self._read() == self._seen:
                # The file was refused as long as a Secret was missing.
                self._secrets = version
                self._take(new)
            return
        self._secrets = version
        if new.worker.settings != self._current.worker.settings:
            log.error("TW-STRIMZI-04: %s: the worker's own login has changed: restart this process", self._path)
        self._begin_anew(new)
        self._current = new

    def _begin_anew(self, new: ResourceConfig) -> None:
        """Restart connectors with an equal configuration whose references have new values."""
        before = {flow.name: flow for flow in self._current.flows}
        written = {one.name: one.config for one in self._current.resource.connectors}
        for one in new.resource.connectors:
            flow = next((flow for flow in new.flows if flow.name == one.name), None)
            if flow is not None and written.get(one.name) == one.config and before.get(one.name) != flow:
                log.info("%s: a Secret of connector %s has changed, it is restarted", self._path, one.name)
                self._anew.append(RestartRequest(ConnectorName(one.name), only_failed=False, include_tasks=True))

    def _is_paused(self) -> bool:
        return self._current.resource.annotations.get(PAUSE, "").strip().lower() == "true"

    def _say_if_paused(self) -> None:
        if self._is_paused():
            log.warning(
                "TW-STRIMZI-06: %s: %s is true: connectors stay as they are, and new connectors wait", self._path, PAUSE
            )

    def _apply_levels(self) -> None:
        for logger, level in logger_levels(self._current.resource.loggers).items():
            self._set_level(logger, level)

    # -- the connectors

    def _is_anothers(self, *, leads: bool) -> bool:
        """Whether another resource has connectors in this group: two resources would delete each other's connectors."""
        owner = self._current.resource.owner
        try:
            found = of_others(owner, {name: self._worker.info(name).config for name in self._worker.connectors()})
        except RequestError:
            # Only a leader has to take steps for the resource; a starting worker that follows may ignore it.
            if leads:
                raise
            return True
        if found and self._logged.is_new("others", AGAIN_S):
            log.error(
                "TW-STRIMZI-07: %s: this resource is ignored: connectors of its group belong to another resource (%s), "
                "and two resources in a group would delete each other's connectors: give this resource a group.id and "
                "three "
                "topics of its own; or, if the other resource was renamed to %s, delete its connectors, as their "
                "positions stay: twinlog connectors delete %s",
                self._path,
                ", ".join(sorted(set(found.values()))),
                owner,
                " ".join(f"'{name}'" for name in sorted(found)),
            )
        return bool(found)

    def _reconcile(self) -> None:
        names = self._worker.connectors()
        present = {
            name: ExistingConnector(self._worker.info(name).config, self._worker.target_state(name)) for name in names
        }
        for name in names:
            if not is_of_a_resource(name) and self._logged.is_new(name):
                log.warning(
                    "TW-STRIMZI-02: %s: connector %s is outside of this resource, and stays as it is", self._path, name
                )
        again = copies_again(self._current.resource.connectors, present)
        for new, old in again.items():
            if self._logged.is_new(new, AGAIN_S):
                log.error(
                    "TW-STRIMZI-08: %s: connector %s waits to be created, and %s stays: under another alias it would "
                    "copy "
                    "everything into the same topics a second time; list the offsets of the old connector, which "
                    "this resource has dropped (twinlog connectors offsets list '%s' -o json), write state: stopped "
                    "at the new connector, alter its offsets to these with the new alias as cluster, and have it run",
                    self._path,
                    new,
                    old,
                    old,
                )
        refused: set[ConnectorName] = {*again, *again.values()}
        for step in steps(self._current.resource.connectors, present, self._current.resource.owner):
            if step.name in refused:
                continue
            try:
                self._do(step)
            except RequestError as error:
                if error.status != BAD_REQUEST:
                    raise
                # The other connectors are independent of this connector.
                refused.add(step.name)
                if self._logged.is_new(str(error), AGAIN_S):
                    log.error("TW-STRIMZI-05: connector %s stays as it is: %s", step.name, error)

    def _do(self, step: Step) -> None:
        if isinstance(step, PutConnector):
            self._worker.put(step.name, step.config, initial=step.initial)
            did = "has other settings now" if step.initial is None else "was created"
        elif isinstance(step, ChangeTargetState):
            self._worker.set_target_state(step.name, step.target)
            did = {TargetState.STARTED: "runs", TargetState.PAUSED: "pauses", TargetState.STOPPED: "stops"}[step.target]
        else:
            assert isinstance(step, DeleteConnector)
            self._worker.delete(step.name)
            did = "was deleted, because the file has dropped it; its positions stay"
        log.info("connector %s %s", step.name, did)

    def _look_at_annotations(self) -> None:
        resource = self._current.resource
        found = asked(resource.annotations, self._annotations, [one.name for one in resource.connectors])
        before, self._annotations = self._annotations, resource.annotations
        new = any(before.get(key) != resource.annotations.get(key) for key in (OFFSETS, CONNECTOR))
        if new or self._vain is not None:
            try:
                self._offsets.set_annotation(offsets_asked(resource.annotations, resource.connectors))
                self._vain = None
            except ValueError as error:
                self._offsets.set_annotation(None)
                if new or str(error) != self._vain:
                    log.error("TW-STRIMZI-13: %s: metadata.annotations: %s", self._path, error)
                self._vain = str(error)
        for wrong in found.wrong:
            log.error("TW-STRIMZI-13: %s: metadata.annotations: %s", self._path, wrong)
        self._asked += found.restarts
        self._tasks += found.tasks

    def _do_asked(self) -> None:
        """Do the pending restarts. Raises RequestError when a restart is impossible now; the next call tries again."""
        for restarts, why in ((self._anew, "its Secret has changed"), (self._asked, "an annotation asks for it")):
            while restarts:
                self._unless_gone(partial(self._worker.restart, restarts[0]))
                log.info("connector %s is restarted, %s", restarts[0].connector, why)
                del restarts[0]
        while self._tasks:
            task = self._tasks[0]
            try:
                self._unless_gone(partial(self._worker.restart_task, task))
                log.info("task %s is restarted, an annotation asks for it", task)
            except NotOwnerError:
                log.debug("task %s runs elsewhere", task)
            del self._tasks[0]

    def _unless_gone(self, restart: Callable[[], object]) -> None:
        """Restart a connector or a task; log an error when it is unknown."""
        try:
            restart()
        except RequestError as error:
            if error.status != NOT_FOUND:
                raise
            log.error("TW-STRIMZI-14: %s: %s", self._path, error)

    def _auto_restart(self) -> None:
        for one in self._current.resource.connectors:
            try:
                status = self._worker.status(ConnectorName(one.name))
            except RequestError as error:
                if error.status != NOT_FOUND:
                    raise
                # The connector has just been created: its state is unknown yet, and other connectors may have failed.
                continue
            failed = ConnectorState.FAILED in {status.connector.state, *(task.state for task in status.tasks.values())}
            if self._auto.is_due(one.name, one.auto_restart, failed=failed, now=self._clock.monotonic()):
                log.warning(
                    "TW-STRIMZI-10: connector %s failed and is restarted, for the %s. time",
                    *(one.name, self._auto.count(one.name)),
                )
                self._worker.restart(RestartRequest(ConnectorName(one.name), only_failed=True, include_tasks=True))
