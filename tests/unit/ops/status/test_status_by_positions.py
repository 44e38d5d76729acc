"""`twinlog status` of a flow that nobody runs, in virtual time: what it shows beside brokers and topics that change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.virtual.clock import WALL_BEGIN
from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import LIST_OFFSETS
from twinlog.cli.main import app
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.mirror.offsets.starts import StartSpec, TopicStart, encode_start, start_key
from twinlog.mirror.records import Heartbeat
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.status import flow
from twinlog.settings.client import ClientSettings
from twinlog.worker.status.report import DriverReport, TopicProgress, encode_report, report_key

FILE = """\
clusters = s, w
s.bootstrap.servers = s-1:9092
w.bootstrap.servers = w-1:9092
s->w.enabled = true
"""
PROGRESS = "mm2-twinlog-progress.s.internal"


Clusters = tuple[VirtualCluster, VirtualCluster]


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clusters]:
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        target.create(PROGRESS)

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        # It is the process's own.
        monkeypatch.setattr("twinlog.ops.status.command.log_warnings", lambda: None)
        monkeypatch.setattr(flow, "FlowReader", partial(flow.FlowReader, connect=connect))
        yield source, target


def run(tmp_path: Path, *options: str) -> tuple[int, str]:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    done = CliRunner().invoke(app, ["status", str(file), *options])
    return done.exit_code, done.stdout


def store(target: VirtualCluster, body: bytes) -> None:
    """A record of the positions topic, which it makes."""
    batch = encode_batch([(0, body)])
    stamp(batch, -1, -1, -1)
    target.create("mm2-offsets.s.internal").pop().append(bytes(batch))


@pytest.mark.parametrize(("times", "code", "word"), [(1, 1, "not running"), (2, 3, "unknown")])
def test_it_is_asked_again_before_its_cluster_is_called_dead(
    clusters: Clusters, tmp_path: Path, times: int, code: int, word: str
) -> None:
    _, target = clusters
    target.fault(LIST_OFFSETS, Fault(lost=True), times=times, topic=PROGRESS)
    ended, out = run(tmp_path)
    assert out.startswith(f"s->w: {word}")
    assert (ended, target.faults_left) == (code, 0)


def test_a_process_in_another_group_is_shown_beside_the_process_of_the_file(clusters: Clusters, tmp_path: Path) -> None:
    _, target = clusters
    at_ms = int(WALL_BEGIN * 1000)
    own = DriverReport("s->w", "host-1", at_ms, at_ms, "running", lag=3, group="s-mm2")
    wave = replace(own, process="host-2", lag=5, group="s-mm2-wave", topics=(TopicProgress("t", 1),))
    ended = replace(wave, process="host-3", state="stopped", group="s-mm2-gone")
    old = replace(wave, process="host-4", at_ms=at_ms - 60_000, group="s-mm2-old")
    for report in (own, ended, old, wave):
        batch = encode_batch([(report.at_ms, record_body(report_key(report), encode_report(report, 100_000)))])
        stamp(batch, -1, -1, -1)
        target.log(PROGRESS).append(bytes(batch))
    _, out = run(tmp_path)
    assert "run by      host-1, last report 0 s ago" in out
    assert "beside      host-2 in group s-mm2-wave copies t, lag 5 records, last report 0 s ago" in out
    assert not re.search("host-[34]", out)
    (seen,) = json.loads(run(tmp_path, "-o", "json")[1])["flows"]
    assert seen["last_report"]["process"] == "host-1"
    (beside,) = seen["beside"]
    assert (beside["process"], beside["group"], beside["topics"], beside["lag"]) == ("host-2", "s-mm2-wave", ["t"], 5)


def test_of_a_topic_that_was_recreated_everything_waits(clusters: Clusters, tmp_path: Path) -> None:
    """Its log is shorter than what was copied of the one before."""
    source, target = clusters
    source.create("t")
    source.write("t", b"1", b"2", b"3")
    part, topic_id = TopicPartition(TopicName("t"), 0), source.topics.ids["t"]
    record = encode_position(Alias("s"), part, Position(SourceOffset(40), TargetOffset(40), topic_id=str(topic_id)))
    store(target, record_body(record.key, record.value, record.headers))
    assert json.loads(run(tmp_path, "-o", "json")[1])["flows"][0]["lag"]["records"] == 0
    source.topics.delete("t")
    source.create("t")
    source.write("t", b"1", b"2", b"3")
    assert json.loads(run(tmp_path, "-o", "json")[1])["flows"][0]["lag"]["records"] == 3


def test_the_lag_counts_a_topic_of_a_user_and_no_heartbeats(clusters: Clusters, tmp_path: Path) -> None:
    source, target = clusters
    target.create("mm2-offsets.s.internal")
    for topic in ("t", "device.heartbeats", "heartbeats", "w.heartbeats"):
        source.create(topic)
        source.write(topic, b"1", b"2", b"3")
    beat = Heartbeat(Alias("island"), Alias("north"), 1)
    batch = encode_batch([(0, record_body(beat.key, beat.value))])
    stamp(batch, -1, -1, -1)
    source.create("north.heartbeats").pop().append(bytes(batch))
    (seen,) = json.loads(run(tmp_path, "-o", "json")[1])["flows"]
    assert seen["lag"]["records"] == 6


def test_what_lies_before_the_begin_does_not_wait(clusters: Clusters, tmp_path: Path) -> None:
    """Exactly once, a partition has no position before its first records."""
    source, target = clusters
    source.create("t")
    source.write("t", b"1", b"2", b"3", b"4", b"5")
    start = TopicStart(0, str(source.topics.ids["t"]), (StartSpec(offset=SourceOffset(3)),))
    store(target, record_body(start_key(Alias("s"), TopicName("t")), encode_start(start)))
    assert json.loads(run(tmp_path, "-o", "json")[1])["flows"][0]["lag"]["records"] == 2
    source.topics.delete("t")
    source.create("t")
    source.write("t", b"1", b"2", b"3", b"4", b"5")
    assert json.loads(run(tmp_path, "-o", "json")[1])["flows"][0]["lag"]["records"] == 5
