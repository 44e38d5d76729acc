"""Programs that store offsets move to copies with identical offsets: they skip no record and repeat none.

A Spark query with its checkpoint, a Flink job with its savepoint, and a consumer group each begin on the source, end in
the middle of a backlog, and continue on the target. The topic has a trimmed partition and a partition with committed
and aborted transactions, so that translated offsets would differ from those of the source.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from harness.child import Child
from harness.cluster import KafkaCluster
from harness.consume import Record, consume
from harness.groups import group_offsets
from harness.jvm.jars import flink_jars, spark_source_jars
from harness.jvm.java import java_command
from harness.jvm.plugin import plugin_jar
from harness.produce import numbered, produce
from harness.topics import create_topic, delete_records, offsets, topics
from harness.wait import wait_for
from tests.integration.consuming import Member
from tests.integration.mirror_process import GROUPS_EVERY_SECOND, flow_properties
from tests.integration.running import RunTwinlog, wait_until_gone

pytestmark = pytest.mark.scenario

HERE = Path(__file__).parent
DEADLINE_S = 180.0
PARTITIONS = 3
PLAIN = 1_500
TURNS = 4
COMMITTED, ABORTED = 200, 40
"""Records of each turn of the partition with transactions."""
TRIMMED = 300
BEFORE = 500
"""Records that a program reads on the source at least."""
PAUSE_MS = 4
"""Of the Flink job before each record, so that it ends long before the last record."""
SETTINGS = {
    **GROUPS_EVERY_SECOND,
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
}

Line = tuple[int, int, str]
"""Partition, offset and key of a record."""


class MovedTopic:
    """A topic of the source, of which a flow makes copies with the same name and the same offsets."""

    def __init__(self, name: str, group: str, source: KafkaCluster, target: KafkaCluster) -> None:
        self.name, self.group = name, group
        self.source, self.target = source, target
        self.offsets = "identical"
        self._next = 0
        create_topic(source, name, PARTITIONS)

    @property
    def properties(self) -> str:
        """Lines of the flow."""
        own = {**SETTINGS, "twinlog.offsets": self.offsets, "topics": self.name, "groups": self.group}
        return flow_properties("a->b", self.source, self.target, own) + "a.consumer.isolation.level = read_committed\n"

    def write(self) -> None:
        """Write plain records to all partitions but the second, and transactions to the second."""
        for partition in (0, 2):
            self._produce(partition, PLAIN)
        for turn in range(TURNS):
            for count, abort in ((COMMITTED, False), (ABORTED, True)):
                self._produce(1, count, transactional_id=f"{self.name}-{turn}", abort=abort)

    def _produce(self, partition: int, count: int, *, transactional_id: str | None = None, abort: bool = False) -> None:
        records = numbered(count, start=self._next, keys=1_000_000)
        self._next += count
        produce(
            self.source,
            self.name,
            records,
            partition=partition,
            codec="lz4",
            per_batch=17 if transactional_id is None else None,
            transactional_id=transactional_id,
            abort=abort,
        )

    def records(self) -> list[Record]:
        """The records that a program has to read, by partition and offset."""
        return consume(self.source, self.name)

    def wait_until_copied(self) -> None:
        """Wait until both logs end at the same offsets."""
        ends = [offsets(self.source, self.name, number)[1] for number in range(PARTITIONS)]

        def copied() -> bool:
            return self.name in topics(self.target) and ends == [
                offsets(self.target, self.name, number)[1] for number in range(PARTITIONS)
            ]

        wait_for(copied, DEADLINE_S, "all records are copied")


@pytest.fixture
def moved(source_cluster: KafkaCluster, target_cluster: KafkaCluster, new_name: Callable[[str], str]) -> MovedTopic:
    """A topic with records."""
    topic = MovedTopic(new_name("moved"), new_name("group"), source_cluster, target_cluster)
    topic.write()
    delete_records(source_cluster, topic.name, TRIMMED)
    return topic


class Program(ABC):
    """A program that reads a topic and keeps its offsets in files of its own; it ends with the test."""

    def __init__(self, home: Path, topic: MovedTopic) -> None:
        self._topic = topic
        self._home = home
        self._out = home / "out"
        self._process: Child | None = None

    @abstractmethod
    def _command(self, bootstrap: str) -> list[str]:
        """The command line that begins where the program ended before."""

    @abstractmethod
    def _end(self, process: Child) -> None:
        """End the process so that the next process can continue."""

    @abstractmethod
    def lines(self) -> list[Line]:
        """The records of the output so far, without those of an unfinished commit of the program."""

    @contextmanager
    def on(self, cluster: KafkaCluster) -> Iterator[Child]:
        """Run the program with a cluster, and end it if it still runs."""
        name = type(self).__name__
        process = Child(name, self._command(cluster.bootstrap), self._home / f"{name}-{cluster.name}.log")
        process.start()
        self._process = process
        group = process.pid
        try:
            yield process
            if process.alive:
                self._end(process)
        finally:
            if process.alive:
                os.killpg(group, signal.SIGKILL)
                process.kill()
        wait_until_gone(group, DEADLINE_S)

    def fail_on(self, cluster: KafkaCluster) -> None:
        """Run the program with a cluster that lacks its offsets: the program ends with an error."""
        with self.on(cluster) as process:
            assert process.wait(DEADLINE_S) != 0

    def wait_for_lines(self, count: int) -> None:
        """Wait until the output has a number of records. Raises HarnessError if the program has failed."""
        process = self._process
        assert process is not None

        def written() -> bool:
            process.require_alive()
            return len(self.lines()) >= count

        wait_for(written, DEADLINE_S, f"{process.name} has written {count} records")


class SparkQuery(Program):
    """`spark_query.py`. The query is killed, so a planned micro-batch without its commit is read from the target."""

    @property
    def _checkpoint(self) -> Path:
        return self._home / "checkpoint"

    def fail_on(self, cluster: KafkaCluster) -> None:
        """As for each program; a copy of the checkpoint replaces that of the failed query, whose last micro-batch ends
        at the end of an empty topic, so that each later start would fail."""
        copy = self._home / "copy"
        shutil.copytree(self._checkpoint, copy)
        super().fail_on(cluster)
        shutil.rmtree(self._checkpoint)
        copy.rename(self._checkpoint)

    def _command(self, bootstrap: str) -> list[str]:
        jars = ",".join(map(str, spark_source_jars()))
        folders = [str(self._checkpoint), str(self._out)]
        return [sys.executable, str(HERE / "spark_query.py"), bootstrap, self._topic.name, *folders, jars]

    def _end(self, process: Child) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.kill()

    def lines(self) -> list[Line]:
        """The lines of the files that the sink's log names: files of a batch without a commit do not count."""
        logs = [log for log in self._out.glob("_spark_metadata/*") if not log.name.startswith(".")]
        entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
        files = {Path(unquote(urlparse(entry["path"]).path)) for entry in entries}
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return [(row["partition"], row["offset"], row["key"]) for row in rows]


