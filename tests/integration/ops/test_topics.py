"""Verbs for single topics of a running flow: what they do to records, by whomever and whenever they are asked."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.checks.checker import Load, require_clean
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, delete_records, topics
from harness.wait import wait_for
from tests.connected_admins import connected_admin
from tests.integration.connect_worker import ConnectWorker, connector, path_of
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.cli.main import app
from twinlog.config import load
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.ops.status.flow import FlowReader
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control.journal import ControlJournal
from twinlog.worker.control.model import CommandState

DONE, NOT_ALL, LATER = 0, 1, 3
QUIET = {
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "emit.heartbeats.enabled": "false",
}


class Scene:
    """One flow of a properties file, between clusters that others use, too, under an alias of its own."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, home: Path, alias: str) -> None:
        self.source, self.target, self.alias = source, target, alias
        self._home = home
        self.file = home / "mm2.properties"
        self._lines = ""

    def write(self, settings: Mapping[str, str], exactly_once: str = "disabled") -> FlowSettings:
        """Write the file."""
        self._lines = flow_properties(f"{self.alias}->there", self.source, self.target, {**QUIET, **settings})
        if exactly_once == "enabled":
            self._lines += "there.exactly.once.source.support = enabled\n"
            self._lines += f"{self.alias}.consumer.isolation.level = read_committed\n"
        self.file.write_text(f"clusters = {self.alias}, there\n{self._lines}")
        (flow,) = (one for one in load(self.file).flows if one.enabled)
        assert flow.exactly_once == exactly_once
        return flow

    @contextmanager
    def running(self, workers: int = 2) -> Iterator[FlowWithoutSpark]:
        """A process that runs the flow."""
        (settings,) = (one for one in load(self.file).flows if one.enabled)
        with FlowWithoutSpark(settings, workers) as flow, FlowReader(settings) as reader:
            wait_for(lambda: reader.read().runs, 60, "the flow reports that it runs")
            yield flow
        assert flow.runner.reason is None

    @contextmanager
    def process(self, *options: str) -> Iterator[MirrorProcess]:
        """A process of the command line, to be started."""
        process = MirrorProcess(self._home, f"{self.alias}, there", self._lines, *options)
        try:
            yield process
        finally:
            process.kill()

    @contextmanager
    def journal(self, settings: FlowSettings) -> Iterator[ControlJournal]:
        """What is asked of the flow."""
        with connected_admin(settings.target, settings.target_admin.client) as admin:
            yield ControlJournal(settings, admin)

    def topics(self, verb: str, *words: str) -> tuple[int, dict[str, Any]]:
        """Call a command of `twinlog topics`; its exit code, and what it prints as JSON."""
        done = CliRunner().invoke(app, ["topics", verb, str(self.file), *words, "--json"])
        assert done.exit_code in (DONE, NOT_ALL), done.output
        return done.exit_code, json.loads(done.stdout)

    def audit(self) -> tuple[str, dict[str, tuple[int, list[str]]]]:
        """The verdict of `twinlog audit`, and its findings of uncopied records: by kind the number and the details."""
        done = CliRunner().invoke(app, ["audit", str(self.file), "-o", "json"])
        assert done.exit_code in (DONE, NOT_ALL), done.output
        report = json.loads(done.stdout)
        kinds = ("gap", "held", "paused", "paused-records", "passed-over", "lag")
        found = {one["kind"]: (one["count"], one["details"]) for one in report["findings"] if one["kind"] in kinds}
        return report["verdict"], found

    def states(self) -> dict[str, str]:
        """The state of each partition, by its name."""
        (flow,) = self.topics("list")[1]["flows"]
        return {
            f"{topic['topic']}-{part['partition']}": part["state"]
            for topic in flow["topics"]
            for part in topic["partitions"]
        }

    def copies(self, topic: str, partition: int | None = None) -> list[int]:
        """The numbers in the remote topic, in order."""
        if f"{self.alias}.{topic}" not in topics(self.target):
            return []
        partitions = None if partition is None else [partition]
        return [int(one.value or b"") for one in consume(self.target, f"{self.alias}.{topic}", partitions=partitions)]

    def wait_for_copies(self, topic: str, count: int, partition: int | None = None) -> list[int]:
        """Wait until so many records are in the remote topic."""
        wait_for(lambda: len(self.copies(topic, partition)) >= count, 60, f"{count} records of {topic} are copied")
        return self.copies(topic, partition)


