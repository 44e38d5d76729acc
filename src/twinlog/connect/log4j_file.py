"""The levels of loggers in a log4j file that a start script names for Java: they count here, too.

Strimzi's operator mounts this file for `spec.logging`, and changes it while the worker runs; a worker of Kafka's reads
it again every `monitorInterval` seconds (Log4j class ConfigurationFileWatcher). Appenders, layouts and filters are
ignored.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import javaproperties

from twinlog.clock import Clock
from twinlog.connect.rest.levels import LEVELS, ROOT

log = logging.getLogger(__name__)

VARIABLE = "KAFKA_LOG4J_OPTS"
_OPTION = re.compile(r"-Dlog4j2?\.configuration(?:File)?=(\S+)")
_ROOTS = ("connect.root.logger.level", "rootLogger.level", "log4j.rootLogger", "rootLogger")
_OLD = "log4j.logger."
_NEW = "logger."
_INTERVAL = "monitorInterval"
_STOP_S = 2.0


def logger_levels(loggers: Mapping[str, str]) -> dict[str, str]:
    """The level of each logger by its name; appenders and other entries are ignored."""
    levels: dict[str, str] = {}
    for key, value in loggers.items():
        level = value.partition(",")[0].strip().upper()
        if key in _ROOTS:
            levels[ROOT] = level
        elif key.startswith(_OLD):
            levels[key.removeprefix(_OLD)] = level
        elif key.startswith(_NEW) and key.endswith(".level"):
            named = loggers.get(f"{key.removesuffix('.level')}.name")
            if named is not None:
                levels[named.strip()] = level
    # A level applies to all loggers below its logger, so the root comes first.
    return dict(sorted(levels.items(), key=lambda one: (one[0] != ROOT, one[0])))


def log4j_file(environment: Mapping[str, str]) -> Path | None:
    """The readable properties file that KAFKA_LOG4J_OPTS names; None if there is none, or for XML, YAML and JSON."""
    found = _OPTION.search(environment.get(VARIABLE, ""))
    if found is None:
        return None
    text = found[1].strip("\"'")
    path = Path(unquote(urlsplit(text).path) if text.startswith("file:") else text)
    return path if path.suffix == ".properties" and path.is_file() else None


class Log4jFile:
    """Applies the levels of a file from `start` to `stop`, and again after a change of the file."""

    def __init__(self, path: Path, set_level: Callable[[str, str], object], clock: Clock) -> None:
        self._path = path
        self._set_level = set_level
        self._clock = clock
        self._text: str | None = None
        self._levels: dict[str, str] = {}
        self._interval_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="log4j-file", daemon=True)

    def start(self) -> None:
        """Apply the levels; with `monitorInterval` the file is read again after each interval."""
        self.apply()
        if self._interval_s > 0:
            self._thread.start()

    def stop(self) -> None:
        """End; the levels stay."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)

    def apply(self) -> None:
        """Apply the levels if the content of the file is new; a logger that has left the file gets the root's level.

        An unreadable or wrong file is logged, and the levels stay.
        """
        try:
            text = self._path.read_text("utf-8")
            if text == self._text:
                return
            values = {str(key): str(value) for key, value in javaproperties.loads(text).items()}
        except (OSError, ValueError) as error:
            log.warning("TW-STRIMZI-16: %s: the levels of loggers stay as they are: %s", self._path, error)
            return
        wanted = logger_levels(values)
        for name, level in [one for one in wanted.items() if one[1] not in LEVELS]:
            log.warning(
                "TW-STRIMZI-16: %s: %s: %r is no level; expected any of %s",
                *(self._path, name, level, ", ".join(LEVELS)),
            )
            del wanted[name]
        gone = dict.fromkeys(self._levels.keys() - wanted.keys(), wanted.get(ROOT, "INFO"))
        ordered = {name: wanted[name] for name in wanted if name == ROOT} | gone | wanted
        for name, level in ordered.items():
            self._set_level(name, level)
        if self._text is not None:
            log.info("%s: levels of loggers: %s", self._path, ", ".join(f"{name} {wanted[name]}" for name in wanted))
        self._text, self._levels = text, wanted
        self._interval_s = _seconds(values.get(_INTERVAL, ""))

    def _follow(self) -> None:
        while not self._clock.wait(self._stopping, self._interval_s):
            self.apply()
            if self._interval_s <= 0:
                return


def _seconds(text: str) -> float:
    return float(text.strip()) if text.strip().isdigit() else 0.0
