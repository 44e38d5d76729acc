"""A running connector: it copies, follows groups or sends heartbeats, and begins when it is made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from twinlog.lease.lease_server import LeaseServer
from twinlog.model.types import GroupId, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.worker.connectors.model import OffsetPart
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.flow.flow_host import FlowBuilder, FlowHost, HostState
from twinlog.worker.flows_without_spark import GroupsFlow, IdleFlow, in_thread
from twinlog.worker.spark_flows import SparkFlows
from twinlog.worker.status.report import FlowState

F = TypeVar("F", GroupsFlow, IdleFlow)

Work = Collection[TopicPartition] | Sequence[GroupId]
"""The work that a connector's tasks share: partitions of topics, or consumer groups."""

BothWays = tuple[tuple[FlowSettings, ...], FlowSettings | None]
"""The flows that copy from a cluster to another cluster, and a flow that copies back."""


class ConnectorInstance(Protocol):
    """A connector while it runs."""

    @property
    def tasks(self) -> int | None:
        """The number of its tasks; None until it is known."""

    @property
    def work(self) -> Work | None:
        """The work that its tasks share, a new object only for new work; None until it is known."""

    @property
    def failure(self) -> str | None:
        """Why the connector ended by itself."""

    @property
    def nothing_copied(self) -> str | None:
        """Why a running connector copies nothing: all its partitions are held. None while it copies a partition."""

    @property
    def trouble(self) -> str | None:
        """The failing step that the connector tries again; None while all steps succeed."""

    def poll_connector(self) -> None: ...

    def take_written(self) -> set[str]:
        """The topics that the connector has written to since the last call."""

    def wrote_of(self) -> Iterable[OffsetPart]:
        """The source partitions of the written records, for partitions that lack a position (`task_offsets.py`)."""

    def begin_end(self) -> None: ...

    @property
    def ended(self) -> bool: ...


class SourceConnector(FlowHost):
    """A source connector: a flow that copies here because the group gave it to this worker.

    `spark` polls the flow. Appends stop once `leads_for_s()` returns 0 seconds, because another worker may then run the
    connector. `conflicting` are the flows that could write to its remote topics, as far as it knows.
    """

    def __init__(
        self,
        settings: FlowSettings,
        builder: FlowBuilder,
        flows: Callable[[], Sequence[FlowSettings]],
        leads_for_s: Callable[[], float],
        spark: SparkFlows,
        conflicting: tuple[FlowSettings, ...] = (),
    ) -> None:
        super().__init__(settings, builder, flows, spark.queries.take_out)
        self.spark = spark
        self.conflicting = conflicting
        self.spark_ending: threading.Thread | None = None
        """The thread that takes down a Spark that was lost, and with it this flow."""
        self._leads_for_s = leads_for_s

    @property
    def tasks(self) -> int | None:
        partitions = self.work
        if self.failure is not None and not partitions:
            return 1
        return None if partitions is None else min(self.settings.tasks_max, len(partitions))

    @property
    def work(self) -> Work | None:
        flow = self.flow
        return None if flow is None or flow.state is FlowState.STARTING else flow.copied

    @property
    def nothing_copied(self) -> str | None:
        flow = self.flow
        return None if flow is None or flow.ended else flow.nothing_copied

    @property
    def trouble(self) -> str | None:
        flow = self.flow
        return self.spark.trouble or (self._put_off.why if flow is None else flow.status[1])

    @property
    def ended(self) -> bool:
        if self.spark_ending is not None:
            return not self.spark_ending.is_alive()
        return self.host_state is HostState.OVER

    def poll_connector(self) -> None:
        """Leave the poll to `spark`, which polls its flows together."""

    def take_written(self) -> set[str]:
        flow = self.flow
        return set() if flow is None else flow.take_written()

    def wrote_of(self) -> Iterable[OffsetPart]:
        return ()

    def begin_end(self) -> None:
        self.end()

    def _poll_absent(self, lease_server: LeaseServer) -> None:
        if self._put_off.is_due:
            self._start_flow(lease_server, self._leads_for_s)

    def _has_lost(self, flow: FlowRunner) -> bool:
        return self._leads_for_s() <= 0

    def _leave(self) -> None:
        """Keep the membership, which is the worker's: its other connectors continue."""


@dataclass(slots=True)
class ConnectorWithoutSpark(Generic[F]):
    """A connector that runs without Spark; a thread of its own ends it."""

    flow: F
    ending: threading.Thread | None = field(default=None, kw_only=True)
    nothing_copied: str | None = field(default=None, kw_only=True)

    @property
    def trouble(self) -> str | None:
        return self.flow.trouble

    @property
    def ended(self) -> bool:
        return self.ending is not None and not self.ending.is_alive()

    def poll_connector(self) -> None:
        self.flow.poll_flow()

    def take_written(self) -> set[str]:
        return self.flow.take_written()

    def begin_end(self) -> None:
        if self.ending is None:
            self.ending = in_thread(self._end, f"ending {self.flow.settings.name}")

    def _end(self) -> None:
        self.flow.stop()
        self.flow.close()


@dataclass(slots=True)
class CheckpointConnector(ConnectorWithoutSpark[GroupsFlow]):
    """A checkpoint connector, with the flows there and back whose offset maps it reads.

    A direction has a flow here if a connector of the group copies it.
    """

    both_ways: BothWays

    @property
    def tasks(self) -> int | None:
        groups = self.work
        if self.failure is not None and not groups:
            return 1
        return None if groups is None else min(self.flow.settings.tasks_max, len(groups))

    @property
    def work(self) -> Work | None:
        return self.flow.groups

    @property
    def failure(self) -> str | None:
        return self.flow.failure

    def wrote_of(self) -> Iterable[OffsetPart]:
        return [
            {"group": group, "topic": where.topic, "partition": where.partition}
            for group, standing in self.flow.positions().items()
            for where in standing
        ]


@dataclass(slots=True)
class HeartbeatConnector(ConnectorWithoutSpark[IdleFlow]):
    """A heartbeat connector."""

    failure: str | None = None
    work: Work = ()

    @property
    def tasks(self) -> int | None:
        return 1

    def wrote_of(self) -> Iterable[OffsetPart]:
        settings = self.flow.settings
        beat = {"sourceClusterAlias": settings.source_name, "targetClusterAlias": settings.target_name}
        return [beat] if self.flow.has_beaten else ()


@dataclass(slots=True)
class DisabledConnector:
    """A connector that is switched off."""

    tasks: int | None = 0
    work: Work = ()
    failure: str | None = None
    nothing_copied: str | None = None
    trouble: str | None = None
    ended: bool = False

    def poll_connector(self) -> None:
        pass

    def take_written(self) -> set[str]:
        return set()

    def wrote_of(self) -> Iterable[OffsetPart]:
        return ()

    def begin_end(self) -> None:
        self.ended = True
