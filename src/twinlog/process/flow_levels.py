"""Levels of the log by flow: for a time, the log has more lines of a flow, or fewer, than of the other flows.

A log line belongs to a flow if the flow's name begins the line, after its id, or if a thread of the flow writes it. A
level of a flow leaves the levels of Python's loggers as they are, and with them the answers of Connect's
`/admin/loggers`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock

from twinlog.clock import SYSTEM, Clock
from twinlog.errors.message_ids import without_id

PACKAGE = "twinlog"
"""Debug lines of libraries may contain sent data, so only loggers of this package follow the level of a flow."""

MOST_S = 24 * 3600.0
"""The longest time of a level in seconds: each debug line costs room on a disk."""

_THREADS = "clearing|conflicts|copier|flow|grants|groups|maps|outages|stand[ -](?:by|in)"
"""The first words of the names of a flow's threads; a job of a flow has the name `FLOW: JOB`."""


class FlowLogLevel(StrEnum):
    """A level that a flow may have for a time; `DEFAULT` ends the level of the flow."""

    DEFAULT = "default"
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """Python's number of the level, 0 of `DEFAULT`."""
        return 0 if self is FlowLogLevel.DEFAULT else int(getattr(logging, self.name))


Sink = Callable[[int, str], None]
"""Takes the number of a level and a line."""


@dataclass(frozen=True, slots=True)
class _FlowLevel:
    """The level of a flow until a moment of the monotonic clock.

    Lines below a warning go to `sink` in place of the handlers, if it is given.
    """

    flow: str
    number: int
    until: float
    sink: Sink | None
    threads: re.Pattern[str]

    def covers(self, record: logging.LogRecord) -> bool:
        """Whether a line is of this flow."""
        if self.threads.fullmatch(record.threadName or "") is not None:
            return True
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            # A handler reports a line whose values do not fit its text.
            return False
        return without_id(text).startswith(f"{self.flow}: ")


class FlowLevels:
    """The levels of flows in this process. Every method may be called from any thread."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._now = clock.monotonic
        self._lock = Lock()
        self._levels: tuple[_FlowLevel, ...] = ()
        """Replaced as a whole, so that a log line reads it without the lock."""

    def set_level(self, flow: str, number: int, for_s: float, sink: Sink | None = None) -> None:
        """Log the lines of a flow from this level on, for `for_s` seconds; the level 0, or no time, ends the level.

        A process with several copiers of a flow has a level for each `sink`.
        """
        pattern = re.escape(flow)
        threads = re.compile(rf"(?:{_THREADS}) {pattern}(?:_\d+)?|{pattern}: .*", re.DOTALL)
        made = _FlowLevel(flow, number, self._now() + min(for_s, MOST_S), sink, threads)
        with self._lock:
            kept = [one for one in self._levels if (one.flow, one.sink) != (flow, sink)]
            self._levels = (*kept, made) if number and for_s > 0 else tuple(kept)
            if self._levels:
                _adopt_loggers()

    def clear_level(self, flow: str, sink: Sink | None = None) -> None:
        """End the level of a flow."""
        self.set_level(flow, 0, 0.0, sink)

    @property
    def lowest(self) -> int:
        """The lowest level of all flows, above all levels if no flow has a level."""
        return min((one.number for one in self._present()), default=logging.CRITICAL + 1)

    def take_record(self, record: logging.LogRecord) -> bool | None:
        """Whether the level of its flow lets a line through; None if the flow of the line has no level.

        A line that goes to a sink needs no handler, and counts as kept back.
        """
        found = next((one for one in reversed(self._present()) if one.covers(record)), None)
        if found is None:
            return None
        if record.levelno < found.number:
            return False
        if found.sink is None or record.levelno >= logging.WARNING:
            return True
        found.sink(record.levelno, _TEXT.format(record).removeprefix(f"{found.flow}: "))
        return False

    def _present(self) -> tuple[_FlowLevel, ...]:
        levels = self._levels
        if not levels:
            return levels
        now = self._now()
        if any(one.until <= now for one in levels):
            with self._lock:
                self._levels = tuple(one for one in self._levels if one.until > now)
        return self._levels


FLOW_LEVELS = FlowLevels()
"""The levels of this process, as its log is the process's own."""

_TEXT = logging.Formatter()


class _FlowLogger(logging.Logger):
    """A logger that follows the levels of flows beside its own level.

    It calls the methods of `logging.Logger` by their class, because other threads may be within them when a logger
    gets this class.
    """

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name of the standard library
        """Whether a line of this level may be written for any flow."""
        if logging.Logger.isEnabledFor(self, level):
            return True
        return level >= FLOW_LEVELS.lowest and not self.disabled and self.manager.disable < level

    def handle(self, record: logging.LogRecord) -> None:
        """Write a line, by the level of its flow or else by the level of the logger."""
        allowed = FLOW_LEVELS.take_record(record)
        if logging.Logger.isEnabledFor(self, record.levelno) if allowed is None else allowed:
            logging.Logger.handle(self, record)


def _adopt_loggers() -> None:
    """Have all loggers of the package follow the levels of flows from now on."""
    for name, logger in list(logging.Logger.manager.loggerDict.items()):
        ours = name == PACKAGE or name.startswith(f"{PACKAGE}.")
        if ours and type(logger) is logging.Logger:
            logger.__class__ = _FlowLogger
