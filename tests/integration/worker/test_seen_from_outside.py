"""What `twinlog groups` and `twinlog status` print of a flow that runs elsewhere, while things die: only what is so."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import Result
from typer.testing import CliRunner

from harness.cluster import KafkaCluster, side_by_side
from harness.consume import consume
from harness.groups import commit_offsets, group_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets
from harness.wait import wait_for
from tests.integration.consuming import Member
from tests.integration.mirror_process import flow_properties
from tests.integration.running import RunTwinlog
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.cli.main import app
from twinlog.config import load
from twinlog.settings.flow import FlowSettings
from twinlog.worker.election.election import Election
from twinlog.worker.election.roster import ElectionRegistry

pytestmark = pytest.mark.scenario

log = logging.getLogger(__name__)

QUICK = {
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "groups.exclude": "left-out-.*",
}
SOON_S = 60.0


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Two clusters of one broker, which a test may kill when it starts them again."""
    source, target = KafkaCluster("source", heap="256m"), KafkaCluster("target", heap="256m")
    with side_by_side(source, target) as both:
        yield both


@dataclass
class Mirror:
    """A file with one flow of one topic, and the commands that are given the file."""

    file: Path
    topic: str
    settings: FlowSettings

    def ask(self, command: str, *options: str) -> Result:
        result = CliRunner().invoke(app, [command, str(self.file), *options])
        log.info("twinlog %s %s: %d\n%s", command, " ".join(options), result.exit_code, result.output)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def json(self, command: str, *options: str) -> tuple[int, Any]:
        result = self.ask(command, "-o", "json", *options)
        return result.exit_code, json.loads(result.stdout)

    def wait_for(self, command: str, code: int, pattern: str, *options: str) -> str:
        """Ask until it ends with a code and prints something; returns all that it printed."""

        def found() -> str | None:
            result = self.ask(command, *options)
            there = result.exit_code == code and re.search(pattern, result.output, re.MULTILINE) is not None
            return result.output if there else None

        return wait_for(found, SOON_S, f"twinlog {command} prints {pattern!r} and ends with {code}", every_s=0.2)


@pytest.fixture
def mirror(pair: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path) -> Mirror:
    topic = create_topic(pair[0], new_name("t"), 2)
    here = new_name("here")
    file = tmp_path / "mm2.properties"
    flow = f"{here}->there"
    file.write_text(f"clusters = {here}, there\n" + flow_properties(flow, *pair, {"topics": topic, **QUICK}))
    settings = next(one for one in load(file).flows if one.enabled)
    return Mirror(file, topic, settings)


