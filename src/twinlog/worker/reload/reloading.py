"""Reads the file of a running process again on request, and runs the flows by the new content.

A faulty file leaves the flows as they are. From a correct file the process takes over the keys that a running process
can change. The report names keys that need a restart, and these keys keep their values.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from twinlog.clock import SYSTEM, Clock, wall_ms
from twinlog.config.file_changes import FileChange, RunningFile, compare
from twinlog.config.keys.key import UpdateMode
from twinlog.config.load import LoadedFile
from twinlog.errors import ConfigError
from twinlog.errors.message_ids import with_id
from twinlog.errors.mistakes import Mistake
from twinlog.settings.flow import FlowSettings
from twinlog.worker.reload.reload_report import MOST_KEYS, ReloadReport, names, read_keys

log = logging.getLogger(__name__)

TAKEN_S = 10.0
"""The longest wait of a report for flows to take a change over; a flow whose cluster is out of reach does so later."""

LOOK_S = 0.05


class RunningFlow(Protocol):
    """A flow of this process, see `ElectedFlow`."""

    @property
    def settings(self) -> FlowSettings: ...

    @property
    def stands_by(self) -> bool: ...

    @property
    def changing(self) -> bool: ...

    @property
    def status(self) -> tuple[str, str | None]: ...


class RunningFlows(Protocol):
    """The flows of this process, see `Runner`."""

    @property
    def flows(self) -> Sequence[RunningFlow]: ...

    def take_over(self, flows: Sequence[FlowSettings], all_enabled: Sequence[FlowSettings]) -> threading.Event: ...


@dataclass(frozen=True, slots=True)
class ReloadableFile:
    """A file that may change while its flows run: its name, its content at the start, and a function to read it.

    `read` raises ConfigError with every problem of the file.
    """

    name: str
    running: RunningFile
    read: Callable[[], LoadedFile]


class Reloader:
    """The file of a process, and the flows that run by it; may be used by any thread."""

    def __init__(self, file: ReloadableFile, flows: RunningFlows, clock: Clock = SYSTEM) -> None:
        self._file = file.name
        self._read = file.read
        self._running = file.running
        self._flows = flows
        self._clock = clock
        self._lock = threading.Lock()
        self.process = f"{socket.gethostname()}-{os.getpid()}"

    @property
    def running(self) -> RunningFile:
        """The part of the file that the process runs."""
        return self._running

    def request_reload(self, by: str) -> None:
        """`reload` on a thread of its own, for a signal."""

        def reload() -> None:
            try:
                self.reload(by)
            except Exception:
                log.exception("TW-FAULT-01: %s", self._file)

        try:
            threading.Thread(target=reload, name="reload", daemon=True).start()
        except RuntimeError as error:
            log.warning("TW-RELOAD-04: reading %s again failed: %s; ask once more", self._file, error)

    def reload(self, by: str, *, only_look: bool = False) -> ReloadReport:
        """Read the file, and take over the keys that a running process can change.

        With `only_look`, only report the changes. `by` is the requester. Returns once every flow that is able to take
        the change over now has done so.
        """
        with self._lock:
            try:
                loaded = self._read()
            except ConfigError as error:
                return self._refused(error, by, only_look=only_look)
            change = compare(self._running, loaded)
            if not only_look:
                self._take_over(change, by)
            return self._report(change, by, only_looked=only_look)

    def _refused(self, error: ConfigError, by: str, *, only_look: bool) -> ReloadReport:
        problems = _lines(error.problems)
        if not only_look:
            for problem in error.problems:
                log.error("%s", with_id(str(problem), "TW-FILE-22"))
            log.error(
                "TW-RELOAD-01: %s: this version is wrong, the earlier version stays in effect (read again for %s)",
                *(self._file, by),
            )
        warnings = _lines(error.warnings)
        return ReloadReport(
            self.process, self._file, by, wall_ms(self._clock), problems, warnings, only_looked=only_look
        )

    def _take_over(self, change: FileChange, by: str) -> None:
        before, self._running = self._running, change.running
        # A line more in the file moves every later warning.
        known = {(warning.key, warning.text) for warning in before.config.warnings}
        for warning in change.running.config.warnings:
            if (warning.key, warning.text) not in known:
                log.warning("%s", with_id(str(warning), "TW-FILE-21"))
        for key in change.select_keys(UpdateMode.AT_ONCE, UpdateMode.PAUSE):
            log.info("%s: taken over%s", key, f" by {', '.join(key.flows)}" if key.flows else "")
        for key in change.select_keys(UpdateMode.RESTART):
            log.warning("TW-RELOAD-02: %s: needs a restart of this process, and stays as it was until then", key)
        for name, why in change.waiting.items():
            log.warning("TW-RELOAD-03: %s starts with the next start of this process: %s", name, why)
        live, waiting = change.select_keys(UpdateMode.AT_ONCE, UpdateMode.PAUSE), change.select_keys(UpdateMode.RESTART)
        if live or waiting or not change.same:
            log.info(
                "audit: %s was read again for %s; taken over: %s; needs a restart: %s",
                *(self._file, by, names(live), names(waiting)),
            )
        else:
            log.info("%s was read again for %s, and has nothing new for the flows of this process", self._file, by)
        config = change.running.config
        if (config.flows, config.all_enabled) != (before.config.flows, before.config.all_enabled):
            done = self._flows.take_over(config.flows, config.all_enabled)
            self._wait(done, set(change.changed))

    def _wait(self, done: threading.Event, changed: set[str]) -> None:
        until = self._clock.monotonic() + TAKEN_S
        self._clock.wait(done, TAKEN_S)
        while self._clock.monotonic() < until and any(
            flow.changing for flow in self._flows.flows if flow.settings.name in changed
        ):
            self._clock.sleep(LOOK_S)

    def _report(self, change: FileChange, by: str, *, only_looked: bool) -> ReloadReport:
        # `twinlog check` reports all warnings of the file; here only new warnings get a line.
        return ReloadReport(
            self.process,
            self._file,
            by,
            wall_ms(self._clock),
            warnings=_lines([one for one in change.running.config.warnings if not one.of_other_programs])
            if only_looked
            else (),
            keys=read_keys(change),
            more_keys=max(0, len(change.keys) - MOST_KEYS),
            flows={flow.name: self._state(flow.name, change) for flow in _shown(change)}
            | {name: f"starts with the next start of the process: {why}" for name, why in change.waiting.items()},
            only_looked=only_looked,
        )

    def _state(self, name: str, change: FileChange) -> str:
        """The reaction of a flow to the change."""
        if name in change.begun:
            return "starts"
        if name in change.ended:
            return "stops"
        if name not in change.changed:
            return "unchanged"
        flow = next((one for one in self._flows.flows if one.settings.name == name), None)
        word, detail = ("", None) if flow is None else flow.status
        if flow is not None and flow.changing:
            if detail is None:
                return f"{word} with its old settings, and takes over the new settings in a moment"
            return f"{word} with its old settings, and takes over the new settings once it can: {detail}"
        if word == "failed":
            return f"FAILED: {detail}"
        if flow is not None and flow.stands_by:
            return "stands by, and will run with its new settings"
        return "runs with its new settings"


def _shown(change: FileChange) -> list[FlowSettings]:
    """The flows that copy, or copied until this change."""
    return [flow for flow in change.running.config.flows if flow.enabled or flow.name in change.ended]


def _lines(mistakes: Sequence[Mistake]) -> tuple[str, ...]:
    return tuple(mistake.line_for_editors for mistake in mistakes)