class FlinkProgram(Program):
    """`FlinkJob.java`. The job is stopped with a savepoint, and begins from the last savepoint."""

    @property
    def savepoints(self) -> list[Path]:
        return sorted(self._home.glob("savepoints/savepoint-*"), key=lambda one: one.stat().st_mtime)

    def _command(self, bootstrap: str) -> list[str]:
        jars = flink_jars()
        own = plugin_jar(HERE / "FlinkJob.java", jars)
        path = os.pathsep.join([str(own), str(jars[0].parent / "*")])
        options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.util=ALL-UNNAMED"]
        folders = [f"file://{self._out}", f"file://{self._home}/savepoints"]
        last = [f"file://{one}" for one in self.savepoints[-1:]]
        pause = "0" if last else str(PAUSE_MS)
        words = [bootstrap, self._topic.name, self._topic.group, *folders, pause, *last]
        return [java_command(), *options, "-cp", path, "FlinkJob", *words]

    def _end(self, process: Child) -> None:
        earlier = len(self.savepoints)
        assert process.terminate(DEADLINE_S)
        assert len(self.savepoints) == earlier + 1, process.log_tail()

    def lines(self) -> list[Line]:
        """The lines of finished files; names of unfinished files begin with a dot."""
        rows = [line.split(" ") for file in self._out.glob("part-*") for line in file.read_text().splitlines()]
        return [(int(partition), int(offset), key) for partition, offset, key in rows]


