"""Flows on a Spark that others have started: spark-submit, and a program with a session of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.child import Child, named
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.spark.cluster import CHEAP_JVM, SparkCluster, spark_home
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.flows.arriving import end_of
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.running import RunTwinlog, wait_until_gone
from twinlog import launcher
from twinlog.process.jvm import use_options

COPY_S = 240.0
RECORDS = 100

SETTINGS = {
    "spark.ui.enabled": "false",
    # With twinlog's own class archive, where it has been made.
    "spark.driver.extraJavaOptions": f"{CHEAP_JVM} {use_options()}",
    "spark.python.unix.domain.socket.enabled": "true",
}

PROGRAM = """
import json, sys, time
from pathlib import Path
import twinlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from twinlog.errors import EngineError

file, settings, home = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])
spark = SparkSession.builder.master("local[3]").config(map=settings).getOrCreate()

def say(word, *words):
    (home / "part").write_text(json.dumps(words))
    (home / "part").rename(home / word)

def wait_for(word):
    while not (home / word).exists():
        time.sleep(0.1)

class Listener(StreamingQueryListener):
    rows = records = size = 0
    rates = []

    def onQueryProgress(self, event):
        progress = event.progress
        copied = progress.observedMetrics.get("copied")
        if progress.numInputRows:
            self.rows += progress.numInputRows
            self.records += copied.records
            self.size += copied.bytes
            self.rates.append(progress.processedRowsPerSecond)

    def onQueryStarted(self, event): ...
    def onQueryIdle(self, event): ...
    def onQueryTerminated(self, event): ...

listener = Listener()
mirroring = twinlog.start(spark, file)
mirroring.session.streams.addListener(listener)
wait_for("copied")
while not listener.rows:
    time.sleep(0.1)
say("progress", listener.rows, listener.records, listener.size > listener.records, min(listener.rates) > 0)
mine = spark.readStream.format("rate").load().writeStream.format("noop").queryName("mine").start()
(flow,) = mirroring.flows()
say("beside", spark.range(1000).count(), [one.name for one in spark.streams.active], flow.name, flow.state)
text = Path(file).read_text()
Path(file).write_text(text.replace("lease.seconds = 5", "lease.seconds = 6") + "left->right.groups = none")
report = mirroring.reload()
say("read again", report.flows, [key.takes.value for key in report.keys], report.problems)
Path(file).write_text(text)
mirroring.stop()
figures = mirroring.flows()[0].figures
say("stopped", mirroring.wait().value, figures.records, mine.isActive, spark.conf.get("spark.sql.adaptive.enabled"))

spark.stop()
spark = SparkSession.builder.config("spark.twinlog.rows", "records").getOrCreate()
listener = Listener()
with twinlog.start(spark, file) as mirroring:
    mirroring.session.streams.addListener(listener)
    wait_for("copied again")
    while not listener.rows:
        time.sleep(0.1)
    say("counted", listener.rows, listener.records, listener.size > listener.records)
    mirroring.session.streams.removeListener(listener)
    spark.stop()
    try:
        mirroring.wait(120)
    except EngineError as error:
        say("ended", str(error), mirroring.is_active)
"""


def submit(*settings: str) -> list[str]:
    """spark-submit with the launcher and `run`, up to the file."""
    words = [f"--conf={key}={value}" for key, value in SETTINGS.items()]
    return [str(spark_home() / "bin" / "spark-submit"), *words, *settings, str(launcher.__file__), "run"]


@pytest.fixture(autouse=True)
def own_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """spark-submit takes the first python3 of the PATH."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def topic_with_records(source: KafkaCluster, new_name: Callable[[str], str]) -> str:
    topic = create_topic(source, new_name("t"))
    produce(source, topic, numbered(RECORDS))
    return topic


def require_copies(target: KafkaCluster, remote: str, count: int) -> None:
    assert [int(record.value or b"") for record in consume(target, remote)] == list(range(count))


def javas(process: MirrorProcess) -> list[psutil.Process]:
    """The JVMs of a command that has begun."""
    return named("java", [psutil.Process(process.pid), *process.descendants()])


