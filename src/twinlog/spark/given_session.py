"""A session of the caller or of spark-submit, and the number of its tasks. The session stays with its owner.

Only the public interface of pyspark is used, and so three features are missing: see `LOST`. The driver leaves the JVM
unwatched and never restarts it. Python starts afresh for each query, in place of forks of a warm process. Executors
come and go by the settings of the owner.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from twinlog.errors import EngineError, EngineLostError, TwinlogError
from twinlog.lease.channel import DriverAddress
from twinlog.process.scratch import Scratch
from twinlog.settings.flow import FlowSettings
from twinlog.spark.engine import OfSession
from twinlog.spark.jvm.figures import JvmFigures
from twinlog.spark.refusals import reason_in
from twinlog.spark.scratch_dirs import scratch_parent, sweep_leftovers
from twinlog.spark.settings import QUERY_SETTINGS
from twinlog.spark.source import LeaseQuery
from twinlog.spark.spark_connect import refuse_remote

log = logging.getLogger(__name__)


ASK_S = 5.0
"""How long Spark's pages may take to answer."""

_LEAST = 2
"""Spark's report for a cluster that has fewer cores, or waits for its first core (CoarseGrainedSchedulerBackend)."""

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def count_slots(session: SparkSession) -> int:
    """All slots of a session, 0 until a cluster gives it the first executor.

    On a local master it is the number of threads. On a cluster, Spark's web UI has the number (REST API, `/executors`).
    If the web UI is off or unreachable, it is the default parallelism, or 1 if that value is the user's own or Spark's
    least.
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
            log.debug("reading the executors from Spark's pages failed: %r", error)
    return 1 if set_by_user or parallelism <= _LEAST else max(1, parallelism // each)


def _from_pages(url: str) -> int:
    with _OPENER.open(url, timeout=ASK_S) as answer:
        executors: list[dict[str, Any]] = json.load(answer)
    return sum(int(one["maxTasks"]) for one in executors if one["isActive"] and not one.get("isExcluded", False))


T = TypeVar("T")

LOST = (
    "its settings stay as they are: a JVM that dies stays down, and its metrics are missing; each query starts "
    "Python processes of its own; executors are kept while other processes run the flows, and are not drained before "
    "they go"
)

_ENDED = "the SparkSession that was given to twinlog has been stopped, or its JVM has died: the copying has ended"


class GivenSession:
    """A session of another owner, and the number of its slots that flows may take.

    With `slots` None flows take all slots; if the session is `shared`, they leave a slot to its other queries. Raises
    EngineError for a session of Spark Connect, and for a stopped session.
    """

    def __init__(self, session: SparkSession, *, slots: int | None = None, shared: bool = True) -> None:
        refuse_remote(session)
        if is_stopped(session):
            raise EngineError(
                "the SparkSession that is given to twinlog is stopped: make a new session", message_id="TW-SPARK-25"
            )
        self.session = session
        self.most_slots = slots
        self.shared = shared
        self.master = str(session.sparkContext.master)
        self.settings: Mapping[str, str] = dict(session.sparkContext.getConf().getAll())
        """The settings with which the session's Spark was started."""
        self.own = session.newSession()
        """The session of the flows: it shares executors and the web UI; settings, sources and queries are its own."""
        for key, value in QUERY_SETTINGS.items():
            if key not in self.settings:
                self.own.conf.set(key, value)

    @property
    def local(self) -> bool:
        """Whether the session's tasks run on this machine."""
        return self.master.startswith("local")

    def require_alive(self) -> None:
        """Raises EngineLostError once the session has been stopped."""
        if is_stopped(self.session):
            raise EngineLostError(_ENDED, message_id="TW-SPARK-25")


