"""Starts Spark once, lets it run an empty lease, and keeps what its JVM learned for later starts."""

from __future__ import annotations

from pathlib import Path

from twinlog.errors import TwinlogError
from twinlog.run.desk import Desk
from twinlog.run.rehearsal import rehearse
from twinlog.scratch import Scratch
from twinlog.spark.archive import archive_file, record_options
from twinlog.spark.places import sweep_leftovers
from twinlog.spark.session import SparkEngine, local_master

END_S = 180.0


def warm_up() -> Path:
    """Make the class archive anew; returns its file. Takes about a minute, and some 160 MB of disk.

    Raises TwinlogError when it could not be made.
    """
    path = archive_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep_leftovers({})
    with Scratch(path.parent) as work:
        fresh = work / path.name
        desk = Desk("127.0.0.1")
        engine = SparkEngine(local_master(1), {}, java_options=record_options(fresh))
        try:
            engine.start()
            ran = rehearse(engine, desk)
        finally:
            desk.close()
            engine.stop(END_S)
        if not ran or not fresh.is_file():
            raise TwinlogError("Spark did not leave a class archive; starts stay as they are")
        fresh.replace(path)
    return path
