"""The failover drill: the source is killed under load, its consumer groups go on with the copy on the target.

The test suite runs the drill with twinlog, `make drill` with twinlog and with MirrorMaker 2 from the same file.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from faults.scene import COMMAND
from harness.checks.checker import Identity, Load, identify
from harness.child import Child
from harness.cluster import KafkaCluster
from harness.connect.mm2 import EVERY_SECOND, ONE_REPLICA, MirrorMaker2
from harness.consume import consume, to_record
from harness.errors import HarnessError
from harness.groups import group_offsets
from harness.jvm.jars import cache_dir
from harness.topics import create_topic, topics
from harness.wait import wait_for

HERE, THERE, TOPIC = "here", "there", "orders"
CLUSTERS = f"{HERE}, {THERE}"
REMOTE = f"{HERE}.{TOPIC}"
PARTITIONS = 3
RATE = 1500
STEADY, RESTED = "steady", "rested"
"""One group reads and commits until the source dies, the other came to rest `REST_S` before, at some way behind."""

REST_S = 5.0
COMMIT_EVERY_S = 0.2
AT_MOST = {STEADY: sys.maxsize, RESTED: RATE}
"""Records a group reads before it rests."""
DEADLINE_S = 90.0


@dataclass(frozen=True, slots=True)
class GroupDrill:
    """What a group came to, in records.

    `processed` on the source; of the records on the target, `repeated` were processed before and `skipped` never;
    `uncommitted` of the repeated ones would have been repeated on the source as well.
    """

    processed: int
    repeated: int
    uncommitted: int
    skipped: int


@dataclass(frozen=True, slots=True)
class Drill:
    """`missing` records were processed on the source, but not copied when it died."""

    copied: int
    missing: int
    groups: Mapping[str, GroupDrill]

    def __str__(self) -> str:
        details = "; ".join(
            f"group {name}: {one.skipped} skipped, {one.repeated} repeated ({one.uncommitted} were not committed) "
            f"of {one.processed}"
            for name, one in self.groups.items()
        )
        return f"{self.copied} records copied, {self.missing} processed ones missing; {details}"


def properties(source: KafkaCluster, target: KafkaCluster) -> str:
    """The file for both systems but for its first line, with the shortest intervals that MirrorMaker 2 takes."""
    lines = {
        f"{HERE}.bootstrap.servers": source.bootstrap,
        f"{THERE}.bootstrap.servers": target.bootstrap,
        f"{HERE}->{THERE}.enabled": "true",
        f"{HERE}->{THERE}.topics": TOPIC,
        f"{HERE}->{THERE}.groups": f"{STEADY}, {RESTED}",
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "consumer.poll.timeout.ms": "200",
        **EVERY_SECOND,
        **ONE_REPLICA,
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


class Reader:
    """A member of a group: processes records and commits as it goes, until `stop` or until its cluster is gone."""

    def __init__(self, cluster: KafkaCluster, topic: str, group: str, *, at_most: int = sys.maxsize) -> None:
        self.processed: list[Identity] = []
        self.committed = 0
        """How many of `processed` are committed."""
        self._at_most = at_most
        self._topic = topic
        self._asked: deque[int] = deque()
        self._places: dict[int, int] = {}
        """After the last processed record of each partition."""
        self._error: Exception | None = None
        self._consumer = Consumer(
            {
                **cluster.client_config(),
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "on_commit": self._answered,
            }
        )
        self._consumer.subscribe([topic])
        self._stopping = threading.Event()
        self._ended = threading.Event()
        threading.Thread(target=self._run, name=f"reader {group}", daemon=True).start()

    @property
    def full(self) -> bool:
        """Whether it has committed as much as it may read. Raises what ended it before its time."""
        if self._error is not None:
            raise self._error
        return self.committed >= self._at_most

    def stop(self) -> list[Identity]:
        """End, and return what was processed. The group is left where the cluster still lives."""
        self._stopping.set()
        self._ended.wait()
        if self._error is not None:
            raise self._error
        return self.processed

    def _run(self) -> None:
        try:
            self._read()
        except Exception as error:
            self._error = error
        self._ended.set()
        # This may take for ever when the cluster is gone.
        self._consumer.close()

    def _read(self) -> None:
        commit_at = time.monotonic() + COMMIT_EVERY_S
        while not self._stopping.is_set():
            room = min(500, self._at_most - len(self.processed))
            for message in self._consumer.consume(room, 0.05) if room else []:
                if message.error() is None:
                    identity = identify(to_record(message))
                    if identity is None:
                        raise HarnessError(f"the group got a damaged record: {message.topic()} {message.offset()}")
                    self.processed.append(identity)
                    self._places[message.partition() or 0] = (message.offset() or 0) + 1
            if time.monotonic() >= commit_at:
                self._commit()
                commit_at = time.monotonic() + COMMIT_EVERY_S
            if not room:
                # Answers to commits come with a poll, and no record may come with them.
                self._consumer.pause(self._consumer.assignment())
                self._consumer.poll(COMMIT_EVERY_S)

    def _commit(self) -> None:
        count = len(self.processed)
        if count > max(self.committed, *self._asked, 0):
            self._asked.append(count)
            try:
                # Named, for a consumer forgets what it has read when partitions are dealt anew.
                places = [TopicPartition(self._topic, number, offset) for number, offset in self._places.items()]
                self._consumer.commit(offsets=places, asynchronous=True)
            except KafkaException:
                # Its partitions are being dealt anew; it is asked again.
                self._asked.pop()

    def _answered(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        """Called in the order of the commits."""
        count = self._asked.popleft()
        if error is None and all(place.error is None for place in places):
            self.committed = count


def run_drill(source: KafkaCluster, target: KafkaCluster, require_alive: Callable[[], None]) -> Drill:
    """Do the drill on running clusters, between which a mirror works from the file of `properties`.

    The source is dead afterwards. Raises TimeoutError when the mirror does not bring the groups across.
    """
    create_topic(source, TOPIC, PARTITIONS)
    load = Load(source, TOPIC, PARTITIONS, rate=RATE).start()
    readers = {group: Reader(source, TOPIC, group, at_most=most) for group, most in AT_MOST.items()}
    try:
        wait_for(lambda: readers[RESTED].full, DEADLINE_S, f"group {RESTED} has read its part")
        wait_for(lambda: across(source, target, require_alive), DEADLINE_S, f"group {STEADY} is known on the target")
        # It reads on for a while, beside the steady one, and rests then.
        before = {RESTED: readers[RESTED].stop()}
        readers[RESTED] = Reader(source, TOPIC, RESTED, at_most=AT_MOST[RESTED])
        wait_for(lambda: readers[RESTED].full, DEADLINE_S, f"group {RESTED} has read on")
        before[RESTED] += readers[RESTED].stop()
        time.sleep(REST_S)
        source.kill()
    finally:
        load.abandon()
        for reader in readers.values():
            reader.stop()
    before[STEADY] = readers[STEADY].processed
    uncommitted = {group: len(reader.processed) - reader.committed for group, reader in readers.items()}
    copied = {identity for record in consume(target, REMOTE) if (identity := identify(record))}
    after = {group: resume(target, group) for group in (STEADY, RESTED)}
    groups = {
        group: GroupDrill(
            processed=len(before[group]),
            repeated=len(set(before[group]) & set(after[group])),
            uncommitted=uncommitted[group],
            skipped=len(copied - set(before[group]) - set(after[group])),
        )
        for group in (STEADY, RESTED)
    }
    return Drill(len(copied), len(set(before[STEADY]) - copied), groups)


def across(source: KafkaCluster, target: KafkaCluster, require_alive: Callable[[], None]) -> bool:
    """Whether the steady group has offsets on the target for every partition that it has some for on the source."""
    require_alive()
    if REMOTE not in topics(target):
        return False
    here, there = (group_offsets(cluster, [STEADY])[STEADY] for cluster in (source, target))
    return len(there) == len(here)


def resume(target: KafkaCluster, group: str) -> list[Identity]:
    """What a group gets of the copies on the target, to the end."""
    reader = Reader(target, REMOTE, group)
    places = [TopicPartition(REMOTE, partition) for partition in range(PARTITIONS)]
    watcher = Consumer({**target.client_config(), "group.id": "harness", "enable.auto.commit": False})
    ends = {place.partition: watcher.get_watermark_offsets(place, timeout=10)[1] for place in places}
    watcher.close()

    def at_end() -> bool:
        found = group_offsets(target, [group])[group]
        return all(end == 0 or ((at := found.get((REMOTE, part))) and at.offset >= end) for part, end in ends.items())

    wait_for(at_end, DEADLINE_S, f"group {group} has read to the end")
    return reader.stop()


def start(system: str, text: str, home: Path) -> Child:
    """Start a mirror with this file, `properties`."""
    text = f"clusters = {CLUSTERS}\n{text}"
    if system != "twinlog":
        return MirrorMaker2(text, heap="512m", jit="quick", work_dir=home).start().process
    file = home / "mm2.properties"
    file.write_text(text, encoding="utf-8")
    process = Child(system, [*COMMAND, str(file)], home / "twinlog.log", {"TWINLOG_CACHE": str(cache_dir())})
    process.start()
    return process
