"""How many tasks a Spark runs at once, from what it publishes: for sessions of others, see `given_session.py`."""

from __future__ import annotations

import json
import logging
import urllib.request
from typing import Any

from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

ASK_S = 5.0
"""How long Spark's pages may take to answer."""

_LEAST = 2
"""What Spark reports on a cluster that has fewer cores, or none yet (CoarseGrainedSchedulerBackend)."""

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def count_slots(session: SparkSession) -> int:
    """All slots of a session, 0 as long as a cluster has no executor for it.

    Locally it is the number of threads. On a cluster Spark's pages have it (its REST API, `/executors`); where they
    are switched off or closed, it is the default parallelism, or 1 where that is the user's own or Spark's least.
    """
    context = session.sparkContext
    parallelism = int(context.defaultParallelism)
    settings = dict(context.getConf().getAll())
    each = max(1, int(settings.get("spark.task.cpus", "1")))
    set_by_user = "spark.default.parallelism" in settings
    if str(context.master).startswith("local") and not set_by_user:
        return max(1, parallelism // each)
    if context.uiWebUrl is not None:
        try:
            return _from_pages(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/executors")
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.debug("Spark's pages do not show its executors: %r", error)
    return 1 if set_by_user or parallelism <= _LEAST else max(1, parallelism // each)


def _from_pages(url: str) -> int:
    with _OPENER.open(url, timeout=ASK_S) as answer:
        executors: list[dict[str, Any]] = json.load(answer)
    return sum(int(one["maxTasks"]) for one in executors if one["isActive"] and not one.get("isExcluded", False))
