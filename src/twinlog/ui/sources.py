"""The flows that the console shows, and the readers of their clusters: the same readers as the commands have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlog.clock import SYSTEM, Clock
from twinlog.console.flow_files import FlowsOfFile
from twinlog.console.options import at_work
from twinlog.errors import OptionError, RequestError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.ops.connectors.rest import Access, ConnectRest
from twinlog.ops.groups.reader import Follower, GroupsReader, followers
from twinlog.ops.status.flow import FlowReader
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
        found: dict[str, FlowSettings] = {}
        self._files: dict[str, FlowsOfFile] = {}
        for file in files:
            for flow in at_work(file.flows):
                if flow.name in found:
                    raise OptionError(f"two files have a flow {flow.name}: start a console for each of them")
                found[flow.name] = flow
                self._files[flow.name] = file
        self.flows: Mapping[str, FlowSettings] = found
        self._worker = worker
        self._connect = connect
        self._clock = clock

    def flow(self, name: str) -> FlowSettings:
        """The settings of a flow. Raises RequestError 404 for an unknown name."""
        found = self.flows.get(name)
        if found is None:
            raise RequestError(404, f"The flow {name!r} is unknown; the flows are {', '.join(self.flows) or 'none'}.")
        return found

    def follower(self, name: str) -> Follower | None:
        """The flow with the flows that copy for it; None if the flow leaves consumer groups alone."""
        wanted = self.flow(name)
        try:
            return next((one for one in followers(self._files[name].flows) if one.settings is wanted), None)
        except TwinlogError:
            return None

    def open_flow(self, name: str) -> FlowReader:
        """The reader of a flow's state."""
        return FlowReader(self.flow(name), self._files[name].worker, connect=self._connect)

    def open_topics(self, name: str) -> TopicsReader:
        """The reader of a flow's topics, which also submits commands for topics."""
        return TopicsReader(self.flow(name), self._files[name].worker, connect=self._connect)

    def open_groups(self, name: str) -> GroupsReader:
        """The reader of a flow's consumer groups. Raises RequestError 404 if the flow leaves consumer groups alone."""
        found = self.follower(name)
        if found is None:
            raise RequestError(404, f"Flow {name} leaves consumer groups alone.")
        return GroupsReader(found.settings, found.copied_by, found.reverse, connect=self._connect)

    def open_rehearsal(self, name: str) -> RehearsalReader:
        """The reader that rehearses a switchover from the source of a flow to its target. Raises TwinlogError."""
        settings, flows = self.flow(name), self._files[name].flows
        flow, follows, back = flows_between(flows, settings.source, settings.target)
        aliases = {alias for one in flows for alias in (one.source_name, one.target_name)}
        return RehearsalReader(flow, follows, back, aliases)

    def open_both_sides(self, name: str) -> BothSidesReader:
        """The reader of records and settings on both sides of a flow."""
        return BothSidesReader(self.flow(name), connect=self._connect)

    def open_rest(self) -> ConnectRest | None:
        """The REST API of the Connect worker; None if the console knows none."""
        if self._worker is None:
            return None
        return ConnectRest(
            self._worker, lambda _: None, patience_s=REST_PATIENCE_S, request_s=REST_REQUEST_S, clock=self._clock
        )
