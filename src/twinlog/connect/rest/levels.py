"""Python's logging behind the names and levels of Connect's loggers (Kafka class Loggers).

A change for the whole group calls the same `Levels` as this worker's own REST API.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping

LEVELS: Mapping[str, int] = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": 1,
}
"""The levels of log4j."""

ROOT = "root"

_OURS: Mapping[str, str] = {
    "org.apache.kafka": "twinlog",
    "org.apache.kafka.clients": "twinlog.kafka",
    "org.apache.kafka.connect": "twinlog.connect",
    "org.apache.kafka.connect.mirror": "twinlog.worker",
    "org.apache.kafka.connect.mirror.MirrorCheckpointConnector": "twinlog.mirror.groups",
    "org.apache.kafka.connect.mirror.MirrorCheckpointTask": "twinlog.mirror.groups",
    "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector": "twinlog.mirror.heartbeats",
    "org.apache.kafka.connect.mirror.MirrorHeartbeatTask": "twinlog.mirror.heartbeats",
    "org.apache.kafka.connect.mirror.MirrorSourceConnector": "twinlog.mirror.topics",
    "org.apache.kafka.connect.mirror.MirrorSourceTask": "twinlog.copier",
    "org.apache.kafka.connect.runtime.rest": "twinlog.connect.rest",
    "org.apache.kafka.connect.runtime.rest.RestServer": "twinlog.connect.rest.access_log",
}
"""Connect's loggers, and the loggers here with the corresponding messages."""

_MOST = 10_000
_NEVER = ("py4j", "kafka")
"""Libraries whose debug lines contain sent data, secrets included: their levels are fixed."""


class Levels:
    """Reads and sets levels. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._set: dict[str, tuple[str, int]] = {}
        """The levels that were set here, by the name in the request: level, and time in milliseconds since 1970."""

    def list_levels(self) -> dict[str, tuple[str, int | None]]:
        """Level and time of change of every logger that has a level of its own, by name."""
        with self._changing:
            found: dict[str, tuple[str, int | None]] = {
                name: (_name(logger.level), None) for name, logger in _existing() if logger.level != logging.NOTSET
            }
            found |= self._set
            found.setdefault(ROOT, (_name(logging.getLogger().level), None))
        return dict(sorted(found.items()))

    def get_level(self, name: str) -> tuple[str, int | None] | None:
        """Level and time of change of a logger, or its inherited level. None for an unknown logger."""
        name = ROOT if name.lower() == ROOT else name
        with self._changing:
            if name in self._set:
                return self._set[name]
        known = name == ROOT or name in _OURS or any(name == existing for existing, _ in _existing())
        return (_name(_logger(name).getEffectiveLevel()), None) if known else None

    def set_level(self, name: str, level: str, now_ms: int) -> list[str]:
        """Set a level for a logger and all loggers below it; returns the sorted names of the changed loggers.

        Libraries that would log secrets keep their levels. With a level outside LEVELS all loggers keep theirs.
        """
        level = level.upper()
        if level not in LEVELS:
            return []
        whole = name.lower() == ROOT
        if name.split(".", 1)[0] in _NEVER:
            return []
        with self._changing:
            names = {ROOT} if whole else {name}
            existing = [*_OURS, *(one for one, _ in _existing()), *self._set]
            names |= {one for one in existing if whole or one.startswith(name)}
            changed = sorted(one for one in names if self._level(one) != level)
            for one in changed:
                _logger(one).setLevel(LEVELS[level])
                if one in self._set or len(self._set) < _MOST:
                    self._set[one] = (level, now_ms)
        return changed

    def _level(self, name: str) -> str:
        return self._set[name][0] if name in self._set else _name(_logger(name).getEffectiveLevel())


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(_OURS.get(name, name))


def _existing() -> Iterator[tuple[str, logging.Logger]]:
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.split(".", 1)[0] not in _NEVER:
            yield name, logger


def _name(level: int) -> str:
    """The nearest of log4j's levels."""
    return min(LEVELS, key=lambda name: abs(LEVELS[name] - level))
