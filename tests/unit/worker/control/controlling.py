"""A flow of one topic that nobody copies, and processes that run it one after the other, in virtual time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.unit.worker.topics import refreshing
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.lease.leases import Leases
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.position_writer import position_records, positions_writer
from twinlog.mirror.offsets.positions import Position, PositionRecord, decode_position
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.worker.control.control import TopicControl
from twinlog.worker.control.journal import ControlJournal
from twinlog.worker.control.model import (
    CommandOutcome,
    LogPlace,
    LogPlaceKind,
    PartitionSelector,
    TopicCommand,
    TopicVerb,
)
from twinlog.worker.flow_tasks import FlowTasks
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.held_and_paused import FlowHeldPartitions

TOPIC, REMOTE = TopicName("t"), TopicName("east.t")
PARTS = [TopicPartition(TOPIC, number) for number in range(3)]
EARLIEST, LATEST = LogPlace(LogPlaceKind.EARLIEST), LogPlace(LogPlaceKind.LATEST)


@dataclass
class Process:
    """What runs the flow in one process."""

    control: TopicControl
    status: FlowStatus
    leases: Leases
    positions: PositionStore
    maps: MapStore
    held: FlowHeldPartitions
    shown: list[list[TopicPartition]] = field(default_factory=list)
    """The paused partitions of the status, each time that it is reported for a command."""

    @property
    def planned(self) -> set[TopicPartition]:
        """What is planned to be copied."""
        return set[TopicPartition]().union(*self.leases.assignment())


class Scene:
    """The topic `t` has ten records in each of three partitions, and all are copied."""

    def __init__(self, here: refreshing.World) -> None:
        self._here = here
        self._controls: list[TopicControl] = []
        self.source, self.target = here.source, here.target
        self.settings = here.settings
        self.source.create(TOPIC, 3)
        here.refresh()
        for part in PARTS:
            self.write(part.partition, 10)
            self.copy(part.partition, 10)
        self._admin = self.connect()
        self.journal = ControlJournal(self.settings, self._admin)
        self.store({part: self.position(part, 10) for part in PARTS})

    @property
    def remote(self) -> dict[TopicPartition, TopicPartition]:
        return dict(self._here.topics.partitions)

    def connect(self, alias: str = "west") -> ClusterAdmin:
        settings = self.settings.target_admin if alias == "west" else self.settings.source_admin
        admin = self._here.connect(alias, settings.client)
        admin.connect()
        return admin

    def write(self, partition: int, count: int) -> None:
        self.source.write(TOPIC, *(b"%d" % number for number in range(count)), partition=partition)

    def copy(self, partition: int, count: int) -> None:
        self.target.write(REMOTE, *(b"%d" % number for number in range(count)), partition=partition)

    def position(self, part: TopicPartition, source: int, target: int | None = None) -> Position:
        """As a copier stores it."""
        return Position(
            source,
            source if target is None else target,
            topic_id=str(self.source.topics.ids[part.topic]),
            remote_topic_id=str(self.target.topics.ids[REMOTE]),
            remote_topic=REMOTE,
        )

    def store(self, positions: dict[TopicPartition, Position]) -> None:
        """Store positions as a copier does."""
        records = list(position_records(self.settings, positions))
        self._admin.call(positions_writer(self._admin.client, self.settings).append, records)

    def stored(self) -> list[tuple[TopicPartition, Position | None]]:
        """Every position that was ever stored, by partition and in order."""
        reader = TopicReader(self._admin, TopicName(self.settings.positions_topic))
        found = []
        for _, record in reader.read():
            headers = tuple((name, value or b"") for name, value in record.headers)
            decoded = decode_position(Alias("east"), PositionRecord(record.key or b"", record.value, headers))
            assert decoded is not None
            found.append(decoded)
        return found

    def last(self, part: TopicPartition = PARTS[0]) -> Position:
        """The position that counts."""
        position = [position for where, position in self.stored() if where == part][-1]
        assert position is not None
        return position

    def ask(
        self,
        verb: TopicVerb,
        *words: str,
        place: LogPlace | None = None,
        partitions: Sequence[int] = (),
        name: str = "c1",
    ) -> CommandOutcome:
        """What a command does on some host."""
        selectors = tuple(PartitionSelector(word, tuple(partitions) or None) for word in words)
        return self.journal.write_command(TopicCommand(name, verb, selectors, place, by="host-1"))

    def outcome(self, name: str = "c1") -> CommandOutcome:
        found = self.journal.read().outcome(name)
        assert found is not None
        return found

    def process(self, *, heartbeats: Callable[[TopicName], bool] = lambda topic: False) -> Process:
        """A process that begins to run the flow."""
        source, target = self.connect("east"), self.connect()
        clock = target.clock
        positions = PositionStore(self.settings, target)
        maps = MapStore(self.settings, target, positions)
        status = FlowStatus(clock.monotonic)
        leases = Leases("east->west", lambda parts: [], lambda kind, text: None, lambda kind, text: None, clock=clock)
        tasks = FlowTasks(self.settings, status, leases, slots=1, tasks=1, clock=clock)
        held = FlowHeldPartitions("east->west", leases.grant_again, clock)
        shown: list[list[TopicPartition]] = []
        control = TopicControl(
            *(self.settings, source, target, positions, maps, status, tasks, leases, None),
            held=held,
            is_heartbeats=heartbeats,
            stopping=threading.Event(),
            changed=lambda: shown.append(status.paused.partitions),
        )

        self._controls.append(control)

        def meanwhile(_true: Callable[[], bool], timeout_s: float) -> None:
            for one in self._controls:
                one.poll_withheld()
            clock.sleep(timeout_s)

        clock.meanwhile = meanwhile  # type: ignore[attr-defined]
        control.begin()
        control.plan(self.remote)
        return Process(control, status, leases, positions, maps, held, shown)


@contextmanager
def scene() -> Iterator[Scene]:
    with refreshing.world() as here:
        yield Scene(here)
