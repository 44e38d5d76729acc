"""spark-submit's Spark: its JVM runs already and has started this process, which makes the session in it.

In client mode it is the JVM of the command, in cluster mode the JVM of the driver that the cluster runs; spark-submit
starts Python in the same way. The JVM ends together with this process, with its exit code.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from twinlog.errors import EngineError
from twinlog.spark.spark_connect import refuse_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twinlog.spark.given_session import GivenSession

log = logging.getLogger(__name__)

_GATEWAY = "PYSPARK_GATEWAY_PORT"


def is_submitted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether spark-submit has started this process, or a process above it."""
    return _GATEWAY in environment


def adopt(settings: Mapping[str, str]) -> GivenSession:
    """The session of spark-submit's JVM, with its own settings; `settings` override them.

    Blocks for seconds, until Spark has started. All of its slots are for flows. Raises EngineError.
    """
    refuse_connect(None, settings, os.environ)
    # By default Spark takes the `python3` of the PATH, which may be another Python.
    if "spark.pyspark.python" in settings:
        os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]

    from py4j.protocol import Py4JError  # noqa: PLC0415 - pyspark is slow to import, and may be a client only
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from twinlog.spark.given_session import GivenSession  # noqa: PLC0415
    from twinlog.spark.refusals import reason_in  # noqa: PLC0415

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        session = SparkSession.builder.config(map=dict(settings)).getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:
        raise EngineError(f"Spark refuses: {reason_in(error)}", message_id="TW-SPARK-24") from error
    given = GivenSession(session, shared=False)
    log.info("flows run on the Spark that spark-submit has started, %s", given.master)
    return given


def end(session: SparkSession, timeout_s: float) -> None:
    """Stop the adopted session, so that a cluster gets its executors back in order; waits up to `timeout_s`."""

    def stop() -> None:
        try:
            session.stop()
        except Exception as error:
            log.debug("stopping Spark: %r", error)

    stopping = threading.Thread(target=stop, daemon=True)
    stopping.start()
    stopping.join(timeout_s)
