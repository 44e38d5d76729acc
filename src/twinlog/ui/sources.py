"""The flows that the console shows, and the readers of their clusters: the same readers as the commands have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.console.flow_files import FlowsOfFile
from twinlog.console.options import at_work, between
from twinlog.errors import OptionError, RequestError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.ops.connectors.rest import Access, ConnectRest
from twinlog.ops.groups.checkpoint_history import CheckpointHistoryReader
from twinlog.ops.groups.followers import Follower, followers
from twinlog.ops.groups.reader import GroupsReader
from twinlog.ops.status.flow import FlowReader
from twinlog.ops.status.report_history import ReportHistoryReader
from twinlog.ops.switchover.clusters import LiveClusters
from twinlog.ops.switchover.command import flows_between
from twinlog.ops.topics.reader import TopicsReader
from twinlog.settings.flow import FlowSettings
from twinlog.ui.both_sides import BothSidesReader
from twinlog.ui.rehearsal import RehearsalReader

REST_PATIENCE_S, REST_REQUEST_S = 5.0, 20.0
"""How long a page waits for a worker that rebalances, and for an answer."""


class ConsoleSources:
    """Opens readers for the flows of the console; a reader belongs to a single thread, which closes it."""

    def __init__(
        self,
        files: Sequence[FlowsOfFile],
        *,
        worker: Access | None = None,
        connect: Connect = ClusterAdmin,
        clock: Clock = SYSTEM,
    ) -> None:
        """`worker` is the way to a Connect worker's REST API. Raises OptionError if two flows have the same name."""
        self._given = files
        self._worker = worker
        self._connect = connect
        self._clock = clock
        self._indexed: tuple[Sequence[FlowsOfFile], Mapping[str, tuple[FlowSettings, FlowsOfFile]]] = ((), {})
        _require_unique(files)

    def show_file(self, file: FlowsOfFile, instead_of: FlowsOfFile | None = None) -> None:
        """Show the flows of a further file, in place of the flows of an earlier file.

        Raises OptionError if a flow has the name of another flow.
        """
        self._given = self._with(file, instead_of)

    def require_unique(self, file: FlowsOfFile, instead_of: FlowsOfFile | None = None) -> None:
        """Raise OptionError if `show_file` would."""
        self._with(file, instead_of)

    def hide_file(self, file: FlowsOfFile) -> None:
        """Show the flows of a file no longer; a file that is not shown is ignored."""
        self._given = tuple(one for one in self._given if one is not file)

    def _with(self, file: FlowsOfFile, instead_of: FlowsOfFile | None) -> Sequence[FlowsOfFile]:
        files = (*(one for one in self._given if one is not instead_of), file)
        _require_unique(files)
        return files

    def files(self) -> Sequence[FlowsOfFile]:
        """The flows of now, the same object while they stay the same; any thread may ask."""
        return self._given

    def worker(self) -> Access | None:
        """The way to the Connect worker; None if the console knows none."""
        return self._worker

    @property
    def flows(self) -> Mapping[str, FlowSettings]:
        """The enabled flows by name."""
        return {name: flow for name, (flow, _) in self._index().items()}

    def flow(self, name: str) -> FlowSettings:
        """The settings of a flow. Raises RequestError 404 for an unknown name."""
        return self._find(name)[0]

    def _find(self, name: str) -> tuple[FlowSettings, FlowsOfFile]:
        found = self._index().get(name)
        if found is None:
            known = ", ".join(self.flows) or "none"
            raise RequestError(404, f"The flow {name!r} is unknown; the flows are {known}.")
        return found

    def _index(self) -> Mapping[str, tuple[FlowSettings, FlowsOfFile]]:
        files = self.files()
        indexed, index = self._indexed
        if indexed is not files:
            index = {flow.name: (flow, file) for file in files for flow in at_work(file.flows)}
            self._indexed = files, index
        return index

    def follower(self, name: str) -> Follower | None:
        """The flow with the flows that copy for it; None if the flow leaves consumer groups alone."""
        wanted, file = self._find(name)
        try:
            return next((one for one in followers(file.flows) if one.settings is wanted), None)
        except TwinlogError:
            return None

    def open_flow(self, name: str) -> FlowReader:
        """The reader of a flow's state."""
        flow, file = self._find(name)
        return FlowReader(flow, file.worker, connect=self._connect)

    def open_report_history(self, name: str) -> ReportHistoryReader:
        """The reader of a flow's older reports."""
        return ReportHistoryReader(self.flow(name), connect=self._connect)

    def open_checkpoints(self, name: str) -> CheckpointHistoryReader:
        """The reader of the checkpoints that the topic of a flow still has."""
        return CheckpointHistoryReader(self.flow(name), connect=self._connect)

    def open_topics(self, name: str) -> TopicsReader:
        """The reader of a flow's topics, which also submits commands for topics."""
        flow, file = self._find(name)
        return TopicsReader(flow, file.worker, connect=self._connect)

    def open_groups(self, name: str) -> GroupsReader:
        """The reader of a flow's consumer groups. Raises RequestError 404 if the flow leaves consumer groups alone."""
        found = self.follower(name)
        if found is None:
            raise RequestError(404, f"Flow {name} leaves consumer groups alone.")
        return GroupsReader(found.settings, found.copied_by, found.reverse, connect=self._connect)

    def open_rehearsal(self, name: str) -> RehearsalReader:
        """The reader that rehearses a switchover from the source of a flow to its target. Raises TwinlogError."""
        return RehearsalReader(lambda: self.open_clusters(name))

    def open_clusters(self, name: str) -> LiveClusters:
        """The clusters of a switchover of a flow's topics from its source to its target. Raises TwinlogError.

        If several connectors of a worker copy between the two clusters, each has a journal of its own: the connector's
        name is the wave.
        """
        settings, file = self._find(name)
        flow, follows, back = flows_between(file.flows, settings.source, settings.target, settings)
        aliases = {alias for one in file.flows for alias in (one.source_name, one.target_name)}
        copying = [one for one in between(file.flows, settings.source, settings.target) if one.copies]
        wave = settings.name if len(copying) > 1 else ""
        return LiveClusters(flow, back, aliases, wave, follows=follows)

    def open_both_sides(self, name: str) -> BothSidesReader:
        """The reader of records and settings on both sides of a flow."""
        return BothSidesReader(self.flow(name), connect=self._connect)

    def open_rest(self, authorization: str | None = None) -> ConnectRest | None:
        """The REST API of the Connect worker, with the login of a header; None if the console knows none."""
        worker = self.worker()
        if worker is None:
            return None
        if authorization is not None:
            worker = replace(worker, authorization=authorization)
        return ConnectRest(
            worker, lambda _: None, patience_s=REST_PATIENCE_S, request_s=REST_REQUEST_S, clock=self._clock
        )


def _require_unique(files: Sequence[FlowsOfFile]) -> None:
    names = [flow.name for file in files for flow in at_work(file.flows)]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise OptionError(f"two files have a flow {twice}: start a console for each of them")


class ProcessSources(ConsoleSources):
    """The flows that a process runs now, and the process's own REST API.

    The flows are read at most once in `EVERY_S`: they change by a reload, or by requests for connectors.
    """

    EVERY_S = 1.0

    def __init__(
        self, read_flows: Callable[[], FlowsOfFile], find_worker: Callable[[], Access] | None, clock: Clock = SYSTEM
    ) -> None:
        super().__init__((), clock=clock)
        self._read_flows = read_flows
        self._find_worker = find_worker
        self._files: tuple[FlowsOfFile, ...] = ()
        self._read_at = LONG_AGO

    def files(self) -> Sequence[FlowsOfFile]:
        now = self._clock.monotonic()
        if now - self._read_at >= self.EVERY_S:
            found = (self._read_flows(),)
            if found != self._files:
                self._files = found
            self._read_at = now
        return self._files

    def worker(self) -> Access | None:
        return None if self._find_worker is None else self._find_worker()