@pytest.fixture
def scene(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    new_name: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    # It is the process's own.
    monkeypatch.setattr("twinlog.ops.topics.commands.log_warnings", lambda: None)
    return Scene(source_cluster, target_cluster, tmp_path, new_name("v"))


def moves(answer: Mapping[str, Any]) -> dict[tuple[str, int], tuple[int | None, int | None]]:
    """From where to where each partition was moved."""
    return {
        (one["topic"], one["partition"]): (one["from"], one["to"]) for one in answer["partitions"] if one["changes"]
    }


@pytest.mark.parametrize("exactly_once", [pytest.param("disabled", marks=pytest.mark.scenario), "enabled"])
def test_pause_and_resume_under_load_lose_and_repeat_nothing(
    scene: Scene, new_name: Callable[[str], str], exactly_once: str
) -> None:
    paused, other = (create_topic(scene.source, new_name(name), 2) for name in ("paused", "other"))
    scene.write({"topics": f"{paused},{other}"}, exactly_once)
    shown = {paused: "paused", other: "copying"}
    with scene.running(), Load(scene.source, paused, 2, rate=400) as load, Load(scene.source, other, 2, rate=400) as on:
        wait_for(lambda: paused in str(scene.states()) and len(consume_of(scene, paused)) > 100, 60, "it copies")
        assert scene.topics("pause", paused)[1]["result"] == "applied"
        states = {f"{topic}-{number}": word for topic, word in shown.items() for number in range(2)}
        wait_for(lambda: scene.states() == states, 60, f"its state is {states}")
        stood = len(consume_of(scene, paused))
        begun = len(consume_of(scene, other))
        wait_for(lambda: len(consume_of(scene, other)) > begun + 400, 60, "the other topic is copied")
        assert len(consume_of(scene, paused)) == stood
        assert scene.topics("resume", f"{paused}-1")[1]["result"] == "applied"
        assert scene.states()[f"{paused}-0"] == "paused"
        assert scene.states()[f"{paused}-1"] == "copying"
        wait_for(lambda: len(consume_of(scene, paused)) > stood + 100, 60, "a partition of it is copied again")
        assert scene.topics("resume", paused)[1]["result"] == "applied"
        sent = {paused: load.stop(), other: on.stop()}
        for topic, count in sent.items():
            wait_for(lambda topic=topic, count=count: len(consume_of(scene, topic)) >= count, 60, f"{topic} is whole")  # type: ignore[misc]
    for topic in sent:
        require_clean(scene.source, topic, scene.target, f"{scene.alias}.{topic}")


def consume_of(scene: Scene, topic: str) -> list[Any]:
    """Records of a remote topic."""
    remote = f"{scene.alias}.{topic}"
    return consume(scene.target, remote) if remote in topics(scene.target) else []


@pytest.mark.parametrize("exactly_once", [pytest.param("disabled", marks=pytest.mark.scenario), "enabled"])
def test_restart_of_one_partition_copies_its_records_once_more_and_no_others(
    scene: Scene, new_name: Callable[[str], str], exactly_once: str
) -> None:
    topic = create_topic(scene.source, new_name("t"), 3)
    for number in range(3):
        produce(scene.source, topic, numbered(100, start=1000 * number), partition=number)
    scene.write({"topics": topic}, exactly_once)
    with scene.running():
        scene.wait_for_copies(topic, 300)
        code, shown = scene.topics("restart-from", f"{topic}-1", "--earliest", "--dry-run")
        assert code == DONE
        assert [one["copied_again"] for one in shown["partitions"]] == [100]
        assert len(scene.copies(topic)) == 300
        code, answer = scene.topics("restart-from", f"{topic}-1", "--earliest", "--yes")
        assert (code, answer["result"]) == (DONE, "applied")
        assert moves(answer) == {(topic, 1): (100, 0)}
        scene.wait_for_copies(topic, 400)
        produce(scene.source, topic, numbered(10, start=1100), partition=1)
        scene.wait_for_copies(topic, 410)
    assert scene.copies(topic, 1) == [*range(1000, 1100), *range(1000, 1110)]
    assert scene.copies(topic, 0) == list(range(100))
    assert scene.copies(topic, 2) == list(range(2000, 2100))
    with scene.running():
        produce(scene.source, topic, numbered(1, start=1110), partition=1)
        scene.wait_for_copies(topic, 411)
    assert Counter(scene.copies(topic, 1)) == Counter([*range(1000, 1100), *range(1000, 1111)])


def test_skip_to_a_time_passes_over_what_is_older(scene: Scene, new_name: Callable[[str], str]) -> None:
    topic = create_topic(scene.source, new_name("t"), 2)
    scene.write({"topics": topic})
    with scene.running():
        wait_for(lambda: len(scene.states()) == 2, 60, "it is mirrored")
        scene.topics("pause", topic)
        at_ms = 1_700_000_000_000
        for number in range(2):
            records = [NewRecord(b"%d" % one, timestamp=at_ms + 1000 * one) for one in range(100)]
            produce(scene.source, topic, records, partition=number)
        code, answer = scene.topics("skip-to", topic, "--time", str(at_ms + 60_500), "--yes")
        assert (code, answer["result"]) == (DONE, "applied")
        assert [one["passed_over"] for one in answer["partitions"]] == [61, 61]
        assert scene.topics("skip-to", topic, "--offset", "10", "--yes")[0] == NOT_ALL
        scene.topics("resume", topic)
        scene.wait_for_copies(topic, 78)
    assert scene.copies(topic) == [*range(61, 100), *range(61, 100)]


def topic_with_gap(scene: Scene, new_name: Callable[[str], str]) -> str:
    """A topic of two partitions: 50 records of each are copied, and records 50 to 69 of the first are deleted."""
    topic = create_topic(scene.source, new_name("t"), 2)
    for number in range(2):
        produce(scene.source, topic, numbered(50), partition=number)
    scene.write({"topics": topic})
    with scene.running():
        scene.wait_for_copies(topic, 100)
    for number in range(2):
        produce(scene.source, topic, numbered(50, start=50), partition=number)
    delete_records(scene.source, topic, 70)
    return topic


def test_a_gap_is_accepted_before_the_flow_starts_again(
    scene: Scene, new_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = topic_with_gap(scene, new_name)
    code, answer = scene.topics("accept-gap", topic, "--yes")
    assert (code, answer["result"]) == (DONE, "requested")
    with scene.running():
        scene.wait_for_copies(topic, 180)
        answer = scene.topics("accept-gap", topic, "--yes", "--id", answer["id"])[1]
    assert answer["result"] == "applied"
    assert moves(answer) == {(topic, 0): (50, 70)}
    assert answer["partitions"][0]["passed_over"] == 20
    assert "50 to 69 (20 offsets) were deleted" in answer["partitions"][0]["text"]
    assert scene.copies(topic, 0) == [*range(50), *range(70, 100)]
    assert scene.copies(topic, 1) == list(range(100))


def test_a_held_gap_is_accepted_while_the_flow_runs(scene: Scene, new_name: Callable[[str], str]) -> None:
    topic = topic_with_gap(scene, new_name)
    with scene.running() as flow:
        wait_for(lambda: [one.partition for one in flow.runner.held.all()] == [0], 60, "the gap holds its partition")
        scene.wait_for_copies(topic, 150)
        # The process reports every two seconds.
        wait_for(
            lambda: scene.audit()[1].keys() == {"gap", "held"}, 60, "the audit has the gap, and no record on its way"
        )
        verdict, found = scene.audit()
        assert found["gap"][0] == 20
        (line,) = found["held"][1]
        assert line.endswith("the source log now starts at 70; 30 records wait to be copied")
        assert "20 records are missing, 1 partition is held" in verdict
        code, answer = scene.topics("accept-gap", topic, "--yes")
        assert (code, answer["result"]) == (DONE, "applied")
        assert moves(answer) == {(topic, 0): (50, 70)}
        code, answer = scene.topics("accept-gap", topic, "--yes")
        assert (code, moves(answer)) == (DONE, {})
        assert answer["partitions"][0]["text"].startswith("the gap was accepted ")
        scene.wait_for_copies(topic, 180)
        wait_for(lambda: not flow.runner.held.all(), 60, "nothing is held")
        passed = (20, [f"{topic}-0: accept-gap passed over source offsets 50 to 69, without a copy"])
        wait_for(lambda: scene.audit()[1] == {"passed-over": passed}, 60, "the audit has the accepted gap alone")
        assert scene.topics("pause", f"{topic}-1")[1]["result"] == "applied"
        produce(scene.source, topic, numbered(7, start=100), partition=1)
        wait_for(lambda: flow.runner.flow_status.paused.lag == 7, 10, "the paused lag grows with its source")
        verdict, found = scene.audit()
        assert found == {"passed-over": passed, "paused-records": (7, [f"{topic}-1: 7 records"])}
        assert "7 records wait in paused partitions" in verdict
    assert scene.copies(topic, 0) == [*range(50), *range(70, 100)]
    assert scene.copies(topic, 1) == list(range(100))


def test_gaps_that_the_policy_skips_stay_in_the_audit(scene: Scene, new_name: Callable[[str], str]) -> None:
    topic = create_topic(scene.source, new_name("t"))
    produce(scene.source, topic, numbered(50))
    scene.write({"topics": topic, "twinlog.gap.policy": "skip"})
    with scene.running():
        scene.wait_for_copies(topic, 50)
    for end, first, copies in ((100, 70, 80), (150, 130, 100)):
        produce(scene.source, topic, numbered(50, start=end - 50))
        delete_records(scene.source, topic, first)
        with scene.running():
            scene.wait_for_copies(topic, copies)
    passed = (50, [f"{topic}-0: 50 source offsets (50 to 69, 100 to 129)"])
    wait_for(lambda: scene.audit()[1] == {"passed-over": passed}, 60, "the audit has both gaps")


def test_groups_are_led_to_the_records_that_were_copied_again_and_none_is_skipped(
    scene: Scene, new_name: Callable[[str], str]
) -> None:
    topic = create_topic(scene.source, new_name("t"))
    produce(scene.source, topic, numbered(100))
    settings = scene.write({"topics": topic})
    with scene.running():
        scene.wait_for_copies(topic, 100)
        scene.topics("restart-from", topic, "--offset", "40", "--yes")
        copies = scene.wait_for_copies(topic, 160)
    assert copies == [*range(100), *range(40, 100)]
    with connected_admin(settings.target, settings.target_admin.client) as admin:
        store = MapStore(settings, admin, PositionStore(settings, admin))
        store.read()
        known = store.maps.map(TopicPartition(TopicName(topic), 0))
    assert known is not None
    led = [known.to_target(SourceOffset(offset)) for offset in range(101)]
    # The markers of transactions have no number: this flow has none.
    assert led == [*((offset, True) for offset in range(40)), *((offset + 60, True) for offset in range(40, 101))]


@pytest.mark.scenario
def test_a_process_that_is_killed_while_it_does_what_another_one_asked(
    scene: Scene, new_name: Callable[[str], str], chance: random.Random
) -> None:
    topic, paused = create_topic(scene.source, new_name("t"), 2), create_topic(scene.source, new_name("p"))
    for number in range(2):
        produce(scene.source, topic, numbered(2000, start=10_000 * number), partition=number)
    produce(scene.source, paused, numbered(5))
    settings = scene.write({"topics": f"{topic},{paused}"})
    ids = [f"round-{number}" for number in range(3)]
    with scene.process() as process, scene.journal(settings) as journal:

        def result(name: str) -> CommandState | None:
            found = journal.read().outcome(name)
            return None if found is None else found.result

        for number, name in enumerate(ids):
            process.start()
            scene.wait_for_copies(topic, 4000 + 2000 * number)
            # Each time by another process, as a script would.
            words = [str(scene.file), f"{topic}-1", "--earliest", "--yes", "--id", name, "--timeout", "0"]
            asking = subprocess.Popen([sys.executable, "-m", "twinlog", "topics", "restart-from", *words])
            wait_for(lambda name=name: result(name) not in (None, CommandState.REQUESTED), 120, f"{name} is begun")  # type: ignore[misc]
            time.sleep(chance.uniform(0.0, 0.4))
            process.kill()
            assert asking.wait(120) in (DONE, LATER)
        process.start()
        scene.wait_for_copies(topic, 4000 + 2000 * len(ids))
        wait_for(lambda: [result(name) for name in ids] == [CommandState.APPLIED] * len(ids), 60, "all are applied")
        assert process.terminate() == 0
    assert scene.topics("pause", paused)[1]["result"] == "requested"
    produce(scene.source, paused, numbered(5, start=5))
    produce(scene.source, topic, numbered(1, start=2000))
    with scene.process("--until", "caught-up") as process:
        process.start()
        assert process.wait(120) == 0
        assert f"caught up, without 1 paused partition: {paused}-0" in process.log
    assert scene.copies(paused) == list(range(5))
    assert scene.copies(topic, 0) == list(range(2001))
    assert Counter(scene.copies(topic, 1)) == Counter(dict.fromkeys(range(10_000, 12_000), 1 + len(ids)))


@pytest.mark.scenario
def test_a_worker_answers_for_topics_of_a_connector_that_another_one_has(
    scene: Scene, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic, other = create_topic(scene.source, new_name("t"), 2), create_topic(scene.source, new_name("o"))
    for number in range(2):
        produce(scene.source, topic, numbered(10, start=100 * number), partition=number)
    flow, group = f"{scene.alias}->there", new_name("workers")
    workers = [ConnectWorker(tmp_path / f"worker-{number}", scene.target, group) for number in range(2)]
    path = f"{path_of(flow)}/twinlog/topics"
    try:
        first, second = (worker.start() for worker in workers)
        assert first.ask("GET", path)[0] == 404
        config = connector("Source", scene.source, scene.target, flow, topics=f"{topic},{other}")
        assert first.put(flow, config)[0] == 201
        scene.wait_for_copies(topic, 20)
        # While Spark's tasks take partitions over from the bridge, a request is done a moment later.
        wait_for(lambda: any("Spark's tasks copy now" in one.log for one in workers), 120, "Spark's tasks copy")
        for worker in (first, second):
            status, answer = worker.ask("PUT", f"{path}/pause", {"topics": [topic], "partitions": [1]})
            assert (status, answer["result"]) == (200, "applied")
        produce(scene.source, topic, numbered(10, start=110), partition=1)
        produce(scene.source, topic, numbered(10, start=10), partition=0)
        scene.wait_for_copies(topic, 30)
        status, answer = second.ask("GET", path)
        assert (status, answer["state"]) == (200, "running")
        states = {one["topic"]: [part["state"] for part in one["partitions"]] for one in answer["topics"]}
        assert states == {topic: ["copying", "paused"], other: ["copying"]}

        def lags() -> list[int]:
            (found,) = (one for one in second.ask("GET", path)[1]["topics"] if one["topic"] == topic)
            return [part["lag"] for part in found["partitions"]]

        # Positions are stored twice a second.
        wait_for(lambda: lags() == [0, 10], 10, "the paused partition alone lags")
        # What loses or repeats something is confirmed.
        restart = {"topics": [f"{topic}-0"], "to": "earliest", "id": "once"}
        status, answer = second.ask("PUT", f"{path}/restart-from", restart)
        assert status == 400
        assert "20 would be copied again; send it again with 'confirm': true" in answer["message"]
        status, answer = second.ask("PUT", f"{path}/restart-from", {**restart, "dry_run": True})
        assert (status, answer["partitions"][0]["copied_again"]) == (200, 20)
        for _ in range(2):
            status, answer = second.ask("PUT", f"{path}/restart-from", {**restart, "confirm": True})
            assert (status, answer["result"]) == (200, "applied")
        wait_for(lambda: scene.copies(topic, 0) == [*range(20), *range(20)], 60, "partition 0 is copied once more")
        assert first.ask("PUT", f"{path}/skip-to", {"topics": ["nothing"], "to": "latest"})[0] == 400
        assert first.ask("PUT", f"{path}/resume", {"topics": [topic]})[1]["result"] == "applied"
        scene.wait_for_copies(topic, 60)
        assert scene.copies(topic, 1) == list(range(100, 120))
        # Connect's own resources beside it are as they were.
        assert first.ask("GET", f"{path_of(flow)}/topics")[0] == 200
        assert first.ask("PUT", f"{path}/fly", {"topics": [topic]})[0] == 404
    finally:
        for worker in workers:
            worker.close()
