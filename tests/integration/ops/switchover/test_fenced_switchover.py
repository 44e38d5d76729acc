"""A switchover there and back where ACLs keep producers from copies with identical offsets: each side lets its own
producers write, and no others."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.acls import Acl, acls, create_acls
from harness.cluster import KafkaCluster, side_by_side
from harness.errors import HarnessError
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets
from harness.wait import wait_for
from tests.integration.consuming import Member
from tests.integration.ops.switchover.commands import Commands
from tests.integration.running import sasl_properties
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.config import load
from twinlog.worker.flow import flow_jobs

FLOW, WRITER = "mirrormaker", "connect"
QUICK = {"group.initial.rebalance.delay.ms": "0"}
BOTH_WAYS = ("east->west", "west->east")


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    clusters = [KafkaCluster(name, acls=True, heap="256m", config=QUICK) for name in ("east", "west")]
    with side_by_side(*clusters) as both:
        for cluster in both:
            own = f"User:{FLOW}"
            create_acls(
                cluster,
                [
                    Acl("*", own, "ALL"),
                    Acl("*", own, "ALL", resource="GROUP"),
                    Acl("*", own, "ALL", resource="TRANSACTIONAL_ID"),
                    Acl("kafka-cluster", own, "ALL", resource="BROKER"),
                ],
            )
        yield both


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flow looks at its fence at each moment of a switchover."""
    monkeypatch.setattr(flow_jobs, "FENCE_S", 0.2)


class FencedPair(Commands):
    """Runs commands, and flows in this process, by the login of the flow."""

    def written(self, enabled: str) -> Path:
        """A file in which a single direction is enabled."""
        path = super().file(enabled, identity=True)
        east, west = self._pair
        lines = [path.read_text(), sasl_properties({"east": east, "west": west}, FLOW)]
        for flow in BOTH_WAYS:
            lines += [f"{flow}.{key}\n" for key in ("twinlog.offsets = identical", "twinlog.fence.writers = true")]
        path.write_text("".join(lines))
        return path

    def flow(self, file: Path, name: str) -> FlowWithoutSpark:
        flows = load(file).flows
        (settings,) = (flow for flow in flows if flow.name == name)
        return FlowWithoutSpark(settings, flows=[flow for flow in flows if flow.enabled])


@pytest.fixture
def commands(tmp_path: Path, pair: tuple[KafkaCluster, KafkaCluster], topic_name: str) -> FencedPair:
    return FencedPair(tmp_path, pair, topic_name, f"g-{topic_name}")


def write(cluster: KafkaCluster, topic: str, count: int) -> None:
    """Write as the application; a refusal fails the test."""
    produce(cluster, topic, numbered(count), user=WRITER)


def refuses(cluster: KafkaCluster, topic: str) -> bool:
    try:
        write(cluster, topic, 1)
    except HarnessError as error:
        if "authorization" not in str(error).lower():
            raise
        return True
    return False


def wait_for_fence(cluster: KafkaCluster, topic: str) -> None:
    denied = Acl(topic, f"User:{WRITER}", "WRITE", "DENY")
    wait_for(lambda: denied in acls(cluster), 60, f"{WRITER} is denied on {cluster.name}")
    assert refuses(cluster, topic)


def wait_for_copies(source: KafkaCluster, target: KafkaCluster, topic: str) -> None:
    wait_for(lambda: offsets(target, topic) == offsets(source, topic), 60, f"{target.name} has the copies")


@pytest.mark.scenario
def test_there_and_back_and_there_again(
    pair: tuple[KafkaCluster, KafkaCluster], commands: FencedPair, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog")
    east, west = pair
    topic = create_topic(east, topic_name)
    for cluster in pair:
        create_acls(cluster, [Acl(topic, f"User:{WRITER}", "WRITE")])
    write(east, topic, 100)
    forth, back = (commands.written(flow) for flow in BOTH_WAYS)
    with commands.flow(forth, "east->west"):
        wait_for_copies(east, west, topic)
        wait_for_fence(west, topic)
        # The flow runs without a process in its group.
        with Member(west, "east-mm2", [topic], "classic") as process:
            process.read(1)
            commands.run("switchover", forth, "--from", "east", "--to", "west", "--fence", "acl")
        # The flow still runs, and looks at its fence.
        write(west, topic, 10)
        assert refuses(east, topic)
        advises_nothing_against_fences(commands, forth, back)
    go_back(commands, back, west, east, topic)
    # The flow raises its fence again, although the first switchover opened its topic.
    assert raised(caplog, "east->west") == 1
    go_back(commands, forth, east, west, topic)
    assert raised(caplog, "east->west") == 2
    assert raised(caplog, "west->east") == 1


def advises_nothing_against_fences(commands: FencedPair, forth: Path, back: Path) -> None:
    """The fence takes WRITE from the flow back; twinlog lifts it, and nobody removes it by hand or copies it."""
    printed = commands.run("acls", back, "--missing", code=1)
    assert "is a fence, which twinlog itself removes; it takes WRITE from User:mirrormaker" in printed
    assert "--remove" not in printed
    for file in (forth, back):
        # A process of its own leaves the log of this process to the test.
        words = [sys.executable, "-m", "twinlog", "audit", str(file), "-o", "json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        report = json.loads(done.stdout)
        assert not next(one["not_audited"] for one in report["flows"][0]["parts"] if one["part"] == "ACLs")
        shown = [line for one in report["findings"] if one["kind"] == "acl" for line in one["details"]]
        assert not any("DENY" in line for line in shown), shown


def raised(caplog: pytest.LogCaptureFixture, flow: str) -> int:
    """How often the flow has raised its fence."""
    return sum(f"{flow}: created 1 ACLs: DENY WRITE" in line for line in caplog.messages)


def go_back(commands: FencedPair, file: Path, source: KafkaCluster, target: KafkaCluster, topic: str) -> None:
    """Move producers from `source` back to `target`. The flow of the file may write once the command has begun."""
    write(source, topic, 10)
    waiting = commands.start("switchback", file, "--from", source.name, "--to", target.name, "--fence", "acl")
    try:
        with commands.flow(file, f"{source.name}->{target.name}") as flow:
            assert waiting.wait(240) == 0, commands.text(waiting)
            write(target, topic, 10)
            assert refuses(source, topic)
            assert flow.runner.flow_status.summary().partitions == 1
    finally:
        waiting.kill()
    assert offsets(target, topic)[1] == offsets(source, topic)[1] + 10
    assert denials(target, topic) == set()


def denials(cluster: KafkaCluster, topic: str) -> set[Acl]:
    return {acl for acl in acls(cluster) if acl.name == topic and acl.permission == "DENY"}
