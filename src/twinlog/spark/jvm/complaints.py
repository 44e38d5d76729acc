"""Separates real errors of Spark's JVM and Python workers from the lines that they print at every orderly end."""

from __future__ import annotations

import logging

_NOISE = ("WARNING: Using incubator modules", "Setting default log level", "To adjust logging level use")
_DEEP = ("\t", " ", "at ", "Caused by", "Traceback", "org.apache.spark", "java.")

_CANCELLED = (
    "ERROR WriteToDataSourceV2Exec: Data source write support",
    "ERROR Utils: Aborting task",
    "ERROR DataWritingSparkTask: Abort",
)
"""A query was stopped while its tasks ran; the reason is logged where it was stopped. A task's error is another
line."""

_ENDED = 'Exception in thread "Idle Worker Monitor'
"""`spark/query.py:end_useless_threads` interrupted it."""

_MISMATCH = "twinlog.errors.VersionMismatchError"
"""The driver refused the process that prints this, and has logged both versions itself."""


class Complaints:
    """Lines of a JVM's standard error, one after the other."""

    def __init__(self) -> None:
        self._frame = ""

    def level(self, line: str) -> int | None:
        """The level to log a line at; None for one without information."""
        if not line or line.startswith(_NOISE):
            return None
        frame, self._frame = self._frame, line if line.lstrip().startswith("File ") else self._frame
        if line.startswith(_DEEP):
            return logging.DEBUG
        self._frame = ""
        if line.startswith((*_CANCELLED, _ENDED, _MISMATCH)):
            return logging.DEBUG
        # Spark ends workers that were idle for a minute; on its way out each of them finds its line closed.
        if line.startswith(("BrokenPipeError", "ConnectionResetError")) and "pyspark/daemon.py" in frame:
            return logging.DEBUG
        return logging.WARNING
