"""The reports of a copier, in lists."""

from __future__ import annotations

from dataclasses import dataclass, field

from twinlog.copier.partition.context import CopierListener
from twinlog.errors import TwinlogError
from twinlog.model.held import HeldPartition
from twinlog.model.types import TopicPartition


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
