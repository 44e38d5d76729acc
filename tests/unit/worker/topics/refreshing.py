"""A flow that looks at the topics of two clusters, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.topics import Refuse
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.model.types import Alias
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.worker.topics.topic_refresh import TopicRefresh


class World:
    """Three clusters: `east` is copied to `west`, and with `rival` so is `north`, where names are kept."""

    def __init__(
        self, loop: VirtualLoop, *, rival: bool = False, refuse: Refuse | None = None, **settings: Any
    ) -> None:
        """`settings` are those of the flows."""
        self.loop = loop
        self.source = VirtualCluster(loop, "east")
        self.north = VirtualCluster(loop, "north")
        self.target = self.target_of(loop)
        self.target.topics.refuse = refuse or self.target.topics.refuse
        self.admins: list[ClusterAdmin] = []
        policy = settings.pop("policy", "identity" if rival else "default")
        flows = [replace(self._flow(one, policy), **settings) for one in (self.north, self.source)[not rival :]]
        self.settings = flows[-1]
        admins = [self.connect(self.settings.source, self.settings.source_admin.client)]
        admins.append(self.connect(self.settings.target, self.settings.target_admin.client))
        for admin in admins:
            admin.connect()
        positions = PositionStore(self.settings, admins[1])
        self.topics = TopicRefresh(self.settings, flows, admins[0], admins[1], positions, self.connect)
        self.topics.create_internal_topics()
        self.target.asked.clear()

    def target_of(self, loop: VirtualLoop) -> VirtualCluster:
        """The cluster that `west` stands for."""
        return VirtualCluster(loop, "west", brokers=2)

    def _flow(self, source: VirtualCluster, policy: Any) -> FlowSettings:
        reading, writing = ClientSettings(source.bootstrap), ClientSettings(self.target.bootstrap)
        return FlowSettings(
            source=Alias(source.name),
            target=Alias("west"),
            consumer=ConsumerSettings(reading),
            producer=ProducerSettings(writing),
            source_admin=AdminSettings(reading),
            target_admin=AdminSettings(writing),
            policy=policy,
        )

    def connect(self, alias: str, settings: ClientSettings) -> ClusterAdmin:
        admin = ClusterAdmin(alias, settings, VirtualLoop(self.loop.world))
        self.admins.append(admin)
        return admin

    def refresh(self) -> None:
        self.topics.refresh()

    def pass_by(self, seconds: float) -> None:
        self.loop.run(self.loop.sleep, seconds)

    @property
    def copied(self) -> dict[str, int]:
        """How many partitions of each source topic are copied; each into the partition of the same number."""
        found: dict[str, int] = {}
        for part, remote in self.topics.partitions.items():
            assert remote.partition == part.partition
            found[part.topic] = found.get(part.topic, 0) + 1
        return found


@contextmanager
def world(**how: Any) -> Iterator[World]:
    with virtual_loop(1) as loop:
        here = World(loop, **how)
        try:
            yield here
        finally:
            here.topics.close()
            for admin in here.admins:
                admin.close()


class Passing(Protocol):
    """Where time passes."""

    def pass_by(self, seconds: float, /) -> None: ...


def retried(step: Callable[[], None], here: Passing) -> None:
    """A step that may have to connect again."""
    for _ in range(50):
        try:
            step()
        except ClusterError:
            here.pass_by(1.0)
        else:
            return
    step()
