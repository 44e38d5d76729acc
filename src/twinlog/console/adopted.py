"""The Spark of a command: the command starts it itself, or spark-submit started both."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twinlog.spark.spark_connect import refuse_connect
from twinlog.spark.submitted import adopt, end, is_submitted

if TYPE_CHECKING:
    from twinlog.spark.given_session import GivenSession

END_S = 30.0
"""How long a cluster may take to get its executors back."""


@contextmanager
def adopted(master: str | None, conf: Mapping[str, str]) -> Iterator[GivenSession | None]:
    """Yields the session of spark-submit, which ends afterwards; None if the command starts a Spark itself.

    Raises EngineError, also for a request for Spark Connect.
    """
    if not is_submitted():
        refuse_connect(master, conf, os.environ)
        yield None
        return
    given = _on_a_thread(conf)
    try:
        yield given
    finally:
        end(given.session, END_S)


def _on_a_thread(conf: Mapping[str, str]) -> GivenSession:
    """On the main thread, pyspark would take Ctrl-C for itself."""
    found: list[GivenSession] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            found.append(adopt(conf))
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="spark")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