@pytest.mark.scenario
def test_spark_submit_has_one_jvm_and_gets_the_exit_code(
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    left, right = clusters
    topic = topic_with_records(left, new_name)
    python = tmp_path / "named-python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/started\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    process = run_twinlog(
        "left, right",
        flow_properties("left->right", left, right, {"topics": topic}),
        *("--until", "caught-up"),
        command=submit("--master=local[2]", f"--conf=spark.pyspark.python={python}"),
    )
    process.wait_for_line("flows run on the Spark that spark-submit has started, local")
    assert len(javas(process)) == 1
    assert process.wait(COPY_S) == 0, process.log
    require_copies(right, f"left.{topic}", RECORDS)
    assert "left->right: caught up" in process.log
    assert "twinlog ends" not in process.log
    assert "pyspark.daemon" in (tmp_path / "started").read_text()


@pytest.fixture
def master(request: pytest.FixtureRequest) -> Iterator[tuple[str, ...]]:
    """The options for a Spark of one process, or for a cluster, whose executors are those that spark-submit asked
    for."""
    if request.param == "local":
        yield ("--master=local[2]",)
        return
    with SparkCluster() as spark:
        spark.have(1)
        yield f"--master={spark.master}", "--conf=spark.driver.host=127.0.0.1", "--executor-memory=512m"


@pytest.mark.scenario
@pytest.mark.parametrize("master", ["local", "cluster"], indirect=True)
def test_what_spark_submit_started_ends_with_its_jvm(
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    master: tuple[str, ...],
) -> None:
    left, right = clusters
    topic = topic_with_records(left, new_name)
    process = run_twinlog(
        "left, right",
        flow_properties("left->right", left, right, {"topics": topic}),
        command=submit(*master),
    )
    wait_until_copied(process.process, right, f"left.{topic}", RECORDS)
    (jvm,) = javas(process)
    group = process.pid
    jvm.kill()
    assert process.wait(120) == -signal.SIGKILL
    # What twinlog says of it has no reader any more: spark-submit passed its output on.
    wait_until_gone(group, 120)
    # One that Spark's daemon prints, when it starts a worker for a JVM that is gone, is Spark's own.
    assert f'File "{Path(launcher.__file__).parent}/' not in process.log
    require_copies(right, f"left.{topic}", RECORDS)


@pytest.mark.scenario
def test_a_program_keeps_its_session(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path
) -> None:
    left, right = clusters
    topic = topic_with_records(left, new_name)
    remote = f"left.{topic}"
    file, program = tmp_path / "mm2.properties", tmp_path / "program.py"
    flow = flow_properties("left->right", left, right, {"topics": topic})
    file.write_text(f"clusters = left, right\ntwinlog.lease.seconds = 5\n{flow}")
    program.write_text(PROGRAM)
    words = [sys.executable, str(program), str(file), json.dumps(SETTINGS), str(tmp_path)]
    child = Child("program", words, tmp_path / "program.log")

    def said(word: str) -> list[object]:
        def there() -> bool:
            assert child.alive or (tmp_path / word).exists(), child.log_tail(60)
            return (tmp_path / word).exists()

        try:
            wait_for(there, COPY_S, f"the program says {word!r}")
        except TimeoutError as late:
            raise AssertionError(f"{late}\n{child.log_tail(60)}") from late
        found: list[object] = json.loads((tmp_path / word).read_text())
        return found

    child.start()
    try:
        wait_until_copied(child, right, remote, RECORDS)
        (tmp_path / "copied").touch()
        # A row is a range, of the only partition.
        assert said("progress") == [1, RECORDS, True, True]
        # Its own queries are those of its session, and none of ours.
        assert said("beside") == [1000, ["mine"], "left->right", "running"]
        assert said("read again") == [{"left->right": "runs with its new settings"}, ["restart", "at once"], []]
        assert said("stopped") == ["stopped", RECORDS, True, "true"]
        produce(left, topic, numbered(RECORDS, start=RECORDS))
        wait_until_copied(child, right, remote, 2 * RECORDS)
        (tmp_path / "copied again").touch()
        # A row for each record.
        assert said("counted") == [RECORDS, RECORDS, True]
        ended, active = said("ended")
        assert "has been stopped, or its JVM has died: the copying has ended" in str(ended)
        assert active is False
        assert child.wait(120) == 0, child.log_tail(60)
    finally:
        child.kill()
    require_copies(right, remote, 2 * RECORDS)


def wait_until_copied(process: Child, target: KafkaCluster, remote: str, count: int) -> None:
    def copied() -> bool:
        assert process.alive, process.log.read_text()
        return end_of(target, remote, 0) >= count

    try:
        wait_for(copied, COPY_S, f"{remote} has {count} records")
    except TimeoutError as late:
        raise AssertionError(f"{late}\n{process.log.read_text()}") from late
