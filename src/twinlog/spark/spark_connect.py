"""Refuses Spark Connect, in each form of a request for it, before a start.

The session of a client of Spark Connect is a connection to a driver elsewhere. Copiers keep a connection to the process
that runs flows, and this process must be that driver, or run beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from twinlog.errors import EngineError

WAY_OUT = (
    "twinlog runs in the driver of a Spark, not in a client of Spark Connect: start it with `twinlog run --master` or "
    "`spark-submit` against the same cluster, or give it a session that was made with `.master(...)`"
)


def refuse_connect(master: str | None, settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raises EngineError if a Spark that starts now would be a client of Spark Connect."""
    for asked, value in (
        ("--master", master if master is not None and master.startswith("sc:") else None),
        ("spark.remote", settings.get("spark.remote")),
        ("spark.api.mode", "connect" if settings.get("spark.api.mode", "").lower() == "connect" else None),
        ("SPARK_REMOTE", environment.get("SPARK_REMOTE")),
        ("SPARK_API_MODE", "connect" if environment.get("SPARK_API_MODE", "").lower() == "connect" else None),
        ("SPARK_CONNECT_MODE", "1" if environment.get("SPARK_CONNECT_MODE") == "1" else None),
    ):
        if value:
            raise EngineError(
                f"{asked} = {value} asks for Spark Connect: leave it out. {WAY_OUT}", message_id="TW-SPARK-26"
            )
    if find_spec("pyspark") is not None and find_spec("pyspark.core") is None:
        raise EngineError(
            f"only Spark's client is installed (pyspark-client): install pyspark. {WAY_OUT}", message_id="TW-SPARK-26"
        )


def refuse_remote(session: object) -> None:
    """Raises EngineError for a session of Spark Connect, and for any object but a SparkSession."""
    kinds = type(session).__mro__
    if any(kind.__module__.startswith("pyspark.sql.connect.") for kind in kinds):
        raise EngineError(f"this is a session of Spark Connect. {WAY_OUT}", message_id="TW-SPARK-26")
    if not any((kind.__module__, kind.__name__) == ("pyspark.sql.session", "SparkSession") for kind in kinds):
        raise EngineError(f"a SparkSession is expected, and this is {type(session).__name__}")