def test_each_group_may_move_exactly_when_it_would_skip_and_repeat_nothing(
    pair: tuple[KafkaCluster, KafkaCluster], mirror: Mirror, new_name: Callable[[str], str]
) -> None:
    source, target = pair
    topic, remote = mirror.topic, f"{mirror.settings.source}.{mirror.topic}"
    shop, other = new_name("shop"), new_name("left-out")
    for partition in range(2):
        produce(source, topic, numbered(40), partition=partition)
    commit_offsets(source, {shop: {(topic, 0): 5, (topic, 1): 3}, other: {(topic, 0): 1}})
    assert "is yet to run" in mirror.ask("groups").output
    with FlowWithoutSpark(mirror.settings):
        text = mirror.wait_for("groups", 0, "1 of 1 group may move now")
        assert re.search(rf"{shop} +{topic} +0 +5 +\d+ +5 +5 +\d+ +yes\n", text), text
        assert re.search(rf"left out, see them with --group: {other}\n", text), text
        code, found = mirror.json("groups", "--group", other)
        (reason,) = found["flows"][0]["groups"][0]["partitions"][0]["reasons"]
        assert (code, reason["reason"]) == (1, "group-not-followed")
        assert "groups.exclude matches it (left-out-.*)" in reason["text"]
        assert "did you mean" in mirror.ask("groups", "--group", shop[:-1]).output

        # It goes on where it was, and each line is right in between.
        commit_offsets(source, {shop: {(topic, 0): 9, (topic, 1): 3}})
        assert mirror.ask("groups", "--wait", "--timeout", str(SOON_S)).exit_code == 0
        assert group_offsets(target, [shop])[shop][remote, 0].offset == 9

        with Member(target, shop, [remote], "classic") as member:
            member.read(1)
            mirror.wait_for("groups", 0, rf"{shop} .* has moved \(Stable on the target\)")
        mirror.wait_for("groups", 0, "1 of 1 group may move now")

        # Another application has the same name there.
        alien = create_topic(target, new_name("alien"))
        produce(target, alien, numbered(1))
        with Member(target, shop, [alien], "classic") as member:
            member.read(1)
            text = mirror.wait_for("groups", 1, "its name is that of another application, which reads alien-")
            assert "an operator has to act" in text
        mirror.wait_for("groups", 0, "1 of 1 group may move now")

        # Somebody committed too far on the target.
        commit_offsets(target, {shop: {(remote, 0): 12}})
        text = mirror.wait_for("groups", 1, "it would skip them")
        assert "an operator has to act" in text
        commit_offsets(target, {shop: {(remote, 0): 9}})
        mirror.wait_for("groups", 0, "1 of 1 group may move now")

    # The flow is gone, and the group goes on.
    produce(source, topic, numbered(40))
    end = offsets(source, topic, 0)[1]
    commit_offsets(source, {shop: {(topic, 0): end, (topic, 1): 3}})
    text = mirror.wait_for("groups", 1, r"the flow has copied up to \d+, \d+ before the commit")
    assert "that passes with time" in text
    assert mirror.ask("groups", "--wait", "--timeout", "2").exit_code == 1
    command = [sys.executable, "-m", "twinlog", "groups", str(mirror.file), "--wait", "--timeout", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        first = waiting.stderr.readline()
        assert re.search(r"^\d+ s of 600 s: .*1 of 1 group has to wait, .*before the commit$", first), first
        with FlowWithoutSpark(mirror.settings):
            told, progress = waiting.communicate(timeout=600)
    assert (waiting.returncode, "1 of 1 group may move now" in told) == (0, True), first + progress + told
    assert group_offsets(target, [shop])[shop][remote, 0].offset == offsets(target, remote, 0)[1]

    source.kill()
    try:
        code, found = mirror.json("groups", "--group", shop)
        (group,) = found["flows"][0]["groups"]
        parts = {part["partition"]: part for part in group["partitions"]}
        assert (code, group["safe"]) == (3, False)
        assert [reason["reason"] for reason in parts[0]["reasons"]] == ["source-silent"]
        assert parts[0]["checkpoint"]["source_offset"] == end
        assert parts[0]["target_offset"] == parts[0]["checkpoint"]["target_offset"]
        assert "the source is silent, these are the facts of the target" in mirror.ask("groups").output
    finally:
        source.restart()


def test_nothing_dead_is_shown_as_running_and_no_old_figure_as_one_of_now(
    pair: tuple[KafkaCluster, KafkaCluster], mirror: Mirror, run_twinlog: RunTwinlog
) -> None:
    source, target = pair
    topic, settings = mirror.topic, mirror.settings
    flow = settings.name
    for partition in range(2):
        produce(source, topic, numbered(50), partition=partition)
    text = mirror.wait_for("status", 1, rf"^{flow}: not running: no process runs it, it is yet to report\n")
    assert "standing by nobody" in text
    _, *lines = mirror.file.read_text().splitlines(keepends=True)
    process = run_twinlog(f"{settings.source}, there", "".join(lines))
    name = f"{socket.gethostname()}-{process.pid}"
    mirror.wait_for("status", 0, rf"{flow}: running\n  run by +{name} since .*, last report \d+ s ago\n")
    mirror.wait_for("status", 0, r"lag +0 records", "--max-lag", "0")
    code, found = mirror.json("status", "--max-lag", "0s")
    (seen,) = found["flows"]
    assert (code, seen["leader"], seen["lag"]["records"], seen["lag"]["by"]) == (0, name, 0, "report")
    (only,) = seen["topics"]
    assert (only["topic"], only["partitions"], only["lag"]["records"], only["lag"]["bytes"]) == (topic, 2, 0, 0)
    assert seen["last_report"]["groups"]["checkpoints_ms"] is not None

    # The group forgets its members meanwhile, and whoever comes back first leads it: there is one only.
    target.suspend()
    text = mirror.wait_for("status", 3, rf"^{flow}: unknown: TW-[A-Z]+-\d\d: the target is silent: ")
    assert not re.search("run by|rate|standing by", text), text
    target.resume()
    # The last report from before is believed for some seconds.
    again = rf"^{flow}: running\n  run by .*, last report [0-3] s ago\n(.*\n)*  lag +0 records"
    mirror.wait_for("status", 0, again, "--max-lag", "0")
    # The process leads again once it copies a further record.
    produce(source, topic, numbered(1))
    remote = f"{settings.source}.{topic}"
    wait_for(lambda: len(consume(target, remote)) == 101, SOON_S, "a further record is copied")
    mirror.wait_for("status", 0, again, "--max-lag", "0")

    # Another process stands by; it has no Spark, which nobody sees from outside.
    wake = threading.Event()
    other = Election(settings, wake.set, ElectionRegistry(ready=True, name="other-1"))
    other.start()
    try:
        mirror.wait_for("status", 0, r"standing by other-1 ready\n")

        source.kill()
        mirror.wait_for("status", 1, rf"{flow}: waiting: TW-WAIT-01: source cluster unreachable since .*\n")
        # It counts as unknown when it has been known for too long, see test_status.
        mirror.wait_for("status", 1, r"lag +0 records \(known ([5-9]|\d\d) s ago\)\n")
        source.restart()
        error = rf"{flow}: running\n(.*\n)*  last error +.* ago, over since .*\)"
        mirror.wait_for("status", 0, error)

        # Spark's Pythons are in groups of their own: they end a moment later, and would copy until then.
        started = process.descendants()
        os.killpg(process.pid, signal.SIGKILL)
        assert psutil.wait_procs(started, timeout=60)[1] == []
        for partition in range(2):
            produce(source, topic, numbered(30, start=50), partition=partition)
        text = mirror.wait_for(
            "status", 1, rf"{flow}: silent: other-1 runs the flow, but its last report is .*, of {name}\n"
        )
        assert re.search(r"lag +60 records, \d+ B, at most \d+ s old, by stored positions and", text), text
        assert re.search(rf"run by +other-1 since .*, last report \d+ s ago from {name}\n", text), text
    finally:
        other.stop(0.5)
    text = mirror.wait_for(
        "status", 1, rf"{flow}: dead: no process runs it: its last report is .* old, when {name} had it"
    )
    assert re.search(rf"{topic} +2 +60 ", text), text
    assert mirror.ask("status", "--max-lag", "1000").exit_code == 1
