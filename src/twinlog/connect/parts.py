"""A running connector: it copies, follows groups or sends heartbeats, and begins when it is made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from twinlog.connectors.model import OffsetPart
from twinlog.model.types import GroupId, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.worker.assigned_flow import AssignedFlow
from twinlog.worker.groups_flow import GroupsFlow
from twinlog.worker.idle_flow import IdleFlow
from twinlog.worker.spark_flows import SparkFlows

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


@dataclass(slots=True)
class SourceConnector:
    """A source connector."""

    flow: AssignedFlow
    settings: FlowSettings
    spark: SparkFlows
    conflicting: tuple[FlowSettings, ...] = ()
    """The flows that could write to its remote topics, as far as it knows."""
    lost: str | None = None
    """Why the Spark of the copier has ended."""
    clearing: threading.Thread | None = None
    """The thread that takes the ended Spark down."""

    @property
    def tasks(self) -> int | None:
        partitions = self.work
        if self.failure is not None and not partitions:
            return 1
        return None if partitions is None else min(self.settings.tasks_max, len(partitions))

    @property
    def work(self) -> Work | None:
        return self.flow.partitions

    @property
    def failure(self) -> str | None:
        return self.lost or self.flow.failure

    @property
    def nothing_copied(self) -> str | None:
        return self.flow.nothing_copied

    @property
    def trouble(self) -> str | None:
        return self.spark.trouble or self.flow.trouble

    @property
    def ended(self) -> bool:
        if self.clearing is not None:
            return not self.clearing.is_alive()
        return self.flow.ended

    def poll_connector(self) -> None:
        pass

    def take_written(self) -> set[str]:
        return self.flow.take_written()

    def wrote_of(self) -> Iterable[OffsetPart]:
        return ()

    def begin_end(self) -> None:
        self.flow.end()


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

    A direction that no connector of the group copies has no flow here.
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


def in_thread(step: Callable[[], None], name: str) -> threading.Thread:
    """Begin a step that takes seconds on its own thread, so that other connectors continue.

    When the system refuses a further thread, the calling thread runs the step.
    """
    thread = threading.Thread(target=step, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        step()
    return thread
