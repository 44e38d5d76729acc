"""Where a flow begins on real brokers: its first start, what appears later, times; and beside MirrorMaker 2."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from harness.cluster import KafkaCluster
from harness.connect.mm2 import MirrorMaker2
from harness.consume import consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import add_partitions, create_topic, delete_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.copying import DEADLINE_S, FOR_EVER, flow_settings
from tests.integration.mirror_process import flow_properties
from tests.integration.parity import MM2_VERSION
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.cli.main import app
from twinlog.config import load
from twinlog.config.text.config_reader import topic_rule
from twinlog.model.types import Alias
from twinlog.settings.flow import FlowSettings
from twinlog.settings.per_topic import PerTopic
from twinlog.settings.start import Start
from twinlog.worker.flow.flow import FlowState

LATEST, WEEK = Start("latest"), Start("ago", 7 * 86_400_000, "by_duration:P7D")
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
MM2_S = 180.0


class Scene:
    """A flow under aliases of its own, of topics whose names begin with `prefix`."""

    def __init__(
        self, clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], start: Start, **settings: Any
    ) -> None:
        self.source, self.target = clusters
        self.prefix = new_name("t")
        consumer = {"auto_offset_reset": start, **settings.pop("consumer", {})}
        own = {
            "topics": (f"{self.prefix}.*",),
            "refresh_topics_interval_s": 0.2,
            "emit_heartbeats_interval_s": None,
            "emit_checkpoints_interval_s": None,
            "heartbeats_replication_enabled": False,
            **settings,
        }
        made = flow_settings(self.source, self.target, consumer=consumer, **own)
        self.settings = replace(made, source=Alias(new_name("a")), target=Alias(new_name("b")))

    def under(self, source: Alias) -> Scene:
        """The same topics, copied under another alias of their cluster."""
        other = copy(self)
        other.settings = replace(self.settings, source=source)
        return other

    def topic(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def create(self, name: str, partitions: int = 1) -> str:
        return create_topic(self.source, self.topic(name), partitions, config=FOR_EVER)

    def write(self, name: str, count: int, *, partition: int = 0, age_ms: int = 0, start: int = 0) -> None:
        at = None if not age_ms else int(time.time() * 1000) - age_ms
        records = [NewRecord(record.value, timestamp=at) for record in numbered(count, start=start)]
        produce(self.source, self.topic(name), records, partition=partition)

    @contextmanager
    def running(self, settings: FlowSettings | None = None) -> Iterator[FlowWithoutSpark]:
        with FlowWithoutSpark(settings or self.settings) as flow:
            assert flow.runner.state is FlowState.RUNNING, flow.runner.reason
            yield flow
            assert flow.runner.state is FlowState.RUNNING, flow.runner.reason

    def count(self, name: str, partition: int = 0) -> int:
        """How many offsets a remote partition has; -1 where it is not there."""
        remote = self.remote(name)
        there = topics(self.target).get(remote, 0)
        return offsets(self.target, remote, partition)[1] if partition < there else -1

    def remote(self, name: str) -> str:
        return f"{self.settings.source}.{self.topic(name)}"

    def wait_for(self, name: str, count: int, partition: int = 0, within_s: float = DEADLINE_S) -> None:
        wait_for(
            lambda: self.count(name, partition) >= count,
            within_s,
            f"{count} offsets of {name}-{partition} are copied",
            every_s=0.1,
        )

    def values(self, name: str, partition: int = 0) -> list[int]:
        """The records of a remote partition, by their numbers."""
        found = consume(self.target, self.remote(name))
        return [int(record.value or b"") for record in found if record.partition == partition]


def lines(caplog: pytest.LogCaptureFixture, piece: str) -> list[str]:
    """What drivers said about starts, of lines that contain something."""
    said = [record.getMessage() for record in caplog.records if record.name == "twinlog.worker.topics.starts"]
    return [line for line in said if piece in line]


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_the_head_of_what_appears_later_is_copied(
    clusters: tuple[KafkaCluster, KafkaCluster],
    new_name: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
    exactly_once: str,
) -> None:
    caplog.set_level(logging.INFO, "twinlog.worker.topics.starts")
    scene = Scene(clusters, new_name, LATEST, exactly_once=exactly_once, worker_group_id=new_name("g"))
    scene.create("old")
    scene.create("idle")
    scene.write("old", 10)
    scene.write("idle", 10)
    with scene.running():
        scene.write("old", 5, start=10)
        scene.wait_for("old", 5)
        scene.create("new1")
        scene.write("new1", 100)
        add_partitions(scene.source, scene.topic("old"), 2)
        scene.write("old", 100, partition=1)
        scene.wait_for("new1", 100)
        scene.wait_for("old", 100, 1)
    # While nobody runs.
    scene.write("old", 5, start=15)
    scene.write("idle", 7, start=10)
    scene.create("new2")
    scene.write("new2", 100)
    add_partitions(scene.source, scene.topic("new1"), 2)
    scene.write("new1", 100, partition=1)
    with scene.running():
        for name, partition, count in (("old", 0, 10), ("idle", 0, 7), ("new2", 0, 100), ("new1", 1, 100)):
            scene.wait_for(name, count, partition)
    assert scene.values("old") == list(range(10, 20))
    assert scene.values("idle") == list(range(10, 17))
    for name, partition in (("old", 1), ("new1", 0), ("new1", 1), ("new2", 0)):
        assert scene.values(name, partition) == list(range(100)), (name, partition)
    assert len(lines(caplog, "begin at their ends (auto.offset.reset = latest)")) == 1
    for name in ("new1", "new2"):
        assert len(lines(caplog, f"{scene.topic(name)} appeared after the flow's first start")) == 1
    for part in (f"{scene.topic('old')}-1", f"{scene.topic('new1')}-1"):
        assert len(lines(caplog, f"{part} had no position after the first start")) == 1


def test_topics_begin_by_time_and_that_does_not_move(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str]
) -> None:
    scene = Scene(clusters, new_name, WEEK)
    start: PerTopic[Start | None] = PerTopic.of(
        None,
        [
            topic_rule(scene.topic("days"), Start("ago", 2 * DAY_MS)),
            topic_rule(scene.topic("since"), Start("time", int(time.time() * 1000) - 4 * DAY_MS)),
            topic_rule(scene.topic("end"), LATEST),
            topic_rule(scene.topic("all"), Start("earliest")),
        ],
    )
    settings = replace(scene.settings, start=start)
    names = ("week", "days", "since", "end", "all", "stale")
    for name in names:
        scene.create(name)
        for number, days in enumerate((10, 8, 3, 1) if name != "stale" else (10, 9, 8)):
            scene.write(name, 1, age_ms=days * DAY_MS + HOUR_MS, start=number)
    first = {"week": 2, "days": 3, "since": 2, "end": 4, "all": 0, "stale": 3}
    for turn in (4, 5):
        with scene.running(settings):
            for name in names:
                scene.write(name, 1, start=turn)
                scene.wait_for(name, turn - first[name] + (1 if name != "stale" else 0))
    for name in names:
        assert scene.values(name) == [*range(first[name], 3 if name == "stale" else 4), 4, 5], name


def test_a_wider_filter_begins_as_the_file_says(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str]
) -> None:
    scene = Scene(clusters, new_name, LATEST)
    scene.create("in")
    scene.create("out")
    scene.write("out", 10)
    narrow = replace(scene.settings, topics=(f"{scene.prefix}-in.*",))
    with scene.running(narrow):
        scene.write("in", 1)
        scene.wait_for("in", 1)
    scene.create("inside")
    scene.write("inside", 10)
    with scene.running():
        scene.wait_for("inside", 10)
        scene.write("out", 3, start=10)
        scene.wait_for("out", 3)
    assert scene.values("out") == [10, 11, 12]
    assert scene.values("inside") == list(range(10))


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_a_topic_that_is_recreated_after_the_start_is_held_and_then_copied_whole(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], exactly_once: str
) -> None:
    """Records that came after the start may have been deleted with the topic, so that it is a gap like others."""
    scene = Scene(clusters, new_name, LATEST, exactly_once=exactly_once, worker_group_id=new_name("g"))
    scene.create("again")
    scene.write("again", 10)
    scene.create("other")
    with scene.running():
        scene.write("other", 1)
        scene.wait_for("other", 1)
    delete_topic(scene.source, scene.topic("again"))
    scene.create("again")
    scene.write("again", 5)
    with scene.running() as flow:
        wait_for(flow.runner.held.all, DEADLINE_S, "it is held")
        scene.write("other", 1)
        scene.wait_for("other", 2)
        assert [(one.source.topic, one.reason) for one in flow.runner.held.all()] == [(scene.topic("again"), "gap")]
    with scene.running(replace(scene.settings, gap_policy=PerTopic("skip"))):
        scene.wait_for("again", 5)
    assert scene.values("again") == list(range(5))


def test_a_plan_says_where_topics_begin_and_a_run_does_that(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path
) -> None:
    scene = Scene(clusters, new_name, LATEST)
    here, there = str(scene.settings.source), str(scene.settings.target)
    settings = {"topics": f"{scene.prefix}.*", "emit.heartbeats.enabled": "false", "emit.checkpoints.enabled": "false"}
    settings["offset-syncs.topic.replication.factor"] = "1"
    settings[f"twinlog.start.{scene.topic('week')}"] = "P7D"
    text = flow_properties(f"{here}->{there}", scene.source, scene.target, settings)
    file = tmp_path / "mm2.properties"
    file.write_text(f"clusters = {here}, {there}\n{here}.consumer.auto.offset.reset = latest\n{text}")
    (flow,) = (one for one in load(file).flows if one.enabled)

    def plan() -> tuple[dict[str, int], list[str]]:
        result = CliRunner().invoke(app, ["plan", str(file), "--flow", flow.name, "--json"])
        assert result.exit_code == 0, result.output
        (found,) = json.loads(result.stdout)["flows"]
        to_copy = {one["topic"].removeprefix(f"{scene.prefix}-"): one["records"] for one in found["copy"]["topics"]}
        return to_copy, [note for note in found["notes"] if "begin" in note or "left out" in note]

    for name in ("end", "week"):
        scene.create(name)
        for number, days in enumerate((10, 8, 3, 1)):
            scene.write(name, 1, age_ms=days * DAY_MS, start=number)
    to_copy, notes = plan()
    assert to_copy == {"week": 2}
    assert len(notes) == 2
    assert notes[0] == "left out, as auto.offset.reset = latest: 4 records there already"
    assert notes[1].startswith("left out, as twinlog.start = P7D: 2 records older than ")
    with scene.running(flow):
        scene.wait_for("week", 2)
    scene.create("later")
    scene.write("later", 5)
    scene.write("end", 3, start=4)
    to_copy, notes = plan()
    assert to_copy == {"later": 5, "end": 3}
    assert len(notes) == 1
    assert notes[0].startswith(f"{scene.topic('later')} appeared after the flow's first start, or have partitions that")
    with scene.running(flow):
        scene.wait_for("later", 5)
        scene.wait_for("end", 3)
    assert (scene.values("week"), scene.values("end")) == ([2, 3], [4, 5, 6])


def create_on(cluster: KafkaCluster, topic: str, nodes: list[int]) -> None:
    """A topic whose partitions have one replica each, on these nodes."""
    admin = AdminClient(cluster.client_config())
    placed = NewTopic(topic, len(nodes), replica_assignment=[[node] for node in nodes], config=FOR_EVER)
    admin.create_topics([placed], operation_timeout=DEADLINE_S)[topic].result(DEADLINE_S)
    wait_for(lambda: topics(cluster).get(topic) == len(nodes), DEADLINE_S, f"{topic} is there")


@pytest.mark.scenario
def test_partitions_without_a_leader_at_the_first_start_begin_from_that_moment(
    target_cluster: KafkaCluster, new_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.worker.topics.starts")
    with KafkaCluster("source", nodes=3, heap="384m") as source:
        scene = Scene((source, target_cluster), new_name, LATEST)
        create_on(source, scene.topic("half"), [1, 2] * 500)
        for partition in range(4):
            scene.write("half", 10, partition=partition)
        source.terminate(2)
        with scene.running():
            scene.write("half", 5, partition=0, start=10)
            scene.wait_for("half", 5)
            assert scene.count("half", 1) == 0
        assert len(lines(caplog, "no leader answers for")) == 1
        source.restart(2)
        wait_for(lambda: offsets(source, scene.topic("half"), 1)[1] == 10, DEADLINE_S, "the leader is back")
        # Before twinlog runs again: with a wait for a leader alone they would be passed over.
        scene.write("half", 5, partition=1, start=10)
        with scene.running():
            scene.wait_for("half", 5, 1)
            scene.write("half", 5, partition=3, start=10)
            scene.wait_for("half", 5, 3)
        for partition in (0, 1, 3):
            assert scene.values("half", partition) == list(range(10, 15))
        assert scene.count("half", 2) == 0


# -- beside MirrorMaker 2


def mm2_properties(scene: Scene, alias: str, reset: str) -> str:
    here, there = alias, str(scene.settings.target)
    lines = {
        "clusters": f"{here}, {there}",
        f"{here}.bootstrap.servers": scene.source.bootstrap,
        f"{there}.bootstrap.servers": scene.target.bootstrap,
        f"{here}.consumer.auto.offset.reset": reset,
        f"{there}.offset.flush.interval.ms": "1000",
        f"{here}->{there}.enabled": "true",
        f"{here}->{there}.topics": f"{scene.prefix}.*",
        f"{here}->{there}.heartbeats.replication.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "refresh.topics.interval.seconds": "1",
        "consumer.poll.timeout.ms": "200",
        "replication.factor": "1",
    }
    lines |= {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
    lines |= {f"{kind}.topic.replication.factor": "1" for kind in ("checkpoints", "heartbeats", "offset-syncs")}
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


@dataclass(frozen=True, slots=True)
class Beside:
    """What both copied, by topic: the numbers of the records."""

    mm2: Mapping[str, list[int]]
    twinlog: Mapping[str, list[int]]


AGES_DAYS = {"mixed": (10, 8, 3, 1), "young": (2, 1), "stale": (20, 10), "disordered": (3, 12, 1, 15), "empty": ()}
"""Of the records that are there before, in their order."""


@pytest.mark.parity
def test_durations_are_those_of_mirrormaker(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path
) -> None:
    """The same topics are copied by MirrorMaker 2, by twinlog beside it, and then by twinlog in its place."""
    scene = Scene(clusters, new_name, WEEK)
    theirs = scene.under(Alias(new_name("mm")))
    for name, ages in AGES_DAYS.items():
        scene.create(name)
        for number, days in enumerate(ages):
            scene.write(name, 1, age_ms=days * DAY_MS + HOUR_MS, start=number)
    properties = mm2_properties(theirs, str(theirs.settings.source), WEEK.text)
    first = {"mixed": 2, "young": 0, "stale": 2, "disordered": 0, "empty": 0}
    with MirrorMaker2(properties, jit="quick", heap="384m", version=MM2_VERSION, work_dir=tmp_path) as mm2:
        with scene.running():
            for side in (scene, theirs):
                for name in ("mixed", "young", "disordered"):
                    side.wait_for(name, len(AGES_DAYS[name]) - first[name], within_s=MM2_S)
            for name, ages in AGES_DAYS.items():
                scene.write(name, 3, start=len(ages))
            for side in (scene, theirs):
                for name, ages in AGES_DAYS.items():
                    side.wait_for(name, len(ages) - first[name] + 3, within_s=MM2_S)
        assert mm2.stop()
    expected = {name: list(range(first[name], len(ages) + 3)) for name, ages in AGES_DAYS.items()}
    found = Beside({name: theirs.values(name) for name in AGES_DAYS}, {name: scene.values(name) for name in AGES_DAYS})
    assert found == Beside(expected, expected)
    for name, ages in AGES_DAYS.items():
        scene.write(name, 2, start=len(ages) + 3)
    with theirs.running():
        for name, ages in AGES_DAYS.items():
            theirs.wait_for(name, len(ages) - first[name] + 5)
    assert {name: theirs.values(name) for name in AGES_DAYS} == {
        name: [*numbers, numbers[-1] + 1, numbers[-1] + 2] for name, numbers in expected.items()
    }