def lines_of(records: list[Record]) -> list[Line]:
    return [(one.partition, one.offset, (one.key or b"").decode()) for one in records]


def require_each_once(lines: list[Line], topic: MovedTopic) -> None:
    """The output has each committed record of the source once."""
    expected, found = Counter(lines_of(topic.records())), Counter(lines)
    skipped, repeated = expected - found, found - expected
    assert (skipped.total(), repeated.total()) == (0, 0), (sorted(skipped)[:5], sorted(repeated)[:5])


@pytest.mark.parametrize("kind", [SparkQuery, FlinkProgram], ids=["spark", "flink"])
def test_a_program_continues_on_the_target(
    kind: type[Program], moved: MovedTopic, run_twinlog: RunTwinlog, tmp_path: Path
) -> None:
    program = kind(tmp_path, moved)
    with program.on(moved.source):
        program.wait_for_lines(BEFORE)
    read = program.lines()
    assert BEFORE <= len(read) < len(moved.records()) - BEFORE

    # The target has no records yet.
    create_topic(moved.target, moved.name, PARTITIONS)
    program.fail_on(moved.target)
    assert program.lines() == read

    twinlog = run_twinlog("a, b", moved.properties)
    moved.wait_until_copied()
    with program.on(moved.target):
        program.wait_for_lines(len(moved.records()))
        moved.write()
        program.wait_for_lines(len(moved.records()))
    assert twinlog.terminate() == 0
    require_each_once(program.lines(), moved)


def test_a_group_continues_on_the_target(moved: MovedTopic, run_twinlog: RunTwinlog) -> None:
    with Member(moved.source, moved.group, [moved.name], "classic") as member:
        values = member.read(BEFORE)
        member.commit()
    twinlog = run_twinlog("a, b", moved.properties)
    moved.wait_until_copied()
    committed = group_offsets(moved.source, [moved.group])
    wait_for(
        lambda: group_offsets(moved.target, [moved.group]) == committed, DEADLINE_S, "the target has the same offsets"
    )
    with Member(moved.target, moved.group, [moved.name], "classic") as member:
        values += member.read(len(moved.records()) - BEFORE)
        moved.write()
        values += member.read(len(moved.records()) - len(values))
        values += member.read_on()
    assert twinlog.terminate() == 0
    assert sorted(values) == sorted(one.value or b"" for one in moved.records())


@pytest.mark.parametrize("kind", ["identical", "translated"])
def test_stored_offsets_are_right_with_identical_offsets_alone(
    moved: MovedTopic, run_twinlog: RunTwinlog, kind: str
) -> None:
    """A program that keeps its offsets in a database seeks to them. With translated offsets it skips records: the
    other tests of this file would notice."""
    moved.offsets = kind
    records = moved.records()
    read = [one for number in range(PARTITIONS) for one in [one for one in records if one.partition == number][:BEFORE]]
    stored = {one.partition: one.offset + 1 for one in read}
    twinlog = run_twinlog("a, b", moved.properties)
    wait_for(lambda: moved.name in topics(moved.target), DEADLINE_S, "the topic is there")
    wait_for(lambda: len(consume(moved.target, moved.name)) == len(records), DEADLINE_S, "all records are copied")
    read += consume(moved.target, moved.name, start=stored)
    assert twinlog.terminate() == 0
    if kind == "identical":
        require_each_once(lines_of(read), moved)
        return
    with pytest.raises(AssertionError):
        require_each_once(lines_of(read), moved)
    keys = Counter(one.key for one in records)
    skipped = keys - Counter(one.key for one in read)
    assert skipped.total() > TRIMMED / 2
