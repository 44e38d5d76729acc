"""Follows consumer groups for a flow that another process copies: checkpoints, and offsets of idle groups."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from twinlog.errors import TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.retry import FLOW_STEP, retry_until_stopped
from twinlog.log_once import DOUBLING_S, LogOnce
from twinlog.metrics.meters import FlowMeters
from twinlog.mirror.groups.checkpoint_writer import CheckpointWriter
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionsOfAll
from twinlog.mirror.offsets.translator import Translator
from twinlog.mirror.topics.checks import check_two_clusters
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.groups import GroupOffsets
from twinlog.model.types import GroupId
from twinlog.settings.flow import FlowSettings
from twinlog.worker.flow.flow_jobs import begin_following_groups, begin_publishing
from twinlog.worker.periodic import PeriodicJobs
from twinlog.worker.status.flow_reporter import FlowReporter
from twinlog.worker.status.report import DriverReport

log = logging.getLogger(__name__)

LOG_AFTER_S = 3.0
STOP_S = 1.0
END_S = 3.0


class GroupsFlow:
    """Works without Spark. It writes as long as `allowed()` is true.

    It translates by the exact maps of twinlog, or by offset syncs if MirrorMaker 2 copies. `copied_by` are the flows
    that copy the translated topics, if twinlog copies them: their stored positions show the ends of the maps. `reverse`
    is the flow back, if the file has it.
    """

    def __init__(
        self,
        settings: FlowSettings,
        allowed: Callable[[], bool] = lambda: True,
        copied_by: Sequence[FlowSettings] = (),
        reverse: FlowSettings | None = None,
        connect: Connect = ClusterAdmin,
    ) -> None:
        self.settings = settings
        self.failure: str | None = None
        """The reason for the failure; a failed object stays ended."""
        self.meters = FlowMeters()
        self._troubles: dict[str, str] = {}
        self._copied_by = copied_by or (settings,)
        self._reverse = reverse
        self._source, self._target = both_clusters(settings, connect)
        for cluster in (self._source, self._target):
            cluster.client.append_only_while(allowed)
        self._clock = self._target.clock
        self._jobs = PeriodicJobs(settings.name, self._note, clock=self._clock)
        self._writer: CheckpointWriter | None = None
        self._reporter = FlowReporter(settings, self._clock)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"groups {settings.name}", daemon=True)

    @property
    def trouble(self) -> str | None:
        """The present trouble; None without trouble."""
        return next(iter(dict(self._troubles).values()), None)

    @property
    def groups(self) -> Sequence[GroupId] | None:
        """The followed groups; the object changes only if its content changes. None until they are known."""
        return None if self._writer is None else self._writer.followed

    def positions(self) -> Mapping[GroupId, GroupOffsets]:
        """The offsets at which each followed group would continue at the target."""
        return {} if self._writer is None else self._writer.positions()

    def start(self) -> None:
        """Begin, on a thread of its own. Raises RuntimeError for lack of threads."""
        self._thread.start()

    def poll_flow(self) -> None:
        """Called every moment."""
        self._jobs.poll_jobs()

    def stop(self) -> None:
        """Take a last turn of each job, and end within some seconds."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(END_S)
        self._jobs.stop(STOP_S)

    def close(self) -> None:
        """Close the connections to both clusters."""
        self._source.close()
        self._target.close()

    def take_written(self) -> set[str]:
        """The topics on the target that were written since the last call."""
        return self._target.client.take_written()

    def _run(self) -> None:
        try:
            if self._connected():
                copied_by = self._copied_by
                maps = MapStore(copied_by[0], self._target, PositionsOfAll(copied_by, self._target))
                if self.settings.emit_checkpoints_interval_s is not None:
                    log.info("%s: checkpoints are written to %s", self.settings.name, self.settings.target)
                translator = Translator(self.settings, self._source, self._target, maps)
                self._writer = begin_following_groups(
                    self._jobs,
                    self.settings,
                    self._source,
                    self._target,
                    translator,
                    self._reverse,
                    self._reporter.groups,
                    self.meters,
                )
                begin_publishing(self._jobs, self.settings, self._target, self.report)
        except TwinlogError as error:
            self.failure = str(error)
            log.error("%s: FAILED: %s", self.settings.name, error)
        except Exception as error:
            if not self._stopping.is_set():
                log.exception("flow %s", self.settings.name)
                self.failure = f"internal error: {error!r}"

    def _connected(self) -> bool:
        """Connect to both clusters, with tries until success; False if `stop` is called meanwhile."""
        logged = LogOnce(self._clock)

        def connect() -> None:
            self._target.connect()
            self._source.connect()
            check_two_clusters(self.settings, topology_of(self.settings), self._source, self._target)

        def failed(error: TwinlogError) -> None:
            if logged.is_due("connect", LOG_AFTER_S, *DOUBLING_S):
                log.warning("%s: cannot connect yet, trying again: %s", self.settings.name, error)
            self._note("connect", str(error))

        if not retry_until_stopped(self._clock, FLOW_STEP, connect, self._stopping, failed=failed):
            return False
        self._note("connect", None)
        return True

    def report(self) -> DriverReport:
        """The present report of this flow."""
        return self._reporter.report("stopped" if self._stopping.is_set() else "running", self.trouble)

    def _note(self, what: str, trouble: str | None) -> None:
        if trouble is None:
            self._troubles.pop(what, None)
        else:
            self._troubles[what] = trouble