class GivenEngine(OfSession):
    """A `twinlog.spark.engine.Engine` beside a session of another owner: flows have a session of their own."""

    own = False

    def __init__(self, given: GivenSession) -> None:
        self._given = given
        self._session: SparkSession | None = None
        self._scratch: Scratch | None = None
        self._lock = threading.Lock()
        self._queries: list[LeaseQuery] = []
        self._over = threading.Event()
        self._tag = f"twinlog-{uuid.uuid4()}"

    @property
    def local(self) -> bool:
        return self._given.local

    def start(self) -> None:
        """Make room for checkpoints. Raises EngineError."""
        theirs = self._given.settings
        if theirs.get("spark.speculation", "false").lower() == "true":
            log.warning(
                "TW-SPARK-14: this Spark has spark.speculation = true: a task that lives as long as a lease is started "
                "a second time, and its copy only takes a slot; turn it off"
            )
        if theirs.get("spark.python.worker.reuse", "true").lower() != "true":
            log.warning(
                "TW-SPARK-15: this Spark has spark.python.worker.reuse = false: copying pauses at the end of each "
                "lease; leave it on"
            )
        sweep_leftovers({})
        try:
            self._scratch = Scratch(scratch_parent())
        except OSError as error:
            raise EngineError(f"Spark's queries need a folder for their checkpoints: {error}") from error
        self._session = self._given.own
        log.info("flows run on the Spark that is there, %s: %s", self._given.master, LOST)

    def require_alive(self) -> None:
        if self._over.is_set():
            raise EngineLostError("the driver has stopped using the session")
        self._given.require_alive()

    @property
    def slots(self) -> int:
        """The session's slots, or the part of them that `GivenSession` gives to flows; at least 1 slot if it has
        any."""
        with self.asked():
            there = count_slots(self._running)
        most = self._given.most_slots
        if most is None:
            most = max(1, there - 1) if self._given.shared else there
        return min(there, most)

    def take_executors(self, most: int) -> None:
        """Does nothing: the executors are the session's."""

    def leaving_tasks(self) -> frozenset[int]:
        """An empty set: the public interface of pyspark lacks this query."""
        return frozenset()

    def task_executors(self) -> Mapping[int, str]:
        """An empty mapping: the public interface of pyspark lacks this query."""
        return {}

    def figures(self) -> JvmFigures | None:
        """None: the beans of the JVM are outside the public interface of pyspark."""
        return None

    def query(self, name: str, flows: Sequence[FlowSettings], address: DriverAddress) -> LeaseQuery:
        session = self._running
        assert self._scratch is not None
        with self.asked():
            query = LeaseQuery(session, self.asked, name, flows, address, self._scratch.path)
        with self._lock:
            self._queries = [*(one for one in self._queries if not one.stopped), query]
        return query

    def run_tasks(self, work: Callable[[Iterator[Any]], Iterator[T]], shares: Sequence[Any]) -> list[T]:
        context = self._running.sparkContext
        with self.asked():
            if not shares:
                return []
            # With this tag `interrupt` ends this job alone.
            context.addJobTag(self._tag)
            try:
                found: list[T] = context.parallelize(shares, len(shares)).mapPartitions(work).collect()
            finally:
                context.removeJobTag(self._tag)
            return found

    def expect_end(self) -> None:
        """Does nothing: the log of the JVM is for its owner."""

    def interrupt(self) -> None:
        """Stop using the session; a batch job under way ends, other calls continue."""
        self._over.set()
        with contextlib.suppress(Exception):
            self._given.session.sparkContext.cancelJobsWithTag(self._tag)

    def stop(self, timeout_s: float) -> None:
        """Stop the queries of the flows; the session stays alive."""
        with self._lock:
            queries, self._queries = self._queries, []
        stopping = [threading.Thread(target=query.stop, daemon=True) for query in queries if not query.stopped]
        deadline = time.monotonic() + timeout_s
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join(max(0.1, deadline - time.monotonic()))
        self._over.set()
        if self._scratch is not None:
            self._scratch.remove()

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """Turn errors of py4j and Spark within into EngineError, or EngineLostError when Spark has ended."""
        try:
            yield
        except TwinlogError:
            raise
        except Exception as error:
            if is_stopped(self._given.session):
                raise EngineLostError(_ENDED, message_id="TW-SPARK-25") from error
            if isinstance(error, (Py4JNetworkError, OSError)):
                raise EngineLostError(f"Spark's JVM has stopped answering: {error}") from error
            if not isinstance(error, (Py4JError, PySparkException)):
                raise
            raise EngineError(f"Spark refuses: {reason_in(error)}", message_id="TW-SPARK-24") from error

    @property
    def _running(self) -> SparkSession:
        if self._session is None or self._over.is_set():
            raise EngineLostError(_ENDED, message_id="TW-SPARK-25")
        return self._session


def is_stopped(session: SparkSession) -> bool:
    """Whether the session has been stopped."""
    try:
        # Spark refuses this call on a stopped context, and pyspark offers no query for that state.
        return not session.sparkContext.defaultParallelism
    except Exception as error:
        log.debug("a session is stopped: %r", error)
        return True
