"""Levels out of the inline loggers of a resource, which are written for log4j 1 or 2."""

from __future__ import annotations

from collections.abc import Mapping

ROOT = "root"
_ROOTS = ("connect.root.logger.level", "rootLogger.level", "log4j.rootLogger", "rootLogger")
_OLD = "log4j.logger."
_NEW = "logger."


def logger_levels(loggers: Mapping[str, str]) -> dict[str, str]:
    """The level of each logger by its name; appenders and the like mean nothing here."""
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
    # Whatever is below a logger gets its level, so that of the root comes first.
    return dict(sorted(levels.items(), key=lambda one: (one[0] != ROOT, one[0])))
