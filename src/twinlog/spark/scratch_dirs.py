"""Where a run puts files: its scratch directories, and what an earlier run that was killed has left beside them."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from twinlog.jvm.archive import archive_file
from twinlog.scratch import sweep

log = logging.getLogger(__name__)

LONGEST_SOCKET_DIR = 60
"""Characters; Spark adds 42 of its own, and the name of a Unix socket has 104 at most on some systems."""

_SCRATCH_NAME = 26
"""Characters that a scratch directory's name adds, the slash before it included."""

_SHORT = Path("/tmp")


def scratch_parent() -> Path:
    """Where the files of a Spark engine go: the temporary directory, or /tmp where its name is too long for sockets."""
    usual = Path(tempfile.gettempdir())
    if len(str(usual)) + _SCRATCH_NAME > LONGEST_SOCKET_DIR and os.access(_SHORT, os.W_OK | os.X_OK):
        return _SHORT
    return usual


def local_dirs(conf: Mapping[str, str]) -> list[Path]:
    """The directories for Spark's blocks, by `$SPARK_LOCAL_DIRS` or a setting; empty when neither is set."""
    setting = os.environ.get("SPARK_LOCAL_DIRS") or conf.get("spark.local.dir", "")
    return [Path(part.strip()) for part in setting.split(",") if part.strip()]


def sweep_leftovers(conf: Mapping[str, str]) -> None:
    """Remove what runs that were killed left in all these places, and log it in one line."""
    places = (Path(tempfile.gettempdir()), scratch_parent(), archive_file().parent, *local_dirs(conf))
    if removed := sweep(places):
        log.info(
            "removed %d director%s of runs that were killed: %s",
            len(removed),
            "y" if len(removed) == 1 else "ies",
            ", ".join(str(path) for path in removed[:3]) + (", ..." if len(removed) > 3 else ""),
        )
