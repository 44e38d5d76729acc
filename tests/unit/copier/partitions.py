"""A partition of a copier without its copier: its requests, events and failures are noted, its clusters are silent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twinlog.clock import Clock
from twinlog.copier.partition.appends import PartitionServices
from twinlog.copier.partition.life import HoldPartition, PartitionLife, PartitionRequest
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.lease.messages import Grant
from twinlog.lease.progress import CopierCounters
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import Alias
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings


class SilentCluster:
    """A cluster client of which only the distance and the permissions are asked."""

    def __init__(self, *, far: bool = False) -> None:
        self.far = far

    def lacks(self, operation: str, resource: str, purpose: str) -> RefusedError:
        return RefusedError(f"{operation} {resource} {purpose}")


class NotedPartition:
    """A partition, and what it asked of its copier."""

    def __init__(
        self,
        grant: Grant,
        position: Position,
        clock: Clock,
        *,
        rules: CopyRules | None = None,
        identity: ProducerIdentity | None = None,
        far: bool = False,
        memory: Any = None,
        client: ClientSettings | None = None,
        **producer: Any,
    ) -> None:
        self.requests: list[PartitionRequest] = []
        self.failures: list[TwinlogError] = []
        self.events: list[tuple[str, str]] = []
        client = client or ClientSettings(())
        settings = FlowSettings(
            source=Alias("north"),
            target=Alias("south"),
            consumer=ConsumerSettings(client),
            producer=ProducerSettings(client, **producer),
            source_admin=AdminSettings(client),
            target_admin=AdminSettings(client),
        )
        context: Any = SimpleNamespace(
            loop=SimpleNamespace(clock=clock),
            settings=settings,
            source=SilentCluster(),
            target=SilentCluster(far=far),
            tally=CopierCounters(),
            notify_progress=lambda: None,
            report_event=lambda kind, text: self.events.append((kind, text)),
        )
        idle: Any = SimpleNamespace(
            resume=lambda partition: None,
            offer_queue=lambda queue: None,
            refresh=lambda: None,
            track_waiting=lambda waiting: None,
            note_offsets=lambda grant, first, end: None,
            append_routed=lambda unit: None,
            start_write=lambda part, refused: None,
            start_step=lambda step: None,
        )
        self.part = PartitionCopy(
            PartitionLife(grant),
            position,
            rules or CopyRules(max_batch_bytes=1 << 20),
            identity or ProducerIdentity(1, 0),
            PartitionServices(context, idle, idle, idle, memory or idle, idle, idle, idle, idle),
            self._note,
        )

    def _note(self, part: PartitionCopy, request: PartitionRequest) -> None:
        if isinstance(request, HoldPartition):
            self.failures.append(request.error)
        else:
            self.requests.append(request)
