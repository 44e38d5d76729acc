"""A flow of a properties file that runs in this process: what `twinlog run` does with records, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.wait import wait_for
from tests.integration.copying import RunningCopier
from tests.integration.flows.mirroring import mirror_topics
from twinlog.config import load
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import LastPoint
from twinlog.mirror.topics.remote_topics import TopicMirror
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

LIMIT = 1_048_588
READ_S = 60.0

log = logging.getLogger(__name__)


class LightFlow:
    """Copies the topics that are there when it is made; `stop`, or the end of a block, ends it in order."""

    def __init__(self, file: Path, name: str) -> None:
        (settings,) = (flow for flow in load(file).flows if flow.name == name and flow.enabled)
        self._source = ClusterAdmin(settings.source, settings.source_admin.client)
        target = ClusterAdmin(settings.target, settings.target_admin.client)
        self._source.connect()
        target.connect()
        try:
            TopicMirror(settings, self._source, target).create_internal_topics()
            assert mirror_topics(settings) == {}
            topology = topology_of(settings)
            self.partitions = [
                TopicPartition(topic, number)
                for topic, found in self._source.topics().items()
                if topology.mirrors(topic)
                for number in range(found.partitions)
            ]
            positions, tips = wait_for(lambda: self._stored(settings, target), READ_S, "what is stored is read")
        except BaseException:
            self._source.close()
            raise
        finally:
            target.close()
        self.copier = RunningCopier(settings)
        self.copier.grant(
            [
                Grant(
                    part,
                    TopicPartition(TopicName(topology.remote_name(part.topic)), part.partition),
                    None,
                    LIMIT,
                    positions.get(part),
                    tip=tips.get(part),
                )
                for part in self.partitions
            ]
        )

    def _stored(
        self, settings: FlowSettings, target: ClusterAdmin
    ) -> tuple[Mapping[TopicPartition, Position], Mapping[TopicPartition, LastPoint]] | None:
        store = PositionStore(settings, target)
        maps = MapStore(settings, target, store)
        try:
            positions = store.read(self.partitions)
            maps.read()
        except ClusterError as error:
            # A driver tries again as well: a broker that has just started answers so for a moment.
            log.info("what is stored is read again: %s", error)
            return None
        return positions, maps.tips(self.partitions)

    def wait_until_caught_up(self) -> None:
        """Wait until it has copied what the source holds now."""
        ends = self._source.offsets(self.partitions, latest=True)
        for part, end in ends.items():
            self.copier.wait_for_position(part.topic, end, part.partition)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self.copier.release()
        self._source.close()

    def kill(self) -> None:
        """End at once."""
        self.copier.crash()
        self._source.close()


def copy_what_is_there(file: Path, name: str) -> None:
    """Copy the records that the source of a flow has now, from the stored positions on."""
    flow = LightFlow(file, name)
    try:
        flow.wait_until_caught_up()
        flow.stop()
    finally:
        flow.kill()
