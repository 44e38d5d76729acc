"""The begin of a copier's partitions, and its reports, in lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from twinlog.copier.copier import Copier
from twinlog.copier.partition.context import CopierListener
from twinlog.errors import TwinlogError
from twinlog.lease.messages import Grant
from twinlog.model.held import HeldPartition
from twinlog.model.types import TopicPartition


async def copy_partitions(copier: Copier, grants: Iterable[Grant]) -> None:
    """Begin to copy partitions; returns when each partition copies, is held, or has been released."""
    await copier.begin_partitions(copier.add_grants(grants))


@dataclass
class NotedReports(CopierListener):
    """Notes each report, in its order."""

    failures: list[tuple[TopicPartition | None, TwinlogError]] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    held: list[HeldPartition] = field(default_factory=list)

    def report_failure(self, partition: TopicPartition | None, error: TwinlogError) -> None:
        self.failures.append((partition, error))

    def report_event(self, kind: str, text: str) -> None:
        self.events.append((kind, text))

    def report_held(self, held: HeldPartition) -> None:
        self.held.append(held)
