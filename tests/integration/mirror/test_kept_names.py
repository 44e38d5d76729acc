"""Empty aliases and separators: MirrorMaker 2 copies, twinlog goes on with the same file or connector, and gives back.

Nothing is lost and nothing repeated, because each finds the positions of the other one under an empty alias.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.checks.internal_records import decode_checkpoint, decode_offset_sync
from harness.cluster import KafkaCluster
from harness.connect.mm2 import MirrorMaker2
from harness.consume import consume
from harness.groups import commit_offsets, group_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.connect_worker import ConnectWorker, connector
from tests.integration.parity import MM2_VERSION
from tests.integration.running import RunTwinlog

DEADLINE_S = 120.0
MORE = 200
"""Records of each topic in each turn."""


@dataclass(frozen=True, slots=True)
class Way:
    """A flow from the cluster `alias` and what MirrorMaker 2 calls its topics; keys of positions have `cluster`."""

    alias: str
    topic: str
    remote: str
    cluster: str
    syncs: str
    checkpoints: str
    settings: Mapping[str, str]

    @property
    def group(self) -> str:
        return f"{self.topic}-reader"


def ways(name: str) -> list[Way]:
    """Two flows of one file whose top level has neither aliases nor a separator: one adds its alias again."""
    kept, joined = f"{name}k", f"{name}j"
    internal = "mm2-offset-syncsinternal", "checkpointsinternal"
    return [
        Way(kept, f"{name}-kept", f"{name}-kept", "", *internal, {}),
        Way(
            joined,
            *(f"{name}-joined", f"{joined}{name}-joined", joined),
            *(internal[0], f"{joined}{internal[1]}"),
            {"source.cluster.alias": joined},
        ),
    ]


def properties(flows: list[Way], source: KafkaCluster, target: KafkaCluster, there: str) -> str:
    lines = {
        "replication.policy.separator": "",
        "source.cluster.alias": "",
        "target.cluster.alias": "",
        "emit.heartbeats.enabled": "false",
        f"{there}.bootstrap.servers": target.bootstrap,
        f"{there}.offset.flush.interval.ms": "1000",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "consumer.poll.timeout.ms": "200",
        "replication.factor": "1",
        "offset.storage.partitions": "3",
    }
    for way in flows:
        flow = f"{way.alias}->{there}"
        own = {"enabled": "true", "topics": way.topic, "groups": way.group, **way.settings}
        lines |= {f"{way.alias}.bootstrap.servers": source.bootstrap}
        lines |= {f"{flow}.{key}": value for key, value in own.items()}
    lines |= {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
    lines |= {f"{kind}.topic.replication.factor": "1" for kind in ("checkpoints", "heartbeats", "offset-syncs")}
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


def copies(target: KafkaCluster, remote: str) -> dict[int, list[int]]:
    """The numbers of the records that a remote topic holds, by partition."""
    found: dict[int, list[int]] = {}
    for record in consume(target, remote):
        found.setdefault(record.partition, []).append(int(record.value or b""))
    return found


def positions(target: KafkaCluster, topic: str, positions_topic: str) -> dict[bytes, int]:
    """The next source offset of each key of the positions topic that is of a source topic."""
    found = {}
    for record in consume(target, positions_topic):
        assert record.key is not None
        where = json.loads(record.key)[1]
        if where.get("topic") == topic and "cluster" in where and record.value is not None:
            found[record.key] = json.loads(record.value)["offset"] + 1
    return found


def key(connector_name: str, cluster: str, topic: str, partition: int) -> bytes:
    """How MirrorMaker 2 spells the key of a position."""
    where = f'{{"cluster":"{cluster}","partition":{partition},"topic":"{topic}"}}'
    return f'["{connector_name}",{where}]'.encode()


class Story:
    """Turns of MirrorMaker 2 and twinlog between two clusters; each has new records, and copies all of them."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, flows: list[Way]) -> None:
        self.source, self.target, self.flows = source, target, flows
        self.produced = 0
        for way in flows:
            create_topic(source, way.topic, 2)
            # Without a group to follow a checkpoint connector has no task.
            commit_offsets(source, {way.group: {(way.topic, 0): 0}})

    def turn(self, alive: Callable[[], None]) -> None:
        """Produce, and wait until everything is copied and the groups at the ends of their topics have followed."""
        for way in self.flows:
            for partition in (0, 1):
                produce(self.source, way.topic, numbered(MORE, start=self.produced), partition=partition)
        self.produced += MORE

        def copied() -> bool:
            alive()
            there = topics(self.target)
            return all(
                way.remote in there and offsets(self.target, way.remote, partition)[1] >= self.produced
                for way in self.flows
                for partition in (0, 1)
            )

        wait_for(copied, DEADLINE_S, "everything is copied")
        commit_offsets(
            self.source, {way.group: {(way.topic, part): self.produced for part in (0, 1)} for way in self.flows}
        )

        def followed() -> bool:
            alive()
            found = group_offsets(self.target, [way.group for way in self.flows])
            return all(
                {place: one.offset for place, one in found.get(way.group, {}).items()}
                == {(way.remote, 0): self.produced, (way.remote, 1): self.produced}
                for way in self.flows
            )

        wait_for(followed, DEADLINE_S, "the groups have followed", every_s=0.2)

    def assert_whole(self) -> None:
        """Each record is there once and in order: nothing is lost, nothing repeated."""
        for way in self.flows:
            assert copies(self.target, way.remote) == {part: list(range(self.produced)) for part in (0, 1)}, way.remote


