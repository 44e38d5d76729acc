"""The folders for the files of a run: its scratch directories, and the remains of earlier runs that were killed."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from twinlog.process.jvm import archive_file
from twinlog.process.scratch import sweep

log = logging.getLogger(__name__)

LONGEST_SOCKET_DIR = 60
"""Characters; Spark adds 42 characters, and the name of a Unix socket has 104 at most on some systems."""

_SCRATCH_NAME = 26
"""Characters that a scratch directory's name adds, the slash before it included."""

_SHORT = Path("/tmp")


def scratch_parent() -> Path:
    """The folder for the files of a Spark engine: the temporary directory, or /tmp if its name is too long.

    Spark's sockets limit the length of the name.
    """
    usual = Path(tempfile.gettempdir())
    if len(str(usual)) + _SCRATCH_NAME > LONGEST_SOCKET_DIR and os.access(_SHORT, os.W_OK | os.X_OK):
        return _SHORT
    return usual


def local_dirs(conf: Mapping[str, str]) -> list[Path]:
    """The directories for Spark's blocks, by `$SPARK_LOCAL_DIRS` or a setting; empty if both are missing."""
    setting = os.environ.get("SPARK_LOCAL_DIRS") or conf.get("spark.local.dir", "")
    return [Path(part.strip()) for part in setting.split(",") if part.strip()]


def sweep_leftovers(conf: Mapping[str, str]) -> None:
    """Remove the remains of killed runs in all these places, and log them in a single line."""
    places = (Path(tempfile.gettempdir()), scratch_parent(), archive_file().parent, *local_dirs(conf))
    if removed := sweep(places):
        log.info(
            "removed %d director%s of runs that were killed: %s",
            len(removed),
            "y" if len(removed) == 1 else "ies",
            ", ".join(str(path) for path in removed[:3]) + (", ..." if len(removed) > 3 else ""),
        )