def connectors(way: Way, source: KafkaCluster, target: KafkaCluster) -> dict[str, dict[str, str]]:
    """A source and a checkpoint connector without aliases and separator, by name."""
    own = {
        "topics": way.topic,
        "groups": way.group,
        "replication.policy.separator": "",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        "consumer.poll.timeout.ms": "200",
    }
    made = {kind: connector(kind, source, target, "->") | own for kind in ("Source", "Checkpoint")}
    assert all(config["source.cluster.alias"] == "" for config in made.values())
    return {f"{way.alias}-{kind}": config for kind, config in made.items()}


@pytest.mark.parity
def test_connectors_go_from_kafkas_worker_to_twinlogs_and_back(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = clusters
    name = new_name("kc")
    way = ways(name)[0]
    story = Story(source, target, [way])
    configs = connectors(way, source, target)
    settings = {"offset.flush.interval.ms": "1000", "session.timeout.ms": "6000", "heartbeat.interval.ms": "1500"}
    for turn, version in enumerate((MM2_VERSION, None, MM2_VERSION)):
        worker = ConnectWorker(tmp_path / f"{turn}", target, name, settings, kafka=version)
        try:
            worker.start()
            for connector_name, config in configs.items():
                if turn == 0:
                    status, answer = worker.put(connector_name, config)
                    assert status == 201, answer
                worker.wait_until_it_has(connector_name)
                worker.wait_for_state(connector_name, "RUNNING", 1)
            story.turn(worker.process.require_alive)
            assert worker.process.terminate(60)
        finally:
            worker.close()
        story.assert_whole()
        assert positions(target, way.topic, f"{name}-offsets") == {
            key(f"{way.alias}-Source", "", way.topic, part): story.produced for part in (0, 1)
        }


@pytest.mark.parity
def test_a_file_goes_from_mirrormaker_to_twinlog_and_back(
    clusters: tuple[KafkaCluster, KafkaCluster],
    new_name: Callable[[str], str],
    run_twinlog: RunTwinlog,
    tmp_path: Path,
) -> None:
    source, target = clusters
    name = new_name("kn")
    there, flows = f"{name}t", ways(name)
    story = Story(source, target, flows)
    names = ", ".join([*(way.alias for way in flows), there])
    text = properties(flows, source, target, there)

    @contextmanager
    def mm2(turn: int) -> Iterator[Callable[[], None]]:
        whole = f"clusters = {names}\n{text}"
        with MirrorMaker2(
            whole, heap="384m", jit="quick", version=MM2_VERSION, work_dir=tmp_path / f"{turn}"
        ) as running:
            yield running.process.require_alive
            assert running.stop()

    @contextmanager
    def twinlog() -> Iterator[Callable[[], None]]:
        process = run_twinlog(names, text)

        def alive() -> None:
            assert process.alive, process.log

        yield alive
        assert process.terminate() == 0, process.log

    with mm2(0) as alive:
        story.turn(alive)
    made_by_mm2 = set(topics(target)), set(topics(source))
    with twinlog() as alive:
        story.turn(alive)
    story.assert_whole()
    for way in flows:
        stored = positions(target, way.topic, f"mm2-offsets.{way.alias}.internal")
        assert stored == {key("MirrorSourceConnector", way.cluster, way.topic, part): story.produced for part in (0, 1)}
        assert {one.topic for one in map(decode_offset_sync, consume(source, way.syncs))} >= {way.topic}
        checkpoints = [decode_checkpoint(record) for record in consume(target, way.checkpoints)]
        assert {one.topic for one in checkpoints if one.group == way.group} == {way.remote}
    added = set(topics(target)) - made_by_mm2[0], set(topics(source)) - made_by_mm2[1]
    ours = {topic for topic in added[0] if name in topic}
    assert all(topic.startswith("mm2-twinlog-") for topic in ours), ours
    assert not {topic for topic in added[1] if name in topic}
    with mm2(2) as alive:
        story.turn(alive)
    story.assert_whole()
